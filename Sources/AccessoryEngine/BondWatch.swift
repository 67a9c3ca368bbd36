// SPDX-License-Identifier: Apache-2.0
// Notices bonds that fail. Where another program has removed the bond of an accessory, or bluetoothd has lost it, the
// grants must not continue with another device at the address: they are `unauthorized` until a person pairs the
// accessory again. Where the accessory has forgotten its keys, the app and the admin learn the way out.

internal import AccessoryCore
internal import AccessoryModel
internal import Logging

final class BondWatch {
    private let services: EngineServices
    /// The time that passes before a bond that is missing counts as lost.
    private var grace: (any EngineTimer)?
    /// Accessories with a bond whose last link ended at once.
    private var refusing: Set<AccessoryID> = []

    /// In seconds. An adapter that is unplugged, and a bluetoothd that ends, withdraw the devices first, and themselves
    /// a moment later.
    private static let graceTime = 3.0

    init(_ services: EngineServices) { self.services = services }

    /// The radio's objects have changed.
    ///
    /// - Parameter address: of the device that has changed; nil where any may have.
    func review(_ address: BluetoothAddress?) {
        guard grace == nil else { return }
        if let address {
            guard let accessory = services.registry.ledger.accessory(at: address), isMissing(accessory, from: services.radio.bonds)
            else { return }
        } else {
            guard !missing.isEmpty else { return }
        }
        grace = services.clock.after(Self.graceTime) { [weak self] in
            self?.services.radio.refresh { self?.confirm() }
        }
    }

    private func confirm() {
        grace = nil
        for accessory in missing {
            services.log.warning("lost the bond with an accessory", metadata: ["accessory": "\(accessory.id)"])
            do { try services.access.bondLost(accessory) } catch {
                services.log.error("could not record the loss of a bond", metadata: ["error": "\(error.message)"])
            }
        }
    }

    private var missing: [Accessory] {
        let present = services.radio.bonds
        return services.registry.ledger.accessories.values.filter { isMissing($0, from: present) }.sorted { $0.id < $1.id }
    }

    /// Whether a bond counts as lost after the grace time. An accessory without a noted adapter may have its bond on an
    /// adapter that is unplugged.
    private func isMissing(_ accessory: Accessory, from present: [RadioBond]) -> Bool {
        guard let peer = accessory.peer, peer.adapter != nil else { return false }
        return isUnbonded(accessory, among: present) && services.bonds.intent(with: peer) == nil
    }

    /// Whether a bond is expected, and no adapter that can have it does.
    private func isUnbonded(_ accessory: Accessory, among present: [RadioBond]) -> Bool {
        guard accessory.isBonded, let peer = accessory.peer, services.radio.adapters.contains(where: { peer.shares($0.address) })
        else {
            return false
        }
        return present.bond(with: peer, byValue: true) == nil
    }

    // MARK: Forgotten keys

    func linkEndedAtOnce(_ id: AccessoryID) -> String? {
        guard let accessory = services.registry.ledger.accessories[id], accessory.isBonded else { return nil }
        refusing.insert(id)
        services.log.warning("a link to an accessory dropped immediately", metadata: ["accessory": "\(id)"])
        return wayOut(of: accessory)
    }

    /// The accessory is used again.
    func used(_ id: AccessoryID) { refusing.remove(id) }

    private func wayOut(of accessory: Accessory) -> String {
        let isRemovable = accessory.ownsBond && services.registry.ledger.grants(of: accessory.id).count == 1
        return "it may have forgotten its pairing; "
            + (isRemovable ? "remove it, or have an admin" : "have an admin")
            + " run “accessoryctl unpair \(accessory.id)”, and pair it again"
    }

    /// Reasons, for people, why the grants' apps cannot use an accessory: its bond is missing, or its links drop.
    func problems(with accessory: Accessory, of grants: [Grant]) -> [String] {
        var problems: [String] = []
        if services.radio.state == .ready, isUnbonded(accessory, among: services.radio.bonds) {
            // Within the grace time, the adapter may be going too: then the bond is not lost.
            problems.append(
                grace == nil ? "Bluetooth no longer has a bond with it" : "Bluetooth does not currently list its bond")
        }
        if accessory.isBonded, refusing.contains(accessory.id) {
            problems.append("it dropped the last link immediately: \(wayOut(of: accessory))")
        }
        let apps = grants.filter { $0.state == .unauthorized && !$0.terms.time.hasEnded }.map(\.app.rawValue).sorted()
        if !apps.isEmpty {
            problems.append("it is no longer paired: pair it again in a picker of \(apps.joined(separator: ", "))")
        }
        return problems
    }
}
