// SPDX-License-Identifier: Apache-2.0
// The buses of the process' sessions, each connected on first use and disconnected with its last session.

internal import AccessoryBus
internal import CoreBluetooth
internal import DBusKit

/// Lives on the runtime's thread only.
final class SessionRegistry: AppRuntimePart {
    private let loop: MainLoop
    private var links: [Connection.Address: Link] = [:]

    init(_ loop: MainLoop) {
        self.loop = loop
    }

    /// Opens the session behind `core`, which receives any error.
    func open(_ core: SessionCore) {
        // Another thread may have ended it between the app's call and now.
        guard !core.hasEnded else { return }
        let link: Link
        do {
            link = try self.link(to: core.address)
        } catch {
            let error = ASError(.connectionFailed, "no connection to the bus \(core.address): \(error.message)")
            core.end(error, failing: error)
            return
        }
        let client = SessionClient(core, on: link.connection) { [weak self] in self?.remove(core) }
        link.clients[ObjectIdentifier(core)] = client
        client.start()
    }

    /// The client that speaks to the daemon for `core`; nil when there is none any more.
    func client(of core: SessionCore) -> SessionClient? {
        links[core.address]?.clients[ObjectIdentifier(core)]
    }

    private var clients: [SessionClient] { links.values.flatMap(\.clients.values) }

    /// An accessory of a session whose network is wanted.
    func accessory(withNetwork fits: ([UInt8]) -> Bool) -> (client: SessionClient, object: ObjectPath)? {
        for client in clients {
            if let object = client.accessory(withNetwork: fits) { return (client, object) }
        }
        return nil
    }

    /// The client of a session that has an accessory with a network.
    func client(having object: ObjectPath) -> SessionClient? { clients.first { $0.hasNetwork(object) } }

    /// Networks of accessories that the machine is on.
    var joinedNetworks: [String] { Set(clients.flatMap(\.joinedNetworks)).sorted() }

    private func link(to address: Connection.Address) throws(BusError) -> Link {
        if let link = links[address] { return link }
        let link = Link(try Connection(address, loop: loop))
        links[address] = link
        link.connection.onDisconnect = { [weak self, weak link] in
            guard let self, let link else { return }
            if self.links[address] === link { self.links[address] = nil }
            link.lose("the bus closed the connection") { _ in true }
        }
        link.nameWatch = link.connection.watchName(AccessoryBus.name) { [weak link] owner in
            // A session belongs to the daemon that made it; another daemon, even with the same name, has no such
            // session.
            link?.lose("accessorysetupd went away") { $0.daemon != nil && $0.daemon != owner }
        }
        return link
    }

    private func remove(_ core: SessionCore) {
        guard let link = links[core.address], link.clients.removeValue(forKey: ObjectIdentifier(core)) != nil,
            link.clients.isEmpty
        else { return }
        links[core.address] = nil
        // The connection may be in the middle of a message that led here: it goes after that.
        loop.soon { withExtendedLifetime(link) {} }
    }
}

/// One bus, and the sessions over it.
private final class Link {
    let connection: Connection
    var nameWatch: Subscription?
    var clients: [ObjectIdentifier: SessionClient] = [:]

    init(_ connection: Connection) {
        self.connection = connection
    }

    func lose(_ reason: String, where isLost: (SessionClient) -> Bool) {
        for client in Array(clients.values) where isLost(client) { client.lost(reason) }
    }
}
