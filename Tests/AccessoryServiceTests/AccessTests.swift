// SPDX-License-Identifier: Apache-2.0
// Permissions: each member of each interface against each kind of caller. An object that a caller may not know of
// appears nowhere: not in calls, properties, introspection or lists.

import AccessoryBus
import AccessoryModel
import DBusKit
import Testing

/// The result of using a member.
private enum Outcome {
    /// It may be used.
    case granted
    /// It is there, for others.
    case refused
    /// As if there were no such member.
    case hidden
    /// As if there were no such object.
    case nothing
}

/// Whom a member is for.
private enum Rule {
    case whoeverSeesIt
    case only(Set<CallerKind>, others: Outcome)
}

/// An interface at a place: who sees the object, and whom its members are for.
private struct Row {
    let place: Place
    let interface: String
    let seenBy: Set<CallerKind>
    let members: [String: Rule]

    func outcome(_ member: String, for caller: CallerKind) -> Outcome? {
        guard let rule = members[member] else { return nil }
        guard seenBy.contains(caller) else { return .nothing }
        switch rule {
        case .whoeverSeesIt: return .granted
        case .only(let callers, let others): return callers.contains(caller) ? .granted : others
        }
    }
}

/// For all other callers the member does not exist.
private let admins = Rule.only([.admin], others: .hidden)
private let persons = Rule.only([.admin, .owner], others: .hidden)
/// Members of the group, and no apps.
private let managers = members.subtracting([.ownersApp])
private let members = Set(CallerKind.allCases.filter(\.isInGroup)).union([.admin])

/// The app's own connection acts in its session; an admin looks.
private func session(of owner: CallerKind) -> [String: Rule] {
    let own = Rule.only([owner], others: .refused)
    return [
        "App": .whoeverSeesIt, "Program": admins, "State": .whoeverSeesIt, "Accessories": .whoeverSeesIt, "Activate": own,
        "Invalidate": own,
        "ShowPicker": own, "UpdatePicker": own, "FinishPickerDiscovery": own, "CancelPicker": own, "RenameAccessory": own,
        "RenewAccess": own,
        "RemoveAccessory": own,
        "FinishAuthorization": own, "FailAuthorization": own, "UpdateAuthorization": own, "ObservePresence": own,
    ]
}

private let rows: [Row] = [
    Row(
        place: .manager, interface: AccessoryBus.manager, seenBy: Set(CallerKind.allCases),
        members: [
            "Version": .whoeverSeesIt, "Bluetooth": .whoeverSeesIt, "WiFi": .whoeverSeesIt, "PickerAvailable": .whoeverSeesIt,
            "CreateSession": .whoeverSeesIt, "RegisterPicker": .only(members, others: .refused),
            "UnregisterPicker": .whoeverSeesIt, "Pickers": .only(members, others: .hidden),
            "MutedApps": .only(managers, others: .hidden),
            "UnmuteApp": .only(managers, others: .hidden),
        ]),
    Row(place: .session, interface: AccessoryBus.session, seenBy: [.app, .admin], members: session(of: .app)),
    Row(
        place: .sessionWithGrant, interface: AccessoryBus.session, seenBy: [.appWithGrant, .admin],
        members: session(of: .appWithGrant)),
    Row(
        place: .accessory, interface: AccessoryBus.accessory, seenBy: [.appWithGrant, .owner, .admin],
        members: [
            "DisplayName": .whoeverSeesIt, "State": .whoeverSeesIt, "BluetoothIdentifier": .whoeverSeesIt,
            "BluetoothTransportBridgingIdentifier": .whoeverSeesIt, "Ssid": .whoeverSeesIt,
            "WiFiAwarePairedDeviceID": .whoeverSeesIt, "Descriptor": .whoeverSeesIt, "Device": .whoeverSeesIt,
            "Endpoint": .whoeverSeesIt, "Ends": .whoeverSeesIt, "Access": .whoeverSeesIt, "Characteristics": .whoeverSeesIt,
            "Address": persons,
            "Adapter": persons, "NetworkName": persons, "Apps": persons, "Connected": persons, "Battery": persons,
            "Problems": persons, "AdvertisedName": persons, "HasImage": persons, "RemovalTime": persons,
            "ScheduleRemoval": persons, "CancelRemoval": persons,
            "JoinNetwork": .only([.appWithGrant], others: .refused),
            "LeaveNetwork": .only([.appWithGrant], others: .refused), "Rename": persons, "Remove": persons, "Unpair": admins,
            "ImageData": persons,
        ]),
    Row(
        place: .accessory, interface: AccessoryBus.network, seenBy: [.appWithGrant, .owner, .admin],
        members: ["Interface": .whoeverSeesIt]),
    Row(
        place: .picker, interface: AccessoryBus.picker, seenBy: [.picker, .admin],
        members: [
            "App": .whoeverSeesIt, "AppName": .whoeverSeesIt, "Program": .whoeverSeesIt, "Kind": .whoeverSeesIt,
            "Stage": .whoeverSeesIt,
            "Offers": .whoeverSeesIt, "Prompt": .whoeverSeesIt, "Deadline": .whoeverSeesIt,
            "Pick": .only([.picker], others: .refused), "PickWith": .only([.picker], others: .refused),
            "Respond": .only([.picker], others: .refused),
            "Cancel": .only([.picker], others: .refused), "Mute": .only([.picker], others: .refused),
            "Rename": .only([.picker], others: .refused),
            "GetImage": .only([.picker], others: .refused), "ImageData": .only([.picker], others: .refused),
        ]),
    Row(
        place: .grant, interface: AccessoryBus.grant, seenBy: [.admin],
        members: [
            "App": admins, "Accessory": admins, "State": admins, "Enabled": admins, "Created": admins, "LastUsed": admins,
            "Ssid": admins, "NetworkName": admins, "Descriptor": admins, "User": admins, "Revoke": admins,
            "Excluded": admins, "Access": admins, "Characteristics": admins, "EndRules": admins, "Ends": admins, "SetEnd": admins,
            "SetAccess": admins, "Observed": admins, "Present": admins, "ListDevices": admins, "Exclude": admins, "Include": admins,
        ]),
    Row(
        place: .app, interface: AccessoryBus.app, seenBy: [.admin],
        members: ["Id": admins, "Name": admins, "Source": admins, "Problems": admins, "Socket": admins, "Manifest": admins]),
    Row(
        place: .admin, interface: AccessoryBus.admin, seenBy: [.admin],
        members: [
            "GetAudit": admins, "Explain": admins, "ExplainAccess": admins, "GetClaims": admins, "Refresh": admins,
            "ActFor": admins,
            "Policy": admins,
            "PolicyProblems": admins, "ClaimLists": admins, "ClaimProblems": admins,
            "Adapters": admins,
            "Lockdown": admins,
        ]),
]

