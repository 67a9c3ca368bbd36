// SPDX-License-Identifier: Apache-2.0
// Who speaks to us: every connection is identified once, before its first request is served; its later requests wait
// behind, in order. A connection that goes takes its sessions and pickers with it.

internal import AccessoryBus
internal import AccessoryModel
internal import AdminFiles
internal import CallerIdentity
internal import DBusKit
internal import Glibc
internal import Logging

/// One connection that has called us.
final class Client {
    enum State {
        case resolving([Message])
        case identified(PinnedCaller)
        /// Its identity could not be determined, for this reason.
        case unknown(IdentityFailure)
    }

    /// Where it came in.
    enum Door {
        case bus
        /// The view, or an app's own socket, are for apps alone: their holders may be in any container.
        case view
    }

    let name: String
    let door: Door
    fileprivate(set) var state = State.resolving([])
    fileprivate var watch: Subscription?

    init(name: String, by door: Door) {
        self.name = name
        self.door = door
    }

    /// It is a member of the group for pickers, and no app by the present manifests.
    fileprivate var isPerson = false
    /// It has had a session: another manifest makes it no person.
    fileprivate var hasActedForApp = false
    /// It acts for an app because of its executable, and must keep executing that one.
    fileprivate var goesByExecutable = false
    /// An administrator has proved to be one.
    fileprivate var isAuthorized = false
    /// Requests that wait for that.
    fileprivate var unauthorized: [Message] = []
    /// The question to polkit about that.
    fileprivate var question: Polkit.Question?
    /// The operator for whom the connection acts; empty for none.
    fileprivate var operatorName = ""
    /// The refusal has been logged.
    fileprivate var wasRefused = false

    var pinned: PinnedCaller? { if case .identified(let pinned) = state { pinned } else { nil } }
    var caller: Caller? { pinned?.caller }
}

final class ClientRegistry {
    private let connection: Connection
    private let resolver: CallerResolver
    private let manifests: ManifestStore
    private let polkit: Polkit
    private let log: Logger
    private var clients: [String: Client] = [:]
    /// Connections of clients that are not on the bus, by their names.
    private var peers: [String: Connection] = [:]
    /// Serves a request of an identified client.
    var serve: ((Message) -> Bool)?
    var onGone: ((String) -> Void)?
    /// A client was refused as a whole.
    var onRefused: ((String, String) -> Void)?

    /// The group whose members may show pickers.
    let pickerGroup: String

    /// The methods that take images.
    private static let membersWithDescriptors: Set = ["ShowPicker", "UpdatePicker"]

    /// A waiting message keeps its descriptors. A connection has few, and is not read while too many are in use: the
    /// answer that the message waits for would not arrive.
    private static func mayWait(_ message: Message) -> Bool {
        !message.hasDescriptors && message.path?.rawValue.utf8.count ?? 0 <= Limits.textBytes
            && (try? message.arguments(limits: DecodingLimits(depth: 16, values: 256, bytes: Limits.textBytes))) != nil
    }

    init(on connection: Connection, resolver: CallerResolver, manifests: ManifestStore, pickerGroup: String, log: Logger) {
        self.connection = connection
        self.resolver = resolver
        self.manifests = manifests
        polkit = Polkit(on: connection, log: log)
        self.pickerGroup = pickerGroup
        self.log = log
    }

    func caller(_ name: String) -> Caller? { clients[name]?.caller }
    func peer(_ name: String) -> Connection? { peers[name] }

    /// Whose share a connection takes.
    func party(of name: String) -> Party { caller(name).map { Party($0) } ?? .user(.max) }

    /// Root, and the daemon's own user, on the bus; not as root of a container. Root itself cannot be contained, and
    /// where the daemon has a user of its own, no other program runs as that user.
    func isAdmin(_ name: String) -> Bool {
        guard let client = clients[name], client.door == .bus, let caller = client.caller else { return false }
        return client.isAuthorized || Self.administers(caller.uid) && !caller.isContained
    }

    private static func administers(_ uid: UInt32) -> Bool { uid == 0 || uid == geteuid() }

    /// Has polkit ask the person behind a client, and then has its request served, as an admin's or not.
    func authorize(_ message: Message, then serve: @escaping (Message) -> Void) -> Bool {
        guard let name = message.sender, let client = clients[name], client.unauthorized.count < Limits.waitingRequestsPerClient,
            Self.mayWait(message)
        else { return false }
        // polkit asks nothing of root, wherever that is.
        guard let caller = client.caller, !Self.administers(caller.uid) else { return false }
        client.unauthorized.append(message)
        guard client.unauthorized.count == 1 else { return true }
        client.question = polkit.check(name, Polkit.manage) { [weak self, weak client] isAuthorized in
            guard let self, let client else { return }
            client.question = nil
            client.isAuthorized = isAuthorized
            if isAuthorized { self.log.notice("client is an admin by polkit", metadata: ["client": "\(self.describe(name))"]) }
            let waiting = client.unauthorized
            client.unauthorized = []
            for message in waiting { serve(message) }
        }
        return true
    }

