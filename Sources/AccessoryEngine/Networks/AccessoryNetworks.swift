// SPDX-License-Identifier: Apache-2.0
// Joins granted accessories' networks for apps: performs the effects of `JoinMachine`, and reports the radio's answers
// and the entitled apps to it. `AccessoryEngine` documents the requests.

internal import AccessoryCore
internal import AccessoryModel
internal import Logging

final class AccessoryNetworks {
    private let services: EngineServices
    private var machine = JoinMachine()
    private let queue = EventQueue<JoinMachine.Event>()
    private var requests: [JoinMachine.Ticket: Request] = [:]
    private var tickets = 0

    private struct Request {
        /// The network and the requester of a join; nil for a leave.
        var join: (NetworkJoin, JoinMachine.Goal, JoinMachine.Holder)?
        let completion: (SetupError?) -> Void
    }

    init(_ services: EngineServices) {
        self.services = services
        services.publisher.listen { [weak self] in if case .access = $0 { self?.reviewHolders() } }
    }

    func join(
        _ id: AccessoryID, for client: ClientID, _ app: AppID, passphrase: NetworkJoin.Passphrase?, isHidden: Bool, network: SSID?,
        completion: @escaping (SetupError?) -> Void
    ) throws(SetupError) {
        guard let granted = services.registry.ledger.granted(id, to: app), granted.grant.isEnabled else {
            throw .invalid("accessory", id, "is not an accessory of \(app)")
        }
        guard granted.grant.state == .authorized else {
            throw .invalid("accessory", id, "is not authorized: it is \(granted.grant.state.rawValue)")
        }
        guard let ssid = granted.grant.terms.ssid else { throw .invalid("accessory", id, "has no network") }
        if let network, network != ssid { throw .invalid("options.ssid", network, "is not the granted network") }
        if let denial = services.registry.policy.denial(of: granted) {
            throw SetupError(
                .userRestricted,
                "rule \(denial.name) in \(denial.source) denies \(granted.accessory.displayName) to \(app)")
        }
        try services.registry.declared(granted.grant.terms, .wifi, by: app)
        guard services.networkRadio.state == .ready else {
            throw SetupError(.connectionFailed, "Wi-Fi is \(services.networkRadio.state.rawValue)")
        }
        let goal = JoinMachine.Goal(accessory: id, ssid: ssid)
        let holder = JoinMachine.Holder(client: client.rawValue, app: app)
        let join = NetworkJoin(ssid: ssid, passphrase: passphrase, isHidden: isHidden)
        let ticket = admit(Request(join: (join, goal, holder), completion: completion))
        handle(.wanted(ticket, goal, by: holder))
    }

    func leave(_ id: AccessoryID, for client: ClientID, completion: @escaping () -> Void) {
        handle(.released(admit(Request { _ in completion() }), id, client: client.rawValue))
    }

    func interface(of id: AccessoryID, on ssid: SSID?) -> String? {
        guard case .joined(let goal, let interface) = machine.state, goal.accessory == id, ssid == nil || ssid == goal.ssid else {
            return nil
        }
        return interface
    }

    /// Takes the network from those who are not entitled to it any more.
    func reviewHolders() {
        guard let goal = machine.goal else { return }
        let entitled = machine.holders.filter { isEntitled($0, to: goal) }
        handle(.entitled(Set(entitled), reason: "the app has disconnected, or its manifest or grant no longer covers the network"))
    }

    func end(_ completion: @escaping () -> Void) {
        handle(.ending(admit(Request { _ in completion() })))
    }

    /// A network that an earlier run had joined was left. That run may have ended before it said that it joined it, or
    /// after it said that it left: one is joined at a time, so the last line of any says which. Its accessory may be
    /// gone from the ledger, and with a damaged store the line, too.
    func leftEarlier(_ ssid: SSID) {
        var accessory = services.registry.ledger.accessory(joinedBy: ssid)?.id
        do {
            let last = try services.audit.lastOfNetworks()
            guard last?.event != .left, last != nil || accessory == nil else { return }
            accessory = last?.accessory
        } catch {
            // A line too many is better than none.
        }
        services.audit.record(.left, accessory: accessory, by: .daemon, why: "\(ssid): the daemon stopped before leaving it")
        // Its record is dropped next.
        services.audit.flush()
    }

    /// The joined network has gone; the interface gets its earlier connection.
    func gone(_ reason: String) { handle(.gone(reason: reason)) }

    private func isEntitled(_ holder: JoinMachine.Holder, to goal: JoinMachine.Goal) -> Bool {
        guard let grant = services.registry.usable(goal.accessory, to: holder.app, by: .wifi)?.grant, grant.state == .authorized,
            grant.terms.ssid == goal.ssid
        else { return false }
        return services.sessions.of(ClientID(holder.client)).contains { $0.app.id == holder.app }
    }

    // MARK: The machine

    private func admit(_ request: Request) -> JoinMachine.Ticket {
        tickets += 1
        requests[tickets] = request
        return tickets
    }

    private func handle(_ event: JoinMachine.Event) {
        queue.add(event) { event in
            for effect in machine.handle(event) { perform(effect) }
        }
    }

    private func perform(_ effect: JoinMachine.Effect) {
        switch effect {
        case .join(let ticket): join(ticket)
        case .leave: services.networkRadio.leave { [weak self] in self?.handle(.left) }
        case .answer(let ticket, let failure):
            requests.removeValue(forKey: ticket)?.completion(failure.map { SetupError(.connectionFailed, $0) })
        case .retry(let ticket): retry(ticket)
        case .changed(let goal): services.publisher.publish(.networkUseChanged(of: goal.accessory, goal.ssid))
        case .recordJoined(let goal, let holder, let interface):
            let who = services.sessions.requester(ClientID(holder.client))
            services.audit.record(.joined, app: holder.app, accessory: goal.accessory, by: who, why: "\(goal.ssid) on \(interface)")
            // Before the app's answer: the app may end the daemon.
            services.audit.flush()
            services.registry.recordUse(of: goal.accessory, by: holder.app, requester: who, as: "joined its network")
        case .recordLeft(let id, let reason):
            services.log.notice("left an accessory's network", metadata: ["accessory": "\(id)", "reason": "\(reason)"])
            services.audit.record(.left, accessory: id, by: .daemon, why: reason)
            // Before it is left: after that nothing says that it was joined.
            services.audit.flush()
        }
    }

    private func join(_ ticket: JoinMachine.Ticket) {
        guard let (join, goal, holder) = requests[ticket]?.join else { return }
        services.log.info("joining an accessory's network", metadata: ["accessory": "\(goal.accessory)", "app": "\(holder.app)"])
        services.networkRadio.join(join) { [weak self] result in
            guard let self else { return }
            switch result {
            case .success(let interface):
                self.services.log.notice(
                    "joined an accessory's network", metadata: ["accessory": "\(goal.accessory)", "interface": "\(interface)"])
                self.handle(.joined(interface: interface))
            case .failure(let failure):
                self.services.log.warning(
                    "could not join a network", metadata: ["accessory": "\(goal.accessory)", "reason": "\(failure)"])
                self.handle(.joinFailed(failure.message))
            }
        }
    }

    /// The interface is free for one who has waited; much may have changed meanwhile.
    private func retry(_ ticket: JoinMachine.Ticket) {
        guard let request = requests[ticket], let (_, goal, holder) = request.join else { return }
        guard isEntitled(holder, to: goal) else {
            requests[ticket] = nil
            return request.completion(SetupError(.connectionFailed, "the accessory was removed in the meantime"))
        }
        handle(.wanted(ticket, goal, by: holder))
    }
}
