// SPDX-License-Identifier: Apache-2.0
// Identifies callers, once per connection, by the kernel's data on the process, which is pinned so that its number
// cannot belong to another process. A caller in doubt is no app.

public import AccessoryModel
internal import CSystem
internal import CallsOut
public import DBusKit

/// Why a caller could not be identified.
public struct IdentityFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// For the developer or the admin.
    public let description: String

    /// - Parameter description: a sentence without a full stop.
    public init(description: String) {
        self.description = description
    }
}

/// A caller whose process cannot be confused with a later one of the same number. The lookup needs a descriptor;
/// afterwards the start time identifies the process, so that a thousand callers do not need a thousand descriptors.
public final class PinnedCaller {
    /// The caller at the time of the lookup.
    public let caller: Caller
    /// The peer elsewhere for which it acts, by its own word: the door knows the peer's key.
    public private(set) var peer: String?
    /// The start time of its process, in ticks since boot; nil if unreadable.
    public let began: UInt64?
    private let image: ProcessFacts.Image?
    /// The last result of `runsTheSame`.
    private var result: (turn: Int, runsTheSame: Bool)?

    init(_ caller: Caller, began: UInt64?, image: ProcessFacts.Image?) {
        self.caller = caller
        self.began = began
        self.image = image
    }

    /// From now on the caller acts for this peer, by its own word.
    public func act(for peer: String) { self.peer = peer }

    /// The program, with its peer, for the audit trail.
    public var program: String { peer.map { "\(caller.program), for \($0)" } ?? caller.program }

    /// Whether the process still runs the program of the lookup: checked before data is sent to a client that matched
    /// by its executable. False for a process that has ended.
    ///
    /// The kernel is asked once per turn of the loop. In less time, a program can hardly be executed, start and read.
    public func runsTheSame(in turn: Int) -> Bool {
        if let result, result.turn == turn { return result.runsTheSame }
        let runsTheSame = image != nil && ProcessFacts.image(caller.pid) == image
        result = (turn, runsTheSame)
        return runsTheSame
    }

    /// Checks that the process still runs the program of the lookup, for a client that matched by its executable.
    /// (Unit, sandbox and label do not depend on it.) A process that has ended passes: its messages are still its own.
    ///
    /// - Throws: with the current program.
    public func check() throws(IdentityFailure) {
        // The file and not its path: a program that was upgraded still runs the old file.
        guard let executable = caller.executable, ProcessFacts.image(caller.pid) != image, isAlive else { return }
        let now = ProcessFacts.executable(caller.pid) ?? "unreadable"
        throw IdentityFailure(
            description: "process \(caller.pid) was \(executable) when it connected and is now \(now): reconnect")
    }
}

/// Resolves callers on a bus or a socket.
public final class CallerResolver {
    private let connection: Connection

    /// Whether callers on a bus without `ProcessFD` are refused.
    private let needsDescriptor: Bool

    /// - Parameter needsDescriptor: whether callers on a bus without `ProcessFD` are refused
    ///   (`BusIdentity=pidfd-only`).
    public init(on connection: Connection, needsDescriptor: Bool = false) {
        self.connection = connection
        self.needsDescriptor = needsDescriptor
    }

    /// Resolves the process of a unique name. `completion` is called exactly once.
    public func resolve(_ name: String, completion: @escaping (Result<PinnedCaller, IdentityFailure>) -> Void) {
        ask(.credentials, name) { [self] result in
            if case .failure(let error) = result {
                return completion(.failure(IdentityFailure(description: "the bus has no credentials of \(name): \(error.message)")))
            }
            guard let credentials = (try? result.get())?.first?.vardictValue,
                let pid = credentials["ProcessID"]?.integerValue.flatMap({ Int32(exactly: $0) }),
                let uid = credentials["UnixUserID"]?.integerValue.flatMap({ UInt32(exactly: $0) })
            else { return completion(.failure(IdentityFailure(description: "the bus has no credentials of \(name)"))) }
            let given = credentials["ProcessFD"]?.fileDescriptorValue
            var caller = Caller(uid: uid, pid: pid)
            caller.groups = Set(
                (credentials["UnixGroupIDs"]?.arrayValue ?? []).compactMap(\.integerValue).compactMap { UInt32(exactly: $0) })
            caller.securityLabel = Caller.SecurityLabel(
                credentials["LinuxSecurityLabel"]?.bytesValue.flatMap { ProcessFacts.label($0) })
            guard given != nil || !needsDescriptor else {
                return completion(
                    .failure(
                        IdentityFailure(
                            description:
                                "this bus has no process descriptors (ProcessFD), which BusIdentity=pidfd-only requires: "
                                + "use the socket of the view")))
            }
            // Without a descriptor from the bus the number may have been reused since the connection: open one, read,
            // check that the process belongs to the user who connected, and that the name still belongs to the process.
            // Another process of the same user remains possible (Docs/Security.md).
            let pinned: PinnedCaller
            do throws(IdentityFailure) {
                pinned = try Self.pin(caller, given)
                if given == nil, ProcessFacts.users(pid)?.contains(uid) != true {
                    throw IdentityFailure(description: "process \(pid) does not belong to user \(uid), who connected")
                }
            } catch {
                return completion(.failure(error))
            }
            guard given == nil else { return completion(.success(pinned)) }
            ask(.process, name) { again in
                let same = (try? again.get())?.first?.integerValue == Int(pid)
                guard same, pinned.isAlive else {
                    return completion(.failure(IdentityFailure(description: "process \(pid) changed while it was looked up")))
                }
                completion(.success(pinned))
            }
        }
    }

