// Who is calling: asked once per connection, from the kernel by way of the bus, with the process pinned so that its number cannot be
// taken over by another. On doubt the caller is nobody.

public import AccessoryModel
internal import CSystem
public import DBusKit
internal import Glibc
public import Logging

/// Why a caller could not be identified.
public struct IdentityFailure: Error, Hashable, Sendable, CustomStringConvertible {
    public let description: String
}

public final class CallerResolver {
    private let connection: Connection
    private let log: Logger

    public init(on connection: Connection, log: Logger) {
        self.connection = connection
        self.log = log
    }

    /// Resolves the process behind a unique name. `completion` is called exactly once.
    public func resolve(_ name: String, completion: @escaping (Result<Caller, IdentityFailure>) -> Void) {
        connection.call(Bus.name, Bus.path, Bus.name, "GetConnectionCredentials", [.string(name)]) { [self] result in
            guard let credentials = (try? result.get())?.first?.vardictValue,
                let pid = credentials["ProcessID"]?.integerValue.flatMap({ Int32(exactly: $0) }),
                let uid = credentials["UnixUserID"]?.integerValue.flatMap({ UInt32(exactly: $0) })
            else { return completion(.failure(IdentityFailure(description: "the bus does not say who \(name) is"))) }
            let given = credentials["ProcessFD"]?.fileDescriptorValue
            // Without a descriptor from the bus the number may have been reused between the connection and now: open one, read,
            // and see that the name still belongs to the same, living process.
            guard let process = given ?? Self.open(pid) else {
                return completion(.failure(IdentityFailure(description: "process \(pid) is gone")))
            }
            var caller = Caller(uid: uid, pid: pid)
            caller.groups = Set((credentials["UnixGroupIDs"]?.arrayValue ?? []).compactMap(\.integerValue).map { UInt32($0) })
            if let label = credentials["LinuxSecurityLabel"]?.bytesValue {
                caller.securityLabel = ProcessFacts.label(String(decoding: label.prefix { $0 != 0 }, as: UTF8.self))
            }
            do throws(IdentityFailure) {
                try ProcessFacts.read(pid, into: &caller)
            } catch {
                return completion(.failure(error))
            }
            guard Self.isAlive(process) else {
                return completion(.failure(IdentityFailure(description: "process \(pid) ended while it was looked up")))
            }
            guard given == nil else { return completion(.success(caller)) }
            connection.call(Bus.name, Bus.path, Bus.name, "GetConnectionUnixProcessID", [.string(name)]) { again in
                let same = (try? again.get())?.first?.integerValue == Int(pid)
                guard same, Self.isAlive(process) else {
                    return completion(.failure(IdentityFailure(description: "process \(pid) changed while it was looked up")))
                }
                completion(.success(caller))
            }
        }
    }

    private static func open(_ pid: Int32) -> FileDescriptor? {
        let descriptor = csystem_pidfd_open(pid)
        return descriptor < 0 ? nil : FileDescriptor(owning: descriptor)
    }

    /// A process descriptor is readable once its process has ended.
    private static func isAlive(_ process: FileDescriptor) -> Bool {
        var entry = pollfd(fd: process.rawValue, events: Int16(POLLIN), revents: 0)
        return poll(&entry, 1, 0) == 0
    }
}
