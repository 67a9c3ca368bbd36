// SPDX-License-Identifier: Apache-2.0
// A world for the engine's model test: a radio with bonds that have owners, a store that may refuse, and a fuse that
// ends the daemon between any two effects. Everything happens on one thread, at the word of the test, and the same
// words give the same life again.

import AccessoryCore
import AccessoryEngine
import AccessoryModel

/// Ends the daemon: from then on nothing that it does has an effect.
final class Fuse {
    /// Effects until it burns; nil for never.
    var left: Int?
    private(set) var isBurnt = false

    /// Whether an effect still happens.
    func allows() -> Bool {
        guard !isBurnt else { return false }
        guard let left else { return true }
        if left == 0 { isBurnt = true } else { self.left = left - 1 }
        return !isBurnt
    }
}

/// A device on the air, whose advert identifies it.
struct PlayedDevice {
    let number: UInt64
    let service: BluetoothUUID

    var address: BluetoothAddress { BluetoothAddress(value: number, kind: .public) }
    var id: RadioDeviceID { RadioDeviceID("/dev/\(number)") }
    var advertisement: Advertisement {
        var advertisement = Advertisement(device: id, address: address)
        advertisement.serviceUUIDs = [service]
        advertisement.localName = "device \(number)"
        advertisement.rssi = -50
        return advertisement
    }
}

/// Bonds and their owners: the state that the radio's service keeps while daemons come and go.
final class PlayedBonds {
    enum Owner {
        case ours, other
        /// The daemon died after the radio said that another program is at it, and before it could write that down:
        /// this bond cannot be distinguished from one that the daemon made itself, and it may go or stay
        /// (Docs/Reliability.md).
        case unknown
    }
    var owners: [UInt64: Owner] = [:]
    /// Bonds of other programs that we removed.
    var wronged: [UInt64] = []
}

final class PlayedRadio: Radio {
    private let devices: [PlayedDevice]
    private let kept: PlayedBonds
    private let fuse: Fuse
    var state = RadioState.ready
    weak var observer: (any RadioObserver)?
    var adapters: [RadioAdapter] { [] }
    var scans = 0
    /// The device that is being paired, or whose pairing is asked to end.
    private(set) var pairing: PlayedDevice?
    private(set) var isCancelled = false
    /// It was paired when that began: then nothing is made.
    private var wasThere = false
    private(set) var bridging: (classic: UInt64, completion: (Result<BluetoothAddress, RadioFailure>) -> Void)?

    init(_ devices: [PlayedDevice], _ kept: PlayedBonds, _ fuse: Fuse) {
        (self.devices, self.kept, self.fuse) = (devices, kept, fuse)
    }

    func start() {}
    func follow(_ peers: [BluetoothPeer]) {}
    func monitor(_ patterns: [AdvertPattern]) {}
    var isMonitoring: Bool { false }
    func isMonitored(_ address: BluetoothAddress) -> Bool { false }
    func listen() -> DiscoveryToken { DiscoveryToken {} }
    func discover() -> DiscoveryToken {
        scans += 1
        return DiscoveryToken { [weak self] in self?.scans -= 1 }
    }
    func refresh(_ completion: @escaping () -> Void) { completion() }
    func setAlias(_ peer: BluetoothPeer, _ name: String) {}
    func answer(_ answer: PromptAnswer) {}
    func device(for peer: BluetoothPeer) -> RadioDeviceID? { devices.first { $0.address == peer.address }?.id }
    func link(with peer: BluetoothPeer) -> RadioLink { RadioLink() }

    var bonds: [RadioBond] {
        kept.owners.keys.sorted().map { number in
            RadioBond(
                devices.first { $0.number == number }?.advertisement
                    ?? Advertisement(
                        device: RadioDeviceID("/dev/\(number)"), address: BluetoothAddress(value: number, kind: .public)))
        }
    }

    func pair(_ device: RadioDeviceID, support: SupportOptions) {
        guard fuse.allows() else { return }
        pairing = devices.first { $0.id == device }
        wasThere = pairing.map { kept.owners[$0.number] != nil } ?? false
        isCancelled = false
    }
    func cancelPairing() { isCancelled = true }

    /// The pairing that runs ends well: there is a bond, and who made it keeps it.
    func endPairing() {
        guard let device = pairing else { return }
        pairing = nil
        let wasThere = wasThere || kept.owners[device.number] != nil
        if !wasThere { kept.owners[device.number] = .ours }
        observer?.pairingEnded(
            .success(PairedIdentity(address: device.address, device: device.id, wasPairedBefore: wasThere)))
    }

