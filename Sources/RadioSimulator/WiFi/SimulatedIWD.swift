// SPDX-License-Identifier: Apache-2.0
// One life of the simulated iwd: agents, its adapter, devices and known networks. What it knows is on disk and outlives
// it.

internal import AccessoryModel
internal import DBusKit
internal import Glibc

final class SimulatedIWD: WiFiService {
    let air: WiFiAir
    let bus: ServiceBus
    private var devices: [String: IWDDevice] = [:]
    private(set) var known: [IWDKnownNetwork] = []
    /// In the order of their registration, by client.
    private var agents: [(client: String, path: ObjectPath)] = []
    private var adapter: PlainObject?
    /// The question that an agent has not answered yet.
    private var question: (call: PendingCall?, client: String, path: ObjectPath)?

    static let path: ObjectPath = "/net/connman/iwd"
    static let adapterPath: ObjectPath = "/net/connman/iwd/0"
    private static let agentTimeout = Duration.seconds(120)

    init(_ air: WiFiAir, _ address: Connection.Address) throws(BusError) {
        self.air = air
        bus = try ServiceBus("net.connman.iwd", root: "/", xml: IWDXML.text, address, loop: air.loop)
    }

    func start() throws(BusError) {
        bus.onClientGone = { [unowned self] client in agents.removeAll { $0.client == client } }
        bus.server.export(PlainObject("/"))
        bus.server.export(PlainObject(Self.path, describeRoot()))
        var description = bus.interface(IWDXML.adapter)
        description.property("Powered") { [unowned self] _ in .boolean(!air.isBlocked) }
        description.property("Name") { _ in .string("phy0") }
        description.property("SupportedModes") { _ in .strings(["ad-hoc", "station", "ap"]) }
        description.writable("Powered") { [unowned self] value, _ in air.onBlocked?(!(value.booleanValue ?? true)) }
        let adapter = PlainObject(Self.adapterPath, [description])
        self.adapter = adapter
        bus.server.export(adapter)
        for profile in air.iwdProfiles where !known.contains(where: { $0.profile.ssid == profile.ssid }) { learn(profile) }
        for radio in air.radios where radio.isPresent { add(radio) }
        try bus.start()
    }

    func stop() {
        cancelQuestion("shutdown")
        for device in devices.values { device.end() }
        for agent in agents { bus.connection.call(agent.client, agent.path, "net.connman.iwd.Agent", "Release") { _ in } }
        bus.stop()
    }

    private func describeRoot() -> [ExportedInterface] {
        var manager = bus.interface(IWDXML.agentManager)
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
        var daemon = bus.interface(IWDXML.daemon)
        daemon.method("GetInfo") { [unowned self] call throws(BusError) in
            call.reply(
                .vardict([
                    "Version": .string("2.3"), "StateDirectory": .string("/var/lib/iwd"),
                    "NetworkConfigurationEnabled": .boolean(air.wifi.iwdConfigures),
                ]))
        }
        return [manager, daemon]
    }

    // MARK: Agents

    var hasAgent: Bool { !agents.isEmpty }

    /// Asks the agent of `client`, else the first one; `completion` gets nil when there is no passphrase.
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
        known.first { $0.profile.ssid == ssid && $0.type == type }
    }

    @discardableResult
    private func learn(_ profile: StoredProfile) -> IWDKnownNetwork {
        let network = IWDKnownNetwork(profile, self)
        known.append(network)
        bus.server.export(network, to: .everybody)
        return network
    }

    /// A network was joined: it is known from now on.
    func joinedNetwork(_ network: IWDNetwork, key: String?, isHidden: Bool) {
        let now = knownNetwork(network.ssid, network.type)
        let known =
            now
            ?? learn(
                StoredProfile(ssid: network.ssid, key: key, isHidden: isHidden, security: key == nil ? .open : .wpa2))
        known.joined(key)
        store()
        for device in devices.values { device.knownChanged(network.ssid) }
    }

    func forget(_ network: IWDKnownNetwork) {
        known.removeAll { $0 === network }
        store()
        bus.server.withdraw(network.path, to: .everybody)
        for device in devices.values { device.forgotten(network) }
    }

    private func store() { air.iwdProfiles = known.map(\.profile) }

    // MARK: Devices

    func add(_ radio: Radio) {
        let device = IWDDevice(radio, self)
        devices[radio.name] = device
        bus.server.export(device, to: .everybody)
        device.begin()
    }

    func remove(_ radio: Radio) {
        guard let device = devices.removeValue(forKey: radio.name) else { return }
        device.down()
        device.end()
        bus.server.withdraw(device.path, to: .everybody)
    }

    func blockedChanged() {
        if let adapter { bus.changed(adapter, IWDXML.adapter, ["Powered"]) }
        for device in devices.values { device.setPower(!air.isBlocked) }
    }

    func pointGone(_ point: AirAccessPoint) { for device in devices.values { device.station?.pointGone(point) } }
    var joined: [String: [UInt8]] { devices.compactMapValues { $0.station?.joined } }
    var profiles: [StoredProfile] { known.map(\.profile) }
}

/// A network that iwd has joined before.
final class IWDKnownNetwork: ExportedObject {
    let path: ObjectPath
    let type: String
    private(set) var profile: StoredProfile
    private(set) var interfaces: [ExportedInterface] = []
    private(set) var autoconnects = true
    private var lastJoined: time_t?

    init(_ profile: StoredProfile, _ iwd: SimulatedIWD) {
        self.profile = profile
        let type = profile.key == nil ? "open" : "psk"
        self.type = type
        path = SimulatedIWD.path.appending("\(Hex.text(profile.ssid))_\(type)")!
        var description = iwd.bus.interface(IWDXML.knownNetwork)
        description.property("Name") { _ in .string(lossyText(profile.ssid)) }
        description.property("Type") { _ in .string(type) }
        description.property("Hidden") { _ in .boolean(profile.isHidden) }
        description.property("AutoConnect") { [unowned self] _ in .boolean(autoconnects) }
        description.property("LastConnectedTime") { [unowned self] _ in lastJoined.map { .string(Self.text($0)) } }
        description.writable("AutoConnect") { [unowned self, unowned iwd] value, _ in
            autoconnects = value.booleanValue ?? true
            iwd.bus.changed(self, IWDXML.knownNetwork, ["AutoConnect"])
        }
        description.method("Forget") { [unowned self, unowned iwd] call throws(BusError) in
            call.reply()
            iwd.forget(self)
        }
        interfaces = [description]
    }

    func isVisible(to caller: String) -> Bool { true }

    /// ISO 8601, in UTC.
    private static func text(_ time: time_t) -> String {
        var time = time
        var parts = tm()
        gmtime_r(&time, &parts)
        var text = [CChar](repeating: 0, count: 32)
        let count = strftime(&text, text.count, "%Y-%m-%dT%H:%M:%SZ", &parts)
        return String(decoding: text.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    func joined(_ key: String?) {
        lastJoined = time(nil)
        if let key { profile.key = key }
    }
}