@Suite struct AccessTests {
    private let service: PlayedService

    init() throws {
        service = try PlayedService()
    }

    /// The caller's right according to an answer; arguments that fit no method turn a granted call into an error.
    private func outcome(_ answer: Result<[DBusValue], BusError>, granted: String? = nil) -> Outcome? {
        switch answer {
        case .success: granted == nil ? .granted : nil
        case .failure(let error) where granted.map(error.isStandard) == true: .granted
        case .failure(let error) where error.isStandard("AccessDenied"): .refused
        case .failure(let error) where error.isStandard("UnknownMethod") || error.isStandard("UnknownProperty"): .hidden
        case .failure(let error) where error.isStandard("UnknownObject"): .nothing
        case .failure: nil
        }
    }

    @Test func everyMemberIsExpectedSomewhere() throws {
        for row in rows {
            let description = try AccessoryBus.description(of: row.interface)
            let names = description.methods.map(\.name) + description.properties.map(\.name)
            #expect(Set(names) == Set(row.members.keys), "\(row.interface)")
        }
        #expect(Set(rows.map(\.place)) == Set(Place.allCases))
    }

    @Test(arguments: CallerKind.allCases)
    func calls(caller: CallerKind) throws {
        for row in rows {
            for method in try AccessoryBus.description(of: row.interface).methods {
                // Arguments that no method takes: a caller with the right gets that error, and nothing happens.
                let answer = try service.call(
                    caller, service.path(row.place), row.interface, method.name, Array(repeating: .uint64(0), count: 5))
                #expect(
                    outcome(answer, granted: "InvalidArgs") == row.outcome(method.name, for: caller),
                    "\(row.place) \(method.name): \(answer)")
            }
        }
    }

    @Test(arguments: CallerKind.allCases)
    func properties(caller: CallerKind) throws {
        for row in rows {
            let path = service.path(row.place)
            let properties = try AccessoryBus.description(of: row.interface).properties
            for property in properties {
                let expected = row.outcome(property.name, for: caller)
                let place: Comment = "\(row.place) \(property.name)"
                let names: [DBusValue] = [.string(row.interface), .string(property.name)]
                let got = try service.call(caller, path, Bus.properties, "Get", names)
                #expect(outcome(got) == expected, place)
                if expected == .granted { #expect(try got.get().first?.unwrapped.signature == property.type, place) }
                // Of a type that no property has.
                let set = try service.call(caller, path, Bus.properties, "Set", names + [.variant(.signature("s"))])
                #expect(outcome(set, granted: property.isWritable ? "InvalidArgs" : "PropertyReadOnly") == expected, place)
            }
            let all = try service.call(caller, path, Bus.properties, "GetAll", [.string(row.interface)])
            guard row.seenBy.contains(caller) else {
                #expect(outcome(all) == .nothing)
                continue
            }
            let granted = properties.map(\.name).filter { row.outcome($0, for: caller) == .granted }
            #expect(Set(try #require(try all.get().first?.vardictValue).keys) == Set(granted), "\(row.place)")
        }
    }

    @Test(arguments: CallerKind.allCases)
    func introspection(caller: CallerKind) throws {
        for row in rows {
            let answer = try service.call(caller, service.path(row.place), Bus.introspectable, "Introspect")
            guard row.seenBy.contains(caller) else {
                #expect(outcome(answer) == .nothing)
                continue
            }
            let shown = try InterfaceDescription.parse(xml: try #require(try answer.get().first?.stringValue))
                .first { $0.name == row.interface }
            let names = try #require(shown).methods.map(\.name) + (shown?.properties.map(\.name) ?? [])
            #expect(Set(names) == Set(row.members.keys.filter { row.outcome($0, for: caller) != .hidden }), "\(row.place)")
        }
    }

    @Test(arguments: CallerKind.allCases)
    func lists(caller: CallerKind) throws {
        let answer = try service.call(caller, AccessoryBus.root, Bus.objectManager, "GetManagedObjects").get()
        var listed: [ObjectPath: DBusValue] = [:]
        for entry in try #require(answer.first?.entries) { listed[try #require(entry.key.objectPathValue)] = entry.value }
        for row in rows where row.place != .manager {
            let object = listed[service.path(row.place)]
            #expect((object != nil) == row.seenBy.contains(caller), "\(row.place)")
            guard let interface = object?.vardictValue?[row.interface] else { continue }
            let all = try service.call(caller, service.path(row.place), Bus.properties, "GetAll", [.string(row.interface)])
            #expect(try all.get().first == interface, "\(row.place)")
        }
        // Besides there is the other app, for admins.
        let expected = Set(rows.filter { $0.place != .manager && $0.seenBy.contains(caller) }.map { service.path($0.place) })
        let other: Set<ObjectPath> = caller == .admin ? [AccessoryBus.appPath("com.example.board")] : []
        #expect(Set(listed.keys) == expected.union(other))
    }

    @Test func whatIsNotSeenReadsAsWhatIsNot() throws {
        for (there, not) in [
            (service.path(.grant), AccessoryBus.grantPath(8)), (service.path(.session), AccessoryBus.sessionPath(99)),
        ] {
            let one = try service.call(.stranger, there, AccessoryBus.grant, "Revoke")
            let other = try service.call(.stranger, not, AccessoryBus.grant, "Revoke")
            guard case .failure(let seen) = one, case .failure(let unseen) = other else {
                Issue.record("\(one), \(other)")
                continue
            }
            #expect(seen.name == unseen.name)
            #expect(seen.message.replacing(there.rawValue, with: "") == unseen.message.replacing(not.rawValue, with: ""))
        }
    }

    @Test func whoIsNoAppHasNoSession() throws {
        for caller: CallerKind in [.stranger, .picker, .owner, .admin] {
            let answer = try service.call(caller, AccessoryBus.root, AccessoryBus.manager, "CreateSession", [.vardict([:])])
            guard case .failure(let error) = answer else {
                Issue.record("\(caller) got a session")
                continue
            }
            #expect(error.setupCode == .activationFailed)
        }
    }

    @Test func aGrantThatIsSwitchedOffShowsNothing() throws {
        let arguments: [DBusValue] = [.string(AccessoryBus.grant), .string("Enabled"), .variant(.boolean(false))]
        _ = try service.call(.admin, service.path(.grant), Bus.properties, "Set", arguments).get()
        let answer = try service.call(
            .appWithGrant, service.path(.accessory), Bus.properties, "GetAll", [.string(AccessoryBus.accessory)])
        #expect(outcome(answer) == .nothing)
        let removal = try service.call(
            .appWithGrant, service.path(.sessionWithGrant), AccessoryBus.session, "RemoveAccessory",
            [.objectPath(service.path(.accessory))])
        #expect(outcome(removal) == .nothing)
    }

    /// An app's word about an accessory is good for its own grant only, also where the connection sees it for another
    /// reason.
    @Test func anAppNamesOnlyWhatIsItsOwn() throws {
        let answer = try service.call(
            .app, service.path(.session), AccessoryBus.session, "RemoveAccessory", [.objectPath(service.path(.accessory))])
        #expect(outcome(answer) == .nothing)
    }
}
