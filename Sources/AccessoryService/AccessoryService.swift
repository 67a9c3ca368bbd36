// SPDX-License-Identifier: Apache-2.0
// Our interface on the bus: exported objects that decode, ask the engine and encode; which caller sees which object;
// and the engine's events as signals to the connections concerned.

internal import AccessoryBus
internal import AccessoryCore
public import AccessoryEngine
internal import AccessoryModel
public import AdminFiles
public import CallerIdentity
public import DBusKit
public import Logging

/// The daemon on the bus: org.accessorysetup1 and its objects (Docs/Interfaces), in front of the engine. Used on the
/// main loop's thread only.
public final class AccessoryService {
    let engine: AccessoryEngine
    let policies: PolicyStore
    /// The bus' configuration and the policy that a lock-down includes there.
    let lockdown: LockdownFiles
    let clients: ClientRegistry
    let server: ObjectServer
    let connection: Connection
    let members = Members()

    let exportedApps: ExportedApps
    let exportedPicker = ExportedPicker()
    private let exportedSessions = ExportedSessions()
    private var managerObject: ManagerObject?
    private var adminObject: AdminObject?

    /// Where to look for the lock-down of org.bluez.
    public struct LockdownFiles: Hashable, Sendable {
        /// The bus' configuration file that is read last.
        public var configuration = BusConfiguration.standardPath
        /// The policy that it includes.
        public var policy = BusConfiguration.standardPolicy
        /// Where systemd's drop-ins are.
        public var units = SocketLockdown.standardUnits
        /// The system's own.
        public init() {}
    }

    /// - Parameters:
    ///   - pickerGroup: the group whose members may show pickers.
    ///   - socketOfApp: the path of an app's own socket, by the app's identifier; nil for one without.
    public init(
        engine: AccessoryEngine, manifests: ManifestStore, policies: PolicyStore, lockdown: LockdownFiles = LockdownFiles(),
        resolver: CallerResolver, connection: Connection, pickerGroup: String = "accessory-picker",
        socketOfApp: @escaping (String) -> String? = { _ in nil }, log: Logger
    ) {
        self.engine = engine
        self.policies = policies
        self.lockdown = lockdown
        self.connection = connection
        exportedApps = ExportedApps(manifests, socketOfApp)
        clients = ClientRegistry(
            on: connection, resolver: resolver, manifests: manifests, pickerGroup: pickerGroup, log: log)
        server = ObjectServer(on: connection, root: AccessoryBus.root)
    }

    /// Exports everything; the name is to be owned after this, never before.
    public func start() {
        let manager = ManagerObject(self)
        managerObject = manager
        server.export(manager)
        let admin = AdminObject(self)
        adminObject = admin
        server.export(admin)
        engine.describeClient = { [clients] in clients.describe($0.rawValue) }
        for accessory in engine.ledger.accessories.values { accessoryAppeared(accessory) }
        for grant in engine.ledger.grants.values { grantAppeared(grant) }
        exportedApps.update(self)
        manifests.observe { [unowned self] in
            exportedApps.update(self)
            managerObject?.publish()
            reviewPersons()
        }
        policies.onProblems = { [unowned self] in adminObject?.publish() }
        engine.listen { [unowned self] in handle($0) }
        server.onRefused = { [unowned self] client, member, error in
            engine.record(.refused, by: .app(clients.describe(client)), why: "\(member): \(error.message)")
        }
        clients.serve = { [unowned self] in serve($0) }
        clients.onGone = { [unowned self] in gone($0) }
        clients.onRefused = { [unowned self] client, why in
            engine.record(.refused, by: .app(clients.describe(client)), why: why)
        }
        connection.onCall = { [clients] in clients.receive($0) }
        connection.refusal = { [clients] in clients.refusal(of: $0) }
        connection.localPeers = { [clients] in clients.peer($0) }
    }

    private func serve(_ message: Message) -> Bool {
        if let error = exportedSessions.invalidation(of: message) {
            if message.wantsReply, let answer = message.errorReply(error) { connection.send(answer) }
            return true
        }
        if mayBecomeAdmin(message), clients.authorize(message, then: { [weak self] in _ = self?.server.serve($0) }) { return true }
        return server.serve(message)
    }

    /// Whether a request is for admins, from a caller that is none and allows interaction. The existence of the object
    /// makes no difference: the question must not reveal it.
    private func mayBecomeAdmin(_ message: Message) -> Bool {
        guard message.allowsInteraction, let sender = message.sender, let path = message.path, clients.peer(sender) == nil,
            !clients.isAdmin(sender), path.isBelow(AccessoryBus.root), server.object(at: path)?.isVisible(to: sender) != true
        else { return false }
        let kind = path.rawValue.dropFirst(AccessoryBus.root.rawValue.count + 1).prefix { $0 != "/" }
        return ["grant", "accessory", "app", "admin"].contains(kind)
    }

