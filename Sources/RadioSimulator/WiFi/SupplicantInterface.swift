// SPDX-License-Identifier: Apache-2.0
// An interface of wpa_supplicant: it scans, keeps what it heard, and goes from state to state towards one of its
// enabled networks.

internal import DBusKit

final class SupplicantInterface: ExportedObject, RadioListener {
    let path: ObjectPath
    let radio: Radio
    let bus: ServiceBus
    private(set) var interfaces: [ExportedInterface] = []
    private(set) var networks: [Int: SupplicantNetwork] = [:]
    private(set) var aware: SupplicantAware!
    private var table: [String: SupplicantBSS] = [:]
    private var nextNetwork = 0
    private var nextBSS = 0
    private var state = State.inactive
    /// The network that it is joined to, joins, or was told to join.
    private var current: SupplicantNetwork?
    private var currentBSS: SupplicantBSS?
    /// Told to disconnect: nothing is joined until somebody asks.
    private var isHeld = false
    /// Found networks are joined once the running scan ends.
    private var wantsResults = false
    /// Another scan follows the running one.
    private var wantsScan = false
    /// A moment of the air, in seconds.
    private var lastScan: Double?
    private var disconnectReason: Int32 = 0
    private var authenticationStatus: Int32 = 0
    private var associationStatus: Int32 = 0
    private var timer: LoopSource?
    private var isOver = false

    enum State: String {
        case inactive, disconnected, scanning, authenticating, associating, associated, completed
        case handshake = "4way_handshake"
        case disabled = "interface_disabled"

        var isJoining: Bool { [.authenticating, .associating, .associated, .handshake].contains(self) }
    }

    /// Between two messages of a join.
    private static let step = 0.02
    /// Between two scans for a network that is not there; the real one's default is 5 s.
    private static let scanInterval = 1.0
    /// Results this young are used without another scan, as in `wpa_supplicant_fast_associate`.
    private static let freshness = 5.0

    init(_ radio: Radio, _ number: Int, _ supplicant: SimulatedSupplicant) {
        self.radio = radio
        bus = supplicant.bus
        path = SimulatedSupplicant.path.appending("Interfaces")!.appending("\(number)")!
        aware = SupplicantAware(self, loop: radio.air.loop)
        var description = bus.interface(SupplicantXML.interface)
        for name in values.keys { description.property(name) { [unowned self] _ in values[name] } }
        describeMethods(&description)
        if radio.air.wifi.isAware { aware.describe(&description) }
        interfaces = [description]
    }

    func isVisible(to caller: String) -> Bool { true }

    private func describeMethods(_ description: inout ExportedInterface) {
        description.method("Scan") { [unowned self] call throws(BusError) in
            let names = try Self.scanNames(call.arguments[0])
            if !radio.startScan(names) {
                // A passive one waits for its turn.
                let isPassive = call.arguments[0].vardictValue?["Type"]?.stringValue == "passive"
                guard isPassive, radio.isScanning else { throw SupplicantError.scan() }
                wantsScan = true
            }
            call.reply()
        }
        description.method("AddNetwork") { [unowned self] call throws(BusError) in
            let network = SupplicantNetwork(nextNetwork, self)
            try network.set(call.arguments[0])
            nextNetwork += 1
            add(network)
            call.reply(.objectPath(network.path))
        }
        description.method("RemoveNetwork") { [unowned self] call throws(BusError) in
            remove(try network(call))
            call.reply()
        }
        description.method("RemoveAllNetworks") { [unowned self] call throws(BusError) in
            for network in networks.values.sorted(by: { $0.number < $1.number }) { remove(network) }
            call.reply()
        }
        description.method("SelectNetwork") { [unowned self] call throws(BusError) in
            select(try network(call))
            call.reply()
        }
        description.method("Disconnect") { [unowned self] call throws(BusError) in
            guard current != nil else { throw SupplicantError.named("NotConnected", "This interface is not connected") }
            isHeld = true
            leave(reason: -3)
            call.reply()
        }
        for name in ["Reassociate", "Reconnect"] {
            description.method(name) { [unowned self] call throws(BusError) in
                guard state != .disabled else { throw SupplicantError.named("InterfaceDisabled", "This interface is disabled") }
                guard name == "Reassociate" || isHeld else {
                    throw SupplicantError.named("NotConnected", "This interface is not disconnected")
                }
                isHeld = false
                if state == .completed, let current, let currentBSS {
                    join(current, currentBSS)
                } else if !state.isJoining {
                    findNetwork()
                }
                call.reply()
            }
        }
    }

