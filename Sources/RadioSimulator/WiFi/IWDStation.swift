// SPDX-License-Identifier: Apache-2.0
// A station of iwd: scans, joins what it is told to, and comes back to what it knows.

internal import AccessoryModel
internal import DBusKit

final class IWDStation: RadioListener {
    unowned let device: IWDDevice
    private(set) var description: ExportedInterface
    private(set) var networks: [ObjectPath: IWDNetwork] = [:]
    /// Joined, or being joined.
    private(set) var current: IWDNetwork?
    private var point: AirAccessPoint?
    private var state = State.disconnected
    private var autoconnects = true
    /// Who waits for a join.
    private var pending: MethodCall?
    /// Who waits for the end of a connection: iwd answers then.
    private var leaving: [MethodCall] = []
    private var hiddenSearch: (call: MethodCall, ssid: [UInt8])?
    /// Networks that only showed when they were asked for by name.
    private var hiddenNames: Set<[UInt8]> = []
    /// An agent is asked for a passphrase.
    private var isWaitingForAgent = false
    private var timer: LoopSource?
    private var isOver = false

    enum State: String {
        case disconnected, connecting, connected, disconnecting
    }

    private static let step = 0.03
    private static let searchInterval = 1.0
    /// As `station_bss_list_remove_expired_bsses`.
    private static let maximumAge = 30.0

    init(_ device: IWDDevice) {
        self.device = device
        description = device.iwd.bus.interface(IWDXML.station)
        description.property("State") { [unowned self] _ in .string(state.rawValue) }
        description.property("Scanning") { [unowned self] _ in .boolean(radio.isScanning) }
        description.property("ConnectedNetwork") { [unowned self] _ in current.map { .objectPath($0.path) } }
        description.method("Scan") { [unowned self] call throws(BusError) in
            guard state != .connecting, radio.startScan(knownHidden) else { throw IWDError.busy.error }
            call.reply()
        }
        description.method("GetOrderedNetworks") { [unowned self] call throws(BusError) in
            call.reply(.array(of: "(on)", ordered.map { .structure([.objectPath($0.path), .int16(Self.strength($0))]) }))
        }
        description.method("Disconnect") { [unowned self] call throws(BusError) in
            // Also when there is nothing to disconnect; the documentation's NotConnected is never said.
            autoconnects = false
            if isWaitingForAgent { device.iwd.cancelQuestion("user-canceled") }
            failPending(.aborted)
            guard current != nil else { return call.reply() }
            leaving.append(call)
            disconnect {}
        }
        description.method("ConnectHiddenNetwork") { [unowned self] call throws(BusError) in
            let ssid = Array((call.arguments[0].stringValue ?? "").utf8)
            guard hiddenSearch == nil else { throw IWDError.busy.error }
            guard (1...32).contains(ssid.count) else { throw IWDError.invalidArguments.error }
            guard device.iwd.knownNetwork(ssid, "psk") == nil, device.iwd.knownNetwork(ssid, "open") == nil else {
                throw IWDError.alreadyProvisioned.error
            }
            if let network = networks.values.first(where: { $0.ssid == ssid && ["psk", "open"].contains($0.type) }) {
                guard hiddenNames.contains(ssid) else { throw IWDError.notHidden.error }
                return try connect(network, call)
            }
            guard radio.startScan([ssid]) else { throw IWDError.busy.error }
            hiddenSearch = (call, ssid)
        }
    }

    private var radio: Radio { device.radio }
    private var iwd: SimulatedIWD { device.iwd }

    // MARK: Life

    func begin() {
        radio.listen(self)
        guard let point = radio.air.uplinkPoint(of: radio) else { return soonAutoconnect() }
        let network = hear(point, point.scenario.ssid)
        guard iwd.knownNetwork(network.ssid, network.type) != nil else { return soonAutoconnect() }
        current = network
        self.point = point
        set(.connected)
        changed("ConnectedNetwork")
        iwd.bus.changed(network, IWDXML.network, ["Connected"])
    }

