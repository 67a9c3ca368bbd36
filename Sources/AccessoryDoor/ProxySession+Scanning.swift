// SPDX-License-Identifier: Apache-2.0
// The search of one client: on every adapter that has power, for as long as the client is subscribed to adverts.

internal import BlueZInterfaces
internal import BlueZObjects
internal import DBusKit
internal import ESPHomeAPI

extension ProxySession {
    /// An adapter's search.
    enum Scan: Equatable {
        /// `SetDiscoveryFilter` or `StartDiscovery` is not answered.
        case starting
        case running
        /// Tried again after a pause.
        case failed
    }

    /// Starts and stops searches as the adapters and the subscription demand.
    mutating func updateScans(_ tree: BlueZTree) -> [Effect] {
        var effects: [Effect] = []
        let wanted = subscription == .none ? [] : tree.adapters.filter { tree.properties(of: $0, Adapter1.self)?.isPowered == true }
        for (adapter, scan) in scans.sorted(by: { $0.key < $1.key }) where !wanted.contains(adapter) {
            scans[adapter] = nil
            abandonCalls { $0.adapter == adapter }
            // An adapter without power, or without an object, has stopped.
            guard scan != .failed, tree.properties(of: adapter, Adapter1.self)?.isPowered == true else { continue }
            let stop = Call(path: adapter, interface: Adapter1.interface, member: Adapter1.Member.stopDiscovery)
            effects.append(call(stop, .stopDiscovery))
        }
        for adapter in wanted where scans[adapter] == nil {
            // A client may subscribe and unsubscribe faster than bluetoothd answers.
            guard !isBusy else {
                scans[adapter] = .failed
                effects.append(.schedule(.retryScan))
                continue
            }
            scans[adapter] = .starting
            let filter = Call(
                path: adapter, interface: Adapter1.interface, member: Adapter1.Member.setDiscoveryFilter,
                arguments: [.vardict(["Transport": .string("le"), "DuplicateData": .boolean(true)])])
            effects.append(call(filter, .filter(adapter)))
        }
        return effects + scannerReport
    }

    /// A filter that was refused only means more adverts.
    mutating func filtered(_ adapter: ObjectPath) -> [Effect] {
        guard scans[adapter] == .starting else { return [] }
        let start = Call(path: adapter, interface: Adapter1.interface, member: Adapter1.Member.startDiscovery)
        return [call(start, .startDiscovery(adapter))]
    }

    mutating func discoveryStarted(_ adapter: ObjectPath, _ error: BusError?, _ tree: BlueZTree) -> [Effect] {
        guard scans[adapter] == .starting else { return [] }
        guard let error, error.bluez != .inProgress else {
            scans[adapter] = .running
            return scannerReport
        }
        scans[adapter] = .failed
        return [.schedule(.retryScan)] + scannerReport
    }

    var scannerState: ScannerState {
        if scans.isEmpty { return subscription == .none ? .idle : .stopped }
        if scans.values.contains(.running) { return .running }
        return scans.values.contains(.starting) ? .starting : .failed
    }

    /// The scanner's state, if the client does not have it. Only a subscribed client gets reports: they show that
    /// it is.
    private var scannerReport: [Effect] {
        mutating get {
            let state = scannerState
            guard subscription != .none, state != reportedScanner else { return [] }
            reportedScanner = state
            return [.send(.scanner(state, mode: .active))]
        }
    }

    // MARK: Adverts

    /// A device was heard, or is gone.
    mutating func heard(_ path: ObjectPath, _ changed: Set<String>, _ tree: BlueZTree) -> [Effect] {
        guard subscription != .none else { return [] }
        guard let device = tree.device(path) else {
            adverts.remove(path)
            return []
        }
        guard device.rssi != nil, !changed.isDisjoint(with: Properties<Device1>.advertised) else { return [] }
        let isFirst = adverts.isEmpty
        adverts.add(device, of: path)
        if adverts.hasBatch { return [.flushNow] }
        return isFirst ? [.schedule(.flush)] : []
    }

    /// Sends the waiting adverts; to a client that has not read the former ones later.
    mutating func flush(_ isCongested: Bool) -> [Effect] {
        guard !adverts.isEmpty else { return [] }
        if isCongested { return [.schedule(.flush)] }
        let devices = adverts.takeAll()
        switch subscription {
        case .none: return []
        case .parsed: return devices.compactMap(\.parsedAdvertisement).map { .send(.advertisement($0)) }
        case .raw:
            let adverts = devices.compactMap(\.rawAdvertisement)
            // As many as fit in a frame, whatever they contain.
            return stride(from: 0, to: adverts.count, by: 32).map {
                .send(.rawAdvertisements(Array(adverts[$0..<min($0 + 32, adverts.count)])))
            }
        }
    }
}
