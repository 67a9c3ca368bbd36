// SPDX-License-Identifier: Apache-2.0
// Requests of admins about the daemon as a whole: the audit trail, the reasons why accessories in range are not
// offered, the rules in force, and the lock-down.

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

    private var published = AdminProperties()

    init(_ service: AccessoryService) {
        self.service = service
        published = properties
    }

    var interfaces: [ExportedInterface] { service.members.admin }
    func isVisible(to caller: String) -> Bool { service.clients.isAdmin(caller) }

    static func members(_ description: InterfaceDescription) -> ExportedInterface {
        var table = MemberTable<AdminObject>(description)
        table.properties { admin, _ in
            var properties = admin.properties
            properties.lockdown = admin.lockdown
            return properties
        }
        table.method("GetAudit", for: .admins, AdminObject.getAudit)
        table.method("Explain", for: .admins, AdminObject.explain)
        table.method("ExplainAccess", for: .admins, AdminObject.explainAccess)
        table.method("GetClaims", for: .admins, AdminObject.getClaims)
        table.method("ActFor", for: .admins, AdminObject.actFor)
        table.method("Refresh", for: .admins, AdminObject.refresh)
        return table.complete()
    }

    /// All but the lock-down, which costs files.
    private var properties: AdminProperties {
        var properties = AdminProperties()
        properties.policy = Self.rules(of: service.engine.policy)
        properties.policyProblems = service.policies.problems.map { PolicyProblemEntry($0) }
        properties.claimProblems = service.policies.listProblems.map { PolicyProblemEntry($0) }
        properties.claimLists = service.engine.policy.lists.map { list in
            var entry = ClaimListEntry()
            entry.id = list.id
            entry.app = list.app.rawValue
            entry.source = ShownName.marked(list.source)
            (entry.from, entry.until) = (Int(list.window.lowerBound), Int(list.window.upperBound))
            (entry.count, entry.entries, entry.used) = (list.count, list.entries.count, service.engine.claims.count(of: list))
            return entry
        }
        properties.adapters = service.engine.adapters.map { adapter in
            var entry = AdapterEntry()
            entry.name = adapter.name
            entry.address = adapter.address.description
            entry.isPowered = adapter.isPowered
            entry.isAllowed = adapter.isAllowed
            return entry
        }
        return properties
    }

    /// Signals the changes since the last time.
    func publish() {
        let new = properties
        service.publish(self, from: published, to: new, to: .only(service.clients.admins))
        published = new
    }

    private func getAudit(_ call: MethodCall) throws(BusError) {
        let query = try Self.query(call.arguments[0])
        var pages = try Self.reading { try service.engine.auditPages(query, of: Self.linesPerPart) }
        call.reply(inParts: "a{sv}") { () throws(BusError) in
            try Self.reading { try pages.next() }?.map { AuditLine($0).wire }
        }
    }

    /// Reads the trail. The store's message about a failure goes to the caller, who is an admin.
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
            case ("from", .uint64(let number)): query.from = Int64(clamping: number)
            case ("limit", .uint32(let limit)):
                guard (1...10_000).contains(limit) else { throw .invalidArguments("limit: \(limit): must be 1 to 10000") }
                query.limit = Int(limit)
            default: throw .invalidArguments("\(key): not a key, or not of type \(value.signature)")
            }
        }
        return query
    }

    private func actFor(_ call: MethodCall) throws(BusError) {
        let name = call.arguments[0].stringValue ?? ""
        let isPlain = name.unicodeScalars.allSatisfy {
            $0 == "-" || $0.isASCII && $0.properties.isAlphabetic || ("0"..."9").contains($0)
        }
        guard name.utf8.count <= 64, isPlain else {
            throw .invalidArguments("operator: \(name): must be 1 to 64 letters, digits and hyphens, or empty")
        }
        service.clients.act(call.sender, for: name)
        call.reply()
    }

    private func refresh(_ call: MethodCall) throws(BusError) {
        service.engine.refreshBonds { call.reply() }
    }

    private func getClaims(_ call: MethodCall) throws(BusError) {
        let id = call.arguments[0].stringValue ?? ""
        guard let list = service.engine.policy.lists.first(where: { $0.id == id }) else {
            throw .invalidArguments("list: \(id): there is no such claim list")
        }
        var made = service.engine.claims.made.filter { $0.key.list == id }
        var report = ClaimReport()
        report.closed = service.engine.obstacle(to: list)
        report.entries = list.entries.map { entry in
            ClaimReport.Entry(entry.key, name: entry.name ?? "", made.removeValue(forKey: .init(list: id, entry: entry.key)))
        }
        let others = made.values.sorted { ($0.time, $0.key.entry) < ($1.time, $1.key.entry) }
        report.entries += others.map { ClaimReport.Entry($0.key.entry, name: "", $0) }
        call.reply(report.wire)
    }

    // MARK: Rules

    private static func rules(of policy: AccessPolicy) -> [PolicyRuleEntry] {
        // Where several files add up, no single file is the source.
        func only(_ files: Set<String>) -> String { files.count == 1 ? files.first ?? "" : "" }
        func names(_ apps: Set<AppID>) -> [String] { apps.sorted().map(\.rawValue) }
        var rules: [PolicyRuleEntry] = []
        if let allowed = policy.allowed {
            rules.append(PolicyRuleEntry("allow-picker", apps: names(allowed), source: only(policy.allowedBy)))
        }
        if !policy.refused.isEmpty {
            rules.append(PolicyRuleEntry("deny-picker", apps: names(policy.refused), source: only(policy.refusedBy)))
        }
        rules += policy.approvals.map { PolicyRuleEntry($0) }
        rules += policy.denials.map {
            PolicyRuleEntry("deny", name: $0.name, apps: names($0.apps ?? []), target: "\($0.target)", source: $0.source)
        }
        rules += policy.limits.map { PolicyRuleEntry($0) }
        return rules
    }

    /// The files are read at each request, and not watched.
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
        let grant = service.engine.ledger.grant(of: accessory.id, to: app)
        var access = AccessExplanation()
        access.mayUse = [.bluetooth, .wifi].contains { service.engine.mayUse(accessory.id, app, by: $0) }
        access.manifest = ShownName.marked(entry?.source ?? "")
        access.problems = (entry?.problems ?? []).map(ShownName.marked)
        access.approvals = policy.approvals.filter { $0.app == app }.map { PolicyRuleEntry($0) }
        let claim = service.engine.claims.made.values.first { $0.accessory == accessory.id && $0.app == app }
        access.claim = grant == nil ? nil : claim.map { ShownName.marked("\($0)") }
        access.pickerRefusal = policy.refusal(of: app).map(ShownName.marked)
        access.grant = grant.map { AccessoryBus.grantPath($0.id) }
        access.limits = grant.map { policy.limits(on: GrantedAccessory(accessory, $0)).map { PolicyRuleEntry($0) } } ?? []
        access.denial = policy.denial(of: accessory, on: grant?.terms, to: app).map {
            var denial = AccessExplanation.Denial()
            denial.name = ShownName.marked($0.name)
            denial.source = ShownName.marked($0.source)
            return denial
        }
        call.reply(access.wire)
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
        try mappingErrors { () throws(SetupError) in
            try service.engine.explain(app, dryItems: app.declaredItems, seconds: seconds) { items, devices in
                let sorted = devices.sorted { Strength.isNearer($0.rssi, than: $1.rssi) }
                call.reply(ExplainedDeviceEntry.wire(sorted.map { ExplainedDeviceEntry($0, items) }))
            }
        }
    }
}

