// SPDX-License-Identifier: Apache-2.0
// The engine's view of a store: accessories, grants, and intents about bonds, each change in one transaction.

public import AccessoryCore
public import AccessoryModel
internal import Logging

/// Where accessories and grants survive. Calls return once the change is on disk.
public protocol LedgerStore: AnyObject {
    /// All that is stored, once at the start.
    func load() throws -> StoredState
    /// Commits a whole change or nothing.
    ///
    /// - Returns: the numbers of its lines in the trail, in their order.
    /// - Throws: when it cannot be written; nothing has changed then.
    @discardableResult func commit(_ change: StoreChange) throws -> [Int64]
    /// Stores an intent before the radio acts: after a power cut, an intent without a grant has the bond removed.
    func persist(_ intent: BondIntent) throws
    /// The bond is known to be there for a grant, or to be gone.
    func delete(_ intent: BondIntent) throws
    /// A number that no grant has had.
    func nextGrantID() throws -> Int64
    /// A number that no Wi-Fi Aware device has had; never 0.
    func nextAwareDevice() throws -> UInt64
}

/// One transaction: access, muted apps, intents about bonds, and the lines of the trail about these.
public struct StoreChange {
    /// Changes of accessories and grants.
    public var steps: [Ledger.Step]
    /// The entry of a claim list that this uses up.
    public var claim: Claim?
    /// Intents that begin.
    public var intents: [BondIntent]
    /// Intents that end.
    public var finishedIntents: [BondIntent]
    /// An app that may no longer ask.
    public var muted: MutedApp?
    /// An app that may ask again.
    public var unmuted: AppID?
    /// Lines for the trail.
    public var lines: [AuditEntry]
    /// The present time of grants; nil where none of the steps is about an end.
    public var clock: ElapsedClock.Anchor?

    /// Stores its arguments.
    public init(
        _ steps: [Ledger.Step] = [], clock: ElapsedClock.Anchor? = nil, claim: Claim? = nil, muted: MutedApp? = nil,
        unmuted: AppID? = nil,
        adding intents: [BondIntent] = [], finishing finished: [BondIntent] = [], lines: [AuditEntry] = []
    ) {
        self.steps = steps
        self.clock = clock
        self.claim = claim
        self.muted = muted
        self.unmuted = unmuted
        self.intents = intents
        self.finishedIntents = finished
        self.lines = lines
    }
}

/// The stored state.
public struct StoredState {
    /// All that are set up.
    public var accessories: [Accessory]
    /// All, switched-off ones too.
    public var grants: [Grant]
    /// Bonds that an earlier run of the daemon was about to make or remove.
    public var intents: [BondIntent]
    /// Apps that may not ask.
    public var mutedApps: [MutedApp] = []
    /// All entries of claim lists that are used up.
    public var claims: [Claim] = []
    /// The last known time of grants; nil where none was stored.
    public var clock: ElapsedClock.Anchor?

    /// Stores its arguments.
    public init(accessories: [Accessory] = [], grants: [Grant] = [], intents: [BondIntent] = []) {
        self.accessories = accessories
        self.grants = grants
        self.intents = intents
    }
}

/// A bond that may exist without a grant.
public struct BondIntent: Hashable, Sendable {
    /// Why the bond may be there. The raw values are the store's words.
    public enum Purpose: String, Hashable, Sendable {
        /// It is about to be made, or was made and not granted yet.
        case pairing
        /// It is about to be removed.
        case removal
    }

    /// The device's address; for a device that is to be paired the one that it has at that time, which may be
    /// private.
    public let address: BluetoothAddress
    /// The adapter that has the bond, or is to; nil when it is not known.
    public let adapter: BluetoothAddress?
    /// The radio's object at that time: while the radio's service lives, it finds a device whose private address became
    /// an identity.
    public let device: RadioDeviceID?
    /// Why the bond may be there.
    public let purpose: Purpose
    /// For a private address, which may be another one after a restart of everything: how to know the bond when it is
    /// seen again.
    public let trace: Trace?

    /// Traits of a device with a private address before it is paired.
    public struct Trace: Hashable, Sendable {
        /// Its own name.
        public let name: String
        /// Bonds that existed before: the new one is not among them.
        public let olderBonds: Set<String>

        /// Stores its arguments.
        public init(name: String, olderBonds: Set<String>) {
            self.name = name
            self.olderBonds = olderBonds
        }
    }

    /// Whose bond it is.
    public var peer: BluetoothPeer { BluetoothPeer(address, adapter: adapter) }

    /// Stores its arguments.
    public init(_ peer: BluetoothPeer, device: RadioDeviceID?, purpose: Purpose, trace: Trace? = nil) {
        self.trace = trace
        address = peer.address
        adapter = peer.adapter
        self.device = device
        self.purpose = purpose
    }
}

/// Logs an error of the store, and throws it as the `Unknown` that a requester gets.
func storing<T>(_ log: Logger, _ body: () throws -> T) throws(SetupError) -> T {
    do {
        return try body()
    } catch {
        log.error("the store refused a change", metadata: ["error": "\(error)"])
        throw SetupError(.unknown, "the store refused the change: \(error)")
    }
}
