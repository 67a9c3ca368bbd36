// SPDX-License-Identifier: Apache-2.0
// The holder of a share: limits are for users, and they take turns.

/// The holder of a share: a user, or an app with its own socket (a container's uids mean nothing here).
public enum Party: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// All processes of a user, by the number that the kernel names.
    case user(UInt32)
    /// All holders of an app's own socket.
    case app(AppID)

    /// Whose share a caller takes.
    public init(_ caller: Caller) {
        self = caller.socket.map { .app($0) } ?? .user(caller.uid)
    }

    /// For people: `user 1000`, or the app.
    public var description: String {
        switch self {
        case .user(let uid): "user \(uid)"
        case .app(let app): "\(app)"
        }
    }
}

/// Elements that wait for parties, in turns: one of each party in the order of arrival. A party with a thousand
/// elements delays another by one.
public struct Turns<Element> {
    private var waiting: [Party: [Element]] = [:]
    /// The parties that have something waiting, the next one first.
    private var order: [Party] = []

    /// Nothing waits.
    public init() {}

    /// Whether nothing waits.
    public var isEmpty: Bool { order.isEmpty }

    /// How much waits.
    public var count: Int { waiting.values.reduce(0) { $0 + $1.count } }

    /// The elements of a party, in order.
    public func elements(of party: Party) -> [Element] { waiting[party] ?? [] }

    /// Adds an element after all others of its party.
    public mutating func add(_ element: Element, of party: Party) {
        if waiting[party, default: []].isEmpty { order.append(party) }
        waiting[party, default: []].append(element)
    }

    /// Takes the next element; nil where none waits. Its party's next turn comes after those of all others.
    public mutating func next() -> Element? {
        guard let party = order.first else { return nil }
        order.removeFirst()
        let element = waiting[party]!.removeFirst()
        if waiting[party]!.isEmpty { waiting[party] = nil } else { order.append(party) }
        return element
    }

    /// Drops elements.
    ///
    /// - Returns: the dropped elements, in order.
    @discardableResult
    public mutating func removeAll(of party: Party, where isDropped: (Element) -> Bool) -> [Element] {
        guard let all = waiting[party] else { return [] }
        let left = all.filter { !isDropped($0) }
        waiting[party] = left.isEmpty ? nil : left
        if left.isEmpty { order.removeAll { $0 == party } }
        return all.filter(isDropped)
    }
}
