// SPDX-License-Identifier: Apache-2.0
// A device of iwd, and its station while it has power: scans, joins networks on request, and reconnects those that it
// knows. Networks that were heard are objects below it.

internal import AccessoryModel
internal import DBusKit

final class IWDStation: Station {
    unowned let iwd: SimulatedIWD
    private var networks: [ObjectPath: IWDNetwork] = [:]
    /// The network that is joined, or being joined.
    private var current: (network: IWDNetwork, point: HeardPoint)?
    private var state = State.disconnected
    private var autoconnects = true
    /// The call that requested a join, and whether an agent has to answer first.
    private var pending: (call: MethodCall, isWaitingForAgent: Bool)?
    /// Calls that are answered once disconnected, as by the real one.
    private var leaving: [MethodCall] = []
    private var hiddenSearch: (call: MethodCall, ssid: [UInt8])?

    private enum State: String {
        case disconnected, connecting, connected, disconnecting
    }

    private static let step = 0.03
    private static let searchInterval = 1.0
    /// As `station_bss_list_remove_expired_bsses`.
    private static let maxAge = 30.0

    init(_ radio: Radio, _ iwd: SimulatedIWD) {
        self.iwd = iwd
        super.init(SimulatedIWD.path.appending("0")!.appending("\(3 + radio.number)")!, radio, iwd.bus)
        let device = bus.interface(
            SimulatedIWD.device, ["Name": { .string(radio.name) }, "Powered": { .boolean(radio.isUsable) }])
        interfaces = radio.isUsable ? [device, describeStation()] : [device]
    }

    private func describeStation() -> ExportedInterface {
        var station = bus.interface(
            SimulatedIWD.station,
            [
                "State": { [unowned self] in .string(state.rawValue) }, "Scanning": { [radio] in .boolean(radio.isScanning) },
                "ConnectedNetwork": { [unowned self] in current.map { .objectPath($0.network.path) } },
            ])
        station.method("Scan") { [unowned self] call throws(BusError) in
            guard state != .connecting, radio.startScan(knownHidden) else { throw IWDError.inProgress.error }
            call.reply()
        }
        station.method("GetOrderedNetworks") { [unowned self] call throws(BusError) in
            call.reply(.array(of: "(on)", ordered.map { .structure([.objectPath($0.path), .int16($0.strength)]) }))
        }
        station.method("Disconnect") { [unowned self] call throws(BusError) in
            // Succeeds also when disconnected; the documented NotConnected is never returned.
            autoconnects = false
            if pending?.isWaitingForAgent == true { iwd.cancelQuestion("user-canceled") }
            failPending(.aborted)
            guard current != nil else { return call.reply() }
            leaving.append(call)
            disconnect {}
        }
        station.method("ConnectHiddenNetwork") { [unowned self] call throws(BusError) in
            let ssid = Array((call.arguments[0].stringValue ?? "").utf8)
            guard hiddenSearch == nil else { throw IWDError.inProgress.error }
            guard (1...32).contains(ssid.count) else { throw IWDError.invalidArguments.error }
            guard iwd.knownNetwork(ssid, "psk") == nil, iwd.knownNetwork(ssid, "open") == nil else {
                throw IWDError.alreadyProvisioned.error
            }
            if let network = joinable(ssid).first {
                guard network.isHidden else { throw IWDError.notHidden.error }
                return try connect(network, call)
            }
            guard radio.startScan([ssid]) else { throw IWDError.inProgress.error }
            hiddenSearch = (call, ssid)
        }
        return station
    }

    // MARK: Life

    override func begin(at point: HeardPoint?) {
        updateNetworks()
        guard let point, let network = networks.values.first(where: { $0.points.contains { $0 === point } }),
            iwd.knownNetwork(network.ssid, network.type) != nil
        else { return soonAutoconnect() }
        current = (network, point)
        set(.connected)
        changed("ConnectedNetwork")
    }

    override func usabilityChanged() {
        let device = interfaces[0]
        if radio.isUsable {
            interfaces = [device, describeStation()]
            bus.changed(self, SimulatedIWD.device, "Powered")
            bus.server.announce(self, to: .everybody)
            soonAutoconnect()
        } else {
            failPending(.aborted)
            setCurrent(nil)
            set(.disconnected)
            dropAll()
            interfaces = [device]
            bus.emit("/", Bus.objectManager, "InterfacesRemoved", .objectPath(path), .strings([SimulatedIWD.station]))
            bus.changed(self, SimulatedIWD.device, "Powered")
        }
    }

