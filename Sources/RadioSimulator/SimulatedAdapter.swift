// SPDX-License-Identifier: Apache-2.0
// A simulated adapter: power, discovery by client, and the device objects that adverts bring and silence takes away.

internal import AccessoryModel
internal import DBusKit
internal import Logging

final class SimulatedAdapter: ExportedObject {
    let path: ObjectPath
    private let scenario: Scenario.Adapter
    var name: String { scenario.name }
    var address: BluetoothAddress { scenario.address }
    unowned let bluez: SimulatedBlueZ
    private(set) var interfaces: [ExportedInterface] = []
    private(set) var isPowered: Bool
    /// The properties that clients write, without effect here.
    private var settings: [String: DBusValue] = [
        "Alias": .string("simulator"), "Pairable": .boolean(false), "Discoverable": .boolean(false),
    ]
    private var discoverers: Set<String> = []
    private var filters: [String: Filter] = [:]
    /// By the accessories' `id`s; those under an address that is no more, by their paths.
    private var devices: [String: SimulatedDevice] = [:]
    private var sweep: LoopSource?
    /// Nil where the controller does not compare adverts.
    private(set) var monitors: SimulatedMonitors?

    private struct Filter {
        var duplicateData = true
        var transport = "auto"
        var uuids: Set<BluetoothUUID> = []
        var rssi: Int?
    }

    /// BlueZ forgets devices that it does not know otherwise after this long without an advert.
    static let temporaryTimeout = 30.0

    init(_ scenario: Scenario.Adapter, _ bluez: SimulatedBlueZ) {
        self.bluez = bluez
        self.scenario = scenario
        path = ObjectPath("/org/bluez/\(scenario.name)") ?? "/org/bluez/hci0"
        isPowered = scenario.isPowered
        var adapter = ExportedInterface(bluez.descriptions[Interfaces.adapter]!)
        adapter.property("Address") { _ in .string(scenario.address.description) }
        adapter.property("AddressType") { _ in .string("public") }
        adapter.property("Name") { _ in .string("simulator") }
        adapter.property("Powered") { [unowned self] _ in .boolean(isPowered) }
        adapter.property("Discovering") { [unowned self] _ in .boolean(isDiscovering) }
        adapter.property("UUIDs") { _ in .strings([]) }
        adapter.property("Roles") { _ in .strings(["central", "peripheral"]) }
        for name in settings.keys {
            adapter.property(name) { [unowned self] _ in settings[name] }
            adapter.writable(name) { [unowned self] value, _ in
                settings[name] = value
                changed(name)
            }
        }
        adapter.writable("Powered") { [unowned self] value, _ in setPower(value.booleanValue ?? false) }
        adapter.method("SetDiscoveryFilter") { [unowned self] call throws(BusError) in
            try needsPower()
            filters[call.sender] = try Self.filter(call.arguments[0])
            call.reply()
        }
        adapter.method("GetDiscoveryFilters") { call throws(BusError) in
            call.reply(.strings(["UUIDs", "RSSI", "Pathloss", "Transport", "DuplicateData", "Discoverable", "Pattern"]))
        }
        adapter.method("StartDiscovery") { [unowned self] call throws(BusError) in
            try needsPower()
            guard !discoverers.contains(call.sender) else { throw .bluez("InProgress", "Operation already in progress") }
            call.reply()
            startDiscovery(call.sender)
        }
        adapter.method("StopDiscovery") { [unowned self] call throws(BusError) in
            guard discoverers.contains(call.sender) else { throw .bluez("Failed", "No discovery started") }
            call.reply()
            stopDiscovery(call.sender)
        }
        adapter.method("RemoveDevice") { [unowned self] call throws(BusError) in
            try needsPower()
            guard let target = call.arguments[0].objectPathValue, let device = devices.values.first(where: { $0.path == target })
            else { throw .bluez("DoesNotExist", "Does Not Exist") }
            device.unbond()
            remove(device)
            call.reply()
        }
        interfaces = [adapter]
        guard scenario.monitors != .none else { return }
        let monitors = SimulatedMonitors(self, features: scenario.monitors == .controller ? ["controller-patterns"] : [])
        interfaces.append(monitors.interface(bluez.descriptions[Interfaces.monitorManager]!))
        self.monitors = monitors
    }

    func isVisible(to caller: String) -> Bool { true }

    private var isDiscovering: Bool { !discoverers.isEmpty && isPowered }

    func needsPower() throws(BusError) {
        guard isPowered else { throw .bluez("NotReady", "Resource Not Ready") }
    }

    private func changed(_ names: String...) {
        bluez.server.propertiesChanged(self, Interfaces.adapter, names, to: .everybody)
    }

    private static func filter(_ value: DBusValue) throws(BusError) -> Filter {
        var filter = Filter()
        for (key, value) in value.vardictValue ?? [:] {
            switch key {
            case "DuplicateData": filter.duplicateData = value.booleanValue ?? true
            case "Transport": filter.transport = value.stringValue ?? "auto"
            case "UUIDs": filter.uuids = Set((value.stringsValue ?? []).compactMap { BluetoothUUID($0) })
            case "RSSI": filter.rssi = value.integerValue
            case "Pathloss", "Discoverable", "Pattern": break
            default: throw .bluez("InvalidArguments", "Invalid arguments in method call")
            }
        }
        return filter
    }

    // MARK: Power and life