    var manifests: ManifestStore { exportedApps.manifests }

    // MARK: Connections of our own

    /// A client that did not come over the bus: it is answered on its own connection, and is like any other else.
    public func adopt(_ peer: Connection, _ pinned: PinnedCaller) { clients.adopt(peer, pinned) }

    /// Takes a call of an adopted client to our name.
    public func receive(_ message: Message, from peer: Connection) {
        message.setSender(peer.uniqueName)
        guard !clients.receive(message), message.wantsReply, let path = message.path else { return }
        if let answer = message.errorReply(.unknownObject(path)) { connection.send(answer) }
    }

    /// An adopted client has closed its connection.
    public func dismiss(_ peer: Connection) { clients.dismiss(peer) }

    private func gone(_ client: String) {
        exportedSessions.clientGone(client)
        server.callerGone(client)
        engine.clientGone(ClientID(client))
    }

    // MARK: Who is who

    /// Who asks when an admin's or a person's connection does.
    func requester(_ client: String) -> Requester {
        let program = clients.describe(client)
        if clients.isAdmin(client) { return .admin(program) }
        return .person("\(program), user \(clients.account(of: client))", user: clients.caller(client)?.uid)
    }

    /// The apps that a connection has sessions of.
    func apps(of client: String) -> Set<AppID> {
        Set(engine.sessions.values.filter { $0.client.rawValue == client }.map(\.app.id))
    }

    func sees(_ accessory: AccessoryID, _ client: String) -> Bool {
        if clients.isAdmin(client) { return true }
        return grant(on: accessory, of: client) != nil || !ownGrants(on: accessory, of: client).isEmpty
    }

    /// The grants that the person behind a connection set up, the oldest first; none for apps and admins.
    func ownGrants(on accessory: AccessoryID, of client: String) -> [Grant] {
        clients.person(client).map { engine.ledger.grants(of: accessory, setUpBy: $0) } ?? []
    }

    /// The grant by which a connection has an accessory; nil for one without a session of an app that has it.
    func grant(on accessory: AccessoryID, of client: String) -> Grant? {
        let grants = apps(of: client).sorted().compactMap { engine.ledger.grant(of: accessory, to: $0) }.filter(\.isEnabled)
        return grants.first { $0.state == .authorized } ?? grants.first
    }

    /// An accessory as a caller sees it: by its app's grant, for a person by the oldest that they set up, for an admin
    /// by the oldest.
    func granted(_ id: AccessoryID, for client: String) -> GrantedAccessory? {
        guard let accessory = engine.ledger.accessories[id],
            let grant = grant(on: id, of: client) ?? ownGrants(on: id, of: client).first
                ?? (clients.isAdmin(client) ? engine.ledger.grants(of: id).first : nil)
        else { return nil }
        return GrantedAccessory(accessory, grant)
    }

    /// The interface that is on an accessory's network now: for an app and a person, on the network of the grant.
    func networkInterface(of id: AccessoryID, for client: String) -> String? {
        if clients.isAdmin(client) { return engine.networkInterface(of: id, on: nil) }
        return granted(id, for: client)?.grant.terms.ssid.flatMap { engine.networkInterface(of: id, on: $0) }
    }

    /// Connections that see an accessory now.
    private func audience(of accessory: AccessoryID) -> Audience {
        .only(clients.identified.filter { sees(accessory, $0) })
    }

    /// Admins, and the client that has a session or shows a picker.
    func audience(with client: ClientID) -> Audience {
        .only(Array(Set(clients.admins + [client.rawValue])).sorted())
    }

    /// The accessory behind a path that `client` may see.
    ///
    /// - Throws: `UnknownObject`, exactly as for a path that does not exist.
    func accessory(at path: ObjectPath, for client: String) throws(BusError) -> Accessory {
        guard let object = server.object(at: path) as? AccessoryObject, object.isVisible(to: client),
            let accessory = engine.ledger.accessories[object.id]
        else { throw .unknownObject(path) }
        return accessory
    }

    func devicePath(of accessory: Accessory) -> ObjectPath? {
        engine.device(of: accessory).flatMap { ObjectPath($0.rawValue) }
    }

    func object(of accessory: AccessoryID) -> AccessoryObject? {
        server.object(at: AccessoryBus.accessoryPath(accessory)) as? AccessoryObject
    }

    private func object(of grant: Grant) -> GrantObject? {
        server.object(at: AccessoryBus.grantPath(grant.id)) as? GrantObject
    }
}

