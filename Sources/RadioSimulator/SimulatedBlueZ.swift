// SPDX-License-Identifier: Apache-2.0
// One life of the simulated bluetoothd: its bus connection, its adapters, devices and agents. It ends with the service
// and is made anew when the service starts again; bonds live on in the air.

internal import AccessoryModel
internal import DBusKit
internal import Logging

final class SimulatedBlueZ {
    let loop: MainLoop
    let air: Air
    let connection: Connection
    let server: ObjectServer
    let descriptions: [String: InterfaceDescription]
    let log: Logger
    private(set) var adapters: [String: SimulatedAdapter] = [:]
    private(set) var agents: [String: Agent] = [:]
    private(set) var defaultAgent: String?
    private var watches: [String: Subscription] = [:]
    /// The triggers of a scenario's `on` events.
    var onDiscoveryStarted: (() -> Void)?
    var onPairingStarted: ((AirAccessory) -> Void)?

    struct Agent {
        let path: ObjectPath
        let capability: String
    }

    init(_ address: Connection.Address, loop: MainLoop, air: Air, log: Logger) throws(BusError) {
        self.loop = loop
        self.air = air
        self.log = log
        connection = try Connection(address, loop: loop)
        server = ObjectServer(on: connection, root: "/")
        descriptions = try Interfaces.load()
    }

    /// Exports everything, then takes the name.
    func start(_ adapters: [Scenario.Adapter]) throws(BusError) {
        connection.onCall = { [unowned self] message in
            if let sender = message.sender { watch(sender) }
            return server.serve(message)
        }
        server.export(RootObject())
        server.export(AgentManagerObject(self))
        for adapter in adapters { add(adapter) }
        try connection.requestName("org.bluez")
    }

    func add(_ scenario: Scenario.Adapter) {
        guard adapters[scenario.name] == nil else { return }
        let adapter = SimulatedAdapter(scenario, self)
        adapters[scenario.name] = adapter
        server.export(adapter, to: .everybody)
        adapter.addBondedDevices()
    }

    func remove(_ name: String) {
        guard let adapter = adapters.removeValue(forKey: name) else { return }
        adapter.shutDown()
        server.withdraw(adapter.path, to: .everybody)
    }

    func stop() {
        for adapter in adapters.values { adapter.shutDown() }
        connection.flush()
    }

    // MARK: Agents

    func register(_ agent: Agent, of client: String) throws(BusError) {
        guard agents[client] == nil else { throw .bluez("AlreadyExists", "Already Exists") }
        let capabilities = ["", "DisplayOnly", "DisplayYesNo", "KeyboardOnly", "NoInputNoOutput", "KeyboardDisplay"]
        guard capabilities.contains(agent.capability) else { throw .bluez("InvalidArguments", "Invalid arguments in method call") }
        agents[client] = agent
    }

    func unregister(_ path: ObjectPath, of client: String) throws(BusError) {
        guard agents[client]?.path == path else { throw .bluez("DoesNotExist", "Does Not Exist") }
        agents[client] = nil
        if defaultAgent == client { defaultAgent = nil }
    }

    func makeDefault(_ path: ObjectPath, of client: String) throws(BusError) {
        guard agents[client]?.path == path else { throw .bluez("DoesNotExist", "Does Not Exist") }
        defaultAgent = client
    }

    /// The agent for a pairing: the caller's own, else the default one.
    func agent(for client: String) -> (client: String, agent: Agent)? {
        if let agent = agents[client] { return (client, agent) }
        return defaultAgent.flatMap { name in agents[name].map { (name, $0) } }
    }

    // MARK: Clients

    private func watch(_ client: String) {
        guard watches[client] == nil else { return }
        // Also one that has gone between its call and now.
        watches[client] = connection.watchName(client) { [weak self] owner in
            if owner == nil { self?.gone(client) }
        }
    }

    private func gone(_ client: String) {
        watches.removeValue(forKey: client)?.cancel()
        agents[client] = nil
        if defaultAgent == client { defaultAgent = nil }
        for adapter in adapters.values { adapter.clientGone(client) }
    }
}

extension BusError {
    static func bluez(_ name: String, _ message: String) -> BusError {
        BusError(name: "org.bluez.Error.\(name)", message: message)
    }
}

/// "/": carries the object manager.
private final class RootObject: ExportedObject {
    let path: ObjectPath = "/"
    let interfaces: [ExportedInterface] = []
    func isVisible(to caller: String) -> Bool { true }
}

/// "/org/bluez": agents register here.
private final class AgentManagerObject: ExportedObject {
    let path: ObjectPath = "/org/bluez"
    private(set) var interfaces: [ExportedInterface] = []

    init(_ bluez: SimulatedBlueZ) {
        var manager = ExportedInterface(bluez.descriptions[Interfaces.agentManager]!)
        manager.method("RegisterAgent") { [unowned bluez] call throws(BusError) in
            let path = call.arguments[0].objectPathValue ?? "/"
            try bluez.register(.init(path: path, capability: call.arguments[1].stringValue ?? ""), of: call.sender)
            call.reply()
        }
        manager.method("UnregisterAgent") { [unowned bluez] call throws(BusError) in
            try bluez.unregister(call.arguments[0].objectPathValue ?? "/", of: call.sender)
            call.reply()
        }
        manager.method("RequestDefaultAgent") { [unowned bluez] call throws(BusError) in
            try bluez.makeDefault(call.arguments[0].objectPathValue ?? "/", of: call.sender)
            call.reply()
        }
        interfaces = [manager]
    }

    func isVisible(to caller: String) -> Bool { true }
}