    private static func scanNames(_ arguments: DBusValue) throws(BusError) -> [[UInt8]] {
        let values = arguments.vardictValue ?? [:]
        let known: Set = ["Type", "SSIDs", "IEs", "Channels", "AllowRoam", "NonColoc6GHz", "6GHzOnly"]
        if let unknown = values.keys.sorted().first(where: { !known.contains($0) }) {
            throw SupplicantError.invalidArguments(unknown)
        }
        if let roam = values["AllowRoam"], roam.booleanValue == nil {
            throw SupplicantError.invalidArguments("Wrong Type value type. Boolean required")
        }
        var names: [[UInt8]] = []
        if let value = values["SSIDs"] {
            // The real one refuses an empty list too: it looks for the first element's type.
            guard value.signature == "aay", let list = value.arrayValue?.compactMap(\.bytesValue), !list.isEmpty else {
                throw SupplicantError.invalidArguments("Wrong SSIDs value type. Array of arrays of bytes required")
            }
            guard list.count <= 4 else { throw SupplicantError.invalidArguments("Too many ssids specified. Specify at most four") }
            guard list.allSatisfy({ $0.count <= 32 }) else { throw SupplicantError.invalidArguments("Invalid SSID: too long") }
            names = list
        }
        switch values["Type"]?.stringValue {
        case "active": return names
        case "passive":
            guard names.isEmpty else { throw SupplicantError.invalidArguments("You can specify only Channels in passive scan") }
            return []
        case nil: throw SupplicantError.invalidArguments("Type")
        default: throw SupplicantError.invalidArguments("Wrong scan type")
        }
    }

    private func network(_ call: MethodCall) throws(BusError) -> SupplicantNetwork {
        let wanted = call.arguments[0].objectPathValue ?? "/"
        guard wanted.isBelow(path.appending("Networks")!) else { throw SupplicantError.invalidArguments(wanted.rawValue) }
        guard let network = networks.values.first(where: { $0.path == wanted }) else { throw SupplicantError.unknownNetwork }
        return network
    }

    // MARK: Life

    func begin() {
        radio.listen(self)
        if let uplink = radio.air.uplinks.first(where: { $0.interface == radio.name }) {
            networks[nextNetwork] = SupplicantNetwork(nextNetwork, self, uplink)
            bus.server.export(networks[nextNetwork]!)
            nextNetwork += 1
        }
        if !radio.isUsable {
            state = .disabled
        } else if let point = radio.air.uplinkPoint(of: radio), let network = networks.values.first,
            network.method(for: point.scenario) != nil
        {
            current = network
            currentBSS = hear(Sighting(point: point, ssid: point.scenario.ssid))
            state = .completed
            changed("CurrentNetwork", "CurrentBSS", "State", "Networks", "BSSs")
        } else {
            findNetwork()
        }
    }

    func end() {
        isOver = true
        timer?.cancel()
        radio.stopListening(self)
        for network in networks.values { bus.server.withdraw(network.path) }
        for bss in table.values { bus.server.withdraw(bss.path) }
    }

    func blockedChanged() {
        if radio.isUsable {
            setState(.disconnected)
            findNetwork()
        } else {
            leave(reason: -3)
            setState(.disabled)
        }
    }

    func pointGone(_ point: AirAccessPoint) {
        guard currentBSS?.point === point, state == .completed || state == .associated || state == .handshake else { return }
        // Beacons are missed: the kernel ends the link for inactivity.
        leave(reason: -4)
        findNetwork(after: 0.1)
    }

    var joined: [UInt8]? { state == .completed ? current?.ssid : nil }

    // MARK: Telling

    var values: [String: DBusValue] {
        [
            "Capabilities": Self.capabilities,
            "State": .string(state.rawValue),
            "Scanning": .boolean(radio.isScanning),
            "ApScan": .uint32(1),
            "Ifname": .string(radio.name),
            "Driver": .string("nl80211"),
            "CurrentBSS": .objectPath(currentBSS?.path ?? "/"),
            "CurrentNetwork": .objectPath(current?.path ?? "/"),
            "BSSs": .objectPaths(table.values.map(\.path).sorted()),
            "Networks": .objectPaths(networks.values.map(\.path).sorted()),
            "DisconnectReason": .int32(disconnectReason),
            "AuthStatusCode": .int32(authenticationStatus),
            "AssocStatusCode": .int32(associationStatus),
        ]
    }

    private static let capabilities = DBusValue.vardict([
        "Pairwise": .strings(["ccmp", "tkip"]), "Group": .strings(["ccmp", "tkip"]), "GroupMgmt": .strings(["aes-128-cmac"]),
        "KeyMgmt": .strings(["none", "wpa-psk", "wpa-eap", "wpa-psk-sha256", "sae"]), "Protocol": .strings(["rsn", "wpa"]),
        "AuthAlg": .strings(["open", "shared"]), "Scan": .strings(["active", "passive", "ssid"]),
        "Modes": .strings(["infrastructure", "ad-hoc", "ap"]), "MaxScanSSID": .int32(4),
    ])

