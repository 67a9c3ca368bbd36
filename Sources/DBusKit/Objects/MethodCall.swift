// SPDX-License-Identifier: Apache-2.0
// A call that a handler answers, now or later, at once or in parts. A call that its handler drops answers itself: a
// caller never waits in vain.

/// A call that a handler answers, now or later.
public final class MethodCall {
    /// The unique name of the caller, as the bus sets it.
    public let sender: String
    /// The object that is called.
    public let path: ObjectPath
    /// The interface that was found to answer, also for a call that names none.
    public let interface: String
    /// The method's name.
    public let member: String
    /// The call's arguments; their types are the ones of the XML.
    public let arguments: [DBusValue]
    private let message: Message
    private let connection: Connection
    private let longAnswers: LongAnswers
    private var isAnswered = false

    init(
        _ message: Message, sender: String, path: ObjectPath, interface: String, member: String, arguments: [DBusValue],
        on connection: Connection, _ longAnswers: LongAnswers
    ) {
        self.message = message
        self.sender = sender
        self.path = path
        self.interface = interface
        self.member = member
        self.arguments = arguments
        self.connection = connection
        self.longAnswers = longAnswers
    }

    deinit {
        // A caller must never wait for an answer that cannot arrive.
        if !isAnswered { fail(.failed("the request was dropped")) }
    }

    /// Answers with these values; their types must be the ones of the XML. Only the first answer counts, and none
    /// is sent to a caller that wants none. Values that cannot travel become an error.
    public func reply(_ values: DBusValue...) {
        answer { () throws(BusError) in try message.reply(values) }
    }

    /// Answers with one array that is made in parts, so that no other caller waits for a long one: `next` is asked for
    /// one part after another, in turns of the loop, until it gives none.
    ///
    /// - Parameter element: the type of the array's elements.
    public func reply(inParts element: Signature, _ next: @escaping () throws(BusError) -> [DBusValue]?) {
        guard !isAnswered else { return }
        isAnswered = true
        longAnswers.begin(message) { [message] () throws(BusError) in
            let answer = try ArrayAnswer(to: message, of: element)
            return { () throws(BusError) in
                guard let part = try next() else { return try answer.finished() }
                for value in part { try answer.append(value) }
                return nil
            }
        }
    }

    /// Answers with an error. Only the first answer counts, and none is sent to a caller that wants none.
    public func fail(_ error: BusError) {
        answer { () throws(BusError) in message.errorReply(error) }
    }

    private func answer(_ make: () throws(BusError) -> Message?) {
        guard !isAnswered else { return }
        isAnswered = true
        guard message.wantsReply else { return }
        do {
            if let answer = try make() { connection.send(answer) }
        } catch {
            if let answer = message.errorReply(error) { connection.send(answer) }
        }
    }
}
