// SPDX-License-Identifier: Apache-2.0
// The apps' sessions, and the events for an app.

internal import AccessoryModel
internal import Logging

final class Sessions {
    private(set) var all: [Int: Session] = [:]
    private var made = 0
    private let publisher: EventPublisher
    private let log: Logger
    /// Says who a client is, for the audit trail.
    var describe: (ClientID) -> String = { $0.rawValue }

    init(_ publisher: EventPublisher, _ log: Logger) {
        self.publisher = publisher
        self.log = log
    }

    func open(_ client: ClientID, _ app: AppManifest, _ party: Party) throws(SetupError) -> Session {
        guard all.values.count(where: { $0.app.id == app.id && $0.party == party }) < Limits.sessionsPerUser else {
            throw .invalid("CreateSession", app.id, "already has \(Limits.sessionsPerUser) sessions from \(party)")
        }
        made += 1
        let session = Session(id: made, client: client, app: app, party: party)
        all[session.id] = session
        log.info("session created", metadata: ["session": "\(session.id)", "app": "\(app.id)"])
        publisher.publish(.sessionOpened(session))
        return session
    }

    func activate(_ session: Session, accepted: () -> Void) throws(SetupError) {
        guard session.state == .created else { throw session.wrongState("Activate") }
        session.activate()
        accepted()
        log.info("session created → active", metadata: ["session": "\(session.id)", "app": "\(session.app.id)"])
        publisher.publish(.sessionChanged(session))
        publisher.publish(.event(SessionEvent(.activated), in: session))
    }

    /// Ends a session, after the last event of its picker.
    func end(_ session: Session) {
        session.invalidate()
        publisher.publish(.sessionChanged(session))
        publisher.publish(.event(SessionEvent(.invalidated), in: session))
        all[session.id] = nil
        publisher.publish(.sessionClosed(session))
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

    /// Publishes an event in all active sessions of an app.
    func publish(_ event: SessionEvent, to app: AppID, except exception: Session? = nil) {
        for session in active(of: app) where session !== exception { publisher.publish(.event(event, in: session)) }
    }

    /// An app's list of accessories has changed.
    func accessoriesChanged(of app: AppID) {
        for session in active(of: app) { publisher.publish(.sessionChanged(session)) }
    }
}
