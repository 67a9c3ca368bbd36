// SPDX-License-Identifier: Apache-2.0
// A Wi-Fi device of NetworkManager: its scans, its access points, and the states that an activation goes through.

internal import DBusKit

final class ManagerDevice: ExportedObject, RadioListener {
    let path: ObjectPath
    let radio: Radio
    private(set) var interfaces: [ExportedInterface] = []
    private(set) var state = DeviceState.unavailable
    private var reason = DeviceReason.nowManaged
    private(set) var activation: ManagerActivation?
    private var autoconnects = true
    private var table: [Key: ManagerAccessPoint] = [:]
    private var activePoint: ManagerAccessPoint?
    private var lastScan: Int64 = -1
    /// Names that clients asked to scan for: kept for the next scan. Nil when no scan is asked for.
    private var askedScan: [[UInt8]]?
    private var deadline: LoopSource?
    private var timer: LoopSource?
    private var isOver = false
    private unowned let manager: SimulatedNetworkManager

    /// A hidden access point is two: with and without its name.
    private struct Key: Hashable {
        let point: ObjectIdentifier
        let ssid: [UInt8]
    }

    private static let step = 0.02
    /// Between two looks for a saved network.
    private static let searchInterval = 1.0

    init(_ radio: Radio, _ number: Int, _ manager: SimulatedNetworkManager) {
        self.radio = radio
        self.manager = manager
        path = SimulatedNetworkManager.path.appending("Devices")!.appending("\(number)")!
        let address = DBusValue.string(MACAddress.text(radio.address, upper: true))
        var device = manager.bus.interface(NetworkManagerXML.device)
        device.property("Udi") { _ in .string("/sys/devices/virtual/net/\(radio.name)") }
        device.property("Interface") { _ in .string(radio.name) }
        device.property("IpInterface") { [unowned self] _ in .string(state == .activated ? radio.name : "") }
        device.property("Driver") { _ in .string("simulator") }
        device.property("State") { [unowned self] _ in .uint32(state.rawValue) }
        device.property("StateReason") { [unowned self] _ in .structure([.uint32(state.rawValue), .uint32(reason.rawValue)]) }
        device.property("ActiveConnection") { [unowned self] _ in .objectPath(activation?.path ?? "/") }
        device.property("Managed") { _ in .boolean(true) }
        device.writable("Managed") { value, _ throws(BusError) in
            guard value.booleanValue == true else { throw .standard("NotSupported", "Managed: devices are managed here, always") }
        }
        device.property("Autoconnect") { [unowned self] _ in .boolean(autoconnects) }
        device.property("DeviceType") { _ in .uint32(2) }
        device.property("AvailableConnections") { [unowned self] _ in
            .objectPaths(self.manager.known.filter { isAvailable($0) }.map(\.path))
        }
        device.property("HwAddress") { _ in address }
        device.writable("Autoconnect") { [unowned self] value, _ in
            autoconnects = value.booleanValue ?? true
            self.manager.bus.changed(self, NetworkManagerXML.device, ["Autoconnect"])
            if autoconnects { soonAutoconnect() }
        }
        device.method("Disconnect") { [unowned self] call throws(BusError) in
            guard activation != nil else { throw ManagerError.device("NotActive", "This device is not active") }
            autoconnects = false
            call.reply()
            deactivate(.userRequested)
        }
        var wireless = manager.bus.interface(NetworkManagerXML.wireless)
        wireless.property("HwAddress") { _ in address }
        wireless.property("PermHwAddress") { _ in address }
        wireless.property("Mode") { _ in .uint32(2) }
        wireless.property("AccessPoints") { [unowned self] _ in .objectPaths(points.map(\.path)) }
        wireless.property("ActiveAccessPoint") { [unowned self] _ in .objectPath(activePoint?.path ?? "/") }
        wireless.property("WirelessCapabilities") { _ in .uint32(0x7FF) }
        wireless.property("LastScan") { [unowned self] _ in .int64(lastScan) }
        wireless.method("GetAccessPoints") { [unowned self] call throws(BusError) in
            call.reply(.objectPaths(points.filter { !$0.ssid.isEmpty }.map(\.path)))
        }
        wireless.method("GetAllAccessPoints") { [unowned self] call throws(BusError) in call.reply(.objectPaths(points.map(\.path)))
        }
        wireless.method("RequestScan") { [unowned self] call throws(BusError) in
            try requestScan(call.arguments[0].vardictValue ?? [:])
            call.reply()
        }
        interfaces = [device, wireless]
    }