    func mayShowPickers(_ name: String) -> Bool {
        if isAdmin(name) { return true }
        guard let client = clients[name], client.door == .bus, let caller = client.caller else { return false }
        return getgrnam(pickerGroup).map { caller.groups.contains($0.pointee.gr_gid) } ?? false
    }

    /// The uid of the person behind a connection, who may manage their own set-ups: a member of the group for pickers,
    /// by the groups of the process. Apps run as the same user, and are no persons; nor is a process in a container or
    /// a sandbox. Nil for an admin.
    func person(_ name: String) -> UInt32? {
        guard let client = clients[name], client.isPerson, !isAdmin(name) else { return nil }
        return client.caller?.uid
    }

    /// The connections of a person.
    func persons(of user: UInt32) -> [String] { identified.filter { person($0) == user } }

    /// Holds every connection against the present manifests.
    ///
    /// - Returns: those that have become a person's, or are one's no longer.
    func reviewPersons() -> [String] {
        identified.filter { name in
            guard let client = clients[name] else { return false }
            let before = client.isPerson
            client.isPerson = mayBePerson(client)
            return client.isPerson != before
        }
    }

    private func mayBePerson(_ client: Client) -> Bool {
        guard mayShowPickers(client.name), !client.hasActedForApp, let caller = client.caller else { return false }
        return !caller.isContained && caller.flatpak == nil && caller.snap.name == nil
            && !AppMatching.fits(caller, in: manifests)
    }

    var admins: [String] { clients.keys.filter { isAdmin($0) }.sorted() }
    var identified: [String] { clients.values.filter { $0.caller != nil }.map(\.name).sorted() }

    /// Takes a method call: now, once its caller is known, or never.
    func receive(_ message: Message) -> Bool {
        guard let name = message.sender else { return false }
        let client = clients[name]
        if message.hasDescriptors, !Self.membersWithDescriptors.contains(message.member ?? "") {
            return refuse(message, .limitsExceeded("this call takes no file descriptors"))
        }
        if client?.caller == nil, !Self.mayWait(message) {
            return refuse(message, .limitsExceeded("request too large before the first reply"))
        }
        guard let client else { return admit(name, message) }
        switch client.state {
        case .identified(let pinned):
            return serve(message, client, pinned)
        case .resolving(var waiting):
            guard waiting.count < Limits.waitingRequestsPerClient else {
                return refuse(
                    message, .limitsExceeded("more than \(Limits.waitingRequestsPerClient) requests before the first reply"))
            }
            waiting.append(message)
            client.state = .resolving(waiting)
            return true
        case .unknown(let failure): return refuse(message, Self.refusal(of: message, failure))
        }
    }

    /// An app that could not be identified gets `ActivationFailed` for its session; every other request is denied.
    private static func refusal(of message: Message, _ failure: IdentityFailure) -> BusError {
        message.member == "CreateSession" ? BusError(SetupError(.activationFailed, "\(failure)")) : .accessDenied("\(failure)")
    }

    private func admit(_ name: String, _ message: Message) -> Bool {
        // All count here, known or not; those that are known count for their user, too (see `resolved`).
        guard clients.count < Limits.clients else {
            return refuse(message, .limitsExceeded("\(Limits.clients) connections to this service already exist"))
        }
        let client = Client(name: name, by: .bus)
        client.state = .resolving([message])
        clients[name] = client
        // Asked for before the identity: an end in between is then not missed.
        client.watch = connection.subscribe(
            sender: Bus.name, path: Bus.path, interface: Bus.name, member: "NameOwnerChanged", argument0: name
        ) { [weak self] message in
            guard let new = (try? message.arguments())?.last?.stringValue, new.isEmpty else { return }
            self?.gone(name)
        }
        resolver.resolve(name) { [weak self] result in self?.resolved(client, result) }
        return true
    }

    /// An administrator's connection acts for an operator from now on.
    func act(_ name: String, for operatorName: String) { clients[name]?.operatorName = operatorName }

    /// Who a connection is, for people.
    func describe(_ name: String) -> String {
        guard let client = clients[name], let program = client.caller?.program else { return name }
        return client.operatorName.isEmpty ? program : "\(program), for operator \(client.operatorName)"
    }

    /// The account name of a connection's user; the number of one without a name, or nothing for an unknown connection.
    func account(of name: String) -> String {
        guard let uid = caller(name)?.uid else { return "" }
        return getpwuid(uid).map { String(cString: $0.pointee.pw_name) } ?? "\(uid)"
    }

