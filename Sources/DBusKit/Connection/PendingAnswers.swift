// SPDX-License-Identifier: Apache-2.0
// The calls of a connection that have no answer yet.

struct PendingAnswers {
    /// libdbus would let them wait for their time-outs when the bus disconnects.
    private var calls: [ObjectIdentifier: PendingCall] = [:]
    /// Calls passed on for a client, which gives up by itself: no time-out, and the answer goes back as it arrives.
    private var forwarded: [UInt32: (Message?) -> Void] = [:]

    var isEmpty: Bool { calls.isEmpty && forwarded.isEmpty }

    mutating func add(_ call: PendingCall) { calls[ObjectIdentifier(call)] = call }

    mutating func remove(_ call: ObjectIdentifier) { calls[call] = nil }

    mutating func addForwarded(_ serial: UInt32, _ completion: @escaping (Message?) -> Void) { forwarded[serial] = completion }

    func isForwarded(_ serial: UInt32) -> Bool { !forwarded.isEmpty && forwarded[serial] != nil }

    /// Removes a forwarded call. (The connection calls the completion: it may pass on the next call at once.)
    mutating func removeForwarded(_ serial: UInt32) -> ((Message?) -> Void)? { forwarded.removeValue(forKey: serial) }

    /// Removes all, for a bus that has disconnected.
    mutating func removeAll() -> (forwarded: [(Message?) -> Void], calls: [PendingCall]) {
        defer { forwarded = [:] }
        // Those end themselves.
        return (Array(forwarded.values), Array(calls.values))
    }
}