    override func linkLost() {
        setCurrent(nil)
        set(.disconnected)
        soonAutoconnect()
    }

    override var joined: (ssid: [UInt8], point: HeardPoint)? {
        state == .connected ? current.map { ($0.network.ssid, $0.point) } : nil
    }

    private func set(_ state: State) {
        guard state != self.state else { return }
        self.state = state
        changed("State")
        guard state == .disconnected else { return }
        for call in leaving { call.reply() }
        leaving = []
    }

    private func changed(_ name: String) { bus.changed(self, SimulatedIWD.station, name) }

    private func setCurrent(_ new: (network: IWDNetwork, point: HeardPoint)?) {
        let isOther = new?.network !== current?.network
        current = new
        if isOther { changed("ConnectedNetwork") }
    }

    private func failPending(_ error: IWDError) {
        pending?.call.fail(error.error)
        pending = nil
        hiddenSearch?.call.fail(error.error)
        hiddenSearch = nil
    }

    // MARK: Scanning

    /// Every scan probes the hidden networks that are known.
    private var knownHidden: [[UInt8]] { iwd.knownNetworks.filter(\.profile.isHidden).map(\.profile.ssid) }

    override func scanBegan() { changed("Scanning") }

    override func scanEnded(isComplete: Bool) {
        changed("Scanning")
        if let (call, ssid) = hiddenSearch {
            hiddenSearch = nil
            if isComplete { connectHidden(call, ssid) } else { call.fail(IWDError.failed.error) }
        }
        if state == .disconnected { soonAutoconnect() }
    }

    override func isOutdated(_ point: HeardPoint) -> Bool { air.now - point.lastHeard >= Self.maxAge }

    override func pointsChanged(dropped: [HeardPoint]) { updateNetworks() }

    /// Names that are no text, and hidden ones, make no object.
    private func updateNetworks() {
        var points: [ObjectPath: [HeardPoint]] = [:]
        for point in heard.values where !point.ssid.isEmpty && String(validating: point.ssid, as: UTF8.self) != nil {
            points[IWDNetwork.path(point, below: path), default: []].append(point)
        }
        for (path, network) in networks where points[path] == nil && network !== current?.network {
            networks[path] = nil
            bus.server.withdraw(path, to: .everybody)
        }
        for (path, heard) in points {
            if let network = networks[path] {
                network.points = heard
            } else {
                let network = IWDNetwork(path, heard, self)
                networks[path] = network
                bus.server.export(network, to: .everybody)
            }
        }
    }

    private func joinable(_ ssid: [UInt8]) -> [IWDNetwork] {
        networks.values.filter { $0.ssid == ssid && ["psk", "open"].contains($0.type) }
    }

    private func connectHidden(_ call: MethodCall, _ ssid: [UInt8]) {
        let found = joinable(ssid)
        guard let network = found.first else { return call.fail(IWDError.notFound.error) }
        guard found.count == 1 else { return call.fail(IWDError.serviceSetOverlap.error) }
        do { try connect(network, call) } catch { call.fail(error) }
    }

    /// The joined network, then known ones, each by strength.
    private var ordered: [IWDNetwork] {
        func rank(_ network: IWDNetwork) -> (Int, Int) {
            let group = network === current?.network ? 0 : iwd.knownNetwork(network.ssid, network.type) == nil ? 2 : 1
            return (group, -Int(network.strength))
        }
        return networks.values.sorted { rank($0) == rank($1) ? $0.path < $1.path : rank($0) < rank($1) }
    }

    // MARK: Joining

    func connect(_ network: IWDNetwork, _ call: MethodCall) throws(BusError) {
        if network === current?.network, state == .connected { return call.reply() }
        guard pending == nil else { throw IWDError.inProgress.error }
        switch network.type {
        case "wep": throw IWDError.notSupported.error
        case "8021x": throw IWDError.notConfigured.error
        case "open": return join(network, nil, call)
        default: break
        }
        if let key = iwd.knownNetwork(network.ssid, network.type)?.profile.key { return join(network, key, call) }
        guard iwd.hasAgent else { throw IWDError.noAgent.error }
        pending = (call, isWaitingForAgent: true)
        iwd.askPassphrase(network.path, for: call.sender) { [weak self] key in
            guard let self, !self.isOver, self.pending?.call === call else { return }
            self.pending = nil
            guard let key else { return call.fail(IWDError.aborted.error) }
            guard (8...63).contains(key.utf8.count) else { return call.fail(IWDError.invalidFormat.error) }
            self.join(network, key, call)
        }
    }

