// SPDX-License-Identifier: Apache-2.0
// The engine's view of the stored audit trail, which is read in pages.

public import AccessoryModel

/// The stored audit trail.
public protocol AuditTrail: AnyObject {
    /// Adds lines, and gives them their numbers.
    ///
    /// - Returns: the numbers, in the order of the lines.
    func append(_ entries: [AuditEntry]) throws -> [Int64]
    /// The number at which the lines that a query asks for begin; no line need have it.
    func firstLine(of query: AuditQuery) throws -> Int64
    /// The next lines of a query, oldest first.
    ///
    /// - Parameters:
    ///   - number: lines before this number are left out.
    ///   - count: at most so many, 1 or more.
    func page(of query: AuditQuery, from number: Int64, atMost count: Int) throws -> AuditPage
}

/// Some lines of the trail, and where the next ones begin.
public struct AuditPage {
    /// Oldest first. Fewer than were asked for at the end, and where a newer daemon's events are left out.
    public let entries: [AuditEntry]
    /// Nil after the last line.
    public let next: Int64?

    /// - Parameter next: the number that the next lines begin at; nil after the last line.
    public init(entries: [AuditEntry], next: Int64?) {
        self.entries = entries
        self.next = next
    }
}

/// The lines of a query, page by page, so that thousands of lines delay no other request.
public struct AuditPages {
    private let trail: (any AuditTrail)?
    private let query: AuditQuery
    private let count: Int
    private var left: Int
    private var number: Int64?

    /// - Parameter count: lines of each page, 1 or more.
    public init(of trail: (any AuditTrail)?, _ query: AuditQuery, of count: Int) throws {
        self.trail = trail
        self.query = query
        self.count = count
        left = query.limit
        number = try trail?.firstLine(of: query)
    }

    /// The next page; nil after the last one. Lines that are added meanwhile are not among them once the limit is
    /// reached.
    public mutating func next() throws -> [AuditEntry]? {
        guard let trail, let number, left > 0 else { return nil }
        let page = try trail.page(of: query, from: number, atMost: min(count, left))
        left -= page.entries.count
        self.number = page.next
        return page.entries
    }
}
