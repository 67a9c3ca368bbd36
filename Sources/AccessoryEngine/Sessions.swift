// SPDX-License-Identifier: Apache-2.0
// The apps' sessions: opened, activated, ended, and told what concerns their app.

internal import AccessoryModel
internal import Logging

final class Sessions {
    private(set) var all: [Int: Session] = [:]
    private var made = 0
    private let news: News
    private let log: Logger
    /// Says who a client is, for the audit trail.
    var describe: (ClientID) -> String = { $0.rawValue }

    init(_ news: News, _ log: Logger) {
        self.news = news
        self.log = log
    }

    /// - Throws: `InvalidRequest` past `Limits.sessionsPerUser`.
    func open(_ client: ClientID, _ app: AppManifest, _ party: Party) throws(SetupError) -> Session {
        guard all.values.count(where: { $0.app.id == app.id && $0.party == party }) < Limits.sessionsPerUser else {
            throw .invalid("CreateSession", app.id, "has \(Limits.sessionsPerUser) sessions of \(party) already")
        }
        made += 1
        let session = Session(id: made, client: client, app: app, party: party)
        all[session.id] = session
        log.info("session created", metadata: ["session": "\(session.id)", "app": "\(app.id)"])
        news.tell(.sessionOpened(session))
        return session
    }

    func activate(_ session: Session, accepted: () -> Void) throws(SetupError) {
        guard session.state == .created else { throw session.wrongState("Activate") }
        session.activate()
        accepted()
        log.info("session created → active", metadata: ["session": "\(session.id)", "app": "\(session.app.id)"])
        news.tell(.sessionChanged(session))
        news.tell(.event(SessionEvent(.activated), in: session))
    }

    /// Ends a session; what its picker has to say was said before.
    func end(_ session: Session) {
        session.invalidate()
        news.tell(.sessionChanged(session))
        news.tell(.event(SessionEvent(.invalidated), in: session))
        all[session.id] = nil
        news.tell(.sessionClosed(session))
    }

    /// Who asks when an app's connection does.
    func requester(_ client: ClientID) -> Requester { .app(describe(client)) }
    func requester(_ session: Session) -> Requester { requester(session.client) }

    func of(_ client: ClientID) -> [Session] {
        all.values.filter { $0.client == client }.sorted { $0.id < $1.id }
    }

    func active(of app: AppID) -> [Session] {
        all.values.filter { $0.app.id == app && $0.state == .active }.sorted { $0.id < $1.id }
    }

    /// Tells all sessions of an app; an app may have several, and an accessory is theirs all.
    func tell(_ app: AppID, _ event: SessionEvent, but exception: Session? = nil) {
        for session in active(of: app) where session !== exception { news.tell(.event(event, in: session)) }
    }

    /// An app's list of accessories has changed.
    func accessoriesChanged(of app: AppID) {
        for session in active(of: app) { news.tell(.sessionChanged(session)) }
    }
}
