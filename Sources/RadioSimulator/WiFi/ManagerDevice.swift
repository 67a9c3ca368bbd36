// SPDX-License-Identifier: Apache-2.0
// A Wi-Fi device of NetworkManager: its scans, its access points, and the states that an activation passes through.

internal import DBusKit
internal import Glibc

final class ManagerDevice: Station {
    /// `NMDeviceState`.
    enum State: UInt32, Comparable {
        case unavailable = 20
        case disconnected = 30
        case prepare = 40
        case config = 50
        case needAuth = 60
        case ipConfig = 70
        case ipCheck = 80
        case secondaries = 90
        case activated = 100
        case deactivating = 110
        case failed = 120

        static func < (a: State, b: State) -> Bool { a.rawValue < b.rawValue }
    }

    /// `NMDeviceStateReason`, as far as it is played.
    enum Reason: UInt32 {
        case none = 0
        case addressUnavailable = 5
        case noSecrets = 7
        case supplicantDisconnect = 8
        case supplicantTimeout = 11
        case userRequested = 39
        case ssidNotFound = 53
        case newActivation = 60
    }

    private(set) var state = State.unavailable
    /// The access point that is joined, or being joined.
    private(set) var current: HeardPoint?
    private var activation: ManagerActivation?
    /// Names that clients have requested a scan for; nil where no scan is requested.
    private var requested: [[UInt8]]?
    private var deadline: LoopSource?
    private unowned let manager: SimulatedNetworkManager

    private static let step = 0.02
    /// Between two scans for a saved network.
    private static let searchInterval = 1.0

    init(_ radio: Radio, _ number: Int, _ manager: SimulatedNetworkManager) {
        self.manager = manager
        super.init(SimulatedNetworkManager.path.appending("Devices")!.appending("\(number)")!, radio, manager.bus)
        let device = bus.interface(
            SimulatedNetworkManager.device,
            [
                "Interface": { .string(radio.name) }, "State": { [unowned self] in .uint32(state.rawValue) },
                "ActiveConnection": { [unowned self] in .objectPath(activation?.path ?? "/") }, "Managed": { .boolean(true) },
                "DeviceType": { .uint32(2) },
            ])
        var wireless = bus.interface(
            SimulatedNetworkManager.wireless, ["LastScan": { [unowned self] in .int64(lastScan.map { Int64($0 * 1000) } ?? -1) }])
        wireless.method("GetAllAccessPoints") { [unowned self] call throws(BusError) in
            call.reply(.objectPaths(heard.values.map(\.path).sorted()))
        }
        wireless.method("RequestScan") { [unowned self] call throws(BusError) in
            try requestScan(call.arguments[0].vardictValue ?? [:])
            call.reply()
        }
        interfaces = [device, wireless]
    }

    private var uplink: ManagerProfile? { manager.connections.first { $0.stored.isUplink && $0.stored.interface == radio.name } }

    // MARK: Life

    override func begin(at point: HeardPoint?) {
        guard radio.isUsable else { return }
        state = .disconnected
        guard let uplink, let point else { return soonAutoconnect() }
        current = point
        let activation = newActivation(uplink, boundTo: nil)
        set(.activated)
        activation.setState(.activated)
    }

    override func usabilityChanged() {
        if radio.isUsable {
            set(.disconnected)
            soonAutoconnect()
        } else {
            finish(.unavailable, .none)
            dropAll()
        }
    }

    override func linkLost() { fail(.supplicantDisconnect) }

    override var joined: (ssid: [UInt8], point: HeardPoint)? {
        guard state == .activated, let activation, let current else { return nil }
        return (activation.profile.stored.ssid, current)
    }

    private func set(_ state: State, _ reason: Reason = .none) {
        guard state != self.state else { return }
        let old = self.state
        self.state = state
        bus.emit(
            path, SimulatedNetworkManager.device, "StateChanged", .uint32(state.rawValue), .uint32(old.rawValue),
            .uint32(reason.rawValue))
    }

    // MARK: Scanning

