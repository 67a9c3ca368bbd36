// SPDX-License-Identifier: Apache-2.0
// A client's pairing agent, as a value. Pairing is the daemon's, so bluetoothd never hears of the agent; but many
// programs begin with registering one, and get the answers that bluetoothd would give.

internal import BlueZInterfaces
internal import DBusKit

/// The agent that a client has registered with `org.bluez.AgentManager1`, if any: bluetoothd has one for each client.
struct Agent: Hashable, Sendable {
    private(set) var path: ObjectPath?

    static let methods: Set<String> = ["RegisterAgent", "RequestDefaultAgent", "UnregisterAgent"]
    /// `""` stands for `KeyboardDisplay`.
    private static let capabilities: Set<String> = [
        "", "DisplayOnly", "DisplayYesNo", "KeyboardOnly", "NoInputNoOutput", "KeyboardDisplay",
    ]

    init(path: ObjectPath? = nil) {
        self.path = path
    }

    /// Takes a call to `org.bluez.AgentManager1`.
    ///
    /// - Throws: the errors of org.bluez.AgentManager(5).
    mutating func handle(_ member: String, _ arguments: [DBusValue]) throws(BusError) {
        guard let path = arguments.first?.objectPathValue else { throw Self.invalidArguments }
        switch (member, arguments.count) {
        case ("RegisterAgent", 2):
            guard let capability = arguments[1].stringValue, Self.capabilities.contains(capability) else {
                throw Self.invalidArguments
            }
            guard self.path == nil else { throw .bluez(.alreadyExists, "Already Exists") }
            self.path = path
        case ("RequestDefaultAgent", 1), ("UnregisterAgent", 1):
            guard path == self.path else { throw .bluez(.doesNotExist, "Does Not Exist") }
            if member == "UnregisterAgent" { self.path = nil }
        default: throw Self.invalidArguments
        }
    }

    private static let invalidArguments = BusError.bluez(.invalidArguments, "Invalid arguments in method call")
}
