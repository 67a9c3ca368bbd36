// SPDX-License-Identifier: Apache-2.0
// A simulated device object: its last adverts, its link, its bond, and its GATT server while it is connected.

internal import AccessoryModel
internal import DBusKit

final class SimulatedDevice: ExportedObject {
    let path: ObjectPath
    let accessory: AirAccessory
    unowned let adapter: SimulatedAdapter
    /// By which the adapter has it.
    var key: String
    private(set) var interfaces: [ExportedInterface] = []
    private(set) var lastHeard: Double
    private(set) var isConnected = false
    private var address: BluetoothAddress
    private var advertisedName: String?
    private var alias: String?
    private var uuids: Set<BluetoothUUID> = []
    /// The resolved services, which BlueZ then lists in place of the advertised ones. (`dev_property_get_uuids` in
    /// device.c)
    private var resolved: Set<BluetoothUUID>?
    private var serviceData: [BluetoothUUID: [UInt8]] = [:]
    private var manufacturerData: [CompanyIdentifier: [UInt8]] = [:]
    private var rssi: Int?
    private var txPower: Int?
    private var hasLostUUIDs = false
    private var isTrusted = false
    private var isBlocked = false
    private var pairing: SimulatedPairing?
    /// A link that is coming up, or about to be refused, and the call that waits for it.
    private var connecting: (source: LoopSource, completion: (BusError?) -> Void)?
    private var gatt: SimulatedGATT?
    let requests: SimulatedRequests

