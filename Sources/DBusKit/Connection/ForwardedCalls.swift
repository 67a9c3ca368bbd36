// SPDX-License-Identifier: Apache-2.0
// Calls that a connection has passed on for somebody else, and whose answers go back as they come. There is no
// time-out: who waits gives up by himself, and a late answer is dropped.

struct ForwardedCalls {
    private var waiting: [UInt32: (Message?) -> Void] = [:]

    /// - Parameter completion: gets the answer, an error too, or nil when the bus has gone.
    mutating func add(_ serial: UInt32, _ completion: @escaping (Message?) -> Void) { waiting[serial] = completion }

    mutating func forget(_ serial: UInt32) { waiting[serial] = nil }

    var isEmpty: Bool { waiting.isEmpty }

    func isWaiting(for serial: UInt32) -> Bool { !waiting.isEmpty && waiting[serial] != nil }

    /// Who waits for an answer, no longer waiting. (Called by the connection, not here: it may pass on the next one at
    /// once.)
    mutating func remove(_ serial: UInt32) -> ((Message?) -> Void)? { waiting.removeValue(forKey: serial) }

    /// All who wait, no longer waiting: the bus has gone.
    mutating func removeAll() -> [(Message?) -> Void] {
        defer { waiting = [:] }
        return Array(waiting.values)
    }
}
