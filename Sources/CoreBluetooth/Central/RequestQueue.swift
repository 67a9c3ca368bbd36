// SPDX-License-Identifier: Apache-2.0
// Requests in the order in which the app made them, as a value: one is current, the others wait.

/// A bounded queue with at most one current request.
struct RequestQueue<Request> {
    enum Refusal: Error {
        case closed, full
    }

    private enum Content {
        /// The requests, and where the pending ones begin: those before have been begun.
        case open([Request], head: Int)
        case closed
    }

    static var maxPending: Int { 1024 }

    private var content: Content
    private var current: Request?

    init(isClosed: Bool = false) {
        content = isClosed ? .closed : .open([], head: 0)
    }

    var isClosed: Bool { if case .closed = content { true } else { false } }

    /// Whether no request is current or pending.
    var isIdle: Bool {
        guard current == nil, case .open(let requests, let head) = content else { return false }
        return requests.count == head
    }

    mutating func add(_ request: Request) throws(Refusal) {
        guard case .open(var requests, let head) = content else { throw .closed }
        guard requests.count - head < Self.maxPending else { throw .full }
        // The queue must not hold a second reference during the append, which would copy all elements.
        content = .closed
        requests.append(request)
        content = .open(requests, head: head)
    }

    /// Makes the next request current; nil while there is a current one, or none is pending.
    mutating func next() -> Request? {
        guard current == nil, case .open(var requests, var head) = content, head < requests.count else { return nil }
        content = .closed
        current = requests[head]
        head += 1
        if head == requests.count || head > 256 {
            requests.removeFirst(head)
            head = 0
        }
        content = .open(requests, head: head)
        return current
    }

    /// The current request is answered.
    mutating func finish() {
        current = nil
    }

    /// - Returns: the requests that were not answered.
    mutating func close() -> [Request] {
        guard case .open(let requests, let head) = content else { return [] }
        defer { (content, current) = (.closed, nil) }
        return (current.map { [$0] } ?? []) + requests[head...]
    }
}
