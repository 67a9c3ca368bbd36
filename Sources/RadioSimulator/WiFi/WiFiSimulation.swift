// SPDX-License-Identifier: Apache-2.0
// The simulated Wi-Fi services over one air: each has a bus connection of its own, so that each can stop and start
// alone.

internal import DBusKit

final class WiFiSimulation {
    private let air: WiFiAir
    private let address: Connection.Address
    private var services: [Scenario.WiFi.Service: SimulatedWiFiService] = [:]
    var onScanStarted: (() -> Void)? {
        get { air.onScanStarted }
        set { air.onScanStarted = newValue }
    }

    init(_ scenario: Scenario, bus address: Connection.Address, loop: MainLoop) {
        air = WiFiAir(scenario, loop: loop)
        self.address = address
        air.onGone = { [unowned self] point in for station in stations { station.pointGone(point) } }
        air.onAware = { [unowned self] aware in
            for station in stations { (station as? SupplicantInterface)?.aware.hear(aware) }
        }
    }

    private var stations: [Station] { services.values.flatMap { $0.stations.values } }

    func start() throws(BusError) {
        air.play()
        for service in air.wifi.services { try start(service) }
    }

    func start(_ name: Scenario.WiFi.Service) throws(BusError) {
        guard services[name] == nil else { return }
        let service: SimulatedWiFiService =
            switch name {
            case .wpaSupplicant: try SimulatedSupplicant(air, address)
            case .networkManager: try SimulatedNetworkManager(air, address)
            case .iwd: try SimulatedIWD(air, address)
            }
        try service.start()
        services[name] = service
    }

    func stop(_ name: Scenario.WiFi.Service) {
        services.removeValue(forKey: name)?.stop()
    }

    func setAway(_ id: String, _ isAway: Bool) {
        guard let point = air.points.first(where: { $0.scenario.id == id }) else { return }
        point.isAway = isAway
        if isAway { for station in stations { station.pointGone(point) } }
    }

    func setPresent(_ interface: String, _ isPresent: Bool) {
        guard let radio = air.radios.first(where: { $0.name == interface }), radio.isPresent != isPresent else { return }
        air.setPresent(radio, isPresent)
        for service in services.values { isPresent ? service.add(radio) : service.remove(radio) }
    }

    func setBlocked(_ isBlocked: Bool) {
        guard air.isBlocked != isBlocked else { return }
        air.setBlocked(isBlocked)
        for station in stations { station.usabilityChanged() }
    }

    // MARK: For tests

    var scans: UInt32 { air.scans }

    /// The network of each interface; where services differ, one that is not the uplink: a client has joined it.
    var joined: [String: String] {
        var result: [String: String] = [:]
        for (name, ssid) in services.values.flatMap(\.joined) {
            let isUplink = air.radios.contains { $0.name == name && $0.uplink == ssid }
            if result[name] == nil || !isUplink { result[name] = lossyText(ssid) }
        }
        return result
    }

    private var profiles: [StoredProfile] {
        // Profiles on disk stay when their service stops.
        let isStopped = { [self] name in services[name] == nil && air.wifi.services.contains(name) }
        return (isStopped(.iwd) ? air.iwdProfiles : []) + (isStopped(.networkManager) ? air.uplinks : [])
            + services.values.flatMap(\.profiles)
    }

    var knownNetworks: [String] { Set(profiles.map { lossyText($0.ssid) }).sorted() }
    var secrets: UInt32 { UInt32(profiles.filter { !$0.isUplink && $0.key != nil }.count) }
}
