// SPDX-License-Identifier: Apache-2.0
// Decides the use of the machine's one Wi-Fi interface: one accessory's network is joined at a time, as long as an
// entitled app holds it. A request for another network replaces it if the requester is the only holder, waits while it
// is being left, or is refused.

public import AccessoryModel

/// The joined network as a value: events in, effects out, one network at a time.
public struct JoinMachine: Hashable, Sendable {
    /// A request that waits for its answer; the number is the requester's choice.
    public typealias Ticket = Int

    /// Which network is meant.
    public struct Goal: Hashable, Sendable {
        /// Whose network it is.
        public let accessory: AccessoryID
        /// The network's whole name.
        public let ssid: SSID

        /// Stores its arguments.
        public init(accessory: AccessoryID, ssid: SSID) {
            self.accessory = accessory
            self.ssid = ssid
        }
    }

    /// Who wants to be on it.
    public struct Holder: Hashable, Sendable {
        /// The app's connection to us.
        public let client: String
        /// The app behind the connection.
        public let app: AppID

        /// - Parameter client: the unique name of the app's connection.
        public init(client: String, app: AppID) {
            self.client = client
            self.app = app
        }
    }

    /// The state of the interface.
    public enum State: Hashable, Sendable {
        /// The interface has no holder.
        case idle
        case joining(Goal)
        case joined(Goal, interface: String)
        /// The interface's earlier connection is being restored.
        case leaving(Goal)
    }

    /// The events. One that no longer fits the state changes nothing.
    public enum Event: Hashable, Sendable {
        /// An entitled app wants to be on a network.
        case wanted(Ticket, Goal, by: Holder)
        /// An app's connection has done with an accessory's network.
        case released(Ticket, AccessoryID, client: String)
        /// The entitled holders may have changed: none is entitled once it is no longer the accessory's network.
        case entitled(Set<Holder>, reason: String)
        /// The radio has joined it.
        case joined(interface: String)
        /// The radio could not join it, and says why.
        case joinFailed(String)
        /// The radio has given the interface back.
        case left
        /// The network has gone by itself.
        case gone(reason: String)
        /// The daemon ends, and waits for the interface to be given back.
        case ending(Ticket)
    }

    /// The effects to perform.
    public enum Effect: Hashable, Sendable {
        /// Have the radio join the network of this request.
        case join(Ticket)
        /// Have the radio leave the network. Answered by `left`.
        case leave
        /// The request is done; with why not.
        case answer(Ticket, failure: String?)
        /// The interface is free: look at this request again.
        case retry(Ticket)
        /// Whether this network is joined has changed.
        case changed(Goal)
        /// For the audit trail: this app is on the network from now on.
        case recordJoined(Goal, Holder, interface: String)
        /// For the audit trail: the machine has left the accessory's network, and why.
        case recordLeft(AccessoryID, reason: String)
    }

    /// The state of the interface.
    public private(set) var state = State.idle
    /// The holders of the network. Without any, the network is left; one that is still being joined is left afterwards,
    /// because half a join cannot be undone.
    public private(set) var holders: [Holder] = []
    private var joiners: [Joiner] = []
    private var afterwards: [Effect] = []

    private struct Joiner: Hashable, Sendable {
        let ticket: Ticket
        let holder: Holder
    }

    /// Nothing joined.
    public init() {}

    /// The network that is joined, or on its way in or out.
    public var goal: Goal? {
        switch state {
        case .idle: nil
        case .joining(let goal), .joined(let goal, _), .leaving(let goal): goal
        }
    }

    /// Handles an event, and returns the effects in order.
    public mutating func handle(_ event: Event) -> [Effect] {
        switch event {
        case .wanted(let ticket, let goal, let holder): want(ticket, goal, holder)
        case .released(let ticket, let accessory, let client): release(ticket, accessory, client)
        case .entitled(let entitled, let reason): keep(entitled, reason)
        case .joined(let interface): joined(interface)
        case .joinFailed(let why): failed(why)
        case .left: left()
        case .gone(let reason): gone(reason)
        case .ending(let ticket): end(ticket)
        }
    }

