// SPDX-License-Identifier: Apache-2.0
// A device of iwd: its power, and its station while it has power. Networks that the station has heard are objects below
// it.

internal import AccessoryModel
internal import DBusKit

final class IWDDevice: ExportedObject {
    let path: ObjectPath
    let radio: Radio
    unowned let iwd: SimulatedIWD
    private let device: ExportedInterface
    private(set) var station: IWDStation?
    private(set) var isPowered: Bool

    init(_ radio: Radio, _ iwd: SimulatedIWD) {
        self.radio = radio
        self.iwd = iwd
        path = SimulatedIWD.adapterPath.appending("\(3 + radio.number)")!
        isPowered = radio.isUsable
        var powered: () -> Bool = { false }
        var setPower: (Bool) -> Void = { _ in }
        var device = iwd.bus.interface(IWDXML.device)
        device.property("Name") { _ in .string(radio.name) }
        device.property("Address") { _ in .string(MACAddress.text(radio.address)) }
        device.property("Adapter") { _ in .objectPath(SimulatedIWD.adapterPath) }
        device.property("Mode") { _ in .string("station") }
        device.property("Powered") { _ in .boolean(powered()) }
        device.writable("Powered") { value, _ in setPower(value.booleanValue ?? false) }
        self.device = device
        powered = { [unowned self] in isPowered }
        setPower = { [unowned self] in self.setPower($0 && radio.isUsable) }
        if isPowered { station = IWDStation(self) }
    }

    var interfaces: [ExportedInterface] { [device] + (station.map { [$0.description] } ?? []) }
    func isVisible(to caller: String) -> Bool { true }

    func begin() { station?.begin() }

    func end() { station?.end() }

    /// The station goes, with its networks.
    func down() {
        station?.down()
        station?.end()
        station = nil
    }

    func setPower(_ isPowered: Bool) {
        guard isPowered != self.isPowered else { return }
        self.isPowered = isPowered
        if isPowered {
            let station = IWDStation(self)
            self.station = station
            iwd.bus.changed(self, IWDXML.device, ["Powered"])
            iwd.bus.server.announce(self, to: .everybody)
            station.begin()
        } else {
            down()
            iwd.bus.emit("/", Bus.objectManager, "InterfacesRemoved", .objectPath(path), .strings([IWDXML.station]))
            iwd.bus.changed(self, IWDXML.device, ["Powered"])
        }
    }

    func knownChanged(_ ssid: [UInt8]) {
        for network in station?.networks.values.filter({ $0.ssid == ssid }) ?? [] {
            iwd.bus.changed(network, IWDXML.network, ["KnownNetwork"])
        }
    }

    func forgotten(_ network: IWDKnownNetwork) {
        knownChanged(network.profile.ssid)
        station?.forgotten(network)
    }
}

/// A network that the station has heard: all access points of one name and kind.
final class IWDNetwork: ExportedObject {
    let path: ObjectPath
    let ssid: [UInt8]
    let type: String
    private(set) var interfaces: [ExportedInterface] = []
    private(set) var points: [ObjectIdentifier: (point: AirAccessPoint, seen: Double)] = [:]
    private unowned let station: IWDStation

    init(_ ssid: [UInt8], _ type: String, _ station: IWDStation) {
        self.ssid = ssid
        self.type = type
        self.station = station
        let device = station.device
        path = Self.path(ssid, type, device)!
        var description = device.iwd.bus.interface(IWDXML.network)
        description.property("Name") { _ in .string(lossyText(ssid)) }
        description.property("Connected") { [unowned self] _ in .boolean(self.station.current === self) }
        description.property("Device") { [path = device.path] _ in .objectPath(path) }
        description.property("Type") { _ in .string(type) }
        description.property("KnownNetwork") { [unowned device] _ in
            device.iwd.knownNetwork(ssid, type).map { .objectPath($0.path) }
        }
        description.method("Connect") { [unowned self] call throws(BusError) in try self.station.connect(self, call) }
        interfaces = [description]
    }

    func isVisible(to caller: String) -> Bool { true }

    static func path(_ ssid: [UInt8], _ type: String, _ device: IWDDevice) -> ObjectPath? {
        device.path.appending("\(Hex.text(ssid))_\(type)")
    }

    static func type(of security: Scenario.AccessPoint.Security) -> String {
        switch security {
        case .open: "open"
        case .wep: "wep"
        case .enterprise: "8021x"
        case .wpa, .wpa2, .wpa3, .transition: "psk"
        }
    }

    func seen(_ point: AirAccessPoint) { points[ObjectIdentifier(point)] = (point, station.device.radio.air.now) }

    /// Forgets access points that were not heard for long.
    ///
    /// - Parameter age: in seconds.
    func expire(after age: Double) { points = points.filter { station.device.radio.air.now - $0.value.seen < age } }

    /// The strongest of its access points.
    var best: AirAccessPoint? { points.values.map(\.point).max { $0.scenario.rssi < $1.scenario.rssi } }
}