    private var bluez: SimulatedBlueZ { adapter.bluez }
    /// The object of a previous address has no part in the bond.
    var isBonded: Bool { key == accessory.scenario.id && accessory.bonds.contains(adapter.address) }
    var isTemporary: Bool { !isBonded }
    /// With keys that last as long as the link.
    private var hasKeysForNow = false
    private var preferredBearer = "last-used"
    var isPaired: Bool { isBonded || hasKeysForNow }

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
        lastHeard = adapter.bluez.air.now
        advertisedName = accessory.storedName
        let element = "dev_" + String(address.description.map { $0 == ":" ? "_" : $0 })
        path = adapter.path.appending(element) ?? adapter.path
        interfaces = [makeInterface()]
    }

    func isVisible(to caller: String) -> Bool { true }

    private func makeInterface() -> ExportedInterface {
        var device = ExportedInterface(adapter.bluez.descriptions[Interfaces.device]!)
        device.property("Address") { [unowned self] _ in .string(address.description) }
        device.property("AddressType") { [unowned self] _ in .string(address.kind.rawValue) }
        device.property("Name") { [unowned self] _ in advertisedName.map { .string($0) } }
        device.property("Alias") { [unowned self] _ in
            .string(alias ?? advertisedName ?? String(address.description.map { $0 == ":" ? "-" : $0 }))
        }
        device.property("Paired") { [unowned self] _ in .boolean(isPaired) }
        device.property("Bonded") { [unowned self] _ in .boolean(isBonded) }
        device.property("Trusted") { [unowned self] _ in .boolean(isTrusted) }
        device.property("Blocked") { [unowned self] _ in .boolean(isBlocked) }
        device.property("LegacyPairing") { [unowned self] _ in .boolean(accessory.scenario.pairing.isLegacy) }
        device.property("Connected") { [unowned self] _ in .boolean(isConnected) }
        device.property("ServicesResolved") { [unowned self] _ in .boolean(gatt != nil) }
        device.property("Adapter") { [unowned self] _ in .objectPath(adapter.path) }
        device.property("UUIDs") { [unowned self] _ in
            .strings((resolved ?? uuids).sorted().map(\.description))
        }
        device.property("RSSI") { [unowned self] _ in rssi.map { .int16(Int16(clamping: $0)) } }
        device.property("TxPower") { [unowned self] _ in txPower.map { .int16(Int16(clamping: $0)) } }
        device.property("ServiceData") { [unowned self] _ in
            serviceData.isEmpty
                ? nil
                : .dictionary(
                    key: "s", value: "v",
                    serviceData.sorted { $0.key < $1.key }.map { .init(.string($0.key.description), .variant(.bytes($0.value))) })
        }
        device.property("ManufacturerData") { [unowned self] _ in
            manufacturerData.isEmpty
                ? nil
                : .dictionary(
                    key: "q", value: "v",
                    manufacturerData.sorted { $0.key < $1.key }.map { .init(.uint16($0.key.value), .variant(.bytes($0.value))) })
        }
        // As with bluetoothd's experimental interfaces.
        device.property("PreferredBearer") { [unowned self] _ in
            accessory.scenario.transport == .dual ? .string(preferredBearer) : nil
        }
        device.writable("PreferredBearer") { [unowned self] value, _ in
            preferredBearer = value.stringValue ?? preferredBearer
            changed("PreferredBearer")
        }
        device.writable("Alias") { [unowned self] value, _ in
            alias = value.stringValue.flatMap { $0.isEmpty ? nil : $0 }
            changed("Alias")
        }
        device.writable("Trusted") { [unowned self] value, _ in
            isTrusted = value.booleanValue ?? false
            changed("Trusted")
        }
        device.writable("Blocked") { [unowned self] value, _ in
            isBlocked = value.booleanValue ?? false
            changed("Blocked")
        }
        device.method("Connect") { [unowned self] call throws(BusError) in
            try adapter.needsPower()
            guard !isConnected else { return call.reply() }
            // `device_connect_le` and `connect_profiles` in device.c. Since 5.82 it is `InProgress` over low energy,
            // too.
            guard connecting == nil else {
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
            linkLost(.local, toldAfter: .milliseconds(5))
        }
        device.method("Pair") { [unowned self] call throws(BusError) in
            try adapter.needsPower()
            guard !isBonded || needsClassicBond else { throw .bluez("AlreadyExists", "Already Exists") }
            guard pairing == nil else { throw .bluez("InProgress", "Operation already in progress") }
            guard connecting == nil else { throw .bluez("Failed", "Operation already in progress") }
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
        _ = update(advert.payload)
        rssi = adapter.strength(advert)
        lastHeard = bluez.air.now
    }

    func hear(_ payload: Scenario.Payload, rssi new: Int?, duplicates: Bool) {
        lastHeard = bluez.air.now
        var names = update(payload)
        if let new, duplicates || new != rssi {
            rssi = new
            names.append("RSSI")
        }
        if duplicates {
            // DuplicateData: everything in the packet is signalled again.
            if !payload.manufacturerData.isEmpty, !names.contains("ManufacturerData") { names.append("ManufacturerData") }
            if !payload.serviceData.isEmpty, !names.contains("ServiceData") { names.append("ServiceData") }
        }
        if !names.isEmpty { changed(names) }
    }

    private func update(_ payload: Scenario.Payload) -> [String] {
        var names: [String] = []
        if let name = payload.name, name != advertisedName {
            advertisedName = name
            names.append("Name")
            if alias == nil { names.append("Alias") }
        }
        if !hasLostUUIDs, resolved == nil, !uuids.isSuperset(of: payload.serviceUUIDs) {
            uuids.formUnion(payload.serviceUUIDs)
            names.append("UUIDs")
        }
        if !payload.serviceData.isEmpty, serviceData != payload.serviceData {
            serviceData = payload.serviceData
            names.append("ServiceData")
        }
        if !payload.manufacturerData.isEmpty, manufacturerData != payload.manufacturerData {
            manufacturerData = payload.manufacturerData
            names.append("ManufacturerData")
        }
        if let power = payload.txPower, power != txPower {
            txPower = power
            names.append("TxPower")
        }
        return names
    }

    /// Discovery ended: the signal strength is no longer known.
    func silence() {
        guard rssi != nil else { return }
        rssi = nil
        changed("RSSI")
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
            self?.connecting = nil
            if self != nil { body() }
        }
        connecting = (source, completion)
    }

    /// The link comes up, cannot be encrypted, and ends. bluetoothd keeps the bond.
    private func refuseKeys(_ completion: @escaping (BusError?) -> Void) {
        isConnected = true
        accessory.connectedTo = adapter.name
        changed("Connected")
        connecting(completion) { [unowned self] in
            linkLost(.authentication)
            completion(.bluez("Failed", "le-connection-abort-by-local"))
        }
    }

    private func abandonConnecting() {
        guard let (source, completion) = connecting else { return }
        connecting = nil
        source.cancel()
        completion(.bluez("Failed", "br-connection-canceled"))
    }

    private func linkUp() {
        guard !isConnected else { return }
        isConnected = true
        accessory.connectedTo = adapter.name
        changed("Connected")
        let gatt = SimulatedGATT(self, bluez)
        self.gatt = gatt
        if let delay = accessory.scenario.lateServices {
            bluez.loop.after(.seconds(delay)) { [weak self, weak gatt] in
                if let gatt, self?.gatt === gatt { gatt.export() }
            }
        } else {
            gatt.export()
        }
        if !accessory.scenario.services.isEmpty { resolved = Set(accessory.scenario.services.map(\.uuid)) }
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
    /// - Parameter pause: before the property changes.
    func linkLost(_ end: LinkEnd, toldAfter pause: Duration? = nil) {
        pairing?.fail(.bluez("AuthenticationCanceled", "Authentication Canceled"))
        // Out of range, a link that is coming up times out later.
        if isConnected || end == .local || end == .authentication { abandonConnecting() }
        guard isConnected else { return }
        isConnected = false
        accessory.connectedTo = nil
        bluez.air.input.remove(accessory)
        servicesGone()
        hideBattery()
        bluez.server.emit(path: path, interface: Interfaces.device, member: "Disconnected", to: nil, end.arguments)
        guard let pause else { return tellLost() }
        bluez.loop.after(pause) { [weak self] in self?.tellLost() }
    }

    private func servicesGone() {
        guard let gatt else { return }
        gatt.withdraw()
        self.gatt = nil
        changed("ServicesResolved")
    }

    private func tellLost() {
        changed("Connected")
        guard hasKeysForNow else { return }
        hasKeysForNow = false
        changed("Paired")
    }

    /// BlueZ gives the device one interface more once it has read the battery, and takes it away with the link.
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

    /// The accessory says that its services have changed.
    func servicesChanged() { gatt?.replace() }

    func clientGone(_ client: String) {
        gatt?.clientGone(client)
        // A pairing belongs to who asked for it.
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
                    self.hasLostUUIDs = true
                    (self.uuids, self.resolved) = ([], nil)
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
            hasKeysForNow = true
            return changed("Paired")
        }
        accessory.bonds.insert(adapter.address)
        accessory.forgottenBonds.remove(adapter.address)
        if accessory.scenario.crossesTransports { accessory.classicBonds.insert(adapter.address) }
        accessory.storedName = advertisedName
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

    /// Whether an advert from this address is this device's: a bond resolves private ones, and a link stays.
    func isKnown(by address: BluetoothAddress) -> Bool { isPaired || isConnected || self.address == address }
}
