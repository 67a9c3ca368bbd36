// SPDX-License-Identifier: Apache-2.0
// A simulated device object: its last adverts, its link, its bond, and its GATT server while it is connected.

internal import AccessoryModel
internal import DBusKit

final class SimulatedDevice: ExportedObject {
    let path: ObjectPath
    let accessory: AirAccessory
    unowned let adapter: SimulatedAdapter
    /// The adapter's key for this object.
    var key: String
    private(set) var interfaces: [ExportedInterface] = []
    private var address: BluetoothAddress
    private var adverts: HeardAdverts
    private var settings = Settings()
    private var link = Link()
    private var pairing: SimulatedPairing?
    let requests: SimulatedRequests

    /// The properties that clients write.
    private struct Settings {
        var alias: String?
        var isTrusted = false
        var isBlocked = false
        var preferredBearer = "last-used"
    }

    private struct Link {
        var isUp = false
        /// Keys that last as long as the link.
        var hasKeys = false
        /// A link that is being established, or about to be refused, and the call that waits for it.
        var pending: (source: LoopSource, completion: (BusError?) -> Void)?
        var gatt: SimulatedGATT?
    }

    var isConnected: Bool { link.isUp }
    var lastHeard: Double { adverts.lastHeard }
    private var bluez: SimulatedBlueZ { adapter.bluez }
    /// The object of a previous address has no part in the bond.
    var isBonded: Bool { key == accessory.scenario.id && accessory.bonds.contains(adapter.address) }
    var isTemporary: Bool { !isBonded }
    var isPaired: Bool { isBonded || link.hasKeys }

    /// Paired over low energy only, BlueZ takes `Pair()` for the other transport, whether the accessory has one or not.
    private var needsClassicBond: Bool {
        accessory.scenario.transport != .bredr && !accessory.classicBonds.contains(adapter.address)
    }

    /// How long a link takes to come up.
    private static let connectTime = Duration.milliseconds(50)

    init(_ accessory: AirAccessory, _ adapter: SimulatedAdapter) {
        self.accessory = accessory
        self.adapter = adapter
        requests = SimulatedRequests(adapter.bluez.loop)
        key = accessory.scenario.id
        // A stored device has its identity address, another one its present address.
        address = accessory.bonds.contains(adapter.address) ? accessory.scenario.address : accessory.airAddress
        adverts = HeardAdverts(name: accessory.storedName, at: adapter.bluez.air.now)
        let element = "dev_" + String(address.description.map { $0 == ":" ? "_" : $0 })
        path = adapter.path.appending(element) ?? adapter.path
        interfaces = [makeInterface()]
    }

    func isVisible(to caller: String) -> Bool { true }

