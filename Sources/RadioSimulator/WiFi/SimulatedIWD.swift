// SPDX-License-Identifier: Apache-2.0
// One life of the simulated iwd (doc/*-api.txt): agents, devices and known networks, which are on disk and outlive it.

internal import AccessoryModel
internal import DBusKit

final class SimulatedIWD: SimulatedWiFiService {
    static let name = "net.connman.iwd"
    static let device = "net.connman.iwd.Device"
    static let station = "net.connman.iwd.Station"
    static let network = "net.connman.iwd.Network"
    static let knownNetwork = "net.connman.iwd.KnownNetwork"
    static let path: ObjectPath = "/net/connman/iwd"

    private(set) var knownNetworks: [IWDKnownNetwork] = []
    /// In the order of their registration, by client.
    private var agents: [(client: String, path: ObjectPath)] = []
    /// The question that an agent has not answered yet.
    private var question: (call: PendingCall?, client: String, path: ObjectPath)?

    private static let agentTimeout = Duration.seconds(120)
    private static let table = """
        net.connman.iwd.AgentManager
            RegisterAgent(o)
            UnregisterAgent(o)
        net.connman.iwd.Daemon
            GetInfo() -> a{sv}
        net.connman.iwd.Device
            Name: s
            Powered: b
        net.connman.iwd.Station
            Scan()
            Disconnect()
            ConnectHiddenNetwork(s)
            GetOrderedNetworks() -> a(on)
            ConnectedNetwork: o
            Scanning: b
            State: s
        net.connman.iwd.Network
            Connect()
            Name: s
            Type: s
        net.connman.iwd.KnownNetwork
            Forget()
            Name: s
            Type: s
        """

    init(_ air: WiFiAir, _ address: Connection.Address) throws(BusError) {
        try super.init(Self.name, root: "/", Self.table, air, address)
    }

    override func exportRoot() {
        bus.onClientGone = { [unowned self] client in agents.removeAll { $0.client == client } }
        bus.server.export(PlainObject("/"))
        var manager = bus.interface("net.connman.iwd.AgentManager")
        manager.method("RegisterAgent") { [unowned self] call throws(BusError) in
            guard !agents.contains(where: { $0.client == call.sender }) else { throw IWDError.alreadyExists.error }
            agents.append((call.sender, call.arguments[0].objectPathValue ?? "/"))
            bus.watch(call.sender)
            call.reply()
        }
        manager.method("UnregisterAgent") { [unowned self] call throws(BusError) in
            guard agents.contains(where: { $0.client == call.sender }) else { throw IWDError.notFound.error }
            agents.removeAll { $0.client == call.sender }
            call.reply()
        }
        var daemon = bus.interface("net.connman.iwd.Daemon")
        daemon.method("GetInfo") { [unowned self] call throws(BusError) in
            call.reply(.vardict(["NetworkConfigurationEnabled": .boolean(air.wifi.iwdConfigures)]))
        }
        bus.server.export(PlainObject(Self.path, [manager, daemon]))
        for profile in air.iwdProfiles where !knownNetworks.contains(where: { $0.profile.ssid == profile.ssid }) { add(profile) }
    }

    override func stop() {
        cancelQuestion("shutdown")
        for agent in agents { bus.connection.call(agent.client, agent.path, "net.connman.iwd.Agent", "Release") { _ in } }
        super.stop()
    }

    override func makeStation(_ radio: Radio) -> Station { IWDStation(radio, self) }
    override var profiles: [StoredProfile] { knownNetworks.map(\.profile) }

    // MARK: Agents

    var hasAgent: Bool { !agents.isEmpty }

    /// Asks the client's agent, else the first one; `completion` gets nil where there is no passphrase.
    func askPassphrase(_ network: ObjectPath, for client: String, _ completion: @escaping (String?) -> Void) {
        guard let agent = agents.first(where: { $0.client == client }) ?? agents.first else { return completion(nil) }
        question = (nil, agent.client, agent.path)
        let call = bus.connection.call(
            agent.client, agent.path, "net.connman.iwd.Agent", "RequestPassphrase", [.objectPath(network)],
            timeout: Self.agentTimeout
        ) { [weak self] result in
            self?.question = nil
            completion((try? result.get())?.first?.stringValue)
        }
        if question != nil { question?.call = call }
    }

    func cancelQuestion(_ reason: String) {
        guard let asked = question else { return }
        question = nil
        asked.call?.cancel()
        bus.connection.call(asked.client, asked.path, "net.connman.iwd.Agent", "Cancel", [.string(reason)]) { _ in }
    }

    // MARK: Known networks

    func knownNetwork(_ ssid: [UInt8], _ type: String) -> IWDKnownNetwork? {
        knownNetworks.first { $0.profile.ssid == ssid && $0.type == type }
    }

    private func add(_ profile: StoredProfile) {
        let network = IWDKnownNetwork(profile, self)
        knownNetworks.append(network)
        bus.server.export(network, to: .everybody)
    }

    /// A network was joined, and is known from now on.
    func joinedNetwork(_ network: IWDNetwork, key: String?, isHidden: Bool) {
        if let existing = knownNetwork(network.ssid, network.type) {
            if let key { existing.profile.key = key }
        } else {
            add(StoredProfile(ssid: network.ssid, key: key, isHidden: isHidden, security: key == nil ? .open : .wpa2))
        }
        store()
    }

    func forget(_ network: IWDKnownNetwork) {
        knownNetworks.removeAll { $0 === network }
        store()
        bus.server.withdraw(network.path, to: .everybody)
        for station in stations.values { (station as? IWDStation)?.forgotten(network) }
    }

    private func store() { air.iwdProfiles = knownNetworks.map(\.profile) }
}

/// A network that iwd has joined before.
final class IWDKnownNetwork: ExportedObject {
    let path: ObjectPath
    let type: String
    var profile: StoredProfile
    private(set) var interfaces: [ExportedInterface] = []

    init(_ profile: StoredProfile, _ iwd: SimulatedIWD) {
        self.profile = profile
        let type = profile.key == nil ? "open" : "psk"
        self.type = type
        path = SimulatedIWD.path.appending("\(Hex.text(profile.ssid))_\(type)")!
        var description = iwd.bus.interface(
            SimulatedIWD.knownNetwork, ["Name": { .string(lossyText(profile.ssid)) }, "Type": { .string(type) }])
        description.method("Forget") { [unowned self, unowned iwd] call throws(BusError) in
            call.reply()
            iwd.forget(self)
        }
        interfaces = [description]
    }

    func isVisible(to caller: String) -> Bool { true }
}

/// The errors of iwd's dbus.c, with its messages.
enum IWDError: String {
    case aborted = "Operation aborted"
    case alreadyExists = "Object already exists"
    case alreadyProvisioned = "Already provisioned"
    /// The real name of `dbus_error_busy`, too.
    case inProgress = "Operation already in progress"
    case failed = "Operation failed"
    case invalidArguments = "Argument type is wrong"
    case invalidFormat = "Argument format is invalid"
    case noAgent = "No Agent registered"
    case notConfigured = "Not configured"
    case notFound = "Object not found"
    case notHidden = "Not hidden"
    case notSupported = "Operation not supported"
    case serviceSetOverlap = "Service set overlap"

    var error: BusError {
        BusError(name: "net.connman.iwd." + "\(self)".prefix(1).uppercased() + "\(self)".dropFirst(), message: rawValue)
    }
}
