// SPDX-License-Identifier: Apache-2.0
// The discovery of one manager: it runs while the app scans, and while a connect waits for an accessory to be heard.
// What is heard is told as the app's scan asks for it. (BlueZ, org.bluez.Adapter(5))

internal import DBusKit
internal import Foundation

/// Whether to search, and what of it is told.
final class Scanner {
    /// What the app has asked for.
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
    /// Whether a connect waits to hear its accessory.
    private let isNeeded: () -> Bool
    private var request: Request?
    private var told: Set<UUID> = []
    private var phase = Phase.off
    private var retry: LoopSource?
    /// Answers that belong to an earlier connection to the radio are not for this one.
    private var generation = 0

    init(_ core: CentralCore, _ session: ViewSession, isNeeded: @escaping () -> Bool) {
        self.core = core
        self.session = session
        self.isNeeded = isNeeded
    }

    // MARK: The app's scan

    /// Begins a scan, in the place of one that runs.
    func begin(_ request: Request) {
        self.request = request
        told = []
        if case .on = phase { tellPresent() }
        update()
    }

    func stop() {
        request = nil
        update()
    }

    /// Without power there is no discovery, and the scan of the app is over.
    func radioLost() {
        request = nil
        generation += 1
        phase = .off
        retry?.cancel()
    }

    // MARK: What is heard

    /// An accessory of the app's was heard.
    func heard(_ grant: ViewSession.Grant) {
        guard let request, let device = session.tree.device(grant.path), !device.isConnected else { return }
        let advertisement = device.advertisement
        guard advertisement.fits(request.services), request.allowsDuplicates || told.insert(grant.identifier).inserted
        else {
            return
        }
        let name = device.name ?? grant.name
        // 127 stands for a strength that is not known (Core 5.4, Vol 4, Part E, 7.7.65.2).
        let rssi = device.rssi ?? 127
        core.tell(grant.identifier, mayBeDropped: true) { manager, peripheral in
            peripheral.apply(name: name)
            guard manager.isScanning else { return }
            manager.delegate?.centralManager(
                manager, didDiscover: peripheral, advertisementData: advertisement.dictionary,
                rssi: NSNumber(value: rssi))
        }
    }

    /// What the running discovery has heard before the scan began.
    private func tellPresent() {
        for grant in session.grants where session.tree.device(grant.path)?.rssi != nil { heard(grant) }
    }

    // MARK: The discovery

    /// Starts or stops as it is needed now.
    func update() {
        guard session.state == .poweredOn, let adapter = session.tree.adapter, phase != .changing else { return }
        let isConnecting = isNeeded()
        let isWanted = request != nil || isConnecting
        // What waits must hear each packet: without that an accessory that is back looks as if it had never gone.
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
                $0.tellPresent()
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
        session.call(adapter, BlueZTree.adapterInterface, member, arguments) { [weak self] result in
            guard let self, self.generation == generation else { return }
            switch result {
            case .success: then(self)
            case .failure(let error) where member == "StartDiscovery" && error.name == "org.bluez.Error.InProgress":
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
    /// As the app gets it.
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
