// SPDX-License-Identifier: Apache-2.0
// The air as Wi-Fi hears it: access points over time with their answers, and the radios of this machine. It outlives
// the simulated services, as do the profiles that they have on disk.

internal import AccessoryModel
internal import DBusKit

/// One access point on the air.
final class AirAccessPoint {
    let scenario: Scenario.AccessPoint
    /// Out of range, by `vanish`.
    var isAway = false
    var isInRange = false
    private var faultsPlayed = 0

    init(_ scenario: Scenario.AccessPoint) {
        self.scenario = scenario
    }

    var isHeard: Bool { isInRange && !isAway }

    enum Answer: Equatable {
        case accepted
        /// Accepted, but there is no DHCP server.
        case noAddress
        /// Accepted, but NetworkManager activates its uplink instead.
        case displaced
        case wrongKey
        case refused
        case silence

        /// Whether the access point accepts the station.
        var isYes: Bool { self == .accepted || self == .noAddress || self == .displaced }
    }

    /// The answer to a station with this key, and its delay in seconds.
    func answer(_ key: String?) -> (answer: Answer, delay: Double) {
        guard isHeard else { return (.silence, 0) }
        let honest: Answer = scenario.passphrase == nil || scenario.passphrase == key ? .accepted : .wrongKey
        guard let fault = scenario.fault else { return (honest, 0) }
        if let count = scenario.faultCount, faultsPlayed >= count { return (honest, 0) }
        faultsPlayed += 1
        switch fault {
        case .refuse: return (.refused, 0)
        case .silent: return (.silence, scenario.delay)
        case .slow: return (honest, scenario.delay)
        case .handshake: return (scenario.passphrase == nil ? honest : .wrongKey, 0)
        case .noAddress: return (honest == .accepted ? .noAddress : honest, scenario.delay)
        case .displaced: return (honest == .accepted ? .displaced : honest, 0)
        }
    }
}

/// An access point as a scan heard it: a hidden one has its name only where it was probed by name.
struct ScanResult {
    let point: AirAccessPoint
    let ssid: [UInt8]
}

/// One Wi-Fi interface of this machine.
final class Radio {
    let name: String
    let number: Int
    let uplink: [UInt8]?
    unowned let air: WiFiAir
    fileprivate(set) var isPresent = true
    private(set) var isScanning = false
    private var scan: LoopSource?
    private var listeners: [ObjectIdentifier: () -> Station?] = [:]

    init(_ interface: Scenario.WiFi.Interface, _ number: Int, _ air: WiFiAir) {
        name = interface.name
        uplink = interface.uplink.map { Array($0.utf8) }
        self.number = number
        self.air = air
    }

    var isUsable: Bool { isPresent && !air.isBlocked }

    func listen(_ listener: Station) {
        listeners[ObjectIdentifier(listener)] = { [weak listener] in listener }
    }

    func stopListening(_ listener: Station) { listeners[ObjectIdentifier(listener)] = nil }

    /// Scans, and probes these names; false where that is impossible now.
    func startScan(_ names: [[UInt8]]) -> Bool {
        guard isUsable, !isScanning else { return false }
        isScanning = true
        air.scans += 1
        scan = air.loop.after(.seconds(air.wifi.scanTime)) { [weak self] in
            guard let self else { return }
            self.endScan(self.air.scanResults(names))
        }
        notify { $0.scanBegan() }
        air.onScanStarted?()
        return true
    }

    fileprivate func abortScan() {
        guard isScanning else { return }
        scan?.cancel()
        endScan(nil)
    }

    private func endScan(_ results: [ScanResult]?) {
        isScanning = false
        notify { $0.scanEnded(results) }
    }

    private func notify(_ body: (Station) -> Void) {
        for listener in listeners.values.compactMap({ $0() }) { body(listener) }
    }
}