/// Runs a request of the engine's and answers with the session API's errors.
func mappingErrors<Value>(_ body: () throws(SetupError) -> Value) throws(BusError) -> Value {
    do { return try body() } catch { throw BusError(error) }
}

// MARK: - Events of the engine

extension AccessoryService {
    private func handle(_ event: EngineEvent) {
        switch event {
        case .access, .hearing: break
        case .bluetooth, .wifi, .pickerAvailability, .pickerPrograms, .mutedApps: managerObject?.publish()
        case .adapters, .policy: adminObject?.publish()
        case .audited(let entries): audited(entries)
        case .sessionOpened(let session): exportedSessions.open(session, self)
        case .sessionChanged(let session): exportedSessions.publish(session)
        case .sessionClosed(let session): exportedSessions.close(session, self)
        case .event(let event, let session): exportedSessions.emit(event, in: session, self)
        case .pickerOpened(let run): exportedPicker.open(run, self)
        case .pickerChanged, .pickerDeadlineChanged: exportedPicker.object?.publish()
        case .pickerAssigned(let former, let client): exportedPicker.assign(from: former, to: client, self)
        case .pickerClosed(let run): exportedPicker.close(run, self)
        case .networkUseChanged(let accessory, let ssid): networkUseChanged(of: accessory, ssid)
        case .accessoryAppeared(let accessory): accessoryAppeared(accessory)
        case .accessoryChanged(let accessory, let old): accessoryChanged(accessory, from: old)
        case .deviceChanged(let accessory): passingChanged(of: accessory)
        case .removalChanged(let accessory, let user): removalChanged(of: accessory, for: user)
        case .accessoryDisappeared(let accessory): accessoryDisappeared(accessory)
        case .visibilityChanged(let accessory, let app, let isVisible):
            visibilityChanged(of: accessory, to: app, visible: isVisible)
        case .ownGrantsChanged(let accessory, let user, let old, let new):
            ownGrantsChanged(of: accessory, by: user, from: old, to: new)
        case .grantAppeared(let grant): grantAppeared(grant)
        case .grantChanged(let grant, let old): grantChanged(grant, from: old)
        case .grantDisappeared(let grant): grantDisappeared(grant)
        case .presenceChanged(let grant):
            guard let object = object(of: grant) else { break }
            server.propertiesChanged(object, AccessoryBus.grant, ["Present"], to: .only(clients.admins))
        }
    }

    private func networkUseChanged(of accessory: AccessoryID, _ ssid: SSID) {
        guard let object = self.object(of: accessory) else { return }
        let concerned = clients.identified.filter {
            clients.isAdmin($0) || granted(accessory, for: $0)?.grant.terms.ssid == ssid
        }
        server.propertiesChanged(object, AccessoryBus.network, NetworkProperties.table.rows.map(\.name), to: .only(concerned))
    }

    private func audited(_ entries: [AuditEntry]) {
        let admins = clients.admins
        guard !admins.isEmpty else { return }
        let lines = AuditLine.wire(entries.map { AuditLine($0) })
        for admin in admins {
            server.emit(path: AccessoryBus.adminPath, interface: AccessoryBus.admin, member: "Audited", to: admin, [lines])
        }
    }

    private func accessoryAppeared(_ accessory: Accessory) {
        exportedPicker.rename(accessory.id, from: nil, to: accessory.displayName)
        server.export(AccessoryObject(accessory, self), to: .only(clients.admins))
    }

    private func accessoryChanged(_ accessory: Accessory, from old: Accessory) {
        if accessory.displayName != old.displayName {
            exportedPicker.rename(accessory.id, from: old.displayName, to: accessory.displayName)
        }
        for grant in engine.ledger.grants(of: accessory.id) {
            publishChanges(from: GrantedAccessory(old, grant), to: GrantedAccessory(accessory, grant))
        }
        passingChanged(of: accessory)
    }

    private func passingChanged(of accessory: Accessory) {
        guard let object = self.object(of: accessory.id) else { return }
        let names = object.passingChanges(of: accessory)
        guard !names.isEmpty else { return }
        let concerned = clients.identified.filter {
            clients.isAdmin($0) || object.isManaged(by: $0) || grant(on: object.id, of: $0)?.terms.includes(.bluetooth) == true
        }
        server.propertiesChanged(object, AccessoryBus.accessory, names, to: .only(concerned))
    }

    private func removalChanged(of accessory: Accessory, for user: UInt32?) {
        guard let object = self.object(of: accessory.id) else { return }
        let concerned = user.map { clients.persons(of: $0) } ?? clients.admins
        server.propertiesChanged(
            object, AccessoryBus.accessory, ["RemovalTime"], to: .only(concerned.filter { sees(object.id, $0) }))
    }