    private func makeInterface() -> ExportedInterface {
        var device = ExportedInterface(adapter.bluez.descriptions[Interfaces.device]!)
        device.property("Address") { [unowned self] _ in .string(address.description) }
        device.property("AddressType") { [unowned self] _ in .string(address.kind.rawValue) }
        device.property("Name") { [unowned self] _ in adverts.name.map { .string($0) } }
        device.property("Alias") { [unowned self] _ in
            .string(settings.alias ?? adverts.name ?? String(address.description.map { $0 == ":" ? "-" : $0 }))
        }
        device.property("Paired") { [unowned self] _ in .boolean(isPaired) }
        device.property("Bonded") { [unowned self] _ in .boolean(isBonded) }
        device.property("Trusted") { [unowned self] _ in .boolean(settings.isTrusted) }
        device.property("Blocked") { [unowned self] _ in .boolean(settings.isBlocked) }
        device.property("LegacyPairing") { [unowned self] _ in .boolean(accessory.scenario.pairing.isLegacy) }
        device.property("Connected") { [unowned self] _ in .boolean(isConnected) }
        device.property("ServicesResolved") { [unowned self] _ in .boolean(link.gatt != nil) }
        device.property("Adapter") { [unowned self] _ in .objectPath(adapter.path) }
        for name in HeardAdverts.properties { device.property(name) { [unowned self] _ in adverts.value(name) } }
        // As with bluetoothd's experimental interfaces.
        device.property("PreferredBearer") { [unowned self] _ in
            accessory.scenario.transport == .dual ? .string(settings.preferredBearer) : nil
        }
        device.writable("PreferredBearer") { [unowned self] value, _ in
            settings.preferredBearer = value.stringValue ?? settings.preferredBearer
            changed("PreferredBearer")
        }
        device.writable("Alias") { [unowned self] value, _ in
            settings.alias = value.stringValue.flatMap { $0.isEmpty ? nil : $0 }
            changed("Alias")
        }
        device.writable("Trusted") { [unowned self] value, _ in
            settings.isTrusted = value.booleanValue ?? false
            changed("Trusted")
        }
        device.writable("Blocked") { [unowned self] value, _ in
            settings.isBlocked = value.booleanValue ?? false
            changed("Blocked")
        }
        device.method("Connect") { [unowned self] call throws(BusError) in
            try adapter.needsPower()
            guard !isConnected else { return call.reply() }
            // `device_connect_le` and `connect_profiles` in device.c. Since 5.82 it is `InProgress` over low energy,
            // too.
            guard link.pending == nil else {
                throw accessory.scenario.transport == .bredr
                    ? .bluez("InProgress", "br-connection-busy") : .bluez("Failed", "Operation already in progress")
            }
            connect { error in
                if let error { call.fail(error) } else { call.reply() }
            }
        }
        device.method("Disconnect") { [unowned self] call throws(BusError) in
            // A pending `Connect` is answered; without a link the call succeeds. (`device_request_disconnect`
            // in device.c)
            abandonConnecting()
            guard isConnected else {
                pairing?.fail(.bluez("AuthenticationCanceled", "Authentication Canceled"))
                return call.reply()
            }
            // BlueZ answers between the end of the services and that of the link.
            servicesGone()
            call.reply()
            linkLost(.local, signalledAfter: .milliseconds(5))
        }
        device.method("Pair") { [unowned self] call throws(BusError) in
            try adapter.needsPower()
            guard !isBonded || needsClassicBond else { throw .bluez("AlreadyExists", "Already Exists") }
            guard pairing == nil else { throw .bluez("InProgress", "Operation already in progress") }
            guard link.pending == nil else { throw .bluez("Failed", "Operation already in progress") }
            pair(call)
        }
        device.method("CancelPairing") { [unowned self] call throws(BusError) in
            if let pairing {
                pairing.fail(.bluez("AuthenticationCanceled", "Authentication Canceled"))
            } else if isBonded {
                // As BlueZ does it: without a pairing to cancel, the bond goes.
                unbond()
            } else {
                throw .bluez("DoesNotExist", "Does Not Exist")
            }
            call.reply()
        }
        return device
    }

    func changed(_ names: String...) { changed(names) }

    private func changed(_ names: [String]) {
        bluez.server.propertiesChanged(self, Interfaces.device, names, to: .everybody)
    }

    // MARK: Adverts

    /// The advert that makes the object: its properties travel with `InterfacesAdded`.
    func firstHeard(_ advert: Scenario.Advert) {
        _ = adverts.hear(advert.payload, rssi: adapter.strength(advert), duplicates: false, at: bluez.air.now)
    }

    func hear(_ payload: Scenario.Payload, rssi: Int?, duplicates: Bool) {
        var names = adverts.hear(payload, rssi: rssi, duplicates: duplicates, at: bluez.air.now)
        if names.contains("Name"), settings.alias == nil { names.append("Alias") }
        if !names.isEmpty { changed(names) }
    }

    /// Discovery ended: the signal strength is no longer known.
    func silence() {
        if adverts.silence() { changed("RSSI") }
    }