    /// Joins, after leaving the joined network.
    ///
    /// - Parameter call: nil for a join of iwd's own.
    private func join(_ network: IWDNetwork, _ key: String?, _ call: MethodCall?) {
        pending = call.map { ($0, isWaitingForAgent: false) }
        if call != nil { autoconnects = true }
        if current != nil { return disconnect { [unowned self] in begin(network, key) } }
        begin(network, key)
    }

    private func begin(_ network: IWDNetwork, _ key: String?) {
        guard let point = network.best else { return fail() }
        setCurrent((network, point))
        set(.connecting)
        let (answer, delay) = point.point.answer(key)
        after(Self.step + delay) { [unowned self] in
            guard answer.isYes, point.point.isHeard else { return fail() }
            set(.connected)
            iwd.joinedNetwork(network, key: key, isHidden: network.isHidden)
            pending?.call.reply()
            pending = nil
        }
    }

    private func fail() {
        setCurrent(nil)
        set(.disconnected)
        failPending(.failed)
        after(Self.searchInterval / 2) { [unowned self] in autoconnect() }
    }

    private func disconnect(_ then: @escaping () -> Void) {
        set(.disconnecting)
        after(Self.step) { [unowned self] in
            setCurrent(nil)
            set(.disconnected)
            then()
            if state == .disconnected { soonAutoconnect() }
        }
    }

    /// Leaves a network that is no longer known.
    func forgotten(_ saved: IWDKnownNetwork) {
        guard let network = current?.network, network.ssid == saved.profile.ssid, network.type == saved.type else { return }
        failPending(.aborted)
        disconnect {}
    }

    // MARK: Autoconnecting

    private func soonAutoconnect() { after(Self.step) { [unowned self] in autoconnect() } }

    /// Joins a known network that was heard; scans for one while there is none.
    private func autoconnect() {
        guard state == .disconnected, autoconnects, radio.isUsable, hiddenSearch == nil, pending?.isWaitingForAgent != true
        else { return }
        let saved = iwd.knownNetworks.filter { !$0.profile.isUplink || $0.profile.ssid == radio.uplink }
        guard !saved.isEmpty else { return }
        for network in ordered where network.best?.point.isHeard == true {
            guard let match = saved.first(where: { $0.profile.ssid == network.ssid && $0.type == network.type }) else { continue }
            return join(network, match.profile.key, nil)
        }
        after(Self.searchInterval) { [unowned self] in
            guard state == .disconnected, autoconnects else { return }
            if !radio.startScan(knownHidden) { soonAutoconnect() }
        }
    }
}

/// A network that the station has heard: all access points of one name and kind.
final class IWDNetwork: ExportedObject {
    let path: ObjectPath
    let ssid: [UInt8]
    let type: String
    private(set) var interfaces: [ExportedInterface] = []
    var points: [HeardPoint]

    init(_ path: ObjectPath, _ points: [HeardPoint], _ station: IWDStation) {
        self.path = path
        self.points = points
        ssid = points[0].ssid
        let (ssid, type) = (points[0].ssid, Self.type(points[0]))
        self.type = type
        var description = station.bus.interface(
            SimulatedIWD.network, ["Name": { .string(lossyText(ssid)) }, "Type": { .string(type) }])
        description.method("Connect") { [unowned self, unowned station] call throws(BusError) in try station.connect(self, call) }
        interfaces = [description]
    }

    func isVisible(to caller: String) -> Bool { true }

    static func path(_ point: HeardPoint, below station: ObjectPath) -> ObjectPath {
        station.appending("\(Hex.text(point.ssid))_\(type(point))")!
    }

    private static func type(_ point: HeardPoint) -> String {
        switch point.point.scenario.security {
        case .open: "open"
        case .wep: "wep"
        case .enterprise: "8021x"
        case .wpa, .wpa2, .wpa3, .transition: "psk"
        }
    }

    var best: HeardPoint? { points.max { $0.point.scenario.rssi < $1.point.scenario.rssi } }
    var isHidden: Bool { points.contains { $0.point.scenario.isHidden } }
    /// In hundredths of dBm.
    var strength: Int16 { Int16(clamping: 100 * (best?.point.scenario.rssi ?? -100)) }
}