    /// Asks the bus about a name, and once more if no answer arrives: dbus-daemon drops its own answers while the queue
    /// to the daemon is full, which any client can cause.
    private func ask(
        _ call: CallOut, _ name: String, mayRepeat: Bool = true, completion: @escaping (Result<[DBusValue], BusError>) -> Void
    ) {
        connection.call(call, at: Bus.path, [.string(name)]) { [self] result in
            if mayRepeat, case .failure(let error) = result, error.isStandard("NoReply") {
                return ask(call, name, mayRepeat: false, completion: completion)
            }
            completion(result)
        }
    }

    /// Resolves the client of a new connection to a socket of the daemon.
    ///
    /// - Parameter app: the owner of the socket; nil for a shared one.
    /// - Throws: if the client cannot be identified.
    public static func resolve(socket: Int32, of app: AppID? = nil) throws(IdentityFailure) -> PinnedCaller {
        var peer = csystem_peer()
        guard csystem_peer_credentials(socket, &peer) == 0, peer.pid > 0 else {
            throw IdentityFailure(description: "the kernel has no credentials of the client")
        }
        var caller = Caller(uid: peer.uid, pid: peer.pid)
        caller.socket = app
        var groups = [UInt32](repeating: 0, count: 1024)
        let count = csystem_peer_groups(socket, &groups, Int32(groups.count))
        caller.groups = Set(groups.prefix(Int(max(0, count)))).union([peer.gid])
        var label = [CChar](repeating: 0, count: 4096)
        let length = csystem_peer_label(socket, &label, Int32(label.count))
        let bytes = label.prefix(Int(max(0, length))).map { UInt8(bitPattern: $0) }
        caller.securityLabel = Caller.SecurityLabel(ProcessFacts.label(bytes))
        let given = csystem_peer_pidfd(socket)
        guard given < 0 else { return try pin(caller, FileDescriptor(owning: given)) }
        // Older kernels: a process that began after the connection was accepted is another one. Reuse of the number
        // between connecting and accepting remains possible.
        let accepted = ProcessFacts.ticksSinceBoot
        let pinned = try pin(caller, nil)
        guard let began = ProcessFacts.beginning(peer.pid), began <= accepted, pinned.isAlive else {
            throw IdentityFailure(description: "process \(peer.pid) changed while it was looked up")
        }
        return pinned
    }

    private static func pin(_ caller: Caller, _ given: FileDescriptor?) throws(IdentityFailure) -> PinnedCaller {
        let descriptor = given ?? FileDescriptor(owning: csystem_pidfd_open(caller.pid))
        guard descriptor.rawValue >= 0, ProcessFacts.isAlive(descriptor) else {
            throw IdentityFailure(description: "process \(caller.pid) has ended")
        }
        var caller = caller
        let began = ProcessFacts.beginning(caller.pid)
        // Before the path is read: a program that it executes in between fails the next check.
        let image = ProcessFacts.image(caller.pid)
        try ProcessFacts.read(caller.pid, into: &caller)
        guard ProcessFacts.isAlive(descriptor) else {
            throw IdentityFailure(description: "process \(caller.pid) ended while it was looked up")
        }
        return PinnedCaller(caller, began: began, image: image)
    }
}

extension PinnedCaller {
    var isAlive: Bool { began != nil && ProcessFacts.beginning(caller.pid) == began }
}