    // MARK: The link

    /// Connects after the time a link takes.
    func connect(_ completion: @escaping (BusError?) -> Void) {
        connecting(completion) { [unowned self] in
            guard isKnown(by: accessory.airAddress), accessory.isAdvertising, accessory.scenario.isConnectable else {
                return completion(.bluez("Failed", "le-connection-abort-by-local"))
            }
            if isBonded, accessory.forgottenBonds.contains(adapter.address) { return refuseKeys(completion) }
            linkUp()
            completion(nil)
        }
    }

    private func connecting(_ completion: @escaping (BusError?) -> Void, then body: @escaping () -> Void) {
        let source = bluez.loop.after(Self.connectTime) { [weak self] in
            self?.link.pending = nil
            if self != nil { body() }
        }
        link.pending = (source, completion)
    }

    /// The link comes up, cannot be encrypted, and ends. bluetoothd keeps the bond.
    private func refuseKeys(_ completion: @escaping (BusError?) -> Void) {
        link.isUp = true
        accessory.connectedTo = adapter.name
        changed("Connected")
        connecting(completion) { [unowned self] in
            linkLost(.authentication)
            completion(.bluez("Failed", "le-connection-abort-by-local"))
        }
    }

    private func abandonConnecting() {
        guard let (source, completion) = link.pending else { return }
        link.pending = nil
        source.cancel()
        completion(.bluez("Failed", "br-connection-canceled"))
    }

    private func linkUp() {
        guard !isConnected else { return }
        link.isUp = true
        accessory.connectedTo = adapter.name
        changed("Connected")
        let gatt = SimulatedGATT(self, bluez)
        link.gatt = gatt
        if let delay = accessory.scenario.gatt.lateServices {
            bluez.loop.after(.seconds(delay)) { [weak self, weak gatt] in
                if let gatt, self?.link.gatt === gatt { gatt.export() }
            }
        } else {
            gatt.export()
        }
        if !accessory.scenario.gatt.services.isEmpty { adverts.resolve(Set(accessory.scenario.gatt.services.map(\.uuid))) }
        changed("UUIDs", "ServicesResolved")
        showBattery()
        if accessory.scenario.isInput, isPaired { bluez.air.input.add(accessory) }
    }

    /// Why a link ended, in BlueZ' words (org.bluez.Device, `Disconnected`).
    enum LinkEnd: String {
        case timeout = "Timeout"
        case local = "Local"
        case remote = "Remote"
        case authentication = "Authentication"

        fileprivate var arguments: [DBusValue] {
            let text =
                switch self {
                case .timeout: "Connection timeout"
                case .local: "Connection terminated by local host"
                case .remote: "Connection terminated by remote user"
                case .authentication: "Connection terminated due to authentication failure"
                }
            return [.string("org.bluez.Reason.\(rawValue)"), .string(text)]
        }
    }

    /// The link is down.
    ///
    /// - Parameter pause: before `Connected` changes.
    func linkLost(_ end: LinkEnd, signalledAfter pause: Duration? = nil) {
        pairing?.fail(.bluez("AuthenticationCanceled", "Authentication Canceled"))
        // Out of range, a link that is coming up times out later.
        if isConnected || end == .local || end == .authentication { abandonConnecting() }
        guard isConnected else { return }
        link.isUp = false
        accessory.connectedTo = nil
        bluez.air.input.remove(accessory)
        servicesGone()
        hideBattery()
        bluez.server.emit(path: path, interface: Interfaces.device, member: "Disconnected", to: nil, end.arguments)
        guard let pause else { return signalLost() }
        bluez.loop.after(pause) { [weak self] in self?.signalLost() }
    }

    private func servicesGone() {
        guard let gatt = link.gatt else { return }
        gatt.withdraw()
        link.gatt = nil
        changed("ServicesResolved")
    }

