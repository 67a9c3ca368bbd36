// SPDX-License-Identifier: Apache-2.0
// The parts that the simulated Wi-Fi services have in common: a service with its stations, a station with its scans and
// the access points that it has heard, and the question to an access point.

internal import AccessoryModel
internal import DBusKit

/// One life of a simulated service.
class SimulatedWiFiService {
    let air: WiFiAir
    let bus: ServiceBus
    private(set) var stations: [String: Station] = [:]
    private var counters: [String: Int] = [:]

    init(_ name: String, root: ObjectPath, _ table: String, _ air: WiFiAir, _ address: Connection.Address) throws(BusError) {
        self.air = air
        bus = try ServiceBus(name, root: root, table, address, loop: air.loop)
    }

    /// Exports the objects that do not depend on an interface.
    func exportRoot() {}
    // Each of the three subclasses overrides it; this class itself is never made.
    func makeStation(_ radio: Radio) -> Station { fatalError("a service has stations") }
    /// A station was added or removed.
    func stationsChanged(_ station: Station, isAdded: Bool) {}
    /// All profiles that the service holds.
    var profiles: [StoredProfile] { [] }

    /// Exports everything, then takes the name.
    func start() throws(BusError) {
        exportRoot()
        for radio in air.radios where radio.isPresent { add(radio) }
        try bus.start()
    }

    func stop() {
        for station in stations.values { station.end() }
        bus.stop()
    }

    func add(_ radio: Radio) {
        let station = makeStation(radio)
        stations[radio.name] = station
        bus.server.export(station, to: .everybody)
        stationsChanged(station, isAdded: true)
        station.begin()
    }

    func remove(_ radio: Radio) {
        guard let station = stations.removeValue(forKey: radio.name) else { return }
        station.removed()
        station.end()
        bus.server.withdraw(station.path, to: .everybody)
        stationsChanged(station, isAdded: false)
    }

    /// The next number of an object's kind, from 1.
    func next(_ kind: String) -> Int {
        counters[kind, default: 0] += 1
        return counters[kind]!
    }

    var joined: [String: [UInt8]] { stations.compactMapValues { $0.joined?.ssid } }
}

/// An interface as a simulated service shows it.
class Station: ExportedObject {
    let path: ObjectPath
    let radio: Radio
    let bus: ServiceBus
    var interfaces: [ExportedInterface] = []
    /// By access point and name: a hidden one is heard with its name, and without.
    private(set) var heard: [String: HeardPoint] = [:]
    /// In seconds of the air's clock; nil before the first scan, or where its result is out of date.
    var lastScan: Double?
    private var timer: LoopSource?
    private(set) var isOver = false

    init(_ path: ObjectPath, _ radio: Radio, _ bus: ServiceBus) {
        self.path = path
        self.radio = radio
        self.bus = bus
    }

    func isVisible(to caller: String) -> Bool { true }

    var air: WiFiAir { radio.air }

    // Overridden by each service.

    /// - Parameter point: the access point that the uplink is connected to from the start.
    func begin(at point: HeardPoint?) {}
    /// The radio was blocked or unblocked.
    func usabilityChanged() {}
    /// The interface was removed.
    func removed() { usabilityChanged() }
    /// The network that is joined.
    var joined: (ssid: [UInt8], point: HeardPoint)? { nil }
    /// The joined access point has gone out of range.
    func linkLost() {}
    func scanBegan() {}
    /// - Parameter isComplete: false where the scan was aborted.
    func scanEnded(isComplete: Bool) {}
    func makePoint(_ result: ScanResult) -> HeardPoint { HeardPoint(result, nil, air) }
    /// Whether an access point that was not heard by the last scan is dropped.
    func isOutdated(_ point: HeardPoint) -> Bool { point.misses >= 2 && point !== joined?.point }
    /// Access points were heard for the first time, or dropped.
    func pointsChanged(dropped: [HeardPoint]) {}

    func begin() {
        radio.listen(self)
        begin(at: radio.isUsable ? air.uplinkPoint(of: radio).map { hear(ScanResult(point: $0, ssid: $0.scenario.ssid)) } : nil)
    }

    func end() {
        isOver = true
        timer?.cancel()
        radio.stopListening(self)
        dropAll()
    }

    func dropAll() {
        let dropped = Array(heard.values)
        heard = [:]
        for point in dropped { bus.server.withdraw(point.path, to: .everybody) }
        pointsChanged(dropped: dropped)
    }

    /// Replaces the step that comes next.
    func after(_ delay: Double, _ body: @escaping () -> Void) {
        timer?.cancel()
        timer = air.loop.after(.seconds(delay)) { [weak self] in if self?.isOver == false { body() } }
    }