    /// Tells it twice, as the real one: by the standard signal and by the interface's own, older one.
    func changed(_ object: any ExportedObject, _ interface: String, _ names: [String]) {
        bus.changed(object, interface, names)
        let all = (object as? SupplicantInterface)?.values ?? (object as? SupplicantNetwork)?.values ?? [:]
        bus.emit(object.path, interface, "PropertiesChanged", .vardict(all.filter { names.contains($0.key) }))
    }

    private func changed(_ names: String...) { changed(self, SupplicantXML.interface, names) }

    func emit(_ member: String, _ arguments: DBusValue...) {
        bus.server.emit(path: path, interface: SupplicantXML.interface, member: member, to: nil, arguments)
    }

    private func setState(_ state: State) {
        guard state != self.state else { return }
        self.state = state
        changed("State")
    }

    private func setCurrent(_ network: SupplicantNetwork?, _ bss: SupplicantBSS?) {
        if network !== current {
            current = network
            changed("CurrentNetwork")
        }
        if bss !== currentBSS {
            currentBSS = bss
            changed("CurrentBSS")
        }
    }

    // MARK: Networks

    private func add(_ network: SupplicantNetwork) {
        networks[network.number] = network
        bus.server.export(network)
        emit("NetworkAdded", .objectPath(network.path), .vardict(network.values))
        changed("Networks")
    }

    private func remove(_ network: SupplicantNetwork) {
        networks[network.number] = nil
        bus.server.withdraw(network.path)
        emit("NetworkRemoved", .objectPath(network.path))
        changed("Networks")
        leaveIfCurrent(network)
    }

    private func leaveIfCurrent(_ network: SupplicantNetwork) {
        guard network === current else { return }
        leave(reason: -3)
        if !isHeld { findNetwork(after: 0.1) }
    }

    /// `Enabled` was written. After `Disconnect()` that joins nothing, as in the real one.
    func enable(_ network: SupplicantNetwork, _ isEnabled: Bool) {
        guard isEnabled != network.isEnabled else { return }
        if !isEnabled { leaveIfCurrent(network) }
        network.notBefore = nil
        network.setEnabled(isEnabled)
        if isEnabled, !isHeld, state == .inactive || state == .disconnected || state == .scanning { findNetwork() }
    }

    private func select(_ network: SupplicantNetwork) {
        let isOther = current != nil && current !== network
        if isOther { leave(reason: -3) }
        for other in networks.values.sorted(by: { $0.number < $1.number }) { other.setEnabled(other === network) }
        network.notBefore = nil
        network.failures = 0
        isHeld = false
        if current === network, state == .completed || state.isJoining { return }
        // Wpa_supplicant 2.10 does not tell of this change of `CurrentNetwork`.
        current = network
        setCurrent(network, nil)
        emit("NetworkSelected", .objectPath(network.path))
        findNetwork(after: isOther ? 0.1 : 0)
    }

    // MARK: Scanning

    func scanBegan() { changed("Scanning") }

    func scanEnded(_ sightings: [Sighting]?) {
        guard !isOver else { return }
        changed("Scanning")
        if let sightings { update(sightings) }
        emit("ScanDone", .boolean(sightings != nil))
        if wantsScan {
            wantsScan = false
            _ = radio.startScan([])
        }
        guard wantsResults else { return }
        wantsResults = false
        if !joinBest() { findNetwork(after: Self.scanInterval) }
    }

    private func update(_ sightings: [Sighting]) {
        lastScan = radio.air.now
        for bss in table.values { bss.misses += 1 }
        let before = table.count
        for sighting in sightings { hear(sighting) }
        var isChanged = table.count != before
        for (key, bss) in table where bss.misses >= 2 && bss !== currentBSS {
            table[key] = nil
            bus.server.withdraw(bss.path)
            emit("BSSRemoved", .objectPath(bss.path))
            isChanged = true
        }
        if isChanged { changed("BSSs") }
    }

    @discardableResult
    private func hear(_ sighting: Sighting) -> SupplicantBSS {
        let key = "\(sighting.point.scenario.bssid) \(sighting.ssid)"
        if let bss = table[key] {
            bss.seen()
            return bss
        }
        let bss = SupplicantBSS(sighting, path.appending("BSSs")!.appending("\(nextBSS)")!, bus, radio.air)
        nextBSS += 1
        table[key] = bss
        bus.server.export(bss)
        emit("BSSAdded", .objectPath(bss.path), .vardict(bss.values))
        return bss
    }