    func isVisible(to caller: String) -> Bool { true }

    private var uplink: ManagerProfile? { manager.known.first { $0.isUplink && $0.settings.interface == radio.name } }

    // MARK: Life

    func begin() {
        radio.listen(self)
        guard radio.isUsable else { return }
        state = .disconnected
        guard let uplink, let point = radio.air.uplinkPoint(of: radio) else { return soonAutoconnect() }
        hear([Sighting(point: point, ssid: point.scenario.ssid)])
        activePoint = points.first { $0.point === point }
        let activation = newActivation(uplink, at: activePoint?.path ?? "/", boundTo: nil)
        set(.activated, .none)
        activation.setState(.activated)
        manager.changed("State")
    }

    func end() {
        isOver = true
        timer?.cancel()
        deadline?.cancel()
        radio.stopListening(self)
    }

    func removed() {
        finish(.unavailable, .removed)
        end()
    }

    func blockedChanged() {
        if radio.isUsable {
            set(.disconnected, .supplicantAvailable)
            soonAutoconnect()
        } else {
            finish(.unavailable, .none)
            for point in points { drop(point) }
            changedWireless("AccessPoints")
        }
    }

    func pointGone(_ point: AirAccessPoint) {
        guard state == .activated, activePoint?.point === point else { return }
        fail(.supplicantDisconnect)
    }

    var joined: [UInt8]? { state == .activated ? activation?.profile.settings.ssid : nil }

    private func set(_ state: DeviceState, _ reason: DeviceReason) {
        guard state != self.state else { return }
        let old = self.state
        self.state = state
        self.reason = reason
        manager.bus.changed(self, NetworkManagerXML.device, ["State", "StateReason", "IpInterface"])
        manager.bus.emit(
            path, NetworkManagerXML.device, "StateChanged", .uint32(state.rawValue), .uint32(old.rawValue), .uint32(reason.rawValue)
        )
    }

    private func changedWireless(_ names: String...) { manager.bus.changed(self, NetworkManagerXML.wireless, names) }

    // MARK: Scanning

    private func requestScan(_ options: [String: DBusValue]) throws(BusError) {
        var names: [[UInt8]] = []
        if let value = options["ssids"] {
            guard value.signature == "aay", let list = value.arrayValue?.compactMap(\.bytesValue) else {
                throw ManagerError.device("InvalidArgument", "Invalid 'ssid' scan option")
            }
            guard list.count <= 32, list.allSatisfy({ $0.count <= 32 }) else {
                throw ManagerError.device("InvalidArgument", "SSID in scan option is too long")
            }
            names = list
        }
        guard state.rawValue >= DeviceState.disconnected.rawValue else {
            throw ManagerError.device("NotAllowed", "Scanning not allowed while unavailable")
        }
        let limit = radio.air.wifi.rateLimit
        if limit > 0 {
            // As NetworkManager before 1.26; later ones remember the request.
            if radio.isScanning { throw ManagerError.device("NotAllowed", "Scanning not allowed while already scanning") }
            if lastScan >= 0, Double(BootClock.milliseconds - lastScan) < limit * 1000 {
                throw ManagerError.device("NotAllowed", "Scanning not allowed immediately following previous scan")
            }
        }
        askedScan = (askedScan ?? []) + names
        scanIfAsked()
    }

    /// Explicit scans run while disconnected or activated, not while something is being joined.
    private func scanIfAsked() {
        guard let names = askedScan, state == .disconnected || state == .activated || state == .failed || isSearching else {
            return
        }
        if radio.startScan(names + hiddenNames) { askedScan = nil }
    }

    /// The names of hidden saved networks go along.
    private var hiddenNames: [[UInt8]] { manager.known.filter(\.settings.isHidden).map(\.settings.ssid) }

    func scanBegan() {}

    func scanEnded(_ sightings: [Sighting]?) {
        guard !isOver, radio.isUsable else { return }
        if let sightings {
            for point in points { point.misses += 1 }
            hear(sightings)
            for point in points where point.misses >= 2 && point !== activePoint { drop(point) }
            lastScan = BootClock.milliseconds
            changedWireless("AccessPoints", "LastScan")
            manager.bus.changed(self, NetworkManagerXML.device, ["AvailableConnections"])
        }
        if isSearching { continueSearch(after: Self.searchInterval) }
        scanIfAsked()
        if state == .disconnected { soonAutoconnect() }
    }

