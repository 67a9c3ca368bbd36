// An app on the bus, for admins: its manifest, and what is wrong with it.

internal import AccessoryBus
internal import AccessoryModel
internal import CallerIdentity
internal import DBusKit

final class AppObject: ExportedObject {
    let path: ObjectPath
    private unowned let service: AccessoryService
    private(set) var interfaces: [ExportedInterface] = []
    var entry: ManifestStore.Entry

    init(_ entry: ManifestStore.Entry, _ service: AccessoryService) {
        self.entry = entry
        self.service = service
        path = AccessoryBus.appPath(entry.id)
        var interface = ExportedInterface(service.description(AccessoryBus.app))
        interface.property("Id") { [unowned self] _ in .string(self.entry.id) }
        interface.property("Name") { [unowned self] _ in .string(self.entry.name) }
        interface.property("Source") { [unowned self] _ in .string(self.entry.source) }
        interface.property("Problems") { [unowned self] _ in .strings(self.entry.problems) }
        interfaces = [interface]
    }

    func isVisible(to caller: String) -> Bool { service.clients.isAdmin(caller) }
}
