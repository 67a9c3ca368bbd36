// SPDX-License-Identifier: Apache-2.0
// One question to many objects. The common part of the calls is checked and written once, the answers are handed on
// unread, and one timer waits for all answers.

extension Connection {
    /// Calls a method of many objects of a service, with the same arguments, without waiting in between. It goes over
    /// the bus, past `localPeers`. Cheaper than as many `call`s.
    ///
    /// - Parameters:
    ///   - timeout: for all answers together.
    ///   - each: gets an answer when it comes, and which of `paths` gave it. An object that answers with an error, or
    ///     not in time, has none.
    ///   - completion: called exactly once, from the loop: when all have answered, when the time is over, or when the
    ///     bus disconnects. With a name or a value that cannot travel, no call is made.
    public func callEach(
        _ destination: String, _ paths: [ObjectPath], _ interface: String, _ member: String, _ arguments: [DBusValue] = [],
        timeout: Duration = .seconds(25), each: @escaping (Int, Message) -> Void, completion: @escaping () -> Void
    ) {
        guard !paths.isEmpty,
            let question = try? Message.question(to: destination, interface: interface, member: member, arguments)
        else {
            loop.soon(completion)
            return
        }
        let round = Round(missing: paths.count, completion)
        var serials: [UInt32] = []
        serials.reserveCapacity(paths.count)
        for (index, path) in paths.enumerated() {
            guard let call = question.copy(to: path) else {
                loop.soon { round.answered() }
                continue
            }
            serials.append(
                forward(call) { answer in
                    if let answer, answer.kind == .reply { each(index, answer) }
                    round.answered()
                })
        }
        if serials.count > 8 { transport.expectMany() }
        round.timer = loop.after(timeout) { [weak self] in
            guard let self else { return }
            for serial in serials { self.forget(serial) }
            round.end()
        }
    }
}

/// The answers that are waited for.
private final class Round {
    var timer: LoopSource?
    private var missing: Int
    private var completion: (() -> Void)?

    init(missing: Int, _ completion: @escaping () -> Void) {
        self.missing = missing
        self.completion = completion
    }

    func answered() {
        missing -= 1
        if missing == 0 { end() }
    }

    func end() {
        timer?.cancel()
        guard let completion else { return }
        self.completion = nil
        completion()
    }
}