    private func hear(_ sightings: [Sighting]) {
        for sighting in sightings {
            let key = Key(point: ObjectIdentifier(sighting.point), ssid: sighting.ssid)
            if let known = table[key] {
                known.seen()
                continue
            }
            let point = ManagerAccessPoint(sighting, manager.next("AccessPoint"), manager.bus)
            table[key] = point
            manager.bus.server.export(point, to: .everybody)
            manager.bus.emit(path, NetworkManagerXML.wireless, "AccessPointAdded", .objectPath(point.path))
        }
    }

    private func drop(_ point: ManagerAccessPoint) {
        table[Key(point: ObjectIdentifier(point.point), ssid: point.ssid)] = nil
        manager.bus.server.withdraw(point.path, to: .everybody)
        manager.bus.emit(path, NetworkManagerXML.wireless, "AccessPointRemoved", .objectPath(point.path))
    }

    private var points: [ManagerAccessPoint] { table.values.sorted { $0.path < $1.path } }

    func accessPoint(_ path: ObjectPath) -> ManagerAccessPoint? { points.first { $0.path == path } }
    func sees(_ ssid: [UInt8]) -> Bool { points.contains { $0.ssid == ssid } }

    // MARK: Activation

    /// Whether a profile can be activated here now: its network was heard, or is hidden.
    func isAvailable(_ profile: ManagerProfile) -> Bool {
        guard state.rawValue >= DeviceState.disconnected.rawValue, goesHere(profile) else { return false }
        return profile.settings.isHidden || best(for: profile) != nil
    }

    private func goesHere(_ profile: ManagerProfile) -> Bool { profile.settings.interface.map { $0 == radio.name } ?? true }

    private func best(for profile: ManagerProfile) -> ManagerAccessPoint? {
        points.filter { $0.ssid == profile.settings.ssid && $0.misses == 0 && profile.fits($0.point.scenario) }
            .max { $0.point.scenario.rssi < $1.point.scenario.rssi }
    }

    private func newActivation(_ profile: ManagerProfile, at specific: ObjectPath, boundTo: String?) -> ManagerActivation {
        let activation = ManagerActivation(
            profile, on: path, at: specific, boundTo: boundTo, manager, manager.next("ActiveConnection"))
        self.activation = activation
        manager.begin(activation)
        manager.bus.changed(self, NetworkManagerXML.device, ["ActiveConnection"])
        if let activePoint, state != .activated, profile.settings.ssid == activePoint.ssid { changedWireless("ActiveAccessPoint") }
        return activation
    }

    func activate(_ profile: ManagerProfile, at specific: ObjectPath, boundTo: String?) -> ManagerActivation {
        timer?.cancel()
        if activation != nil {
            set(.deactivating, .newActivation)
            finish(.disconnected, .newActivation)
        }
        autoconnects = true
        let activation = newActivation(profile, at: specific, boundTo: boundTo)
        activation.setState(.activating)
        manager.changed("State")
        after(0) { $0.prepare() }
        return activation
    }

    private func after(_ delay: Double, _ body: @escaping (ManagerDevice) -> Void) {
        timer?.cancel()
        timer = radio.air.loop.after(.seconds(delay)) { [weak self] in
            guard let self, !self.isOver else { return }
            body(self)
        }
    }

    private func prepare() {
        guard let profile = activation?.profile else { return }
        set(.prepare, .none)
        set(.config, .none)
        if let word = profile.settings.keyManagement, word == "wpa-psk" || word == "sae", profile.settings.key == nil {
            // No secret agent is there to ask.
            set(.needAuth, .none)
            return fail(.noSecrets)
        }
        // A hidden access point may be given by its object, which does not have the name.
        let given = activation.flatMap { accessPoint($0.specificObject) }.flatMap { point in
            point.point.scenario.ssid == profile.settings.ssid && profile.fits(point.point.scenario) ? point : nil
        }
        if let point = best(for: profile) ?? given { return join(point) }
        deadline = radio.air.loop.after(.seconds(radio.air.wifi.joinTimeout)) { [weak self] in
            guard let self, self.isSearching else { return }
            self.fail(.ssidNotFound)
        }
        continueSearch()
    }

    /// The network to join has not been heard yet.
    private var isSearching: Bool { state == .config && activePoint == nil && deadline != nil }

