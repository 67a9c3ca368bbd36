// SPDX-License-Identifier: Apache-2.0
// Who is calling: asked once per connection, from the kernel by way of the bus, with the process pinned so that its
// number cannot be taken over by another. On doubt the caller is nobody.

public import AccessoryModel
internal import CSystem
internal import CallsOut
public import DBusKit

/// Why a caller could not be identified.
public struct IdentityFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// For the developer or the admin: what was looked for and not found.
    public let description: String

    /// - Parameter description: a sentence without a full stop.
    public init(description: String) {
        self.description = description
    }
}

/// A caller, pinned: its process cannot be taken for a later one with the same number. That takes a descriptor while it
/// is looked up, and none afterwards, when the time of its beginning tells it from later ones: a thousand callers do
/// not cost a thousand descriptors.
public final class PinnedCaller {
    /// Who it is, as it was when it was looked up.
    public let caller: Caller
    /// When its process began, in ticks since the system started; nil where that could not be read.
    public let began: UInt64?
    private let image: ProcessFacts.Image?
    /// The answer of `runsTheSame`, and when it was asked.
    private var seen: (turn: Int, runsTheSame: Bool)?

    init(_ caller: Caller, began: UInt64?, image: ProcessFacts.Image?) {
        self.caller = caller
        self.began = began
        self.image = image
    }

    /// Whether the process runs what it ran when it was looked up: asked before something leaves to it, for who goes by
    /// its executable. False for a process that has ended: no process stands behind its connection.
    ///
    /// The kernel is asked once in a turn of the loop. In less, a program can hardly be executed, start and read.
    public func runsTheSame(in turn: Int) -> Bool {
        if let seen, seen.turn == turn { return seen.runsTheSame }
        let runsTheSame = image != nil && ProcessFacts.image(caller.pid) == image
        seen = (turn, runsTheSame)
        return runsTheSame
    }

    /// Whether the process still runs what it ran when it was looked up: for who goes by its executable. (A unit, a
    /// sandbox and a label are the process' own, whatever it executes.) A process that has ended has not changed: what
    /// it sent is still from it.
    ///
    /// - Throws: what it runs now.
    public func check() throws(IdentityFailure) {
        // By the file itself: a program that was upgraded meanwhile still runs what it ran.
        guard let executable = caller.executable, ProcessFacts.image(caller.pid) != image, isAlive else { return }
        let now = ProcessFacts.executable(caller.pid) ?? "unreadable"
        throw IdentityFailure(
            description: "process \(caller.pid) was \(executable) when it connected and is \(now) now: connect anew")
    }
}

/// Looks callers up, on a bus or at a socket.
public final class CallerResolver {
    private let connection: Connection

    /// Whether callers on a bus without `ProcessFD` are nobody.
    private let needsDescriptor: Bool

    /// - Parameter needsDescriptor: whether callers on a bus that hands out no `ProcessFD` are nobody
    ///   (`BusIdentity=pidfd-only`).
    public init(on connection: Connection, needsDescriptor: Bool = false) {
        self.connection = connection
        self.needsDescriptor = needsDescriptor
    }

    /// Resolves the process behind a unique name. `completion` is called exactly once.
    public func resolve(_ name: String, completion: @escaping (Result<PinnedCaller, IdentityFailure>) -> Void) {
        connection.call(.credentials, at: Bus.path, [.string(name)]) { [self] result in
            guard let credentials = (try? result.get())?.first?.vardictValue,
                let pid = credentials["ProcessID"]?.integerValue.flatMap({ Int32(exactly: $0) }),
                let uid = credentials["UnixUserID"]?.integerValue.flatMap({ UInt32(exactly: $0) })
            else { return completion(.failure(IdentityFailure(description: "the bus does not say who \(name) is"))) }
            let given = credentials["ProcessFD"]?.fileDescriptorValue
            var caller = Caller(uid: uid, pid: pid)
            caller.groups = Set(
                (credentials["UnixGroupIDs"]?.arrayValue ?? []).compactMap(\.integerValue).compactMap { UInt32(exactly: $0) })
            if let label = credentials["LinuxSecurityLabel"]?.bytesValue { caller.securityLabel = ProcessFacts.label(label) }
            guard given != nil || !needsDescriptor else {
                return completion(
                    .failure(
                        IdentityFailure(
                            description:
                                "this bus does not hand out process descriptors (ProcessFD), which BusIdentity=pidfd-only demands: "
                                + "use the socket of the view")))
            }
            // Without a descriptor from the bus the number may have been reused between the connection and now: open
            // one, read, see that it is a process of the user who connected, and that the name still belongs to it.
            // What is left: another process of the same user (Docs/Security.md).
            let pinned: PinnedCaller
            do throws(IdentityFailure) {
                pinned = try Self.pin(caller, given)
                if given == nil, ProcessFacts.users(pid)?.contains(uid) != true {
                    throw IdentityFailure(description: "process \(pid) is not of user \(uid), who connected")
                }
            } catch {
                return completion(.failure(error))
            }
            guard given == nil else { return completion(.success(pinned)) }
            connection.call(.process, at: Bus.path, [.string(name)]) { again in
                let same = (try? again.get())?.first?.integerValue == Int(pid)
                guard same, pinned.isAlive else {
                    return completion(.failure(IdentityFailure(description: "process \(pid) changed while it was looked up")))
                }
                completion(.success(pinned))
            }
        }
    }

    /// Resolves who has just connected to a socket of ours.
    ///
    /// - Parameter app: whose own socket that is; nil for one that is for all.
    /// - Throws: why it cannot be known.
    public static func resolve(socket: Int32, of app: AppID? = nil) throws(IdentityFailure) -> PinnedCaller {
        var peer = csystem_peer()
        guard csystem_peer_credentials(socket, &peer) == 0, peer.pid > 0 else {
            throw IdentityFailure(description: "the kernel does not say who connected")
        }
        var caller = Caller(uid: peer.uid, pid: peer.pid)
        caller.socket = app
        var groups = [UInt32](repeating: 0, count: 1024)
        let count = csystem_peer_groups(socket, &groups, Int32(groups.count))
        caller.groups = Set(groups.prefix(Int(max(0, count)))).union([peer.gid])
        var label = [CChar](repeating: 0, count: 4096)
        let length = csystem_peer_label(socket, &label, Int32(label.count))
        caller.securityLabel = ProcessFacts.label(label.prefix(Int(max(0, length))).map { UInt8(bitPattern: $0) })
        let given = csystem_peer_pidfd(socket)
        guard given < 0 else { return try pin(caller, FileDescriptor(owning: given)) }
        // An older kernel: who began after the connection is not who connected. What is left is the moment between
        // connecting and being accepted, in which a number would have to come round once.
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
            throw IdentityFailure(description: "process \(caller.pid) is gone")
        }
        var caller = caller
        let began = ProcessFacts.beginning(caller.pid)
        // Before its name is read: what it executes in between shows at the next check.
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