    /// Signals the changes of an accessory to the callers that see it by a grant.
    private func publishChanges(from old: GrantedAccessory, to new: GrantedAccessory) {
        guard let object = self.object(of: new.accessory.id) else { return }
        // `passingChanged` signals the radio's object; any one shows whether there is a Bluetooth side.
        let any = AccessoryBus.root
        publish(
            object, from: AccessoryProperties(old, device: any, end: end(before: old.grant, new.grant)),
            to: AccessoryProperties(new, device: any, end: engine.end(of: new.grant)),
            to: .only(clients.identified.filter { sees(object.id, $0) && granted(object.id, for: $0)?.grant.id == new.grant.id }))
    }

    private func accessoryDisappeared(_ accessory: Accessory) {
        exportedPicker.rename(accessory.id, from: accessory.displayName, to: nil)
        server.withdraw(AccessoryBus.accessoryPath(accessory.id), to: .only(clients.admins))
    }

    private func visibilityChanged(of accessory: Accessory, to app: AppID, visible: Bool) {
        guard let object = self.object(of: accessory.id) else { return }
        let concerned = Set(engine.sessions.values.filter { $0.app.id == app }.map(\.client.rawValue))
            .filter { !clients.isAdmin($0) }.sorted()
        if visible {
            server.announce(object, to: .only(concerned))
        } else {
            server.dismiss(object, to: .only(concerned))
        }
        // With its last grant the accessory goes too.
        guard !engine.ledger.grants(of: accessory.id).isEmpty else { return }
        server.propertiesChanged(object, AccessoryBus.accessory, ["Apps"], to: .only(clients.admins))
    }

    private func ownGrantsChanged(of accessory: Accessory, by user: UInt32, from old: [Grant], to new: [Grant]) {
        guard let object = self.object(of: accessory.id) else { return }
        let audience = Audience.only(clients.persons(of: user))
        guard let before = old.first, let after = new.first else {
            return new.isEmpty ? server.dismiss(object, to: audience) : server.announce(object, to: audience)
        }
        // A person sees an accessory by the oldest of their grants.
        let any = AccessoryBus.root
        let names = AccessoryProperties.table.changes(
            from: AccessoryProperties(GrantedAccessory(accessory, before), device: any, end: engine.end(of: before)),
            to: AccessoryProperties(GrantedAccessory(accessory, after), device: any, end: engine.end(of: after)))
        server.propertiesChanged(object, AccessoryBus.accessory, names + ["Apps"], to: audience)
    }

    /// Manifests have changed: a connection that counted as a person's may be an app's, or the other way round.
    private func reviewPersons() {
        for client in clients.reviewPersons() {
            // As of the user, whichever the connection counts as now.
            guard let user = clients.caller(client)?.uid, !clients.isAdmin(client) else { continue }
            for grant in engine.ledger.grants.values.filter({ $0.user == user }).sorted(by: { $0.id < $1.id }) {
                guard let object = self.object(of: grant.accessory),
                    engine.ledger.grants(of: object.id, setUpBy: user).first?.id == grant.id,
                    self.grant(on: object.id, of: client) == nil
                else { continue }
                if clients.person(client) == nil {
                    server.dismiss(object, to: .only([client]))
                } else {
                    server.announce(object, to: .only([client]))
                }
            }
        }
    }

    private func grantAppeared(_ grant: Grant) {
        server.export(GrantObject(grant.id, self), to: .only(clients.admins))
    }

    private func grantChanged(_ grant: Grant, from old: Grant) {
        guard let object = self.object(of: grant) else { return }
        publish(
            object, from: GrantProperties(old, end: end(before: old, grant)),
            to: GrantProperties(grant, end: engine.end(of: grant)),
            to: .only(clients.admins))
        guard let accessory = engine.ledger.accessories[grant.accessory] else { return }
        publishChanges(from: GrantedAccessory(accessory, old), to: GrantedAccessory(accessory, grant))
    }

    /// The end that a grant had: of one that has not changed, it is the clock that has.
    private func end(before old: Grant, _ new: Grant) -> Int64? { old == new ? nil : engine.end(of: old) }

    private func grantDisappeared(_ grant: Grant) {
        server.withdraw(AccessoryBus.grantPath(grant.id), to: .only(clients.admins))
        // Admins see an accessory by its oldest grant.
        guard let accessory = engine.ledger.accessories[grant.accessory],
            let next = engine.ledger.grants(of: accessory.id).first, next.id > grant.id
        else { return }
        publishChanges(from: GrantedAccessory(accessory, grant), to: GrantedAccessory(accessory, next))
    }
}
