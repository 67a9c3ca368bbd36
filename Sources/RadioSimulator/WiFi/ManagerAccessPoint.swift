// SPDX-License-Identifier: Apache-2.0
// An access point as NetworkManager shows it, and the clock that it tells times by.

internal import DBusKit

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#endif

final class ManagerAccessPoint: ExportedObject {
    let path: ObjectPath
    let point: AirAccessPoint
    let ssid: [UInt8]
    private(set) var interfaces: [ExportedInterface] = []
    private var lastSeen = BootClock.milliseconds
    var misses = 0

    init(_ sighting: Sighting, _ number: Int, _ bus: ServiceBus) {
        path = SimulatedNetworkManager.path.appending("AccessPoint")!.appending("\(number)")!
        point = sighting.point
        ssid = sighting.ssid
        let scenario = point.scenario
        let ssid = ssid
        var description = bus.interface(NetworkManagerXML.accessPoint)
        description.property("Flags") { _ in .uint32(scenario.security == .open ? 0 : 1) }
        description.property("WpaFlags") { _ in .uint32(scenario.security == .wpa ? 0x144 : 0) }
        description.property("RsnFlags") { _ in .uint32(Self.rsn(scenario.security)) }
        description.property("Ssid") { _ in .bytes(ssid) }
        description.property("Frequency") { _ in .uint32(UInt32(scenario.frequency)) }
        description.property("HwAddress") { _ in .string(MACAddress.text(scenario.bssid, upper: true)) }
        description.property("Mode") { _ in .uint32(2) }
        description.property("MaxBitrate") { _ in .uint32(54_000) }
        description.property("Strength") { _ in .byte(Self.strength(scenario.rssi)) }
        description.property("LastSeen") { [unowned self] _ in .int32(Int32(clamping: lastSeen / 1000)) }
        interfaces = [description]
    }

    func isVisible(to caller: String) -> Bool { true }

    func seen() {
        lastSeen = BootClock.milliseconds
        misses = 0
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

    /// `nm_wifi_utils_level_to_quality`.
    private static func strength(_ rssi: Int) -> UInt8 {
        UInt8(100 - 100 * abs(min(max(rssi, -100), -40) + 40) / 60)
    }
}

enum BootClock {
    /// Milliseconds of CLOCK_BOOTTIME.
    static var milliseconds: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }
}
