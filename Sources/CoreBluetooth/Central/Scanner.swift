// SPDX-License-Identifier: Apache-2.0
// The discovery of one manager: it runs while the app scans, and while a link waits for its accessory's advertisement.
// Advertisements are published as the app's scan asks. (BlueZ, org.bluez.Adapter(5))

internal import BlueZInterfaces
internal import BlueZObjects
internal import DBusKit
internal import Foundation

/// Starts and stops the discovery, and publishes discovered accessories.
final class Scanner {
    /// The app's scan.
    struct Request {
        /// Nil for any.
        let services: [String]?
        let allowsDuplicates: Bool
    }

    private enum Phase: Equatable {
        case off
        case changing
        case on(everything: Bool)
    }

    private let core: CentralCore
    private let session: ViewSession
    /// Whether a link waits for an advertisement.
    private let isNeeded: () -> Bool
    private var request: Request?
    private var discovered: Set<UUID> = []
    private var phase = Phase.off
    private var retry: LoopSource?
    /// Counted up when the radio is lost: later answers of the former one are ignored.
    private var generation = 0

    init(_ core: CentralCore, _ session: ViewSession, isNeeded: @escaping () -> Bool) {
        self.core = core
        self.session = session
        self.isNeeded = isNeeded
    }

    // MARK: The app's scan

    /// Begins a scan, in place of a running one.
    func begin(_ request: Request) {
        self.request = request
        discovered = []
        if case .on = phase { publishKnown() }
        update()
    }

    func stop() {
        request = nil
        update()
    }

    /// Without power there is no discovery, and the app's scan ends.
    func radioLost() {
        request = nil
        generation += 1
        phase = .off
        retry?.cancel()
    }

    // MARK: Advertisements

    /// An advertisement of a granted accessory was received, or of a device of a kind that the app may hear.
    func advertised(_ grant: ViewSession.Grant) {
        guard let request, let device = session.tree.device(grant.path), !device.isConnected else { return }
        let advertisement = device.advertisement
        guard advertisement.fits(request.services), request.allowsDuplicates || discovered.insert(grant.identifier).inserted
        else {
            return
        }
        let name = device.displayName ?? grant.name
        // 127: unknown (Core 5.4, Vol 4, Part E, 7.7.65.2).
        let rssi = device.rssi ?? 127
        core.publish(mayBeDropped: true) { manager in
            let peripheral = manager.peripheral(grant.identifier)
            peripheral.apply(name: name)
            guard manager.isScanning else { return }
            manager.delegate?.centralManager(
                manager, didDiscover: peripheral, advertisementData: advertisement.dictionary,
                rssi: NSNumber(value: rssi))
        }
    }

    /// Accessories that the running discovery has found before the scan began.
    private func publishKnown() {
        let granted = Set(session.grants.map(\.path))
        let heard = session.tree.devices.filter { !granted.contains($0) }.compactMap(ViewSession.Grant.init(heard:))
        for grant in session.grants + heard where session.tree.device(grant.path)?.rssi != nil { advertised(grant) }
    }

    // MARK: The discovery

    /// Starts or stops the discovery as needed.
    func update() {
        guard session.state == .poweredOn, let adapter = session.tree.adapter, phase != .changing else { return }
        let isConnecting = isNeeded()
        let isWanted = request != nil || isConnecting
        // A waiting link needs every packet: otherwise an accessory that has returned is not noticed.
        let everything = isConnecting || request?.allowsDuplicates == true
        switch phase {
        case .off where isWanted: start(adapter, everything)
        case .on where !isWanted:
            change(adapter, "StopDiscovery") { $0.phase = .off }
        case .on(let now) where now != everything:
            setFilter(adapter, everything) { $0.phase = .on(everything: everything) }
        default: break
        }
    }

    private func start(_ adapter: ObjectPath, _ everything: Bool) {
        setFilter(adapter, everything) { scanner in
            scanner.change(adapter, "StartDiscovery") {
                $0.phase = .on(everything: everything)
                $0.publishKnown()
            }
        }
    }

    private func setFilter(_ adapter: ObjectPath, _ everything: Bool, _ then: @escaping (Scanner) -> Void) {
        change(
            adapter, "SetDiscoveryFilter",
            [.vardict(["Transport": .string("le"), "DuplicateData": .boolean(everything)])], then)
    }

    private func change(
        _ adapter: ObjectPath, _ member: String, _ arguments: [DBusValue] = [], _ then: @escaping (Scanner) -> Void
    ) {
        phase = .changing
        let generation = generation
        session.call(adapter, Adapter1.interface, member, arguments) { [weak self] result in
            guard let self, self.generation == generation else { return }
            switch result {
            case .success: then(self)
            case .failure(let error) where member == "StartDiscovery" && error.bluez == .inProgress:
                then(self)
            case .failure where member == "StopDiscovery": self.phase = .off
            case .failure:
                self.phase = .off
                self.retry?.cancel()
                self.retry = self.session.loop.after(.seconds(1)) { [weak self] in self?.update() }
                return
            }
            self.update()
        }
    }
}

extension BlueZTree.Advertisement {
    /// With Apple's keys.
    var dictionary: [String: Any] {
        var data: [String: Any] = [CBAdvertisementDataIsConnectable: NSNumber(value: true)]
        if let localName { data[CBAdvertisementDataLocalNameKey] = localName }
        if !services.isEmpty { data[CBAdvertisementDataServiceUUIDsKey] = services.map { CBUUID(string: $0) } }
        if !serviceData.isEmpty {
            data[CBAdvertisementDataServiceDataKey] = Dictionary(
                uniqueKeysWithValues: serviceData.map { (CBUUID(string: $0.key), Data($0.value)) })
        }
        if let manufacturerData { data[CBAdvertisementDataManufacturerDataKey] = Data(manufacturerData) }
        if let txPower { data[CBAdvertisementDataTxPowerLevelKey] = NSNumber(value: txPower) }
        return data
    }
}