    // MARK: Joining

    private func after(_ delay: Double, _ body: @escaping (SupplicantInterface) -> Void) {
        timer?.cancel()
        timer = radio.air.loop.after(.seconds(delay)) { [weak self] in
            guard let self, !self.isOver else { return }
            body(self)
        }
    }

    /// Looks for an enabled network, with a scan unless the last one is fresh.
    private func findNetwork(after delay: Double = 0) {
        guard !isHeld, radio.isUsable, !isOver else { return }
        after(delay) { $0.search() }
    }

    private func search() {
        guard !isHeld, radio.isUsable, state != .completed, !state.isJoining else { return }
        let enabled = networks.values.filter(\.isEnabled)
        guard !enabled.isEmpty else {
            setCurrent(nil, nil)
            return setState(.inactive)
        }
        if let lastScan, radio.air.now - lastScan < Self.freshness, joinBest() { return }
        setState(.scanning)
        wantsResults = true
        // While somebody else's scan runs, its results do, except for hidden networks; those get the next scan.
        _ = radio.startScan(enabled.filter(\.scansForSSID).map(\.ssid))
    }

    /// Joins the best access point of the last scan; false when none fits.
    private func joinBest() -> Bool {
        guard !isHeld, radio.isUsable else { return true }
        guard state != .completed, !state.isJoining else { return true }
        let now = radio.air.now
        let choices = networks.values.filter { $0.isEnabled && ($0.notBefore.map { $0 <= now } ?? true) }.flatMap { network in
            table.values.filter { $0.misses == 0 && $0.ssid == network.ssid && network.method(for: $0.point.scenario) != nil }
                .map { (network, $0) }
        }
        let best = choices.max { a, b in
            (a.0.priority, a.1.point.scenario.rssi, b.0.number) < (b.0.priority, b.1.point.scenario.rssi, a.0.number)
        }
        guard let best else { return false }
        join(best.0, best.1)
        return true
    }

    private func join(_ network: SupplicantNetwork, _ bss: SupplicantBSS) {
        guard let method = network.method(for: bss.point.scenario) else { return }
        if case .sae = method {
            setCurrent(network, nil)
            setState(.authenticating)
        } else {
            setCurrent(network, nil)
            setState(.associating)
        }
        let (answer, delay) = bss.point.answer(method.key)
        after(Self.step + delay) { interface in interface.answered(answer, method, network, bss) }
    }

    private func answered(
        _ answer: AirAccessPoint.Answer, _ method: SupplicantNetwork.Method, _ network: SupplicantNetwork, _ bss: SupplicantBSS
    ) {
        switch answer {
        case .silence: return fail()
        case .refused:
            associationStatus = 17
            changed("AssocStatusCode")
            return fail()
        case .wrongKey:
            if case .sae = method {
                authenticationStatus = 15
                changed("AuthStatusCode")
                network.failures += 1
                return fail()
            }
        case .accepted, .noAddress, .displaced: break
        }
        if case .sae = method { setState(.associating) }
        after(Self.step) { interface in
            interface.setCurrent(network, bss)
            interface.setState(.associated)
            if case .open = method { return interface.complete(network) }
            interface.after(Self.step) { interface in
                interface.setState(.handshake)
                interface.after(Self.step) { interface in
                    if answer == .wrongKey { interface.rejectKey(network) } else { interface.complete(network) }
                }
            }
        }
    }

    private func complete(_ network: SupplicantNetwork) {
        guard currentBSS?.point.isHeard == true else {
            leave(reason: -4)
            return findNetwork(after: 0.1)
        }
        network.failures = 0
        setState(.completed)
    }

    /// The access point ended the handshake; the network rests for a while, longer each time.
    private func rejectKey(_ network: SupplicantNetwork) {
        network.failures += 1
        network.notBefore = radio.air.now + (network.failures > 2 ? 30 : 10 * Double(network.failures))
        leave(reason: 15)
        findNetwork(after: 0.1)
    }

    private func fail() {
        setState(.disconnected)
        setCurrent(nil, nil)
        lastScan = nil
        findNetwork(after: 0.1)
    }

    /// Ends the link, or the attempt. Reasons of our own are negative.
    private func leave(reason: Int32) {
        timer?.cancel()
        wantsResults = false
        let wasLinked = currentBSS != nil
        if wasLinked {
            disconnectReason = reason
            changed("DisconnectReason")
        }
        if state != .inactive, state != .disabled { setState(.disconnected) }
        setCurrent(nil, nil)
    }
}
