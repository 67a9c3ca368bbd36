// SPDX-License-Identifier: Apache-2.0
// An app on the bus, for admins: what its manifest says, and what is wrong with it.

internal import AccessoryBus
internal import AccessoryModel
internal import AdminFiles
internal import DBusKit

final class AppObject: ServiceObject {
    unowned let service: AccessoryService
    private(set) var entry: ManifestStore.Entry

    init(_ entry: ManifestStore.Entry, _ service: AccessoryService) {
        self.entry = entry
        self.service = service
    }

    var path: ObjectPath { AccessoryBus.appPath(entry.id) }
    var interfaces: [ExportedInterface] { service.members.app }
    func isVisible(to caller: String) -> Bool { service.clients.isAdmin(caller) }

    /// Takes over what the manifest says now; whether that is something else.
    func update(_ entry: ManifestStore.Entry) -> Bool {
        guard entry != self.entry else { return false }
        self.entry = entry
        return true
    }

    static func members(_ description: InterfaceDescription) -> ExportedInterface {
        var table = MemberTable<AppObject>(description)
        table.property("Id", for: .admins) { app, _ in .string(app.entry.id) }
        table.property("Name", for: .admins) { app, _ in .string(ShownName.marked(app.entry.name)) }
        table.property("Source", for: .admins) { app, _ in .string(ShownName.marked(app.entry.source)) }
        table.property("Problems", for: .admins) { app, _ in .strings(app.entry.problems.map(ShownName.marked)) }
        table.property("Socket", for: .admins) { app, _ in .string(app.service.socketOfApp(app.entry.id) ?? "") }
        table.property("Manifest", for: .admins) { app, _ in encode(app.entry.manifest) }
        return table.complete()
    }

    /// What a manifest says, by its keys; a key that it does not have is left out, and so is everything of one with
    /// problems.
    private static func encode(_ manifest: AppManifest?) -> DBusValue {
        let keys: [(String, [String])] =
            manifest.map { manifest in
                [
                    ("Unit", manifest.units.sorted()), ("Executable", manifest.executables.sorted()),
                    ("Users", manifest.users.sorted()), ("Flatpak", manifest.flatpaks.sorted()), ("Snap", manifest.snaps.sorted()),
                    ("SecurityLabel", manifest.securityLabels.sorted()),
                    ("Socket", manifest.socket == nil ? [] : ["yes"]),
                    ("Supports", manifest.supports.map(\.rawValue).sorted()),
                    ("BluetoothServices", manifest.services.sorted().map(\.description)),
                    ("BluetoothNames", manifest.names.sorted()),
                    ("Networks", (manifest.networks ?? []).map(\.description).sorted()),
                    ("BluetoothCompanyIdentifiers", manifest.companies.map(\.description).sorted()),
                ]
            } ?? []
        return .dictionary(
            key: "s", value: "as",
            keys.filter { !$0.1.isEmpty }.sorted { $0.0 < $1.0 }
                .map { .init(.string($0.0), .strings($0.1.map(ShownName.marked))) })
    }
}
