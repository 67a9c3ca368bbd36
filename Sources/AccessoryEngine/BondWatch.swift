// SPDX-License-Identifier: Apache-2.0
// Notices that the bond of an accessory has gone: another program has removed it, or bluetoothd has lost it. Its grants
// must not go on with whatever answers at its address, so they are `unauthorized` until a person pairs it again.

internal import AccessoryCore
internal import AccessoryModel
internal import Logging

final class BondWatch {
    private let book: Book
    private let access: AccessChanges
    private let bonds: BondKeeper
    private let radio: any Radio
    private let clock: any EngineClock
    private let log: Logger
    /// The time that passes before a bond that is missing counts as lost.
    private var grace: (any EngineTimer)?

    /// In seconds. An adapter that is unplugged, and a bluetoothd that ends, withdraw the devices first, and themselves
    /// a moment later.
    private static let graceTime = 3.0

    init(
        _ book: Book, _ access: AccessChanges, _ bonds: BondKeeper, _ radio: any Radio, _ clock: any EngineClock, _ log: Logger
    ) {
        self.book = book
        self.access = access
        self.bonds = bonds
        self.radio = radio
        self.clock = clock
        self.log = log
    }

    /// The radio's objects have changed.
    ///
    /// - Parameter address: of the device that has changed; nil where any may have.
    func review(_ address: BluetoothAddress?) {
        guard grace == nil else { return }
        if let address {
            guard let accessory = book.ledger.accessory(at: address), isMissing(accessory, from: bonded) else { return }
        } else {
            guard !missing.isEmpty else { return }
        }
        grace = clock.after(Self.graceTime) { [weak self] in
            self?.radio.refresh { self?.confirm() }
        }
    }

    private func confirm() {
        grace = nil
        for accessory in missing {
            log.warning("the bond with an accessory has gone", metadata: ["accessory": "\(accessory.id)"])
            do { try access.bondLost(accessory) } catch {
                log.error("the loss of a bond could not be written down", metadata: ["error": "\(error.message)"])
            }
        }
    }

    private var missing: [Accessory] {
        let bonded = bonded
        return book.ledger.accessories.values.filter { isMissing($0, from: bonded) }.sorted { $0.id < $1.id }
    }

    private var bonded: [UInt64: [RadioBond]] { Dictionary(grouping: radio.bonds, by: \.address.value) }

    /// Whether the adapter that has to have the bond is there, and has none. An accessory without a noted adapter may
    /// have its bond on one that is unplugged.
    private func isMissing(_ accessory: Accessory, from bonded: [UInt64: [RadioBond]]) -> Bool {
        guard accessory.isBonded, let peer = accessory.peer, let adapter = peer.adapter,
            radio.adapters.contains(where: { $0.address == adapter })
        else { return false }
        return bonded[peer.address.value]?.contains { peer.shares($0.adapter) } != true && bonds.intent(with: peer) == nil
    }
}