    private func requestScan(_ options: [String: DBusValue]) throws(BusError) {
        func refused(_ text: String) -> BusError { SimulatedNetworkManager.error("Device.NotAllowed", text) }
        let names = options["ssids"]?.arrayValue?.compactMap(\.bytesValue) ?? []
        guard state >= .disconnected else { throw refused("Scanning not allowed while unavailable") }
        let limit = air.wifi.rateLimit
        // Before 1.26; later versions remember the request.
        if limit > 0, radio.isScanning || lastScan.map({ air.now - $0 < limit }) == true {
            throw refused("Scanning not allowed immediately following previous scan")
        }
        requested = (requested ?? []) + names
        scanIfRequested()
    }

    /// Requested scans run while disconnected or activated, not during a join.
    private func scanIfRequested() {
        guard let requested, state == .disconnected || state >= .activated || isSearching else { return }
        let hidden = manager.connections.filter(\.stored.isHidden).map(\.stored.ssid)
        if radio.startScan(requested + hidden) { self.requested = nil }
    }

    override func scanEnded(isComplete: Bool) {
        guard radio.isUsable else { return }
        if isComplete { bus.changed(self, SimulatedNetworkManager.wireless, "LastScan") }
        if isSearching { search(after: Self.searchInterval) }
        scanIfRequested()
        if state == .disconnected { soonAutoconnect() }
    }

    override func makePoint(_ result: ScanResult) -> HeardPoint {
        let path = SimulatedNetworkManager.path.appending("AccessPoint")!.appending("\(manager.next("AccessPoint"))")!
        return ManagerAccessPoint(result, path, air, bus)
    }

    var heardNames: Set<[UInt8]> { Set(heard.values.map(\.ssid)) }

    // MARK: Activation

    func isAvailable(_ profile: ManagerProfile) -> Bool {
        state >= .disconnected && goesHere(profile) && (profile.stored.isHidden || best(for: profile) != nil)
    }

    private func goesHere(_ profile: ManagerProfile) -> Bool { profile.stored.interface.map { $0 == radio.name } ?? true }

    private func best(for profile: ManagerProfile) -> HeardPoint? { best(profile.stored.ssid, where: profile.fits) }

    private func newActivation(_ profile: ManagerProfile, boundTo: String?) -> ManagerActivation {
        let activation = ManagerActivation(profile, on: self, boundTo: boundTo, manager.next("ActiveConnection"))
        self.activation = activation
        manager.begin(activation)
        return activation
    }

    @discardableResult
    func activate(_ profile: ManagerProfile, boundTo: String?) -> ManagerActivation {
        cancelNext()
        if activation != nil {
            set(.deactivating, .newActivation)
            finish(.disconnected, .newActivation)
        }
        let activation = newActivation(profile, boundTo: boundTo)
        activation.setState(.activating)
        after(0) { [unowned self] in prepare() }
        return activation
    }

    private func prepare() {
        guard let profile = activation?.profile else { return }
        set(.prepare)
        set(.config)
        if profile.stored.security != .open, profile.stored.key == nil {
            // There is no secret agent.
            set(.needAuth)
            return fail(.noSecrets)
        }
        if let point = best(for: profile) { return join(point) }
        deadline = air.loop.after(.seconds(air.wifi.joinTimeout)) { [weak self] in
            if self?.isSearching == true { self?.fail(.ssidNotFound) }
        }
        search(after: 0)
    }

    /// The network to join has not been heard yet.
    private var isSearching: Bool { state == .config && current == nil && deadline != nil }

    private func search(after delay: Double) {
        guard let profile = activation?.profile else { return }
        if let point = best(for: profile) { return join(point) }
        // The results of another client's scan are used first.
        after(delay) { [unowned self] in if isSearching { _ = radio.startScan([profile.stored.ssid]) } }
    }

    private func join(_ point: HeardPoint) {
        guard let profile = activation?.profile else { return }
        endDeadline()
        current = point
        let (answer, delay) = point.point.answer(profile.stored.key)
        after(2 * Self.step + (answer == .noAddress ? 0 : delay)) { [unowned self] in
            switch answer {
            // A protected network that does not answer: the key is in doubt, and there is no agent to ask for another.
            case .silence where profile.stored.security == .open, .refused where profile.stored.security == .open:
                fail(.supplicantTimeout)
            case .silence, .refused: doubtKey()
            // wpa_supplicant keeps trying.
            case .wrongKey where profile.stored.security == .wpa3:
                after(air.wifi.joinTimeout) { [unowned self] in doubtKey() }
            case .wrongKey: doubtKey(.supplicantDisconnect)
            case .noAddress:
                set(.ipConfig)
                after(delay) { [unowned self] in fail(.addressUnavailable) }
            case .displaced:
                if let uplink { activate(uplink, boundTo: nil) } else { configure() }
            case .accepted: configure()
            }
        }
    }

