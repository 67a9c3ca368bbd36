// SPDX-License-Identifier: Apache-2.0
// The callers that may use a member: the rules that the tables of members name, checked before a handler runs. A
// refused call has a line in the audit trail; a hidden member does not exist for the caller, and leaves none.

internal import AccessoryBus
internal import AccessoryEngine
internal import DBusKit

/// An object of ours: many of a class share one table of members.
protocol ServiceObject: ExportedObject {
    var service: AccessoryService { get }
    /// Whether a caller is a person who manages the object.
    func isManaged(by caller: String) -> Bool
}

extension ServiceObject {
    /// `Members` makes them at the first request.
    var hasCompleteTables: Bool { true }
    func isManaged(by caller: String) -> Bool { false }
}

extension AccessRule where Object: ServiceObject {
    /// Admins; for other callers the member does not exist.
    static var admins: AccessRule {
        AccessRule("admins") { object, caller in object.service.clients.isAdmin(caller) ? .granted : .hidden }
    }

    /// Admins, and the persons who manage the object; for other callers the member does not exist.
    static var persons: AccessRule {
        AccessRule("persons") { object, caller in
            object.service.clients.isAdmin(caller) || object.isManaged(by: caller) ? .granted : .hidden
        }
    }

    /// Root, admins and members of the group; for other callers the member does not exist.
    static var pickerProgramsAlone: AccessRule {
        AccessRule("picker programs alone") { object, caller in
            object.service.clients.mayShowPickers(caller) ? .granted : .hidden
        }
    }
}

extension AccessRule where Object == ManagerObject {
    /// Root, admins and members of the group.
    static var pickerPrograms: AccessRule {
        AccessRule("picker programs") { manager, caller in
            manager.service.clients.mayShowPickers(caller)
                ? .granted
                : .refused(
                    .accessDenied(
                        "a picker program runs as root or as a member of the group \(manager.service.clients.pickerGroup), "
                            + "outside of containers, and registers on the system bus"))
        }
    }

}

extension AccessRule where Object == SessionObject {
    /// The connection that opened the session; an admin looks, and does not act for the app.
    static var owner: AccessRule {
        AccessRule("owner") { session, caller in
            session.isOwned(by: caller) ? .granted : .refused(.accessDenied("this session belongs to another connection"))
        }
    }
}

extension AccessRule where Object == AccessoryObject {
    /// Connections with a session of an app that has the accessory.
    static var appsWithGrant: AccessRule {
        AccessRule("apps with a grant") { accessory, caller in
            accessory.service.grant(on: accessory.id, of: caller) != nil
                ? .granted
                : .refused(.accessDenied("only an app with a session and a grant may join or leave an accessory's network"))
        }
    }
}

extension AccessRule where Object == PickerObject {
    /// The picker program that shows the picker.
    static var itsPickerProgram: AccessRule {
        AccessRule("its picker program") { picker, caller in
            picker.run.client.rawValue == caller
                ? .granted
                : .refused(.accessDenied("only the picker program that shows this picker may answer for the person"))
        }
    }
}
