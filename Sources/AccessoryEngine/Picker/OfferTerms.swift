// SPDX-License-Identifier: Apache-2.0
// The terms of the grant that a pick makes, for the person to see, and the choices that the person has.

internal import AccessoryCore
public import AccessoryModel

/// The end of a future grant, and the access that it opens.
public struct OfferTerms: Hashable, Sendable {
    /// The rules by which it ends without a choice of the person's; empty for no end.
    public private(set) var ends: [EndRule] = []
    /// The ends among which the person may choose.
    public private(set) var endChoices: [EndChoice] = []
    /// The use of characteristics that the app gets: as it asks, as far as the rules permit it. Nil for full access,
    /// unless the app has had less, and for a kind.
    public private(set) var access: AccessLimit?
    /// Whether the person may permit reading alone: not for a kind, and not for sides that have no such limit.
    public private(set) var canBeNarrowed = false

    init() {}

    /// - Parameters:
    ///   - ends: as the app asks.
    ///   - former: the narrowed access that the app has had; nil for full access, and for a new grant.
    ///   - limits: of the policy, for this grant.
    ///   - isNew: false for a grant that is only renewed.
    init(
        _ ends: [EndRule], _ endChoices: [EndChoice], _ descriptor: DiscoveryDescriptor, insteadOf former: AccessLimit? = nil,
        _ limits: [AccessPolicy.Limit], isNew: Bool
    ) {
        let permitted = limits.compactMap(\.access).reduce(descriptor.limit) { $0.narrowed(by: $1) }
        canBeNarrowed =
            isNew && !descriptor.isKind && descriptor.wantsBluetooth && !descriptor.wantsWiFi && descriptor.wifiAware == nil
            && descriptor.supportedOptions.isDisjoint(with: [.hid, .transportBridging]) && !permitted.isWithin(.read)
        access = descriptor.isKind || permitted == .full && former == nil ? nil : permitted
        (self.ends, self.endChoices) = (ends, endChoices)
        for choice in limits.flatMap(\.endChoices) where !self.endChoices.contains(choice) { self.endChoices.append(choice) }
        guard let most = limits.compactMap(\.maxDuration).min() else { return }
        func fits(_ rule: EndRule) -> Bool { if case .duration(let seconds) = rule { seconds <= most } else { true } }
        self.endChoices.removeAll { $0.rule.map { !fits($0) } ?? true }
        // The registry bounds the rest in any case.
        if !ends.contains(where: { if case .duration = $0 { fits($0) } else { false } }) {
            self.ends.removeAll { if case .duration = $0 { true } else { false } }
            self.ends.append(.duration(seconds: most))
        }
    }

    /// - Throws: `InvalidRequest` for a choice that is not offered.
    func check(_ choice: PickChoice) throws(SetupError) {
        if let end = choice.end, !endChoices.contains(end) {
            let offered = endChoices.map(\.description).joined(separator: ", ")
            throw .invalid("end", end, endChoices.isEmpty ? "no choice is offered" : "must be one of \(offered)")
        }
        if let access = choice.access, access != .full, !canBeNarrowed {
            throw .invalid("access", access.text, "the access to this accessory cannot be narrowed")
        }
    }
}