    private func continueSearch(after delay: Double = 0) {
        guard isSearching, let profile = activation?.profile else { return }
        if let point = best(for: profile) { return join(point) }
        // While somebody else's scan runs, its results are looked at first.
        after(delay) { device in
            if device.isSearching { _ = device.radio.startScan([profile.settings.ssid]) }
        }
    }

    private func join(_ point: ManagerAccessPoint) {
        guard let activation else { return }
        deadline?.cancel()
        deadline = nil
        setActive(point)
        activation.specificObject = point.path
        let (answer, delay) = point.point.answer(activation.profile.settings.key)
        after(2 * Self.step + (answer == .noAddress ? 0 : delay)) { device in
            switch answer {
            case .silence, .refused:
                // A protected network that does not answer: the key is doubted. There is nobody to give another.
                guard activation.profile.settings.keyManagement == nil else {
                    device.set(.needAuth, .none)
                    return device.fail(.noSecrets)
                }
                device.fail(.supplicantTimeout)
            case .wrongKey where activation.profile.settings.keyManagement == "sae":
                // wpa_supplicant goes on trying.
                device.after(device.radio.air.wifi.joinTimeout) { device in
                    device.set(.needAuth, .none)
                    device.fail(.noSecrets)
                }
            case .wrongKey:
                device.set(.needAuth, .supplicantDisconnect)
                device.fail(.noSecrets)
            case .noAddress:
                device.set(.ipConfig, .none)
                device.after(delay) { $0.fail(.addressUnavailable) }
            case .displaced:
                guard let uplink = device.uplink else { return device.configure() }
                _ = device.activate(uplink, at: "/", boundTo: nil)
            case .accepted: device.after(0) { $0.configure() }
            }
        }
    }

    private func configure() {
        guard let point = activePoint, point.point.isHeard else { return fail(.supplicantDisconnect) }
        set(.ipConfig, .none)
        after(Self.step) { device in
            device.set(.ipCheck, .none)
            device.set(.secondaries, .none)
            guard device.activePoint?.point.isHeard == true else { return device.fail(.supplicantDisconnect) }
            device.set(.activated, .none)
            device.activation?.setState(.activated)
            device.manager.changed("State")
            device.scanIfAsked()
        }
    }

    private func setActive(_ point: ManagerAccessPoint?) {
        guard point !== activePoint else { return }
        activePoint = point
        changedWireless("ActiveAccessPoint")
    }

    private func fail(_ reason: DeviceReason) {
        if reason == .noSecrets { activation?.profile.isBlocked = true }
        finish(.failed, reason)
        after(0) { device in
            device.set(.disconnected, .none)
            device.soonAutoconnect()
        }
    }

    func deactivate(_ reason: DeviceReason) {
        guard let activation else { return }
        set(.deactivating, reason)
        activation.setState(.deactivating, reason: reason == .userRequested ? 2 : 0)
        after(Self.step) { device in
            device.finish(.disconnected, reason)
            device.soonAutoconnect()
        }
    }

    /// Ends the activation with the device in this state. As in nm-act-request.c the activation's reason is "device
    /// disconnected" (3) unless a user asked (2): what went wrong is in the device's reason only.
    private func finish(_ state: DeviceState, _ reason: DeviceReason) {
        timer?.cancel()
        deadline?.cancel()
        deadline = nil
        let ended = activation
        activation = nil
        setActive(nil)
        set(state, reason)
        guard let ended else { return }
        manager.bus.changed(self, NetworkManagerXML.device, ["ActiveConnection"])
        ended.setState(.deactivated, reason: reason == .userRequested ? 2 : 3)
        manager.end(ended)
    }

    // MARK: Autoconnecting

    private func soonAutoconnect() { after(Self.step) { $0.autoconnect() } }

    /// Joins a saved network that is there; looks for one while none is.
    private func autoconnect() {
        guard state == .disconnected, activation == nil, autoconnects, radio.isUsable else { return }
        let wanted = manager.known.filter {
            $0.settings.autoconnects && !$0.isBlocked && $0.persistence != .volatile && goesHere($0)
        }
        guard !wanted.isEmpty else { return scanIfAsked() }
        if let profile = wanted.first(where: { best(for: $0)?.point.isHeard == true }) {
            _ = activate(profile, at: "/", boundTo: nil)
            return
        }
        let now = BootClock.milliseconds
        guard lastScan < 0 || Double(now - lastScan) >= Self.searchInterval * 1000 else {
            return after(Self.searchInterval) { $0.autoconnect() }
        }
        askedScan = askedScan ?? []
        scanIfAsked()
    }
}