extension PolicyRuleEntry {
    fileprivate init(_ limit: AccessPolicy.Limit) {
        self.init(
            "limit", name: limit.name, apps: (limit.apps ?? []).sorted().map(\.rawValue), target: "\(limit.target)",
            limits: limit.text, source: limit.source)
    }

    fileprivate init(_ approval: AccessPolicy.Approval) {
        self.init(
            "approve", name: approval.name, apps: [approval.app.rawValue], target: "\(approval.target)",
            minimumRSSI: approval.minimumRSSI, source: approval.source)
    }
}

extension PolicyProblemEntry {
    fileprivate init(_ problem: KeyFileProblem) {
        self.init()
        file = ShownName.marked(problem.file)
        line = problem.line
        key = ShownName.marked(problem.key)
        reason = ShownName.marked(problem.reason)
        text = ShownName.marked("\(problem)")
    }
}

extension ClaimReport.Entry {
    /// - Parameter claim: nil for an entry that is left.
    fileprivate init(_ entry: String, name: String, _ claim: Claim?) {
        self.init()
        self.entry = ShownName.marked(entry)
        self.name = name
        guard let claim else { return }
        time = UInt64(claim.time)
        accessory = claim.accessory.rawValue
        isUnauthenticated = !claim.isAuthenticated
    }
}

extension AuditLine {
    init(_ entry: AuditEntry) {
        self.init()
        id = UInt64(entry.id)
        time = Int(entry.time)
        event = entry.event.rawValue
        app = entry.app?.rawValue ?? ""
        accessory = entry.accessory?.rawValue ?? ""
        who = ShownName.marked(entry.who)
        why = ShownName.marked(entry.why)
    }
}

extension ExplainedDeviceEntry {
    /// - Parameter items: of the picker that was explained.
    fileprivate init(_ device: ExplainedDevice, _ items: [DisplayItem]) {
        self.init()
        let heard = device.candidate.network
        address = device.candidate.advertisement?.address.description ?? ""
        name = ShownName.marked(device.candidate.advertisement?.localName ?? heard?.ssid.description ?? "")
        item = ShownName.marked(device.item.map { items[$0].name } ?? "")
        reasons = device.reasons.map(ShownName.marked)
        ssid = heard?.ssid.bytes
        network = heard?.ssid.description
        rssi = device.rssi
        addressType = device.candidate.advertisement?.address.kind.rawValue
        unattended = device.unattended.map(ShownName.marked)
        kinds = device.kinds.map(ShownName.marked)
        advertisement = device.candidate.advertisement.map { AdvertisementEntry($0) }
    }
}