    /// The pairing that runs fails: for good, or because another program is at it, which then has the bond.
    func failPairing(_ reason: RadioFailure.Reason) {
        guard let device = pairing else { return }
        pairing = nil
        let isTheirs = reason == .busy && kept.owners[device.number] == nil
        if isTheirs { kept.owners[device.number] = .other }
        observer?.pairingEnded(.failure(RadioFailure(reason, "played")))
        if isTheirs, fuse.isBurnt, kept.owners[device.number] == .other { kept.owners[device.number] = .unknown }
    }

    /// The daemon is gone; its pairing ends by itself.
    func abandon(paired: Bool) {
        if paired, !wasThere, let device = pairing, kept.owners[device.number] == nil { kept.owners[device.number] = .ours }
        if paired, let classic = bridging?.classic, kept.owners[classic] == nil { kept.owners[classic] = .ours }
        (pairing, bridging) = (nil, nil)
    }

    func bridge(
        _ peer: BluetoothPeer, classic: BluetoothAddress?,
        completion: @escaping (Result<BluetoothAddress, RadioFailure>) -> Void
    ) {
        guard fuse.allows() else { return }
        guard bridging == nil, pairing == nil else { return completion(.failure(RadioFailure(.busy, "played"))) }
        bridging = (classic?.value ?? peer.address.value, completion)
    }

    func endBridging(_ isDone: Bool) {
        guard let (classic, completion) = bridging else { return }
        bridging = nil
        if isDone, kept.owners[classic] == nil { kept.owners[classic] = .ours }
        completion(
            isDone
                ? .success(BluetoothAddress(value: classic, kind: .public)) : .failure(RadioFailure(.connection, "played")))
    }

    /// When a device is removed, the work under way with it ends.
    func lose(_ number: UInt64) {
        if bridging?.classic == number { endBridging(false) }
        if pairing?.number == number { failPairing(.connection) }
    }

    func removeBond(
        _ peer: BluetoothPeer, device: RadioDeviceID?, wasPairing: Bool,
        completion: @escaping (Result<Void, RadioFailure>) -> Void
    ) {
        guard fuse.allows() else { return }
        guard state == .ready else { return completion(.failure(RadioFailure(.unavailable, "played"))) }
        if kept.owners.removeValue(forKey: peer.address.value) == .other { kept.wronged.append(peer.address.value) }
        lose(peer.address.value)
        completion(.success(()))
    }
}

/// The contents of the disk, and a daemon's way to it.
final class PlayedStore: LedgerStore, AuditTrail {
    struct Refused: Error {}
    private(set) var ledger = Ledger()
    private(set) var intents: [BondIntent] = []
    private(set) var mutedApps: [AppID: MutedApp] = [:]
    private(set) var claims: [Claim] = []
    private(set) var trail: [AuditEntry] = []
    private var grants: Int64 = 0
    var isFull = false
    var fuse = Fuse()

    private func write(_ body: () -> Void) throws {
        guard !isFull, fuse.allows() else { throw Refused() }
        body()
    }

    func load() throws -> StoredState {
        var state = StoredState(
            accessories: ledger.accessories.values.sorted { $0.id < $1.id }, grants: ledger.grants.values.sorted { $0.id < $1.id },
            intents: intents)
        state.mutedApps = Array(mutedApps.values)
        state.claims = claims
        return state
    }
    func commit(_ change: StoreChange) throws -> [Int64] {
        try write {
            ledger.apply(change.steps)
            if let claim = change.claim { claims.append(claim) }
            if let app = change.unmuted { mutedApps[app] = nil }
            if let muted = change.muted { mutedApps[muted.app] = muted }
            for intent in change.intents { put(intent) }
            for intent in change.finishedIntents { drop(intent) }
            trail += change.lines
        }
        return numbers(of: change.lines)
    }
    func persist(_ intent: BondIntent) throws { try write { put(intent) } }
    func delete(_ intent: BondIntent) throws { try write { drop(intent) } }
    private func put(_ intent: BondIntent) {
        drop(intent)
        intents.append(intent)
    }
    private func drop(_ intent: BondIntent) {
        intents.removeAll { $0.address == intent.address && $0.purpose == intent.purpose }
    }
    func nextAwareDevice() throws -> UInt64 { 1 }
    func nextGrantID() throws -> Int64 {
        try write { grants += 1 }
        return grants
    }
    func append(_ entries: [AuditEntry]) throws -> [Int64] {
        try write { trail += entries }
        return numbers(of: entries)
    }
    private func numbers(of last: [AuditEntry]) -> [Int64] { last.indices.map { Int64(trail.count - last.count + $0 + 1) } }
    func firstLine(of query: AuditQuery) throws -> Int64 { 0 }
    func page(of query: AuditQuery, from number: Int64, atMost count: Int) throws -> AuditPage {
        AuditPage(entries: trail, next: nil)
    }
}
