// SPDX-License-Identifier: Apache-2.0
// Links on a client's side of org.bluez: `Connect` and `Disconnect`, which take and give back a share of the link, and
// the signals of a link's changes.

internal import AccessoryModel
internal import BlueZInterfaces
internal import CallsOut
internal import DBusKit

extension BlueZProxy {
    /// An app that connects holds the link from then on, beside other apps.
    func connect(_ call: Message, _ device: ObjectPath) {
        guard !hasEnded, let app = identity.app else { return }
        recordUse(of: device, as: "Connect")
        let client = LinkShares.Client(name: connection.name, app: app)
        guard links.handle(.connectRequested(device, client)) == .forward else { return reply(to: call, []) }
        // Of a connected device bluetoothd might connect the classic side instead (BlueZVersions.swift): it is only
        // asked whether the link is up.
        let isUp = links.isUp(device) && scope.devices[device].map { environment.authority.isLowEnergyOnly($0) } == true
        let timesUp = links.timesUp(device)
        do throws(BusError) {
            let asked = isUp ? try CallOut.viewLink.method.message(at: device) : call
            try upstream.forward(asked, about: device, in: nil) { [weak self] outcome in
                self?.connectEnded(call, device, client, outcome, timesUp: timesUp) { error in
                    if isUp { self?.connect(call, device) } else { self?.refuse(call, error) }
                }
            }
        } catch {
            links.handle(.connectAnswered(device, client, hasWorked: false))
            refuse(call, error)
        }
    }

    /// - Parameters:
    ///   - timesUp: how often the link had come up when the client asked for it.
    ///   - onBroken: called when `Connect` has worked, and the link is down.
    private func connectEnded(
        _ call: Message, _ device: ObjectPath, _ client: LinkShares.Client, _ outcome: Upstream.Outcome, timesUp: Int,
        onBroken: @escaping (BusError) -> Void
    ) {
        guard case .reply = outcome else {
            if case .abandoned = outcome {
                links.handle(.connectAbandoned(device, client))
            } else {
                links.handle(.connectAnswered(device, client, hasWorked: false))
            }
            guard case .error(let answer) = outcome else { return answerFailure(call, outcome) }
            // The signals of a link that came up and ended come on another connection than the answer.
            return feed.readLink(device) { [weak self] in
                guard let self else { return }
                guard self.links.timesUp(device) > timesUp, let accessory = self.scope.devices[device],
                    let reason = self.environment.authority.linkEndedAtOnce(accessory), let error = answer.error
                else { return self.answerFailure(call, outcome) }
                self.refuse(call, BusError(name: error.name, message: "\(error.message): \(reason)"))
            }
        }
        links.handle(.connectAnswered(device, client, hasWorked: true))
        // The link is read on the connection that receives its signals: no older signal can arrive after the answer.
        feed.readLink(device) { [weak self] in
            guard let self else { return }
            let isGranted = self.scope.devices[device] != nil && self.identity.app == client.app
            switch self.links.handle(.connectConfirmed(device, client, isGranted: isGranted)) {
            case .held:
                self.observer?.clientNeedsChanged()
                self.reply(to: call, [])
            case .broken: onBroken(.bluez(.failed, "the link dropped immediately"))
            default: self.refuse(call, .unknownObject(device))
            }
        }
    }

    /// An app that disconnects gives its share of the link back; the last one ends it. As from bluetoothd, the
    /// services' end comes first, then the answer, and then the link's end.
    func disconnect(_ call: Message, _ device: ObjectPath) {
        // It may have waited.
        if let why = clearance.refusal(of: .device(device)) { return refuse(call, why) }
        guard let app = identity.app else { return }
        links.beginDisconnect(device)
        switch links.handle(.disconnectRequested(device, app)) {
        case .released:
            shown.signalServicesGone(device)
            reply(to: call, [])
        case .notConnected: refuse(call, .bluez(.notConnected, "Not Connected"))
        default: return passDisconnect(call, device)
        }
        links.endDisconnect(device)
    }

    private func passDisconnect(_ call: Message, _ device: ObjectPath) {
        do throws(BusError) {
            try upstream.forward(call, about: device, in: nil) { [weak self, links] outcome in
                if case .reply(let answer) = outcome, let self {
                    self.shown.signalServicesGone(device)
                    self.answer(call, answer, about: .app)
                } else {
                    self?.answerFailure(call, outcome)
                }
                links.endDisconnect(device)
            }
        } catch {
            refuse(call, error)
            links.endDisconnect(device)
        }
    }

    /// A link's end is signalled next: pending messages of the radio service must be passed on before.
    func catchUp() {
        if upstream.isSubscribed { upstream.catchUp() }
        sessions.catchUp()
    }

    /// A link has changed for some app: signals it if that is this one, and ends the sessions of a lost link.
    func linkChanged(_ device: ObjectPath) {
        guard isEngaged else { return }
        shown.signalLink(device) { endSessions(of: device) }
    }

    /// Passes on why a link ends.
    func linkEnds(_ device: ObjectPath, _ message: Message) {
        guard isEngaged else { return }
        shown.passEnd(message, of: device)
    }

    func endSessions(of device: ObjectPath) {
        for characteristic in sessions.endAll(of: device) { upstream.stopNotifying(characteristic) }
    }
}
