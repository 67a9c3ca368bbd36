// SPDX-License-Identifier: Apache-2.0
// Answers that would block the loop: a list of thousands of objects, a whole trail. They are made a few milliseconds in
// each turn of the loop, one after another, so that other callers are served meanwhile. Signals to a caller whose list
// is being made follow it: they report changes after that part of the list was made.

/// The answers that are being made.
final class LongAnswers {
    /// Makes a part of an answer; the answer itself when that was the last one.
    typealias Work = () throws(BusError) -> Message?

    private struct Answer {
        let call: Message
        let caller: String
        let work: Work
    }

    /// Microseconds of each turn of the loop.
    private static let turn: Int64 = 5_000
    /// Answers that one caller may wait for.
    private static let perCaller = 8
    /// Signals that wait for one caller; past these its answers are made without pause.
    private static let heldPerCaller = 1024

    private let connection: Connection
    private var answers: [Answer] = []
    private var held: [String: [Message]] = [:]
    private var next: LoopSource?

    init(on connection: Connection) {
        self.connection = connection
    }

    deinit {
        next?.cancel()
    }

    /// Begins an answer; a short one is sent before this returns.
    ///
    /// - Parameter make: begins the work, and returns its continuation.
    func begin(_ call: Message, _ make: () throws(BusError) -> Work) {
        let caller = call.sender ?? ""
        do throws(BusError) {
            guard answers.count(where: { $0.caller == caller }) < Self.perCaller else {
                throw BusError.limitsExceeded("\(Self.perCaller) long answers to this connection are being made already")
            }
            answers.append(Answer(call: call, caller: caller, work: try make()))
        } catch {
            return refuse(call, error)
        }
        if answers.count == 1 { run() }
    }

    /// Sends a signal, or keeps it until the answers that its receiver waits for have gone out.
    func send(_ signal: Message, to receiver: String?) {
        guard let receiver, isWaiting(receiver) else { return connection.send(signal) }
        held[receiver, default: []].append(signal)
        guard held[receiver]!.count >= Self.heldPerCaller else { return }
        while let index = answers.firstIndex(where: { $0.caller == receiver }) {
            while !step(index) {}
        }
    }

    /// Drops the answers of a connection that has disconnected.
    func callerGone(_ caller: String) {
        answers.removeAll { $0.caller == caller }
        held[caller] = nil
    }

    private func isWaiting(_ caller: String) -> Bool { answers.contains { $0.caller == caller } }

    private func run() {
        let end = connection.loop.now + Self.turn
        while !answers.isEmpty, connection.loop.now < end { _ = step(0) }
        guard !answers.isEmpty, next == nil else { return }
        next = connection.loop.soon { [weak self] in
            self?.next = nil
            self?.run()
        }
    }

    /// Makes one part of an answer, and sends it when that was the last; whether it was.
    private func step(_ index: Int) -> Bool {
        let answer = answers[index]
        do throws(BusError) {
            guard let message = try answer.work() else { return false }
            if answer.call.wantsReply { connection.send(message) }
        } catch {
            refuse(answer.call, error)
        }
        answers.remove(at: index)
        if !isWaiting(answer.caller), let signals = held.removeValue(forKey: answer.caller) {
            for signal in signals { connection.send(signal) }
        }
        return true
    }

    private func refuse(_ call: Message, _ error: BusError) {
        if call.wantsReply, let answer = call.errorReply(error) { connection.send(answer) }
    }
}