    func end() {
        isOver = true
        timer?.cancel()
        radio.stopListening(self)
    }

    /// The device loses power: all that it has heard goes.
    func down() {
        failPending(.aborted)
        setCurrent(nil, nil)
        set(.disconnected)
        for network in networks.values { iwd.bus.server.withdraw(network.path, to: .everybody) }
        networks = [:]
    }

    func pointGone(_ gone: AirAccessPoint) {
        guard gone === point, state == .connected else { return }
        setCurrent(nil, nil)
        set(.disconnected)
        soonAutoconnect()
    }

    var joined: [UInt8]? { state == .connected ? current?.ssid : nil }

    private func set(_ state: State) {
        guard state != self.state else { return }
        self.state = state
        changed("State")
        guard state == .disconnected else { return }
        for call in leaving { call.reply() }
        leaving = []
    }

    private func changed(_ names: String...) { iwd.bus.changed(device, IWDXML.station, names) }

    private func setCurrent(_ network: IWDNetwork?, _ point: AirAccessPoint?) {
        self.point = point
        guard network !== current else { return }
        let old = current
        current = network
        changed("ConnectedNetwork")
        for each in [old, network].compactMap({ $0 }) { iwd.bus.changed(each, IWDXML.network, ["Connected"]) }
    }

    private func failPending(_ error: IWDError) {
        pending?.fail(error.error)
        pending = nil
        hiddenSearch?.call.fail(error.error)
        hiddenSearch = nil
    }

    private func after(_ delay: Double, _ body: @escaping (IWDStation) -> Void) {
        timer?.cancel()
        timer = radio.air.loop.after(.seconds(delay)) { [weak self] in
            guard let self, !self.isOver else { return }
            body(self)
        }
    }

    // MARK: Scanning

    /// Names of hidden networks that are known: every scan asks for them.
    private var knownHidden: [[UInt8]] { iwd.known.filter(\.profile.isHidden).map(\.profile.ssid) }

    func scanBegan() { changed("Scanning") }

    func scanEnded(_ sightings: [Sighting]?) {
        guard !isOver else { return }
        for sighting in sightings ?? [] {
            // Names that are no text, and hidden ones, make no object.
            guard !sighting.ssid.isEmpty, String(validating: sighting.ssid, as: UTF8.self) != nil else { continue }
            if sighting.point.scenario.isHidden { hiddenNames.insert(sighting.ssid) }
            hear(sighting.point, sighting.ssid)
        }
        for (path, network) in networks where network !== current {
            network.expire(after: Self.maximumAge)
            guard network.points.isEmpty else { continue }
            networks[path] = nil
            iwd.bus.server.withdraw(path, to: .everybody)
        }
        changed("Scanning")
        if let (call, ssid) = hiddenSearch {
            hiddenSearch = nil
            if sightings == nil { call.fail(IWDError.failed.error) } else { connectHidden(call, ssid) }
        }
        if state == .disconnected { soonAutoconnect() }
    }

    @discardableResult
    private func hear(_ point: AirAccessPoint, _ ssid: [UInt8]) -> IWDNetwork {
        let type = IWDNetwork.type(of: point.scenario.security)
        if let path = IWDNetwork.path(ssid, type, device), let network = networks[path] {
            network.seen(point)
            return network
        }
        let network = IWDNetwork(ssid, type, self)
        network.seen(point)
        networks[network.path] = network
        iwd.bus.server.export(network, to: .everybody)
        return network
    }

    private func connectHidden(_ call: MethodCall, _ ssid: [UInt8]) {
        let found = networks.values.filter { $0.ssid == ssid && ["psk", "open"].contains($0.type) }
        guard let network = found.first else { return call.fail(IWDError.notFound.error) }
        guard found.count == 1 else { return call.fail(IWDError.serviceSetOverlap.error) }
        do { try connect(network, call) } catch { call.fail(error) }
    }