/// A network that a service is configured with.
struct StoredProfile {
    var ssid: [UInt8]
    var key: String?
    var isHidden = false
    var isUplink = false
    var interface: String?
    var security: Scenario.AccessPoint.Security
}

final class WiFiAir {
    let wifi: Scenario.WiFi
    let points: [AirAccessPoint]
    let awareServices: [Scenario.AwareService]
    let loop: MainLoop
    /// In seconds of the monotonic clock.
    var now: Double { Double(loop.now) / 1e6 }
    private(set) var radios: [Radio] = []
    fileprivate(set) var scans: UInt32 = 0
    private(set) var isBlocked = false
    /// Which Wi-Fi Aware services are in range, by id.
    private(set) var aware: Set<String> = []
    var onScanStarted: (() -> Void)?
    var onGone: ((AirAccessPoint) -> Void)?
    var onAware: ((Scenario.AwareService) -> Void)?
    /// The files in /var/lib/iwd.
    var iwdProfiles: [StoredProfile] = []

    init(_ scenario: Scenario, loop: MainLoop) {
        wifi = scenario.wifi
        self.loop = loop
        points = scenario.accessPoints.map(AirAccessPoint.init)
        awareServices = scenario.awareServices
        radios = wifi.interfaces.enumerated().map { Radio($1, $0, self) }
        iwdProfiles = uplinks
    }

    func play() {
        for point in points {
            schedule(point.scenario.presence.appearsAt) { point.isInRange = true }
            guard let leaves = point.scenario.presence.leavesAt else { continue }
            schedule(leaves) { [weak self] in
                point.isInRange = false
                self?.onGone?(point)
            }
        }
        for service in awareServices {
            schedule(service.presence.appearsAt) { [weak self] in
                self?.aware.insert(service.id)
                self?.onAware?(service)
            }
            if let leaves = service.presence.leavesAt { schedule(leaves) { [weak self] in self?.aware.remove(service.id) } }
        }
    }

    private func schedule(_ at: Double, _ body: @escaping () -> Void) {
        if at <= 0 { body() } else { loop.after(.seconds(at), body) }
    }

    func scanResults(_ names: [[UInt8]]) -> [ScanResult] {
        points.filter(\.isHeard).map { point in
            let isNamed = !point.scenario.isHidden || names.contains(point.scenario.ssid)
            return ScanResult(point: point, ssid: isNamed ? point.scenario.ssid : [])
        }
    }

    /// The saved networks that this machine comes with.
    var uplinks: [StoredProfile] {
        radios.compactMap { radio in
            guard let ssid = radio.uplink, let point = points.first(where: { $0.scenario.ssid == ssid })?.scenario else {
                return nil
            }
            return StoredProfile(
                ssid: ssid, key: point.passphrase, isHidden: point.isHidden, isUplink: true, interface: radio.name,
                security: point.security)
        }
    }

    /// The access point that an interface's uplink is joined to when a service starts.
    func uplinkPoint(of radio: Radio) -> AirAccessPoint? {
        guard radio.isUsable, let ssid = radio.uplink else { return nil }
        return points.filter { $0.isHeard && $0.scenario.ssid == ssid }.max { $0.scenario.rssi < $1.scenario.rssi }
    }

    func setPresent(_ radio: Radio, _ isPresent: Bool) {
        radio.isPresent = isPresent
        if !isPresent { radio.abortScan() }
    }

    func setBlocked(_ isBlocked: Bool) {
        self.isBlocked = isBlocked
        if isBlocked { for radio in radios { radio.abortScan() } }
    }
}

enum MACAddress {
    /// In lower case, as wpa_supplicant writes it.
    static func text(_ value: UInt64) -> String {
        (0..<6).map { Hex.text([UInt8(truncatingIfNeeded: value >> (40 - 8 * $0))]).lowercased() }.joined(separator: ":")
    }
}

/// An SSID for people.
func lossyText(_ ssid: [UInt8]) -> String { String(decoding: ssid, as: UTF8.self) }
