// SPDX-License-Identifier: Apache-2.0
// The connection to one client, as a bus has it: answers go to the client, signals to its match rules, and one that
// does not read is disconnected. (D-Bus specification, "Message Bus Message Routing")

internal import DBusKit
internal import Logging

/// Sends messages to a client of the view.
final class ClientConnection {
    private let peer: Connection
    private let limits: ViewLimits
    private let log: Logger
    private weak var observer: (any ViewClientObserver)?
    private let share: Share
    private let clearance: Clearance
    private var rules: [(text: String, rule: MatchRule)] = []
    /// Whether it has asked for signals that may be org.bluez'.
    private(set) var isListening = false
    /// It is sent nothing any more.
    private var isCutOff = false

    init(
        _ peer: Connection, _ limits: ViewLimits, _ share: Share, _ clearance: Clearance, _ log: Logger,
        observer: any ViewClientObserver
    ) {
        self.share = share
        self.clearance = clearance
        self.peer = peer
        self.limits = limits
        self.log = log
        self.observer = observer
        peer.localPeerSender = BusDriver.serviceAlias
        // All outgoing messages pass here, also those of the session API.
        peer.refusal = { message in
            guard let why = clearance.refusal(of: .app), message.sender != Bus.name else { return nil }
            return why
        }
        peer.onLocalDelivery = { [weak self] in self?.checkReading() }
    }

    /// The client's unique name in the view.
    var name: String { peer.uniqueName }
    var loop: MainLoop { peer.loop }

    /// Closes the connection; the rest follows when it is closed.
    func cutOff(_ reason: String) {
        guard !isCutOff else { return }
        isCutOff = true
        log.warning("disconnected a client of the view", metadata: ["client": "\(name)", "reason": "\(reason)"])
        peer.close()
    }

    /// The connection is closed: its rules are for others of its user.
    func closed() {
        share.release(.matchRules, rules.count)
        if isListening { share.release(.listeners) }
        (rules, isListening) = ([], false)
    }

    // MARK: Match rules

    /// - Throws: `MatchRuleInvalid`, `LimitsExceeded`.
    @discardableResult
    func addRule(_ text: String) throws(BusError) -> MatchRule {
        let rule = try MatchRule(text)
        try share.reserve(.matchRules)
        rules.append((text, rule))
        return rule
    }

    /// The client asks for signals that may be org.bluez'.
    ///
    /// - Throws: `LimitsExceeded`.
    func listen() throws(BusError) {
        guard !isListening else { return }
        try share.reserve(.listeners)
        isListening = true
    }

    /// Removes one such rule.
    ///
    /// - Throws: `MatchRuleInvalid`, `MatchRuleNotFound`.
    func removeRule(_ text: String) throws(BusError) {
        let rule = try MatchRule(text)
        guard let index = rules.firstIndex(where: { $0.rule == rule }) else {
            throw .standard("MatchRuleNotFound", "no such match rule")
        }
        rules.remove(at: index)
        share.release(.matchRules)
    }

    private func isWanted(_ message: Message, from names: [String]) -> Bool {
        rules.contains { $0.rule.matches(message, from: names) }
    }

    // MARK: Between two runs

    /// Leaves the connection to the next run.
    ///
    /// - Returns: nil when that is not possible.
    func leave(_ baggage: inout Baggage) -> LeftState? {
        guard !isCutOff, let (socket, left) = peer.leave(answering: Self.restarting) else { return nil }
        return ["Connection": baggage.pack(socket, left), "Rules": .strings(rules.map(\.text)), "Listens": .boolean(isListening)]
    }

    func resume(_ state: LeftState) {
        rules = (state["Rules"]?.stringsValue ?? []).compactMap { text in (try? MatchRule(text)).map { (text, $0) } }
        share.resume(.matchRules, rules.count)
        isListening = state.isTrue("Listens")
        if isListening { share.resume(.listeners, 1) }
    }

    /// As a bus says it of a service that goes without an answer.
    static let restarting = BusError.standard("NoReply", "accessorysetupd is being restarted")

    // MARK: Sending

    /// Sends a message to this client alone.
    func send(_ message: Message, from sender: String, about matter: Matter) {
        guard clearance.allows(matter) else { return }
        message.setSender(sender)
        message.setDestination(name)
        deliver(message)
    }

    /// Sends a signal if the client has asked for it.
    ///
    /// - Parameters:
    ///   - names: the sender's names for match rules.
    ///   - sender: its unique name.
    func broadcast(_ message: Message, from names: [String], as sender: String, about matter: Matter) {
        guard clearance.allows(matter), isWanted(message, from: names) else { return }
        message.setSender(sender)
        deliver(message)
    }

    /// Passes a signal on, as `broadcast` sends one that was made here.
    func pass(signal: Message, from names: [String], as sender: String, about matter: Matter) {
        guard !isCutOff, clearance.allows(matter), isWanted(signal, from: names) else { return }
        peer.pass(signal: signal, from: sender)
        checkReading()
    }

    /// Passes an answer on, or an error, if the call wants one.
    func pass(_ answer: Message, answering call: Message, from sender: String, about matter: Matter) {
        guard !isCutOff, call.wantsReply else { return }
        if answer.kind != .error, let why = clearance.refusal(of: matter) { return fail(call, why, from: sender) }
        peer.pass(answer, answering: call, from: sender, to: name)
        checkReading()
    }

    /// Answers a call, if it wants an answer.
    func reply(to call: Message, _ arguments: [DBusValue], from sender: String, about matter: Matter) {
        guard call.wantsReply else { return }
        if let why = clearance.refusal(of: matter) { return fail(call, why, from: sender) }
        do {
            send(try call.reply(arguments), from: sender, about: matter)
        } catch {
            fail(call, error, from: sender)
        }
    }

    /// Answers a call with an error, if it wants an answer.
    func fail(_ call: Message, _ error: BusError, from sender: String) {
        guard call.wantsReply, let message = call.errorReply(error) else { return }
        // It says nothing of accessories.
        send(message, from: sender, about: .bus)
    }

    private func deliver(_ message: Message) {
        guard !isCutOff else { return }
        peer.send(message)
        checkReading()
    }

    /// Who does not read is not kept; the others are.
    private func checkReading() {
        let unread = peer.outgoingBytes
        if unread > limits.unreadBytes { return cutOff("it is not reading: \(unread) bytes are queued for it") }
        // Less than its share cannot be too much, whatever waits for others.
        if unread > limits.places.unreadBytes / limits.places.clients { observer?.clientHasBacklog() }
    }
}
