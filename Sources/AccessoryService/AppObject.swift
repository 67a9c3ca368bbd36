// SPDX-License-Identifier: Apache-2.0
// An app on the bus, for admins: its manifest, and the manifest's mistakes.

internal import AccessoryBus
internal import AccessoryEngine
internal import AccessoryModel
internal import AdminFiles
internal import DBusKit

final class AppObject: ServiceObject {
    unowned let service: AccessoryService
    private var entry: ManifestStore.Entry
    private var published = AppProperties()

    init(_ entry: ManifestStore.Entry, _ service: AccessoryService) {
        self.entry = entry
        self.service = service
        published = properties
    }

    var path: ObjectPath { AccessoryBus.appPath(entry.id) }
    var interfaces: [ExportedInterface] { service.members.app }
    func isVisible(to caller: String) -> Bool { service.clients.isAdmin(caller) }

    /// Takes over a manifest that was read anew.
    func update(_ entry: ManifestStore.Entry) {
        guard entry != self.entry else { return }
        self.entry = entry
        let new = properties
        service.publish(self, from: published, to: new, to: .only(service.clients.admins))
        published = new
    }

    static func members(_ description: InterfaceDescription) -> ExportedInterface {
        var table = MemberTable<AppObject>(description)
        table.properties { app, _ in app.properties }
        return table.complete()
    }

    private var properties: AppProperties {
        var properties = AppProperties()
        properties.id = entry.id
        properties.name = ShownName.marked(entry.name)
        properties.source = ShownName.marked(entry.source)
        properties.problems = entry.problems.map(ShownName.marked)
        properties.socket = service.exportedApps.socketOfApp(entry.id) ?? ""
        properties.manifest = entry.manifest.map(Self.keys) ?? [:]
        return properties
    }

    /// A manifest by its keys, without those that it does not have.
    private static func keys(of manifest: AppManifest) -> [String: [String]] {
        [
            "Unit": manifest.identities.units.sorted(), "Executable": manifest.identities.executables.sorted(),
            "Users": manifest.identities.users.sorted(),
            "Flatpak": manifest.identities.flatpaks.sorted(), "Snap": manifest.identities.snaps.sorted(),
            "SecurityLabel": manifest.identities.securityLabels.sorted(), "Socket": manifest.socket == nil ? [] : ["yes"],
            "Remote": manifest.socket?.remote.map { [$0.keyFile] } ?? [],
            "RemoteAddresses": manifest.socket?.remote?.addresses ?? [],
            "Supports": manifest.supports.map(\.rawValue).sorted(),
            "BluetoothServices": manifest.services.sorted().map(\.description), "BluetoothNames": manifest.names.sorted(),
            "Networks": (manifest.networks ?? []).map(\.description).sorted(),
            "Extension": [manifest.discoveryExtension].compactMap { $0?.description },
            "Wake": [manifest.wakeSocket].compactMap { $0?.description },
            "BluetoothCompanyIdentifiers": manifest.companies.map(\.description).sorted(),
        ]
        .filter { !$0.value.isEmpty }.mapValues { $0.map(ShownName.marked) }
    }
}

/// The apps on the bus: one object for each manifest, for admins.
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
