// SPDX-License-Identifier: Apache-2.0
// The apps on the bus: one object for each manifest, for admins.

internal import AccessoryBus
internal import AccessoryEngine
internal import AdminFiles
internal import DBusKit

final class ExportedApps {
    let manifests: ManifestStore
    /// The path of an app's own socket, by the app's identifier; nil for one without.
    let socketOfApp: (String) -> String?
    private var objects: [String: AppObject] = [:]

    init(_ manifests: ManifestStore, _ socketOfApp: @escaping (String) -> String?) {
        self.manifests = manifests
        self.socketOfApp = socketOfApp
    }

    /// Exports every manifest, and signals changes to admins.
    func update(_ service: AccessoryService) {
        service.engine.setManifests(manifests.apps)
        let entries = Dictionary(manifests.entries.map { ($0.id, $0) }) { first, _ in first }
        for (id, object) in objects where entries[id] == nil {
            objects[id] = nil
            service.server.withdraw(object.path, to: .only(service.clients.admins))
        }
        for (id, entry) in entries {
            if let object = objects[id] {
                object.update(entry)
            } else {
                let object = AppObject(entry, service)
                objects[id] = object
                service.server.export(object, to: .only(service.clients.admins))
            }
        }
    }
}
