// SPDX-License-Identifier: Apache-2.0
// What an admin asks of the daemon as a whole: the audit trail, why accessories in range are not offered, the rules in
// force, and whether BlueZ is locked down.

internal import AccessoryBus
internal import AccessoryCore
internal import AccessoryEngine
internal import AccessoryModel
internal import AdminFiles
internal import DBusKit
internal import KeyFiles

final class AdminObject: ServiceObject {
    let path = AccessoryBus.adminPath
    unowned let service: AccessoryService
    /// Lines of the trail that are read in one go.
    private static let linesPerPart = 64

    init(_ service: AccessoryService) {
        self.service = service
    }

    var interfaces: [ExportedInterface] { service.members.admin }
    func isVisible(to caller: String) -> Bool { service.clients.isAdmin(caller) }

    static func members(_ description: InterfaceDescription) -> ExportedInterface {
        var table = MemberTable<AdminObject>(description)
        table.property("Policy", for: .admins) { admin, _ in Self.encode(admin.service.engine.policy) }
        table.property("PolicyProblems", for: .admins) { admin, _ in
            .array(of: "a{sv}", admin.service.policies.problems.map(Self.encode))
        }
        table.property("Adapters", for: .admins) { admin, _ in
            .array(of: "a{sv}", admin.service.engine.adapters.map(Self.encode))
        }
        table.property("Lockdown", for: .admins) { admin, _ in .string(admin.lockdown) }
        table.method("GetAudit", for: .admins, AdminObject.getAudit)
        table.method("Explain", for: .admins, AdminObject.explain)
        table.method("ExplainAccess", for: .admins, AdminObject.explainAccess)
        table.method("Refresh", for: .admins, AdminObject.refresh)
        return table.complete()
    }

    private static func encode(_ adapter: RadioAdapter) -> DBusValue {
        .vardict([
            "name": .string(adapter.name), "address": .string(adapter.address.description), "powered": .boolean(adapter.isPowered),
            "allowed": .boolean(adapter.isAllowed),
        ])
    }

    private func getAudit(_ call: MethodCall) throws(BusError) {
        let query = try Self.query(call.arguments[0])
        var pages = try Self.reading { try service.engine.auditPages(query, of: Self.linesPerPart) }
        call.reply(inParts: "a{sv}") { () throws(BusError) in
            try Self.reading { try pages.next() }?.map(Self.encode)
        }
    }

    /// Reads the trail; what the store says of a failure is for the caller, who is an admin.
    private static func reading<Value>(_ body: () throws -> Value) throws(BusError) -> Value {
        do {
            return try body()
        } catch let error as BusError {
            throw error
        } catch {
            throw .failed("the audit trail cannot be read: \(error)")
        }
    }

    private static func query(_ argument: DBusValue) throws(BusError) -> AuditQuery {
        var query = AuditQuery()
        for (key, value) in argument.vardictValue ?? [:] {
            switch (key, value) {
            case ("app", .string(let text)):
                guard let app = AppID(text) else { throw .invalidArguments("app: \(text): not an app's identifier") }
                query.app = app
            case ("since", .uint64(let time)): query.since = Int64(clamping: time)
            case ("limit", .uint32(let limit)):
                guard (1...10_000).contains(limit) else { throw .invalidArguments("limit: \(limit): must be 1 to 10000") }
                query.limit = Int(limit)
            default: throw .invalidArguments("\(key): not a key, or not of type \(value.signature)")
            }
        }
        return query
    }

    /// A line of the trail, as `GetAudit` and `Audited` tell it.
    static func encode(_ entry: AuditEntry) -> DBusValue {
        .vardict([
            "id": .uint64(UInt64(entry.id)), "time": .uint64(UInt64(max(0, entry.time))), "event": .string(entry.event.rawValue),
            "app": .string(entry.app?.rawValue ?? ""), "accessory": .string(entry.accessory?.rawValue ?? ""),
            "who": .string(ShownName.marked(entry.who)), "why": .string(ShownName.marked(entry.why)),
        ])
    }

    private func refresh(_ call: MethodCall) throws(BusError) {
        service.engine.refreshBonds { call.reply() }
    }

    // MARK: Rules

    private static func encode(_ policy: AccessPolicy) -> DBusValue {
        /// Several files add up: then no one of them is it.
        func only(_ files: Set<String>) -> String { files.count == 1 ? files.first ?? "" : "" }
        var rules: [[String: DBusValue]] = []
        if let allowed = policy.allowed { rules.append(rule("allow-picker", "", allowed, "", only(policy.allowedBy))) }
        if !policy.refused.isEmpty { rules.append(rule("deny-picker", "", policy.refused, "", only(policy.refusedBy))) }
        rules += policy.approvals.map(Self.values)
        rules += policy.denials.map { rule("deny", $0.name, $0.apps ?? [], "\($0.target)", $0.source) }
        return .array(of: "a{sv}", rules.map { .vardict($0) })
    }

    private static func rule(
        _ kind: String, _ name: String, _ apps: Set<AppID>, _ target: String, _ source: String
    ) -> [String: DBusValue] {
        [
            "kind": .string(kind), "name": .string(ShownName.marked(name)), "apps": .strings(apps.sorted().map(\.rawValue)),
            "target": .string(ShownName.marked(target)), "source": .string(ShownName.marked(source)),
        ]
    }

