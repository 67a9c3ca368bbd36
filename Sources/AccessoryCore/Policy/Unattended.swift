// SPDX-License-Identifier: Apache-2.0
// The decision in a person's place: which accessory in range an app gets, by which claim list's entry or rule, and why
// not the others. One value decides for the picker, for `explain` and for `accessoryctl policy test`.

public import AccessoryModel

/// The claims that were made, and the attempts that failed.
public struct Claims: Sendable {
    /// All that the store has.
    public private(set) var made: [Claim.Key: Claim] = [:]
    /// Times of the last failed attempts since the start, in seconds since 1970: an accessory that fails again and
    /// again does not stand in the others' way.
    private var failures: [Claim.Key: Int64] = [:]

    /// Those of the store.
    public init(_ made: [Claim] = []) {
        for claim in made { self.made[claim.key] = claim }
    }

    /// Adds a claim that the store has.
    public mutating func add(_ claim: Claim) { made[claim.key] = claim }

    /// The accessory of an entry was picked, and not set up.
    public mutating func addFailure(of key: Claim.Key, at time: Int64) { failures[key] = time }

    fileprivate func failure(of key: Claim.Key) -> Int64? { failures[key] }

    /// How many claims of a list were made.
    public func count(of list: ClaimList) -> Int { made.keys.count(where: { $0.list == list.id }) }

    /// Why a list approves nothing now; nil when it does.
    ///
    /// - Parameter now: seconds since 1970.
    public func obstacle(to list: ClaimList, now: Int64) -> String? {
        if now < list.window.lowerBound {
            return "opens at \(ClaimList.text(of: list.window.lowerBound)); the clock says \(ClaimList.text(of: now))"
        }
        if now >= list.window.upperBound { return "closed at \(ClaimList.text(of: list.window.upperBound))" }
        if list.entries.allSatisfy({ made[.init(list: list.id, entry: $0.key)] != nil }) { return "has no entry left" }
        return count(of: list) >= list.count ? "has set up its Count=\(list.count)" : nil
    }
}

/// The rules and lists for one app at one moment.
public struct Unattended {
    /// An entry of a list.
    public struct Listing: Sendable {
        /// The list.
        public let list: ClaimList
        /// The entry.
        public let entry: ClaimList.Entry
        fileprivate let failure: Int64?
        fileprivate let order: [Int]

        /// For the store.
        public var key: Claim.Key { .init(list: list.id, entry: entry.key) }
    }

    /// The decision about an accessory in range.
    public enum Verdict: Sendable {
        /// By an entry.
        case listed(Listing)
        /// By a rule.
        case approved(AccessPolicy.Approval)
        /// Neither, and why; `isAmbiguous` where several accessories fit an entry, or several entries an accessory.
        case left(String, isAmbiguous: Bool = false)
    }

    private let policy: AccessPolicy
    private let claims: Claims
    private let app: AppID
    private let now: Int64
    private let lists: [ClaimList]
    private let closed: String?
    /// When the next list of the app's opens; nil for none.
    public let opening: Int64?

    /// - Parameter now: seconds since 1970.
    public init(_ policy: AccessPolicy, _ claims: Claims, _ app: AppID, now: Int64) {
        self.policy = policy
        self.claims = claims
        self.app = app
        self.now = now
        var obstacles: [String] = []
        lists = policy.lists.filter { list in
            guard policy.problem == nil, list.app == app else { return false }
            guard let obstacle = claims.obstacle(to: list, now: now) else { return true }
            obstacles.append("claim list \(list.id) \(obstacle)")
            return false
        }
        opening = policy.lists.filter { $0.app == app && $0.window.lowerBound > now }.map(\.window.lowerBound).min()
        closed = obstacles.isEmpty ? nil : obstacles.joined(separator: "; ")
    }

    /// Whether anything may be approved.
    public var mayApprove: Bool { !lists.isEmpty || policy.approves(app) }

    /// Why no list of the app's approves anything; nil without such a list, or with an open one.
    public var obstacle: String? { lists.isEmpty ? closed : nil }

    /// Whether an accessory fits an entry that is left.
    public func awaits(_ candidate: AccessoryCandidate) -> Bool { listings(of: candidate).contains { claims.made[$0.key] == nil } }

