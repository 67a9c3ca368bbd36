// SPDX-License-Identifier: Apache-2.0
// The view between two runs of the daemon: clients' sockets, their calls, sessions and shown objects, for the
// next run to go on with. A clean restart, and so an upgrade, is thereby nothing that a client notices: bluetoothd
// keeps links, notifications and discoveries, because each client's connection to it stays open as well.
// (Docs/View.md, "When the daemon restarts")

public import DBusKit

/// The state that one run of the daemon leaves to the next.
public struct ViewHandover: Sendable {
    /// For `BlueZView.resume`; a version that it does not know ends the clients' connections.
    public let state: [UInt8]
    /// Sockets that the state names.
    public let descriptors: [FileDescriptor]

    /// Stores its arguments.
    public init(state: [UInt8], descriptors: [FileDescriptor]) {
        self.state = state
        self.descriptors = descriptors
    }
}

/// The state of the view, and of its parts: an `a{sv}`, each owner's keys its own.
typealias LeftState = [String: DBusValue]

extension LeftState {
    /// Counted up when a daemon could misread an earlier one's state.
    private static let version: UInt32 = 2

    /// The bytes of a message that is never sent: libdbus reads and writes them.
    var bytes: [UInt8]? {
        let arguments: [DBusValue] = [.uint32(Self.version), .vardict(self)]
        return (try? Message.signal(path: "/", interface: ViewObject.interface, member: "Left", arguments))?.wireFormat
    }

    /// - Returns: nil for another version.
    init?(bytes: [UInt8]) {
        guard let arguments = try? Message.demarshal(bytes)?.arguments(limits: .generous), arguments.count == 2,
            arguments[0] == .uint32(Self.version), let state = arguments[1].vardictValue
        else { return nil }
        self = state
    }

    func text(_ key: String) -> String? { self[key]?.stringValue }
    func path(_ key: String) -> ObjectPath? { self[key]?.objectPathValue }
    func isTrue(_ key: String) -> Bool { self[key]?.booleanValue == true }
    func paths(_ key: String) -> [ObjectPath] { self[key]?.arrayValue?.compactMap(\.objectPathValue) ?? [] }
    func states(_ key: String) -> [LeftState] { self[key]?.arrayValue?.compactMap(\.vardictValue) ?? [] }
}

extension DBusValue {
    static func states(_ states: [LeftState]) -> DBusValue { .array(of: "a{sv}", states.map { .vardict($0) }) }
}

/// The sockets that are handed over. In the state each is named by the number of its file, since a descriptor's own
/// number changes on the way.
struct Baggage {
    private(set) var descriptors: [UInt64: FileDescriptor] = [:]

    init(_ descriptors: [FileDescriptor] = []) {
        for descriptor in descriptors { self.descriptors[descriptor.fileNumber] = descriptor }
    }

    /// - Returns: its representation in the state.
    mutating func pack(_ descriptor: FileDescriptor) -> DBusValue {
        let number = descriptor.fileNumber
        descriptors[number] = descriptor
        return .uint64(number)
    }

    /// - Returns: nil where the service manager has closed it, since its other end had gone.
    func unpack(_ value: DBusValue?) -> FileDescriptor? {
        guard case .uint64(let number)? = value?.unwrapped else { return nil }
        return descriptors[number]
    }

    /// Packs a connection's socket and its description.
    mutating func pack(_ socket: FileDescriptor, _ left: LeftConnection) -> DBusValue {
        .vardict([
            "Socket": pack(socket), "Name": .string(left.uniqueName), "Descriptors": .boolean(left.takesDescriptors),
            "Serial": .uint32(left.lastSerial),
        ])
    }

    func unpackConnection(_ value: DBusValue?) -> (socket: FileDescriptor, left: LeftConnection)? {
        guard let state = value?.vardictValue, let socket = unpack(state["Socket"]), let name = state.text("Name"),
            case .uint32(let serial)? = state["Serial"]
        else { return nil }
        return (socket, LeftConnection(uniqueName: name, takesDescriptors: state.isTrue("Descriptors"), lastSerial: serial))
    }
}
