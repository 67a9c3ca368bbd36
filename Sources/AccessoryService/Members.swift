// SPDX-License-Identifier: Apache-2.0
// The tables of members: for each class of objects, what answers, and who may call it. One set for all objects of the service.

internal import AccessoryBus
internal import DBusKit

struct Members {
    let manager: [ExportedInterface]
    let session: [ExportedInterface]
    let accessory: [ExportedInterface]
    let picker: [ExportedInterface]
    let grant: [ExportedInterface]
    let app: [ExportedInterface]
    let admin: [ExportedInterface]

    /// - Throws: when an interface's XML, which is built in, is not valid.
    init() throws(BusError) {
        manager = [ManagerObject.members(try AccessoryBus.description(of: AccessoryBus.manager))]
        session = [SessionObject.members(try AccessoryBus.description(of: AccessoryBus.session))]
        accessory = AccessoryObject.members(
            try AccessoryBus.description(of: AccessoryBus.accessory), try AccessoryBus.description(of: AccessoryBus.network))
        picker = [PickerObject.members(try AccessoryBus.description(of: AccessoryBus.picker))]
        grant = [GrantObject.members(try AccessoryBus.description(of: AccessoryBus.grant))]
        app = [AppObject.members(try AccessoryBus.description(of: AccessoryBus.app))]
        admin = [AdminObject.members(try AccessoryBus.description(of: AccessoryBus.admin))]
    }
}