    private mutating func want(_ ticket: Ticket, _ goal: Goal, _ holder: Holder) -> [Effect] {
        switch state {
        case .idle:
            state = .joining(goal)
            holders = [holder]
            joiners = [Joiner(ticket: ticket, holder: holder)]
            return [.join(ticket)]
        case .leaving:
            afterwards.append(.retry(ticket))
            return []
        case .joined(goal, let interface):
            let isNew = hold(holder)
            return (isNew ? [.recordJoined(goal, holder, interface: interface)] : []) + [.answer(ticket, failure: nil)]
        case .joining(goal):
            _ = hold(holder)
            joiners.append(Joiner(ticket: ticket, holder: holder))
            return []
        case .joined where holders.allSatisfy({ $0.client == holder.client }):
            afterwards.append(.retry(ticket))
            return leave("the app is joining another network")
        case .joined, .joining:
            return [.answer(ticket, failure: "the Wi-Fi interface is in use for another accessory")]
        }
    }

    /// Whether it did not hold it yet.
    private mutating func hold(_ holder: Holder) -> Bool {
        guard !holders.contains(holder) else { return false }
        holders.append(holder)
        return true
    }

    private mutating func release(_ ticket: Ticket, _ accessory: AccessoryID, _ client: String) -> [Effect] {
        guard goal?.accessory == accessory, holders.contains(where: { $0.client == client }) else {
            return [.answer(ticket, failure: nil)]
        }
        holders.removeAll { $0.client == client }
        guard holders.isEmpty else { return [.answer(ticket, failure: nil)] }
        afterwards.append(.answer(ticket, failure: nil))
        return leave("left by the app")
    }

    private mutating func keep(_ entitled: Set<Holder>, _ reason: String) -> [Effect] {
        let kept = holders.filter(entitled.contains)
        guard kept != holders else { return [] }
        holders = kept
        return holders.isEmpty ? leave(reason) : []
    }

    private mutating func joined(_ interface: String) -> [Effect] {
        guard case .joining(let goal) = state else { return [] }
        state = .joined(goal, interface: interface)
        var effects: [Effect] = [.changed(goal)]
        for joiner in joiners {
            if holders.contains(joiner.holder) {
                effects += [.recordJoined(goal, joiner.holder, interface: interface), .answer(joiner.ticket, failure: nil)]
            } else {
                effects.append(
                    .answer(joiner.ticket, failure: "the network was left, or its grant was revoked, before it was joined"))
            }
        }
        joiners = []
        return effects + (holders.isEmpty ? leave("no app uses it any longer") : [])
    }

    private mutating func failed(_ why: String) -> [Effect] {
        guard case .joining = state else { return [] }
        let answers = joiners.map { Effect.answer($0.ticket, failure: why) }
        return answers + idle()
    }

    private mutating func left() -> [Effect] {
        guard case .leaving = state else { return [] }
        return idle()
    }

    private mutating func gone(_ reason: String) -> [Effect] {
        guard case .joined(let goal, _) = state else { return [] }
        return [.recordLeft(goal.accessory, reason: reason), .changed(goal)] + idle()
    }

    private mutating func end(_ ticket: Ticket) -> [Effect] {
        guard goal != nil else { return [.answer(ticket, failure: nil)] }
        holders = []
        afterwards.append(.answer(ticket, failure: nil))
        return leave("the daemon is stopping")
    }

    /// Leaves the joined network; a network that is being joined is left afterwards.
    private mutating func leave(_ reason: String) -> [Effect] {
        guard case .joined(let goal, _) = state else { return [] }
        state = .leaving(goal)
        holders = []
        return [.recordLeft(goal.accessory, reason: reason), .changed(goal), .leave]
    }

    private mutating func idle() -> [Effect] {
        defer { self = JoinMachine() }
        return afterwards
    }
}
