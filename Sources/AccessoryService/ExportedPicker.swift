// SPDX-License-Identifier: Apache-2.0
// The picker on the bus, if one runs, and the names that its offers are compared with.

internal import AccessoryCore
internal import AccessoryEngine
internal import AccessoryModel
internal import DBusKit

final class ExportedPicker {
    private var object: PickerObject?
    /// Accessories' names, to be compared with offers.
    private var lookAlikes = LookAlikes()

    /// An accessory has a name from now on; nil takes its name away.
    func rename(_ id: AccessoryID, from old: String?, to new: String?) { lookAlikes.rename(id, from: old, to: new) }

    /// The name of another accessory that an offer can be taken for.
    func nameInUse(resembledBy offer: Offer) -> String? {
        let shown = [offer.advertisedName, offer.name] + (offer.network.map { [$0.ssid.description] } ?? [])
        return lookAlikes.resembled(by: shown, of: offer.shared ?? offer.identifier)
    }

    func open(_ run: PickerRun, _ service: AccessoryService) {
        let object = PickerObject(run, service)
        self.object = object
        service.server.export(object, to: service.audience(of: run))
    }

    func publish() { object?.publish() }

    func assign(to client: ClientID, _ service: AccessoryService) {
        guard let object else { return }
        object.publish {
            if !service.clients.isAdmin(client.rawValue) { service.server.announce(object, to: .only([client.rawValue])) }
        }
    }

    func close(_ run: PickerRun, _ service: AccessoryService) {
        guard let object else { return }
        self.object = nil
        object.close()
        service.server.withdraw(object.path, to: service.audience(of: run))
    }
}
