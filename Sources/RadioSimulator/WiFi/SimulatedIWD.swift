internal import DBusKit
final class SimulatedIWD: WiFiService {
    init(_ air: WiFiAir, _ address: Connection.Address) throws(BusError) {}
    func start() throws(BusError) {}
    func stop() {}
    func add(_ radio: Radio) {}
    func remove(_ radio: Radio) {}
    func blockedChanged() {}
    func pointGone(_ point: AirAccessPoint) {}
    var joined: [String: [UInt8]] { [:] }
    var profiles: [StoredProfile] { [] }
}