    func cancelNext() { timer?.cancel() }

    func pointGone(_ point: AirAccessPoint) { if joined?.point.point === point { linkLost() } }

    /// The strongest access point of a network that the last scan has heard.
    func best(_ ssid: [UInt8], where fits: (Scenario.AccessPoint) -> Bool) -> HeardPoint? {
        heard.values.filter { $0.ssid == ssid && $0.misses == 0 && fits($0.point.scenario) }
            .max { $0.point.scenario.rssi < $1.point.scenario.rssi }
    }

    @discardableResult
    func hear(_ result: ScanResult) -> HeardPoint {
        let key = "\(result.point.scenario.bssid) \(result.ssid)"
        if let point = heard[key] {
            point.heard()
            return point
        }
        let point = makePoint(result)
        heard[key] = point
        if !point.interfaces.isEmpty { bus.server.export(point, to: .everybody) }
        return point
    }

    /// The result of a scan; nil where it was aborted.
    func scanEnded(_ results: [ScanResult]?) {
        guard !isOver else { return }
        if let results {
            lastScan = air.now
            for point in heard.values { point.misses += 1 }
            for result in results { hear(result) }
            let dropped = heard.filter { isOutdated($0.value) }
            for (key, point) in dropped {
                heard[key] = nil
                bus.server.withdraw(point.path, to: .everybody)
            }
            pointsChanged(dropped: Array(dropped.values))
        }
        scanEnded(isComplete: results != nil)
    }
}

/// An access point as a station has heard it; an object where the service has one for it.
class HeardPoint: ExportedObject {
    let path: ObjectPath
    let point: AirAccessPoint
    let ssid: [UInt8]
    var interfaces: [ExportedInterface] = []
    let air: WiFiAir
    /// In seconds of the air's clock.
    private(set) var lastHeard: Double
    /// Scans since that have not heard it.
    var misses = 0

    init(_ result: ScanResult, _ path: ObjectPath?, _ air: WiFiAir) {
        self.path = path ?? "/"
        self.air = air
        point = result.point
        ssid = result.ssid
        lastHeard = air.now
    }

    func isVisible(to caller: String) -> Bool { true }

    func heard() {
        lastHeard = air.now
        misses = 0
    }
}

/// A service's place on the bus: its connection, its objects, and the clients that it watches.
final class ServiceBus {
    let connection: Connection
    let server: ObjectServer
    private let descriptions: [String: InterfaceDescription]
    private let name: String
    private var watches: [String: Subscription] = [:]
    /// A watched client has left the bus.
    var onClientGone: ((String) -> Void)?

    /// - Parameter table: the interfaces (`InterfaceTable`).
    init(_ name: String, root: ObjectPath, _ table: String, _ address: Connection.Address, loop: MainLoop) throws(BusError) {
        self.name = name
        connection = try Connection(address, loop: loop)
        server = ObjectServer(on: connection, root: root)
        descriptions = try InterfaceTable.load(table)
    }

    func start() throws(BusError) {
        connection.onCall = { [server] in server.serve($0) }
        try connection.requestName(name)
    }

    func stop() {
        connection.onCall = nil
        for watch in watches.values { watch.cancel() }
        watches = [:]
        connection.flush()
        connection.close()
    }

    /// An interface whose properties have these values.
    func interface(_ name: String, _ values: [String: () -> DBusValue?] = [:]) -> ExportedInterface {
        var interface = ExportedInterface(descriptions[name]!)
        for (name, value) in values { interface.property(name) { _ in value() } }
        return interface
    }

    func changed(_ object: any ExportedObject, _ interface: String, _ names: String...) {
        server.propertiesChanged(object, interface, names, to: .everybody)
    }

    func emit(_ path: ObjectPath, _ interface: String, _ member: String, _ arguments: DBusValue...) {
        server.emit(path: path, interface: interface, member: member, to: nil, arguments)
    }

    func watch(_ client: String) {
        guard watches[client] == nil else { return }
        watches[client] = connection.watchName(client) { [weak self] owner in
            guard let self, owner == nil else { return }
            self.watches.removeValue(forKey: client)?.cancel()
            self.onClientGone?(client)
        }
    }
}

/// An object without state of its own.
final class PlainObject: ExportedObject {
    let path: ObjectPath
    let interfaces: [ExportedInterface]

    init(_ path: ObjectPath, _ interfaces: [ExportedInterface] = []) {
        self.path = path
        self.interfaces = interfaces
    }

    func isVisible(to caller: String) -> Bool { true }
}