    /// A client that is not on the bus.
    func adopt(_ peer: Connection, _ pinned: PinnedCaller) {
        peers[peer.uniqueName] = peer
        adopt(peer.uniqueName, pinned, by: .view)
    }

    /// An adopted client has closed its connection.
    func dismiss(_ peer: Connection) {
        gone(peer.uniqueName)
        peers[peer.uniqueName] = nil
    }

    /// A client that is identified already.
    func adopt(_ name: String, _ pinned: PinnedCaller, by door: Client.Door) {
        let client = Client(name: name, by: door)
        client.state = .identified(pinned)
        clients[name] = client
        client.isPerson = mayBePerson(client)
    }

    /// The app that a connection acts for; from now on its executable must not change.
    func app(of name: String) throws(IdentityFailure) -> AppManifest {
        guard let client = clients[name], let pinned = client.pinned else { throw IdentityFailure(description: "unknown caller") }
        manifests.flush()
        let match = try AppMatching.match(pinned.caller, in: manifests)
        client.hasActedForApp = true
        if match.basis == .executable {
            try pinned.check()
            client.goesByExecutable = true
        }
        return match.app
    }

    private func serve(_ message: Message, _ client: Client, _ pinned: PinnedCaller) -> Bool {
        if let failure = change(of: client, pinned) { return refuse(message, .accessDenied("\(failure)")) }
        return deliver(message)
    }

    /// The reason why a client no longer acts for its app; nil while it does, and for one that has ended: its messages
    /// were sent before.
    private func change(of client: Client, _ pinned: PinnedCaller) -> IdentityFailure? {
        guard client.goesByExecutable else { return nil }
        do throws(IdentityFailure) {
            try pinned.check()
            return nil
        } catch {
            if !client.wasRefused {
                log.warning("client refused", metadata: ["client": "\(client.name)", "reason": "\(error)"])
                onRefused?(client.name, "\(error)")
            }
            client.wasRefused = true
            return error
        }
    }

    /// The reason why a signal or an answer must not be sent, evaluated when it is sent: the receiver is identified by
    /// its executable, and executes another one. Nil when it may be sent. (Docs/Decisions/0031)
    func refusal(of message: Message) -> BusError? {
        guard let name = message.destination, let client = clients[name], client.goesByExecutable, let pinned = client.pinned,
            !pinned.runsTheSame(in: connection.loop.turn)
        else { return nil }
        return .accessDenied(change(of: client, pinned).map { "\($0)" } ?? "process \(pinned.caller.pid) has ended")
    }

    /// Serves a request of an identified client: every one is answered.
    private func deliver(_ message: Message) -> Bool {
        if serve?(message) == true { return true }
        return refuse(message, message.path.map { .unknownObject($0) } ?? .unknownMethod("no such method"))
    }

    private func resolved(_ client: Client, _ result: Result<PinnedCaller, IdentityFailure>) {
        guard clients[client.name] === client, case .resolving(let waiting) = client.state else { return }
        switch result {
        case .success(let pinned):
            let caller = pinned.caller
            guard clients.values.count(where: { $0.caller?.uid == caller.uid }) < Limits.clientsPerUser else {
                for message in waiting {
                    _ = refuse(
                        message,
                        .limitsExceeded("user \(caller.uid) already has \(Limits.clientsPerUser) connections to this service"))
                }
                client.watch?.cancel()
                clients[client.name] = nil
                return
            }
            client.state = .identified(pinned)
            manifests.flush()
            client.isPerson = mayBePerson(client)
            log.debug(
                "client identified",
                metadata: [
                    "client": "\(client.name)", "uid": "\(caller.uid)", "pid": "\(caller.pid)",
                    "executable": "\(caller.executable ?? "?")", "unit": "\(caller.unit ?? "none")",
                ])
            for message in waiting { _ = deliver(message) }
        case .failure(let failure):
            log.warning("client refused", metadata: ["client": "\(client.name)", "reason": "\(failure)"])
            onRefused?(client.name, "\(failure)")
            for message in waiting { _ = refuse(message, Self.refusal(of: message, failure)) }
            // The verdict lasts as long as the connection: a process number that is reused later must not give it an
            // identity.
            client.state = .unknown(failure)
        }
    }

    private func refuse(_ message: Message, _ error: BusError) -> Bool {
        if message.wantsReply, let answer = message.errorReply(error) { connection.send(answer) }
        return true
    }

    /// A connection has closed.
    func gone(_ name: String) {
        guard let client = clients.removeValue(forKey: name) else { return }
        client.watch?.cancel()
        client.question?.withdraw()
        onGone?(name)
    }
}
