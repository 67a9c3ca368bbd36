// SPDX-License-Identifier: Apache-2.0
// An interface of wpa_supplicant: it scans, and passes from state to state towards one of its enabled networks.

internal import DBusKit

final class SupplicantInterface: Station {
    private(set) var networks: [SupplicantNetwork] = []
    private(set) var aware: SupplicantAware!
    private var numbers = (network: 0, bss: 0)
    private var state = State.inactive
    /// The network that is joined, being joined, or selected.
    private var current: (network: SupplicantNetwork, bss: HeardPoint?)?
    /// The running scan ends with an attempt to join.
    private var isSearching = false
    private var codes: [String: Int32] = ["DisconnectReason": 0, "AuthStatusCode": 0, "AssocStatusCode": 0]

    private enum State: String {
        case inactive, disconnected, scanning, authenticating, associating, associated, completed
        case handshake = "4way_handshake"
        case disabled = "interface_disabled"

        var isJoining: Bool { [.authenticating, .associating, .associated, .handshake].contains(self) }
    }

    /// Between two messages of a join.
    private static let step = 0.02
    /// The real one's default is 5 s.
    private static let scanInterval = 1.0
    /// Results this young are used without another scan, as in `wpa_supplicant_fast_associate`.
    private static let freshness = 5.0

    init(_ radio: Radio, _ number: Int, _ bus: ServiceBus) {
        super.init(SimulatedSupplicant.path.appending("Interfaces")!.appending("\(number)")!, radio, bus)
        aware = SupplicantAware(self)
        var description = bus.interface(
            SimulatedSupplicant.interface,
            [
                "Capabilities": { .vardict(["KeyMgmt": .strings(["none", "wpa-psk", "wpa-eap", "wpa-psk-sha256", "sae"])]) },
                "State": { [unowned self] in .string(state.rawValue) },
                "Scanning": { .boolean(radio.isScanning) },
                "Ifname": { .string(radio.name) },
                "CurrentBSS": { [unowned self] in .objectPath(current?.bss?.path ?? "/") },
                "CurrentNetwork": { [unowned self] in .objectPath(current?.network.path ?? "/") },
                "BSSs": { [unowned self] in .objectPaths(heard.values.map(\.path).sorted()) },
                "Networks": { [unowned self] in .objectPaths(networks.map(\.path)) },
            ])
        for name in codes.keys { description.property(name) { [unowned self] _ in .int32(codes[name] ?? 0) } }
        description.method("Scan") { call throws(BusError) in
            guard radio.startScan(try Self.scanNames(call.arguments[0])) else {
                throw SimulatedSupplicant.error("Interface.ScanError", "Scan request rejected")
            }
            call.reply()
        }
        description.method("AddNetwork") { [unowned self] call throws(BusError) in
            call.reply(.objectPath(add(try SupplicantNetwork(numbers.network, self, call.arguments[0])).path))
        }
        description.method("RemoveNetwork") { [unowned self] call throws(BusError) in
            let network = try network(call)
            networks.removeAll { $0 === network }
            bus.server.withdraw(network.path)
            changed("Networks")
            leaveIfCurrent(network)
            call.reply()
        }
        description.method("SelectNetwork") { [unowned self] call throws(BusError) in
            select(try network(call))
            call.reply()
        }
        if air.wifi.isAware { aware.describe(&description) }
        interfaces = [description]
    }

    private static func scanNames(_ arguments: DBusValue) throws(BusError) -> [[UInt8]] {
        let values = arguments.vardictValue ?? [:]
        guard values["Type"]?.stringValue == "active" else { throw SimulatedSupplicant.invalidArguments("Wrong scan type") }
        guard let names = values["SSIDs"] else { return [] }
        // The real one refuses an empty list, too: it looks for the first element's type.
        guard names.signature == "aay", let list = names.arrayValue?.compactMap(\.bytesValue), !list.isEmpty else {
            throw SimulatedSupplicant.invalidArguments("Wrong SSIDs value type. Array of arrays of bytes required")
        }
        guard list.count <= 4 else {
            throw SimulatedSupplicant.invalidArguments("Too many ssids specified. Specify at most four")
        }
        guard list.allSatisfy({ $0.count <= 32 }) else { throw SimulatedSupplicant.invalidArguments("Invalid SSID: too long") }
        return list
    }

    private func network(_ call: MethodCall) throws(BusError) -> SupplicantNetwork {
        guard let network = networks.first(where: { $0.path == call.arguments[0].objectPathValue }) else {
            throw SimulatedSupplicant.error("NetworkUnknown", "There is no such a network in this interface.")
        }
        return network
    }