    private func signalLost() {
        changed("Connected")
        guard link.hasKeys else { return }
        link.hasKeys = false
        changed("Paired")
    }

    /// BlueZ adds an interface once it has read the battery, and removes it with the link.
    private func showBattery() {
        guard let percentage = accessory.scenario.battery, interfaces.count == 1 else { return }
        var battery = ExportedInterface(bluez.descriptions[Interfaces.battery]!)
        battery.property("Percentage") { _ in .byte(percentage) }
        interfaces.append(battery)
        bluez.server.emit(
            path: "/", interface: Bus.objectManager, member: "InterfacesAdded", to: nil,
            [
                .objectPath(path),
                .dictionary(
                    key: "s", value: "a{sv}",
                    [.init(.string(Interfaces.battery), .vardict(["Percentage": .byte(percentage)]))]),
            ])
    }

    private func hideBattery() {
        guard interfaces.count > 1 else { return }
        interfaces.removeLast()
        bluez.server.emit(
            path: "/", interface: Bus.objectManager, member: "InterfacesRemoved", to: nil,
            [.objectPath(path), .strings([Interfaces.battery])])
    }

    /// The accessory reports that its services have changed.
    func servicesChanged() { link.gatt?.replace() }

    func clientGone(_ client: String) {
        link.gatt?.clientGone(client)
        // A pairing ends with the client that requested it.
        if let pairing, pairing.client == client {
            linkLost(.local)
        }
    }

    func end() {
        linkLost(.local)
    }

    // MARK: The bond

    private func pair(_ call: MethodCall) {
        if isBonded { return pairClassic(call) }
        let pairing = SimulatedPairing(self, call, bluez)
        self.pairing = pairing
        pairing.completion = { [weak self] error in
            guard let self else { return }
            self.pairing = nil
            if error == nil {
                self.bond()
            } else {
                // The kernel drops the link of a pairing that failed, and bluetoothd 5.66 forgets the UUIDs until the
                // object goes.
                self.bluez.loop.soon { [weak self] in
                    guard let self, !self.isPaired else { return }
                    self.linkLost(.authentication)
                    self.adverts.loseUUIDs()
                    self.changed("UUIDs")
                }
            }
        }
        bluez.onPairingStarted?(accessory)
        pairing.begin()
    }

    private func pairClassic(_ call: MethodCall) {
        guard accessory.scenario.transport == .dual else {
            return call.fail(.bluez("ConnectionAttemptFailed", "br-connection-page-timeout"))
        }
        let pairing = SimulatedPairing(self, call, bluez)
        self.pairing = pairing
        pairing.completion = { [weak self] error in
            guard let self else { return }
            self.pairing = nil
            if error == nil { self.accessory.classicBonds.insert(self.adapter.address) }
        }
        pairing.begin()
    }

    private func bond() {
        guard accessory.scenario.pairing.keepsKeys else {
            link.hasKeys = true
            return changed("Paired")
        }
        accessory.bonds.insert(adapter.address)
        accessory.forgottenBonds.remove(adapter.address)
        if accessory.scenario.crossesTransports { accessory.classicBonds.insert(adapter.address) }
        accessory.storedName = adverts.name
        let identity = accessory.scenario.address
        if identity != address {
            address = identity
            changed("Address", "AddressType")
        }
        changed("Bonded", "Paired")
        if accessory.scenario.isInput, isConnected { bluez.air.input.add(accessory) }
    }

    func unbond() {
        guard accessory.bonds.remove(adapter.address) != nil else { return }
        accessory.forgottenBonds.remove(adapter.address)
        accessory.classicBonds.remove(adapter.address)
        bluez.air.input.remove(accessory)
        accessory.storedName = nil
        changed("Bonded", "Paired")
    }

    /// Whether an advert from this address is from this device: a bond resolves private addresses, and a link stays.
    func isKnown(by address: BluetoothAddress) -> Bool { isPaired || isConnected || self.address == address }
}
