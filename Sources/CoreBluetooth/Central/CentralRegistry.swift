// SPDX-License-Identifier: Apache-2.0
// The clients of all managers of the process, and their shares in links.

internal import DBusKit

/// Lives on the runtime's thread only.
final class CentralRegistry: AppRuntimePart {
    private let loop: MainLoop
    private var clients: [ObjectIdentifier: CentralClient] = [:]
    /// A link is the app's in the view, and a manager's here: the last manager that releases it ends it.
    private var holders: [Held: Set<ObjectIdentifier>] = [:]

    private struct Held: Hashable {
        let address: Connection.Address
        let device: ObjectPath
    }

    init(_ loop: MainLoop) {
        self.loop = loop
    }

    func open(_ core: CentralCore) {
        let client = CentralClient(core, self, loop)
        clients[ObjectIdentifier(core)] = client
        client.start()
    }

    func close(_ core: CentralCore) {
        guard let client = clients.removeValue(forKey: ObjectIdentifier(core)) else { return }
        client.end()
        // The connection may be in the middle of a message that led here.
        loop.soon { withExtendedLifetime(client) {} }
    }

    func client(of core: CentralCore) -> CentralClient? { clients[ObjectIdentifier(core)] }

    /// A client connects a device, or is connected.
    func hold(_ device: ObjectPath, _ client: CentralClient) {
        holders[Held(address: client.address, device: device), default: []].insert(ObjectIdentifier(client))
    }

    /// A client gives its share in a link back.
    ///
    /// - Returns: whether it was the last one of this process.
    func release(_ device: ObjectPath, _ client: CentralClient) -> Bool {
        let held = Held(address: client.address, device: device)
        holders[held]?.remove(ObjectIdentifier(client))
        guard holders[held]?.isEmpty ?? true else { return false }
        holders[held] = nil
        return true
    }
}
