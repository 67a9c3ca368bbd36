// SPDX-License-Identifier: Apache-2.0
// Ownership of bonds before a grant records it: the store has each intent before the radio acts on it, and bonds left
// over from an earlier run or a failure are removed as soon as the radio can (Docs/Decisions/0005).

internal import AccessoryCore
internal import AccessoryModel
internal import Logging

final class BondKeeper {
    private let radio: any Radio
    private let store: any LedgerStore
    private let registry: GrantRegistry
    private let log: Logger
    private var intents: [BondIntent]
    /// Pairings of an earlier run that ended in their middle.
    private let abandonedPairings: Set<BondIntent>
    /// The removals under way, and their completions.
    private var removing: [BondIntent: [() -> Void]] = [:]
    /// The intent of the pairing under way.
    private(set) var pairing: BondIntent?
    /// Done with, and still in the store, which did not take it.
    private var toDelete: [BondIntent] = []
    private let deletion: Retry
    private let removal: Retry
    private static let pauses = 1.0...60

    /// - Parameter intents: from the store, of earlier runs.
    init(
        _ intents: [BondIntent], _ radio: any Radio, _ store: any LedgerStore, _ registry: GrantRegistry, _ clock: any EngineClock,
        _ log: Logger
    ) {
        self.intents = intents
        abandonedPairings = Set(intents.filter { $0.purpose == .pairing })
        self.radio = radio
        self.store = store
        self.registry = registry
        self.log = log
        deletion = Retry(Self.pauses, clock.once)
        removal = Retry(Self.pauses, clock.once)
        for intent in intents {
            log.notice(
                "resuming an unfinished bond change from an earlier run", metadata: ["purpose": "\(intent.purpose.rawValue)"])
            log.debug("unfinished bond change", metadata: ["address": "\(intent.address)"])
        }
    }

    // MARK: Intents

    /// The pending change of a bond; nil without one.
    func intent(with peer: BluetoothPeer) -> BondIntent? {
        intents.first { $0.address.value == peer.address.value && peer.shares($0.adapter) }
    }

    /// Writes down that a pairing begins. Its intent stays until `endPairing`.
    ///
    /// - Throws: as `persist`.
    func beginPairing(_ offer: Offer, with peer: BluetoothPeer) throws(SetupError) {
        let trace = BondIntent.Trace(name: offer.advertisedName, olderBonds: Set(radio.bonds.map(\.address.description)))
        let intent = BondIntent(
            peer, device: offer.device, purpose: .pairing, trace: peer.address.isResolvablePrivate ? trace : nil)
        try persist(intent)
        pairing = intent
    }

    /// The pairing under way has ended: its intent, which the caller stores, deletes or turns into a removal.
    func endPairing() -> BondIntent? {
        defer { pairing = nil }
        return pairing
    }

    /// The intent to remove a bond.
    func removalIntent(_ peer: BluetoothPeer) -> BondIntent {
        BondIntent(peer, device: radio.device(for: peer), purpose: .removal)
    }

    /// Stores the intent of a change to a bond.
    ///
    /// - Throws: `Unknown`, when the store does not take it: then it must not happen.
    func persist(_ intent: BondIntent) throws(SetupError) {
        try storing(log) { try store.persist(intent) }
        // It stands in the place of an older one, whose end must not be its own.
        toDelete.removeAll { $0.peer == intent.peer && $0.purpose == intent.purpose }
        intents.append(intent)
    }

    /// A stored change has added intents and removed others.
    func written(_ new: [BondIntent], finished: [BondIntent]) {
        toDelete.removeAll { old in new.contains { $0.peer == old.peer } && old.purpose == .removal }
        intents.removeAll { finished.contains($0) }
        intents += new
        deleteRemaining()
    }

    /// An intent is done with.
    func delete(_ intent: BondIntent) {
        intents.removeAll { $0 == intent }
        do {
            try store.delete(intent)
        } catch {
            // Left in the store, it would later remove a bond that another program has made since.
            log.error("could not delete a bond intent; retrying until the store accepts it", metadata: ["error": "\(error)"])
            toDelete.append(intent)
            deleteLater()
        }
    }

    private func deleteLater() {
        guard !toDelete.isEmpty else { return }
        deletion.schedule { [weak self] in self?.deleteRemaining() }
    }