    /// Why an entry no longer approves an accessory; nil when it does. Lists, rules and claims may have changed since
    /// it was picked.
    public func obstacle(to listing: Listing) -> String? {
        guard let list = lists.first(where: { $0.id == listing.list.id }), list.entries.contains(listing.entry) else {
            return closed ?? "\(listing.key) was changed in the meantime"
        }
        return claims.made[listing.key].map { "\($0.key) is used" }
    }

    private func listings(of candidate: AccessoryCandidate) -> [Listing] {
        guard let advert = candidate.advertisement else { return [] }
        return lists.enumerated().compactMap { number, list in
            list.position(of: advert).map { place in
                let entry = list.entries[place]
                let failure = claims.failure(of: .init(list: list.id, entry: entry.key))
                return Listing(list: list, entry: entry, failure: failure, order: [Int(failure ?? 0), number, place])
            }
        }
    }

    /// The verdict on each accessory in range that matches the app's items.
    ///
    /// - Parameter devices: with the smoothed strength, dBm; nil when unknown.
    public func verdicts(on devices: [(candidate: AccessoryCandidate, rssi: Int?)]) -> [Verdict] {
        let listings = devices.map { policy.denial(of: $0.candidate, to: app) == nil ? self.listings(of: $0.candidate) : [] }
        var fitting: [Claim.Key: Int] = [:]
        for key in listings.joined().map(\.key) { fitting[key, default: 0] += 1 }
        return zip(devices, listings).map { device, listings in verdict(on: device, listings, fitting) }
    }

    private func verdict(
        on device: (candidate: AccessoryCandidate, rssi: Int?), _ listings: [Listing], _ fitting: [Claim.Key: Int]
    ) -> Verdict {
        if let problem = policy.problem { return .left("the policy is not valid: \(problem)") }
        if let denial = policy.denial(of: device.candidate, to: app) {
            return .left("rule \(denial.name) in \(denial.source) denies it")
        }
        guard let listing = listings.first else {
            // An open list alone decides: a stranger must not be taken while a listed accessory is awaited.
            if !lists.isEmpty { return .left("no entry of claim list \(lists.map(\.id).joined(separator: ", ")) fits it") }
            if let rule = policy.approval(of: device.candidate, rssi: device.rssi, to: app) { return .approved(rule) }
            return .left(closed ?? "no rule approves it")
        }
        if listings.count > 1 {
            return .left("it fits \(listings.map { "\($0.key)" }.joined(separator: " and "))", isAmbiguous: true)
        }
        if let claim = claims.made[listing.key] {
            return .left("\(listing.key) is used since \(ClaimList.text(of: claim.time))")
        }
        if let count = fitting[listing.key], count > 1 {
            return .left("\(listing.key) fits \(count) accessories in range", isAmbiguous: true)
        }
        // By either clock: it may be set back.
        if let failure = listing.failure, abs(now - failure) < Limits.claimRetry {
            return .left("\(listing.key) is not tried for \(Limits.claimRetry) s: its set-up has failed")
        }
        if let network = device.candidate.network {
            return .left("\(listing.key) approves no network, and it comes with \(network.ssid)")
        }
        return .listed(listing)
    }

    /// The accessory to take: a listed one in the order of the lists, those last that have failed; else the
    /// nearest that a rule approves.
    public func choice(_ verdicts: [Verdict], strengths: [Int?]) -> Int? {
        let listed = verdicts.indices.compactMap { index -> (index: Int, order: [Int])? in
            if case .listed(let listing) = verdicts[index] { (index, listing.order) } else { nil }
        }
        if let first = listed.min(by: { $0.order.lexicographicallyPrecedes($1.order) }) { return first.index }
        let approved = verdicts.indices.filter { if case .approved = verdicts[$0] { true } else { false } }
        return approved.max { Strength.isNearer(strengths[$1], than: strengths[$0]) }
    }
}

extension Unattended.Verdict: CustomStringConvertible {
    /// As an admin reads it.
    public var description: String {
        switch self {
        case .listed(let listing):
            "approved by \(listing.key) in \(listing.list.source)" + (listing.entry.answer == nil ? ", unauthenticated" : "")
        case .approved(let rule): "approved by rule \(rule.name) in \(rule.source)"
        case .left(let reason, _): "not approved: \(reason)"
        }
    }
}
