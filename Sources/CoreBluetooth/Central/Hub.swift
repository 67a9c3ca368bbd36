// SPDX-License-Identifier: Apache-2.0
// The module's one thread: the clients of all managers of the process, and which of them hold a link. A process without
// a manager has no thread and no connection; a manager at rest wakes nobody.

internal import DBusKit

/// Lives on the module's thread only.
final class Hub {
    /// Started with the process' first manager; it then lives as long as the process.
    static let thread = Result { () throws(BusError) in
        try LoopThread(name: "corebluetooth") { Hub($0) }
    }

    private let loop: MainLoop
    private var clients: [ObjectIdentifier: CentralClient] = [:]
    /// Links are the app's in the view, and a manager's here: the last manager that lets go ends a link.
    private var holders: [Held: Set<ObjectIdentifier>] = [:]

    private struct Held: Hashable {
        let address: Connection.Address
        let device: ObjectPath
    }

    private init(_ loop: MainLoop) {
        self.loop = loop
    }

    /// Begins to speak for a manager.
    func open(_ core: CentralCore) {
        let client = CentralClient(core, self, loop)
        clients[ObjectIdentifier(core)] = client
        client.start()
    }

    /// The manager has gone.
    func close(_ core: CentralCore) {
        guard let client = clients.removeValue(forKey: ObjectIdentifier(core)) else { return }
        client.end()
        // The connection may be in the middle of a message that led here: it goes after that.
        loop.soon { withExtendedLifetime(client) {} }
    }

    func client(of core: CentralCore) -> CentralClient? { clients[ObjectIdentifier(core)] }

    /// A client wants a device's link, or has it.
    func hold(_ device: ObjectPath, _ client: CentralClient) {
        holders[Held(address: client.address, device: device), default: []].insert(ObjectIdentifier(client))
    }

    /// A client lets go of a link.
    ///
    /// - Returns: whether nobody else in this process has it.
    func release(_ device: ObjectPath, _ client: CentralClient) -> Bool {
        let held = Held(address: client.address, device: device)
        holders[held]?.remove(ObjectIdentifier(client))
        guard holders[held]?.isEmpty ?? true else { return false }
        holders[held] = nil
        return true
    }
}