    /// The joined one first, then known ones, then by strength.
    private var ordered: [IWDNetwork] {
        func rank(_ network: IWDNetwork) -> (Int, Int) {
            let group = network === current ? 0 : iwd.knownNetwork(network.ssid, network.type) == nil ? 2 : 1
            return (group, -Int(Self.strength(network)))
        }
        return networks.values.sorted { rank($0) == rank($1) ? $0.path < $1.path : rank($0) < rank($1) }
    }

    private static func strength(_ network: IWDNetwork) -> Int16 { Int16(clamping: 100 * (network.best?.scenario.rssi ?? -100)) }

    // MARK: Joining

    func connect(_ network: IWDNetwork, _ call: MethodCall) throws(BusError) {
        if network === current, state == .connected { return call.reply() }
        guard !isWaitingForAgent, pending == nil else { throw IWDError.busy.error }
        switch network.type {
        case "wep": throw IWDError.notSupported.error
        case "8021x": throw IWDError.notConfigured.error
        case "open": join(network, nil, call)
        default:
            if let key = iwd.knownNetwork(network.ssid, network.type)?.profile.key { return join(network, key, call) }
            guard iwd.hasAgent else { throw IWDError.noAgent.error }
            isWaitingForAgent = true
            pending = call
            iwd.askPassphrase(network.path, for: call.sender) { [weak self] key in
                guard let self, !self.isOver else { return }
                self.isWaitingForAgent = false
                guard self.pending === call else { return }
                self.pending = nil
                guard let key else { return call.fail(IWDError.aborted.error) }
                guard (8...63).contains(key.utf8.count) else { return call.fail(IWDError.invalidFormat.error) }
                self.join(network, key, call)
            }
        }
    }

    /// Joins, after leaving what is joined now. Nobody waits for a join of iwd's own.
    private func join(_ network: IWDNetwork, _ key: String?, _ call: MethodCall?) {
        pending = call
        if call != nil { autoconnects = true }
        if current != nil { return disconnect { [weak self] in self?.begin(network, key) } }
        begin(network, key)
    }

    private func begin(_ network: IWDNetwork, _ key: String?) {
        guard let point = network.best else { return fail() }
        setCurrent(network, point)
        set(.connecting)
        let (answer, delay) = point.answer(key)
        after(Self.step + delay) { station in
            guard answer.isYes, point.isHeard else { return station.fail() }
            station.set(.connected)
            station.iwd.joinedNetwork(network, key: key, isHidden: station.hiddenNames.contains(network.ssid))
            station.pending?.reply()
            station.pending = nil
        }
    }

    private func fail() {
        setCurrent(nil, nil)
        set(.disconnected)
        failPending(.failed)
        after(Self.searchInterval / 2) { $0.autoconnect() }
    }

    private func disconnect(_ then: @escaping () -> Void) {
        set(.disconnecting)
        after(Self.step) { station in
            station.setCurrent(nil, nil)
            station.set(.disconnected)
            then()
            if station.state == .disconnected { station.soonAutoconnect() }
        }
    }

    /// A known network is no longer known: it is left, if it is the joined one.
    func forgotten(_ known: IWDKnownNetwork) {
        guard let current, current.ssid == known.profile.ssid, current.type == known.type else { return }
        failPending(.aborted)
        disconnect {}
    }

    // MARK: Autoconnecting

    private func soonAutoconnect() { after(Self.step) { $0.autoconnect() } }

    /// Joins a known network that is there; looks for one while none is.
    private func autoconnect() {
        guard state == .disconnected, autoconnects, radio.isUsable, hiddenSearch == nil, !isWaitingForAgent else { return }
        let known = iwd.known.filter { $0.autoconnects && (!$0.profile.isUplink || $0.profile.ssid == radio.uplink) }
        guard !known.isEmpty else { return }
        for network in ordered {
            guard network.best?.isHeard == true,
                let match = known.first(where: { $0.profile.ssid == network.ssid && $0.type == network.type })
            else { continue }
            return join(network, match.profile.key, nil)
        }
        after(Self.searchInterval) { station in
            guard station.state == .disconnected, station.autoconnects else { return }
            if !station.radio.startScan(station.knownHidden) { station.soonAutoconnect() }
        }
    }
}
