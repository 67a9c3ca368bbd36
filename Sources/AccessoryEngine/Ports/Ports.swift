// SPDX-License-Identifier: Apache-2.0
// The other edges the engine needs: a store, time, and somebody to tell.

public import AccessoryCore
public import AccessoryModel

/// Where accessories and grants survive. Calls return once the change is on disk.
public protocol LedgerStore: AnyObject {
    func load() throws -> StoredState
    /// All steps together or none; new intents are noted, and finished ones dropped, in the same transaction.
    func commit(_ steps: [Ledger.Step], noting new: [BondIntent], finishing finished: [BondIntent]) throws
    /// Notes that a bond is about to be made or removed, before the radio is asked: after a power cut, what is noted and not granted
    /// is removed from the radio.
    func note(_ intent: BondIntent) throws
    func forget(_ intent: BondIntent) throws
    /// A number that no grant has had.
    func nextGrantID() throws -> Int64
    /// A number that no Wi-Fi Aware device has had; never 0.
    func nextAwareDevice() throws -> UInt64
}

extension LedgerStore {
    public func commit(_ steps: [Ledger.Step], finishing finished: [BondIntent]) throws {
        try commit(steps, noting: [], finishing: finished)
    }
}

/// Where the trail of what was done is kept.
public protocol AuditTrail: AnyObject {
    func append(_ entries: [AuditEntry]) throws
    /// The number at which the lines that a query asks for begin.
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
    public let entries: [AuditEntry]
    /// Nil after the last line.
    public let next: Int64?

    public init(entries: [AuditEntry], next: Int64?) {
        self.entries = entries
        self.next = next
    }
}

/// The lines that a query asks for, page by page: nobody waits while thousands are read.
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

    /// The next page; nil after the last one. Lines that are added meanwhile are not among them once the limit is reached.
    public mutating func next() throws -> [AuditEntry]? {
        guard let trail, let number, left > 0 else { return nil }
        let page = try trail.page(of: query, from: number, atMost: min(count, left))
        left -= page.entries.count
        self.number = page.next
        return page.entries
    }
}

/// A bond that may exist without a grant.
public struct BondIntent: Hashable, Sendable {
    public enum Purpose: String, Hashable, Sendable {
        case pairing
        case removal
    }

    public let address: BluetoothAddress
    /// The radio's object at that time: while the radio's service lives, it finds a device whose private address became an identity.
    public let device: RadioDeviceID?
    public let purpose: Purpose
    /// For a private address, which may be another one after a restart of everything: how to know the bond when it is seen again.
    public let trace: Trace?

    /// What is known of a device with a private address before it is paired.
    public struct Trace: Hashable, Sendable, Codable {
        /// What it calls itself.
        public let name: String
        /// The bonds that were there before: none of them is meant.
        public let olderBonds: Set<String>

        public init(name: String, olderBonds: Set<String>) {
            self.name = name
            self.olderBonds = olderBonds
        }
    }

    public init(address: BluetoothAddress, device: RadioDeviceID?, purpose: Purpose, trace: Trace? = nil) {
        self.trace = trace
        self.address = address
        self.device = device
        self.purpose = purpose
    }
}

/// What the store holds.
public struct StoredState {
    public var accessories: [Accessory]
    public var grants: [Grant]
    public var intents: [BondIntent]

    public init(accessories: [Accessory] = [], grants: [Grant] = [], intents: [BondIntent] = []) {
        self.accessories = accessories
        self.grants = grants
        self.intents = intents
    }
}

/// Time, so that tests can hold it still.
public protocol EngineClock: AnyObject {
    /// Seconds since 1970, with their fraction.
    var wallTime: Double { get }
    /// Monotonic seconds.
    var uptime: Double { get }
    /// Calls `body` once on the engine's thread after `seconds`, unless the timer is cancelled.
    func after(_ seconds: Double, _ body: @escaping () -> Void) -> any EngineTimer
}

extension EngineClock {
    /// Whole seconds since 1970, as they are stored.
    public var now: Int64 { Int64(wallTime) }
}

public protocol EngineTimer: AnyObject {
    func cancel()
}

/// A connection to us; the service says what the text is (a unique bus name).
public struct ClientID: Hashable, Sendable, CustomStringConvertible {
    public let rawValue: String
    public init(_ rawValue: String) { self.rawValue = rawValue }
    public var description: String { rawValue }
    /// Stands in for a picker program where the admin's policy approves without a person. No bus name looks like this.
    public static let policy = ClientID("policy")
}

/// An event of a session, with what it speaks of as it is at this moment.
public struct SessionEvent {
    public var type: SessionEventType
    public var accessory: Accessory?
    public var state: AuthorizationState = .authorized
    public var picker: Int?
    public var error: SetupError?
    /// For `accessoryDiscovered`.
    public var discovered: DiscoveredAccessory?

    public init(_ type: SessionEventType, accessory: Accessory? = nil, picker: Int? = nil, error: SetupError? = nil) {
        self.type = type
        self.accessory = accessory
        self.picker = picker
        self.error = error
    }
}