    // MARK: Life

    override func begin(at point: HeardPoint?) {
        if let uplink = air.uplinks.first(where: { $0.interface == radio.name }) {
            add(SupplicantNetwork(numbers.network, self, uplink))
        }
        if !radio.isUsable {
            state = .disabled
        } else if let point, let network = networks.first, network.method(for: point.point.scenario) != nil {
            current = (network, point)
            state = .completed
            changed("CurrentNetwork", "CurrentBSS", "State", "BSSs")
        } else {
            findNetwork()
        }
    }

    override func end() {
        super.end()
        for network in networks { bus.server.withdraw(network.path) }
    }

    override func usabilityChanged() {
        leave(reason: -3)
        setState(radio.isUsable ? .disconnected : .disabled)
        findNetwork()
    }

    override func removed() {}

    override func linkLost() {
        // Beacons are missed: the kernel ends the link for inactivity.
        leave(reason: -4)
        findNetwork(after: 0.1)
    }

    override var joined: (ssid: [UInt8], point: HeardPoint)? {
        guard state == .completed, let current, let bss = current.bss else { return nil }
        return (current.network.profile.ssid, bss)
    }

    private func changed(_ names: String...) {
        bus.server.propertiesChanged(self, SimulatedSupplicant.interface, names, to: .everybody)
    }

    func emit(_ member: String, _ arguments: DBusValue...) {
        bus.server.emit(path: path, interface: SimulatedSupplicant.interface, member: member, to: nil, arguments)
    }

    private func setState(_ state: State) {
        guard state != self.state else { return }
        self.state = state
        changed("State")
    }

    private func setCode(_ name: String, _ code: Int32) {
        codes[name] = code
        changed(name)
    }

    private func setCurrent(_ network: SupplicantNetwork?, _ bss: HeardPoint? = nil) {
        let before = current
        current = network.map { ($0, bss) }
        if network !== before?.network { changed("CurrentNetwork") }
        if bss !== before?.bss { changed("CurrentBSS") }
    }

    // MARK: Networks

    @discardableResult
    private func add(_ network: SupplicantNetwork) -> SupplicantNetwork {
        numbers.network += 1
        networks.append(network)
        bus.server.export(network)
        changed("Networks")
        return network
    }

    private func leaveIfCurrent(_ network: SupplicantNetwork) {
        guard network === current?.network else { return }
        leave(reason: -3)
        findNetwork(after: 0.1)
    }

    /// A client has written `Enabled`.
    func enable(_ network: SupplicantNetwork, _ isEnabled: Bool) {
        guard isEnabled != network.isEnabled else { return }
        if !isEnabled { leaveIfCurrent(network) }
        network.rest = nil
        network.setEnabled(isEnabled)
        if isEnabled, state == .inactive || state == .disconnected || state == .scanning { findNetwork() }
    }

    private func select(_ network: SupplicantNetwork) {
        let isOther = current != nil && current?.network !== network
        if isOther { leave(reason: -3) }
        for other in networks { other.setEnabled(other === network) }
        (network.rest, network.failures) = (nil, 0)
        if current?.network === network, state == .completed || state.isJoining { return }
        // 2.10 does not signal this change of `CurrentNetwork`.
        current = (network, nil)
        findNetwork(after: isOther ? 0.1 : 0)
    }

    // MARK: Scanning

    override func scanBegan() { changed("Scanning") }

    override func scanEnded(isComplete: Bool) {
        changed("Scanning")
        emit("ScanDone", .boolean(isComplete))
        guard isSearching else { return }
        isSearching = false
        if !joinBest() { findNetwork(after: Self.scanInterval) }
    }

    override func makePoint(_ result: ScanResult) -> HeardPoint {
        numbers.bss += 1
        return SupplicantBSS(result, path.appending("BSSs")!.appending("\(numbers.bss)")!, air, bus)
    }

    override func pointsChanged(dropped: [HeardPoint]) {
        guard !isOver else { return }
        for bss in dropped { emit("BSSRemoved", .objectPath(bss.path)) }
        changed("BSSs")
    }

    // MARK: Joining

    /// Searches for an enabled network, with a scan unless the last one is fresh.
    private func findNetwork(after delay: Double = 0) {
        guard radio.isUsable, !isOver else { return }
        after(delay) { [unowned self] in search() }
    }

