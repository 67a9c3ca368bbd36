// SPDX-License-Identifier: Apache-2.0
// Passing on: messages of another connection, sent under other names with the same arguments.

internal import Effects

extension Connection {
    /// Passes an answer, or an error, on as the answer to a call that arrived on this connection.
    ///
    /// - Parameters:
    ///   - call: which is answered.
    ///   - sender: the answer's sender; a bus name.
    ///   - destination: its receiver; a bus name.
    public func pass(_ answer: Message, answering call: Message, from sender: String, to destination: String) {
        guard let copy = answer.copy(answering: call) else { return }
        copy.setSender(sender)
        copy.setDestination(destination)
        send(copy)
    }

    /// Passes a signal on, to a client that has asked for it.
    ///
    /// - Parameter sender: the signal's sender; a bus name.
    public func pass(signal: Message, from sender: String) {
        guard let copy = signal.copy() else { return }
        copy.setSender(sender)
        send(copy)
    }

    /// Passes a call on: `completion` gets the answer as it came, an error too, or nil when the bus disconnects. There
    /// is no time-out; `forget` ends the wait. An answer is asked for even if the caller wants none.
    ///
    /// - Parameter destination: the call's receiver; a bus name.
    /// - Returns: the number that `forget` takes.
    public func pass(_ call: Message, to destination: String, completion: @escaping (Message?) -> Void) -> UInt32 {
        guard let copy = call.copy() else {
            loop.soon { completion(nil) }
            return 0
        }
        copy.setDestination(destination)
        copy.expectReply()
        return forward(copy, Effect(.call, "passed " + call.calledMethod), completion)
    }
}