    private func doubtKey(_ reason: Reason = .none) {
        set(.needAuth, reason)
        fail(.noSecrets)
    }

    private func configure() {
        guard current?.point.isHeard == true else { return fail(.supplicantDisconnect) }
        set(.ipConfig)
        after(Self.step) { [unowned self] in
            set(.ipCheck)
            set(.secondaries)
            guard current?.point.isHeard == true else { return fail(.supplicantDisconnect) }
            set(.activated)
            activation?.setState(.activated)
            scanIfRequested()
        }
    }

    private func fail(_ reason: Reason) {
        if reason == .noSecrets { activation?.profile.isBlocked = true }
        finish(.failed, reason)
        after(0) { [unowned self] in
            set(.disconnected)
            soonAutoconnect()
        }
    }

    func deactivate(_ reason: Reason) {
        guard let activation else { return }
        set(.deactivating, reason)
        activation.setState(.deactivating, reason: 2)
        after(Self.step) { [unowned self] in
            finish(.disconnected, reason)
            soonAutoconnect()
        }
    }

    /// Ends the activation. As in nm-act-request.c its own reason is "device disconnected" (3), unless a user requested
    /// the end (2): the cause is in the device's reason only.
    private func finish(_ state: State, _ reason: Reason) {
        cancelNext()
        endDeadline()
        let ended = activation
        activation = nil
        current = nil
        set(state, reason)
        guard let ended else { return }
        ended.setState(.deactivated, reason: reason == .userRequested ? 2 : 3)
        manager.end(ended)
    }

    private func endDeadline() {
        deadline?.cancel()
        deadline = nil
    }

    override func end() {
        endDeadline()
        super.end()
    }

    // MARK: Autoconnecting

    private func soonAutoconnect() { after(Self.step) { [unowned self] in autoconnect() } }

    /// Joins a saved network that was heard; scans for one while there is none.
    private func autoconnect() {
        guard state == .disconnected, activation == nil, radio.isUsable else { return }
        let wanted = manager.connections.filter { !$0.isBlocked && !$0.isVolatile && goesHere($0) }
        guard !wanted.isEmpty else { return scanIfRequested() }
        if let profile = wanted.first(where: { best(for: $0)?.point.isHeard == true }) {
            activate(profile, boundTo: nil)
            return
        }
        guard lastScan.map({ air.now - $0 >= Self.searchInterval }) ?? true else {
            return after(Self.searchInterval) { [unowned self] in autoconnect() }
        }
        requested = requested ?? []
        scanIfRequested()
    }
}

private final class ManagerAccessPoint: HeardPoint {
    init(_ result: ScanResult, _ path: ObjectPath, _ air: WiFiAir, _ bus: ServiceBus) {
        super.init(result, path, air)
        let scenario = result.point.scenario
        // `nm_wifi_utils_level_to_quality`.
        let strength = UInt8(100 - 100 * abs(min(max(scenario.rssi, -100), -40) + 40) / 60)
        interfaces = [
            bus.interface(
                SimulatedNetworkManager.accessPoint,
                [
                    "Flags": { .uint32(scenario.security == .open ? 0 : 1) },
                    "WpaFlags": { .uint32(scenario.security == .wpa ? 0x144 : 0) },
                    "RsnFlags": { .uint32(Self.rsn(scenario.security)) },
                    "Ssid": { .bytes(result.ssid) },
                    "Frequency": { .uint32(UInt32(scenario.frequency)) },
                    "Strength": { .byte(strength) },
                    "LastSeen": { [unowned self] in .int32(Int32(clamping: Self.secondsSinceBoot - Int(air.now - lastHeard))) },
                ])
        ]
    }

    private static var secondsSinceBoot: Int {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return time.tv_sec
    }

    /// CCMP for both (0x88), PSK 0x100, 802.1X 0x200, SAE 0x400.
    private static func rsn(_ security: Scenario.AccessPoint.Security) -> UInt32 {
        switch security {
        case .open, .wep, .wpa: 0
        case .wpa2: 0x188
        case .wpa3: 0x488
        case .transition: 0x588
        case .enterprise: 0x288
        }
    }
}
