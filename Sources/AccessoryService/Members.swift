// SPDX-License-Identifier: Apache-2.0
// The tables of members: for each class of objects, the handlers and the permitted callers. One set serves all objects;
// each table is made at the first request to such an object, so that starting costs none.

internal import AccessoryBus
internal import DBusKit

final class Members {
    private(set) lazy var manager = [ManagerObject.members(Self.description(of: AccessoryBus.manager))]
    private(set) lazy var session = [SessionObject.members(Self.description(of: AccessoryBus.session))]
    private(set) lazy var accessory = AccessoryObject.members(
        Self.description(of: AccessoryBus.accessory), Self.description(of: AccessoryBus.network))
    private(set) lazy var picker = [PickerObject.members(Self.description(of: AccessoryBus.picker))]
    private(set) lazy var grant = [GrantObject.members(Self.description(of: AccessoryBus.grant))]
    private(set) lazy var app = [AppObject.members(Self.description(of: AccessoryBus.app))]
    private(set) lazy var admin = [AdminObject.members(Self.description(of: AccessoryBus.admin))]

    private static func description(of interface: String) -> InterfaceDescription {
        do throws(BusError) {
            return try AccessoryBus.description(of: interface)
        } catch {
            preconditionFailure("the built-in description of \(interface): \(error)")
        }
    }
}