    func setPower(_ on: Bool) {
        guard on != isPowered else { return }
        isPowered = on
        monitors?.follow()
        if on {
            changed("Powered")
            return
        }
        let wasDiscovering = !discoverers.isEmpty
        discoverers = []
        filters = [:]
        bluez.air.stopListening(self)
        sweep?.cancel()
        for device in devices.values { device.linkLost(.local) }
        if wasDiscovering { changed("Discovering") }
        changed("Powered")
        for device in devices.values { device.silence() }
    }

    /// The adapter or its service is gone: pending operations fail, objects are removed.
    func shutDown() {
        bluez.air.stopListening(self)
        sweep?.cancel()
        monitors?.end()
        for device in Array(devices.values) {
            device.linkLost(.local)
            remove(device)
        }
    }

    func clientGone(_ client: String) {
        filters[client] = nil
        monitors?.clientGone(client)
        if discoverers.contains(client) { stopDiscovery(client) }
        for device in devices.values { device.clientGone(client) }
    }

    // MARK: Discovery

    private func startDiscovery(_ client: String) {
        let wasIdle = discoverers.isEmpty
        discoverers.insert(client)
        guard wasIdle else { return }
        changed("Discovering")
        bluez.air.listen(self) { [unowned self] in hear($0, $1) }
        sweepSilent()
        bluez.onDiscoveryStarted?()
    }

    private func sweepSilent() {
        sweep?.cancel()
        sweep = bluez.loop.every(.seconds(1)) { [weak self] in
            self?.dropSilent()
            return self != nil
        }
    }

    private func stopDiscovery(_ client: String) {
        discoverers.remove(client)
        guard discoverers.isEmpty else { return }
        bluez.air.stopListening(self)
        changed("Discovering")
        for device in Array(devices.values) {
            device.silence()
            // Non-connectable ones go the moment discovery stops.
            if device.isTemporary, !device.accessory.scenario.isConnectable { remove(device) }
        }
        // Temporary devices expire also without a discovery.
    }

    private func hear(_ accessory: AirAccessory, _ advert: Scenario.Advert) {
        guard isDiscovering, discoverers.contains(where: { passes(filters[$0] ?? Filter(), accessory, advert) }) else { return }
        let duplicates = discoverers.contains { filters[$0]?.duplicateData ?? true }
        let device = hear(accessory, advert, duplicates: duplicates)
        if let response = advert.scanResponse { device.hear(response, rssi: nil, duplicates: duplicates) }
    }

    /// A monitor's controller reports an advert.
    ///
    /// - Returns: the device's object.
    func report(_ accessory: AirAccessory, _ advert: Scenario.Advert) -> ObjectPath {
        let device = hear(accessory, advert, duplicates: false)
        if sweep == nil { sweepSilent() }
        return device.path
    }

    private func hear(_ accessory: AirAccessory, _ advert: Scenario.Advert, duplicates: Bool) -> SimulatedDevice {
        if let device = device(of: accessory) {
            device.hear(advert.payload, rssi: strength(advert), duplicates: duplicates)
            return device
        }
        let device = SimulatedDevice(accessory, self)
        devices[device.key] = device
        device.firstHeard(advert)
        bluez.server.export(device, to: .everybody)
        return device
    }

    private func passes(_ filter: Filter, _ accessory: AirAccessory, _ advert: Scenario.Advert) -> Bool {
        let isClassic = accessory.scenario.transport == .bredr
        guard filter.transport == "auto" || filter.transport == (isClassic ? "bredr" : "le") else { return false }
        if let threshold = filter.rssi, let rssi = strength(advert), rssi < threshold { return false }
        guard !filter.uuids.isEmpty else { return true }
        // BlueZ compares its filter with the advertised lists only: service data alone does not pass
        // (stoprocent/noble#89).
        return advert.payload.serviceUUIDs.contains { filter.uuids.contains($0) }
            || (advert.scanResponse?.serviceUUIDs.contains { filter.uuids.contains($0) } ?? false)
    }

    /// How strongly it hears an advert.
    func strength(_ advert: Scenario.Advert) -> Int? { advert.rssi.map { min(max($0 + scenario.gain, -127), 20) } }

    private func dropSilent() {
        for device in Array(devices.values)
        where device.isTemporary && !device.isConnected && bluez.air.now - device.lastHeard > Self.temporaryTimeout {
            remove(device)
        }
    }

    // MARK: Devices

    /// Devices that the store of the real service would bring back.
    func addBondedDevices() {
        for accessory in bluez.air.accessories where accessory.bonds.contains(address) {
            let device = SimulatedDevice(accessory, self)
            devices[device.key] = device
            bluez.server.export(device, to: .everybody)
        }
    }

    func remove(_ device: SimulatedDevice) {
        guard devices[device.key] === device else { return }
        devices[device.key] = nil
        device.end()
        bluez.server.withdraw(device.path, to: .everybody)
    }

    /// The accessory's object; with rotating addresses, the object of the present address. The previous object stays
    /// until it expires.
    func device(of accessory: AirAccessory) -> SimulatedDevice? {
        guard let device = devices[accessory.scenario.id] else { return nil }
        guard !device.isKnown(by: accessory.airAddress) else { return device }
        devices[accessory.scenario.id] = nil
        device.key = device.path.rawValue
        devices[device.key] = device
        return nil
    }
}