    private func search() {
        guard radio.isUsable, state != .completed, !state.isJoining else { return }
        let enabled = networks.filter(\.isEnabled)
        guard !enabled.isEmpty else {
            setCurrent(nil)
            return setState(.inactive)
        }
        if let lastScan, air.now - lastScan < Self.freshness, joinBest() { return }
        setState(.scanning)
        isSearching = true
        // The results of another client's scan are used, too; hidden networks are in the next one.
        _ = radio.startScan(enabled.filter(\.profile.isHidden).map(\.profile.ssid))
    }

    /// Joins the best access point of the last scan; false where none fits.
    private func joinBest() -> Bool {
        guard radio.isUsable, state != .completed, !state.isJoining else { return true }
        let choices = networks.filter { $0.isEnabled && ($0.rest ?? 0) <= air.now }
            .compactMap { network in best(network.profile.ssid) { network.method(for: $0) != nil }.map { (network, $0) } }
        guard let (network, bss) = choices.max(by: { $0.1.point.scenario.rssi < $1.1.point.scenario.rssi }) else { return false }
        join(network, bss)
        return true
    }

    private func join(_ network: SupplicantNetwork, _ bss: HeardPoint) {
        guard let method = network.method(for: bss.point.scenario) else { return }
        setCurrent(network)
        setState(method == .sae ? .authenticating : .associating)
        let (answer, delay) = bss.point.answer(network.profile.key)
        after(Self.step + delay) { [unowned self] in
            switch answer {
            case .silence: fail()
            case .refused:
                setCode("AssocStatusCode", 17)
                fail()
            case .wrongKey where method == .sae:
                setCode("AuthStatusCode", 15)
                fail()
            default: associate(network, bss, method, isKeyRight: answer != .wrongKey)
            }
        }
    }

    private func associate(_ network: SupplicantNetwork, _ bss: HeardPoint, _ method: SupplicantNetwork.Method, isKeyRight: Bool) {
        setState(.associating)
        after(Self.step) { [unowned self] in
            setCurrent(network, bss)
            setState(.associated)
            if method == .open { return complete(network) }
            after(Self.step) { [unowned self] in
                setState(.handshake)
                after(Self.step) { [unowned self] in isKeyRight ? complete(network) : rejectKey(network) }
            }
        }
    }

    private func complete(_ network: SupplicantNetwork) {
        guard current?.bss?.point.isHeard == true else { return linkLost() }
        network.failures = 0
        setState(.completed)
    }

    /// The access point has ended the handshake; the network rests for a while, longer each time.
    private func rejectKey(_ network: SupplicantNetwork) {
        network.failures += 1
        network.rest = air.now + (network.failures > 2 ? 30 : 10 * Double(network.failures))
        leave(reason: 15)
        findNetwork(after: 0.1)
    }

    private func fail() {
        setState(.disconnected)
        setCurrent(nil)
        lastScan = nil
        findNetwork(after: 0.1)
    }

    /// Ends the link, or the attempt.
    ///
    /// - Parameter reason: negative for this side's.
    private func leave(reason: Int32) {
        cancelNext()
        isSearching = false
        if current?.bss != nil { setCode("DisconnectReason", reason) }
        if state != .inactive, state != .disabled { setState(.disconnected) }
        setCurrent(nil)
    }
}

/// An access point with the ciphers of its kind of security.
private final class SupplicantBSS: HeardPoint {
    init(_ result: ScanResult, _ path: ObjectPath, _ air: WiFiAir, _ bus: ServiceBus) {
        super.init(result, path, air)
        let scenario = result.point.scenario
        let keys: [String] =
            switch scenario.security {
            case .open, .wep, .wpa: []
            case .wpa2: ["wpa-psk"]
            case .wpa3: ["sae"]
            case .transition: ["wpa-psk", "sae"]
            case .enterprise: ["wpa-eap"]
            }
        interfaces = [
            bus.interface(
                SimulatedSupplicant.bss,
                [
                    "SSID": { .bytes(result.ssid) },
                    "Privacy": { .boolean(scenario.security != .open) },
                    "Signal": { .int16(Int16(clamping: scenario.rssi)) },
                    "Frequency": { .uint16(UInt16(clamping: scenario.frequency)) },
                    "WPA": { .vardict(["KeyMgmt": .strings(scenario.security == .wpa ? ["wpa-psk"] : [])]) },
                    "RSN": { .vardict(["KeyMgmt": .strings(keys)]) },
                    "Age": { [unowned self] in .uint32(UInt32(air.now - lastHeard)) },
                ])
        ]
    }
}