    private static func values(_ approval: AccessPolicy.Approval) -> [String: DBusValue] {
        var values = rule("approve", approval.name, [approval.app], "\(approval.target)", approval.source)
        values["minimumRssi"] = .int16(Int16(clamping: approval.minimumRSSI))
        return values
    }

    private static func encode(_ problem: KeyFileProblem) -> DBusValue {
        .vardict([
            "file": .string(ShownName.marked(problem.file)), "line": .uint32(UInt32(clamping: problem.line)),
            "key": .string(ShownName.marked(problem.key)), "reason": .string(ShownName.marked(problem.reason)),
            "text": .string(ShownName.marked("\(problem)")),
        ])
    }

    /// As the files are at this moment: nobody watches them.
    private var lockdown: String {
        guard let configuration = try? BusConfiguration(service.lockdown.configuration),
            let sockets = try? SocketLockdown(service.lockdown.units)
        else { return "unknown" }
        return configuration.lockdown(by: service.lockdown.policy, sockets).rawValue
    }

    private func explainAccess(_ call: MethodCall) throws(BusError) {
        let text = call.arguments[0].stringValue ?? ""
        guard let app = AppID(text) else { throw .invalidArguments("app: \(text): not an app's identifier") }
        let accessory = try service.accessory(at: call.arguments[1].objectPathValue ?? "/", for: call.sender)
        let policy = service.engine.policy
        let entry = service.manifests.entries.first { $0.id == app.rawValue }
        var access: [String: DBusValue] = [
            "mayUse": .boolean([.bluetooth, .wifi].contains { service.engine.mayUse(accessory.id, app, by: $0) }),
            "manifest": .string(ShownName.marked(entry?.source ?? "")),
            "problems": .strings((entry?.problems ?? []).map(ShownName.marked)),
            "approvals": .array(of: "a{sv}", policy.approvals.filter { $0.app == app }.map { .vardict(Self.values($0)) }),
        ]
        access["pickerRefused"] = policy.refusal(of: app).map { .string(ShownName.marked($0)) }
        access["grant"] = service.engine.ledger.grant(of: accessory.id, to: app).map { .objectPath(AccessoryBus.grantPath($0.id)) }
        let terms = service.engine.ledger.grant(of: accessory.id, to: app)?.terms
        access["denial"] = policy.denial(of: accessory, on: terms, to: app).map {
            .vardict(["name": .string(ShownName.marked($0.name)), "source": .string(ShownName.marked($0.source))])
        }
        call.reply(.vardict(access))
    }

    private func explain(_ call: MethodCall) throws(BusError) {
        var app: AppManifest?
        var seconds = 5.0
        for (key, value) in call.arguments[0].vardictValue ?? [:] {
            switch (key, value) {
            case ("app", .string(let text)):
                guard let found = AppID(text).flatMap({ service.manifests.apps[$0] }) else {
                    throw .invalidArguments("app: \(text): no app has this identifier")
                }
                app = found
            case ("seconds", .double(let value)):
                guard (1...20).contains(value) else { throw .invalidArguments("seconds: \(value): must be 1 to 20") }
                seconds = value
            default: throw .invalidArguments("\(key): not a key, or not of type \(value.signature)")
            }
        }
        guard let app else { throw .invalidArguments("app: is missing") }
        try asking { () throws(SetupError) in
            try service.engine.explain(app, dryItems: Self.items(of: app), seconds: seconds) { items, devices in
                let sorted = devices.sorted { Strength.isNearer($0.rssi, than: $1.rssi) }
                call.reply(.array(of: "a{sv}", sorted.map { Self.encode($0, items) }))
            }
        }
    }

    /// What a picker of the app's could look for at most: everything that its manifest declares.
    private static func items(of app: AppManifest) -> [DisplayItem] {
        app.services.sorted().map { service in
            var descriptor = DiscoveryDescriptor()
            descriptor.serviceUUID = service
            return DisplayItem(name: "service \(service)", image: nil, descriptor: descriptor)
        }
            + app.companies.sorted { $0.value < $1.value }.map { company in
                var descriptor = DiscoveryDescriptor()
                descriptor.companyIdentifier = company
                return DisplayItem(name: "company \(company)", image: nil, descriptor: descriptor)
            }
    }

    private static func encode(_ device: ExplainedDevice, _ items: [DisplayItem]) -> DBusValue {
        let network = device.sighting.network
        let name = device.sighting.advertisement?.localName ?? network?.ssid.description ?? ""
        var result: [String: DBusValue] = [
            "address": .string(device.sighting.advertisement?.address.description ?? ""),
            "name": .string(ShownName.marked(name)),
            "item": .string(ShownName.marked(device.item.map { items[$0].name } ?? "")),
            "reasons": .strings(device.reasons.map(ShownName.marked)),
        ]
        result["ssid"] = network.map { .bytes($0.ssid.bytes) }
        result["network"] = network.map { .string($0.ssid.description) }
        result["rssi"] = device.rssi.map { .int16(Int16(clamping: $0)) }
        return .vardict(result)
    }
}