    /// The store has taken something, or time has passed.
    private func deleteRemaining() {
        while let intent = toDelete.first {
            guard (try? store.delete(intent)) != nil else { return deleteLater() }
            toDelete.removeFirst()
            log.notice("deleted a bond intent after an earlier failure")
        }
        deletion.finish()
    }

    // MARK: Removing

    /// Removes leftovers of earlier runs and failures, except for the pairing under way.
    func removeLeftovers() {
        guard radio.state == .ready else { return }
        for intent in intents where intent != pairing { removeBond(of: intent) {} }
    }

    /// Removes the bonds of intents in parallel: a silent radio delays the caller once.
    func removeBonds(of intents: [BondIntent], completion: @escaping () -> Void) {
        var left = intents.count
        guard left > 0 else { return completion() }
        for intent in intents {
            removeBond(of: intent) {
                left -= 1
                if left == 0 { completion() }
            }
        }
    }

    /// Removes the bond that an intent speaks of, and deletes the intent once it has gone. A bond that a grant stands
    /// on stays. Without a radio that is ready, it is completed at once, and the intent stays.
    func removeBond(of intent: BondIntent, completion: @escaping () -> Void) {
        // An intent of pairing is stored where there is no bond: a bond of another program's that the ledger has was
        // lost by then, and the one that is there now is ours to undo.
        let ledger = registry.ledger
        if intent.purpose == .pairing ? ledger.ownsBond(with: intent.peer) : ledger.holdsBond(with: intent.peer) {
            delete(intent)
            return completion()
        }
        guard radio.state == .ready else { return completion() }
        guard removing[intent] == nil else { return removing[intent, default: []].append(completion) }
        removing[intent] = [completion]
        radio.removeBond(target(of: intent), device: intent.device, wasPairing: abandonedPairings.contains(intent)) {
            [weak self] result in
            guard let self else { return completion() }
            let waiting = self.removing.removeValue(forKey: intent) ?? []
            switch result {
            case .success:
                self.log.notice("removed the bond", metadata: ["after": "\(intent.purpose.rawValue)"])
                self.log.debug("removed the bond", metadata: ["address": "\(intent.address)"])
                self.delete(intent)
                if self.intents.allSatisfy({ $0 == self.pairing }) { self.removal.finish() }
            case .failure(let failure):
                self.log.warning("could not remove the bond; will retry", metadata: ["reason": "\(failure)"])
                self.log.debug("could not remove the bond", metadata: ["address": "\(intent.address)"])
                if self.intents.contains(intent) { self.removeAgainLater() }
            }
            for completion in waiting { completion() }
        }
    }

    /// Retries removals that failed, at growing intervals.
    private func removeAgainLater() {
        removal.schedule { [weak self] in self?.removeLeftovers() }
    }

    /// A pairing has made a bond without a grant.
    ///
    /// - Parameter pairing: the intent of that pairing.
    func removeOrphan(_ identity: PairedIdentity, after pairing: BondIntent?) {
        let removal = BondIntent(identity.peer, device: identity.device, purpose: .removal)
        do {
            // In this order, the store always has one of the two.
            try persist(removal)
            if let pairing { delete(pairing) }
            removeBond(of: removal) {}
        } catch {
            log.error("could not store a bond intent", metadata: ["error": "\(error.message)"])
            intents.append(removal)
            removeBond(of: removal) { [weak self] in
                // Until the bond is gone, the intent of pairing stands for its removal.
                guard let self, let pairing, !self.intents.contains(removal) else { return }
                self.delete(pairing)
            }
        }
    }

    /// The present address of an intent's bond. A private address may have become an identity unrecorded: the one new
    /// bond with the same name, or without a name, as keys may reach the disk before the name. With several candidates
    /// none is removed: a bond of another program must survive.
    private func target(of intent: BondIntent) -> BluetoothPeer {
        guard let trace = intent.trace else { return intent.peer }
        let new = radio.bonds.filter {
            intent.peer.shares($0.adapter) && !trace.olderBonds.contains($0.address.description)
                && registry.ledger.accessory(at: $0.address) == nil
        }
        let named = new.filter { $0.name == trace.name }
        let candidates = named.isEmpty ? new.filter { $0.name.isEmpty } : named
        if candidates.count > 1 {
            log.warning("a bond without a grant may remain", metadata: ["candidates": "\(candidates.count)"])
            log.debug("a bond without a grant may remain", metadata: ["name": "\(trace.name)"])
        }
        return candidates.count == 1 ? BluetoothPeer(candidates[0].address, adapter: candidates[0].adapter) : intent.peer
    }
}
