// SPDX-License-Identifier: Apache-2.0
// How a client's calls go on to org.bluez over its own connection, and how their answers come back: in the order of the
// signals before them, and only while the grant still permits the matter.

internal import DBusKit

extension BlueZProxy {
    /// Passes a call on and its answer back.
    ///
    /// - Parameters:
    ///   - device: the call's device; nil for the adapter and for all objects.
    ///   - matter: the subject of its answer, if not the device.
    ///   - lane: the calls that it stands behind.
    ///   - other: sent in the call's place.
    ///   - need: the matter that must still be allowed when its turn has come.
    ///   - adapting: makes the client's answer of the service's.
    func pass(
        _ call: Message, about device: ObjectPath?, as matter: Matter? = nil, in lane: ServiceQueue.Lane = .service,
        saying other: Message? = nil, needing need: Matter? = nil,
        adapting: @escaping (Message) throws(BusError) -> Message = { $0 }
    ) {
        forward(call, about: device, in: lane, saying: other, needing: need) { [weak self] answer in
            guard let self else { return }
            do throws(BusError) {
                self.answer(call, try adapting(answer), about: matter ?? device.map { .device($0) } ?? .app)
            } catch {
                self.connection.fail(call, error, from: self.service)
            }
        }
    }

    func answer(_ call: Message, _ answer: Message, about matter: Matter) {
        connection.pass(answer, answering: call, from: service, about: matter)
    }

    /// Passes a call on, and answers it where that fails.
    ///
    /// - Parameter onReply: gets the service's reply, and answers the client.
    func forward(
        _ call: Message, about device: ObjectPath?, in lane: ServiceQueue.Lane = .service, saying other: Message? = nil,
        needing need: Matter? = nil, onReply: @escaping (Message) -> Void
    ) {
        do throws(BusError) {
            let mayStart = { [clearance] in need.flatMap { clearance.refusal(of: $0) } }
            try upstream.forward(other ?? call, about: device, in: lane, mayStart: mayStart) { [weak self] outcome in
                // Signals before the answer come first, also for a client that listens on a connection of its own.
                if let self {
                    self.observer?.catchUpOthers(of: self.connection.name)
                    self.shown.catchUp()
                }
                if case .reply(let answer) = outcome { onReply(answer) } else { self?.answerFailure(call, outcome) }
            }
        } catch {
            refuse(call, error)
        }
    }

    func answerFailure(_ call: Message, _ outcome: Upstream.Outcome) {
        switch outcome {
        case .reply(let answer), .error(let answer): self.answer(call, answer, about: .app)
        case .noReply: connection.fail(call, .standard("NoReply", "org.bluez has gone"), from: service)
        case .abandoned(let error):
            // The last grant has ended while all objects were read: the adapter is left. Clients would take an error
            // for the end of the service, and never ask again.
            if scope.devices.isEmpty, feed.alias != nil, isForAllObjects(call) { return answerManagedObjects(call) }
            connection.fail(call, error, from: service)
        }
    }

    func passToAttribute(_ call: Message, _ path: ObjectPath, _ member: String, _ device: ObjectPath) {
        var need = Matter.link(device)
        if case .use(let use) = CallNeed(path, call.interface, member, device) { need = .use(use) }
        if let why = clearance.refusal(of: need) { return refuse(call, why) }
        recordUse(of: device, as: member)
        // The app receives the answer to a write although it has released the link meanwhile.
        let matter: Matter = GATTSessions.reveals(member) ? need : .device(device)
        pass(call, about: device, as: matter, in: .link(device), needing: need) { [weak self] answer throws(BusError) in
            guard let self else { return answer }
            if let why = self.clearance.refusal(of: matter) {
                if member == "StartNotify" { self.upstream.stopNotifying(path) }
                throw why
            }
            return try self.sessions.answered(answer, to: call, path, member, device)
        }
    }
}
