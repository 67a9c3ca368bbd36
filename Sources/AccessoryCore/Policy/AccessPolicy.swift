// SPDX-License-Identifier: Apache-2.0
// The admin's rules beyond manifests: which apps may ask for a picker, approvals without a person, denials. A value,
// read from policy.d (Docs/Policy.md); without any file, manifests alone count and nothing is approved.

public import AccessoryModel

/// The admin's rules (Docs/Policy.md).
public struct AccessPolicy: Hashable, Sendable {
    /// Accessories of a rule: with its address, and with adverts that match its descriptor, as far as it has these.
    public struct Target: Hashable, Sendable {
        /// 48 bits, public or random. Nil: any address.
        public var address: UInt64?
        /// Nil: whatever it advertises.
        public var descriptor: DiscoveryDescriptor?

        /// Stores its arguments. Without any it means every accessory.
        public init(address: UInt64? = nil, descriptor: DiscoveryDescriptor? = nil) {
            self.address = address
            self.descriptor = descriptor
        }
    }

    /// This app may have these accessories without a person.
    public struct Approval: Hashable, Sendable {
        /// The rule's name, for the audit trail and for error messages.
        public var name: String
        /// The path of the rule's file.
        public var source: String
        /// Who may have them.
        public var app: AppID
        /// Which accessories.
        public var target: Target
        /// dBm; weaker accessories are not approved.
        public var minimumRSSI: Int
        /// The rule approves kinds of up to this many devices, and no single accessory; nil for the reverse.
        public var maxDevices: Int?

        /// - Parameters:
        ///   - minimumRSSI: dBm.
        ///   - maxDevices: nil for single accessories.
        public init(name: String, source: String, app: AppID, target: Target, minimumRSSI: Int, maxDevices: Int? = nil) {
            self.maxDevices = maxDevices
            self.name = name
            self.source = source
            self.app = app
            self.target = target
            self.minimumRSSI = minimumRSSI
        }
    }

    /// These apps may not have these accessories.
    public struct Denial: Hashable, Sendable {
        /// The rule's name, for the audit trail and for error messages.
        public var name: String
        /// The path of the rule's file.
        public var source: String
        /// Nil: every app.
        public var apps: Set<AppID>?
        /// Which accessories; without an address and a descriptor the apps get no picker at all.
        public var target: Target

        /// - Parameter apps: nil for every app.
        public init(name: String, source: String, apps: Set<AppID>?, target: Target) {
            self.name = name
            self.source = source
            self.apps = apps
            self.target = target
        }
    }

    /// Limits of grants: those of the apps, on the accessories.
    public struct Limit: Hashable, Sendable {
        /// The rule's name, for the audit trail and for error messages.
        public var name: String
        /// The path of the rule's file.
        public var source: String
        /// Nil: every app.
        public var apps: Set<AppID>?
        /// Which accessories.
        public var target: Target
        /// Seconds that a grant lasts at most; nil for no bound.
        public var maxDuration: Int?
        /// The most that the app may do; nil for no bound. Kinds are heard alone in any case.
        public var access: AccessLimit?
        /// Ends among which the person may choose.
        public var endChoices: [EndChoice] = []
        /// A grant that ends is removed, with its bond where no other app has it, instead of waiting to be renewed.
        public var removesAtEnd = false

        /// - Parameter apps: nil for every app.
        public init(name: String, source: String, apps: Set<AppID>?, target: Target) {
            self.name = name
            self.source = source
            self.apps = apps
            self.target = target
        }

        /// For people.
        public var text: String {
            var parts: [String] = []
            if let maxDuration { parts.append("at most \(EndRule.duration(seconds: maxDuration))") }
            if !endChoices.isEmpty { parts.append("choice of \(endChoices.map(\.description).joined(separator: ", "))") }
            if let access { parts.append("access \(access)") }
            if removesAtEnd { parts.append("removed at the end") }
            return parts.joined(separator: "; ")
        }
    }

    /// Apps that may ask for a picker; nil: every app with a manifest.
    public var allowed: Set<AppID>?
    /// Apps that may not, whatever `allowed` says.
    public var refused: Set<AppID> = []
    /// The paths of the files that `allowed` comes from.
    public var allowedBy: Set<String> = []
    /// The paths of the files that `refused` comes from.
    public var refusedBy: Set<String> = []
    /// Approvals without a person; the first that fits counts.
    public var approvals: [Approval] = []
    /// Denials, also of approved and granted accessories; the first that fits counts.
    public var denials: [Denial] = []
    /// Limits of grants; all that fit count.
    public var limits: [Limit] = []
    /// Lists of accessories that are approved one by one, from files of their own. `Unattended` applies them.
    public var lists: [ClaimList] = []
    /// Why the files cannot be relied on: until they can, nothing new is set up.
    public var problem: String?

    /// No rules: every app with a manifest may ask for a picker, and nothing is approved without a person.
    public init() {}

    /// Why an app may not ask for a picker; nil when it may.
    public func refusal(of app: AppID) -> String? {
        if let problem { return "the policy is not valid: \(problem)" }
        if refused.contains(app) { return "the policy denies the picker to \(app)" }
        if let allowed, !allowed.contains(app) { return "the policy allows the picker only to other apps" }
        return denials.first { $0.concerns(app) && $0.target == Target() }.map {
            "rule \($0.name) in \($0.source) denies everything"
        }
    }

    /// The rule that keeps an accessory in range from an app.
    public func denial(of candidate: AccessoryCandidate, to app: AppID) -> Denial? {
        if let kind = candidate.kind { return denial(ofKind: kind, to: app) }
        return denials.first { $0.concerns(app) && $0.target.matches(candidate) }
    }

    /// The rule that keeps a kind from an app: one for everything that the kind could be. (Single devices are denied
    /// when they are heard.)
    public func denial(ofKind descriptor: DiscoveryDescriptor, to app: AppID) -> Denial? {
        denials.first { $0.concerns(app) && $0.target.includes(descriptor) }
    }

    /// The rule by which an app gets a kind without a person.
    public func approval(ofKind descriptor: DiscoveryDescriptor, to app: AppID) -> Approval? {
        guard problem == nil, denial(ofKind: descriptor, to: app) == nil else { return nil }
        return approvals.first { approval in
            approval.app == app && approval.maxDevices.map { descriptor.heardDevices <= $0 } == true
                && approval.target.includes(descriptor)
        }
    }

    /// The rule that denies a granted accessory. Only services and companies of its adverts are stored: a rule's
    /// descriptor is compared with these, and with the network. A rule with a name or data denies accessories in range,
    /// and no grant.
    ///
    /// - Parameter terms: those of the app's grant; nil where it has none yet.
    public func denial(of accessory: Accessory, on terms: Grant.Terms?, to app: AppID) -> Denial? {
        denials.first { $0.concerns(app) && $0.target.concerns(accessory, terms) }
    }

    /// The same of an accessory that was granted.
    public func denial(of granted: GrantedAccessory) -> Denial? {
        denial(of: granted.accessory, on: granted.grant.terms, to: granted.grant.app)
    }

    /// The limits of a grant.
    public func limits(on granted: GrantedAccessory) -> [Limit] {
        limits.filter { limit in
            limit.apps?.contains(granted.grant.app) ?? true && limit.target.concerns(granted.accessory, granted.grant.terms)
        }
    }

    /// The limits of a grant on an accessory in range, or on a kind.
    ///
    /// - Parameter candidate: evaluated if the app has any limit: offers are looked at twice a second.
    public func limits(on candidate: @autoclosure () -> AccessoryCandidate, to app: AppID) -> [Limit] {
        let limits = limits.filter { $0.apps?.contains(app) ?? true }
        guard !limits.isEmpty, case let candidate = candidate() else { return [] }
        return limits.filter { limit in candidate.kind.map(limit.target.includes) ?? limit.target.matches(candidate) }
    }

    /// Whether a rule approves anything for an app: `ShowPicker` may then do without a picker
    /// program. Never while there is a `problem`.
    public func approves(_ app: AppID) -> Bool { problem == nil && approvals.contains { $0.app == app } }

    /// The rule by which an app takes a paired accessory over without a person. It is known by its bond, so how far
    /// away it is makes no difference.
    public func approval(ofMigrating candidate: AccessoryCandidate, to app: AppID) -> Approval? {
        guard problem == nil, denial(of: candidate, to: app) == nil else { return nil }
        return approvals.first {
            $0.app == app && $0.maxDevices == nil && $0.target.matches(candidate) && $0.target.names(candidate.network)
        }
    }

    /// The rule by which an app gets an accessory in range without a person.
    ///
    /// - Parameter rssi: smoothed, dBm; nil when unknown, which is never near enough.
    public func approval(of candidate: AccessoryCandidate, rssi: Int?, to app: AppID) -> Approval? {
        if let kind = candidate.kind { return approval(ofKind: kind, to: app) }
        guard problem == nil, let rssi, denial(of: candidate, to: app) == nil else { return nil }
        return approvals.first {
            $0.app == app && $0.maxDevices == nil && rssi >= $0.minimumRSSI && $0.target.matches(candidate)
                && $0.target.names(candidate.network)
        }
    }
}

extension AccessPolicy.Denial {
    fileprivate func concerns(_ app: AppID) -> Bool { apps?.contains(app) ?? true }
}

extension AccessPolicy.Target {
    /// Whether a network that comes along with an accessory is one that the rule speaks of: in a person's place it
    /// must.
    fileprivate func names(_ network: WiFiNetwork?) -> Bool {
        guard let network else { return true }
        return descriptor.map { $0.wantsWiFi && $0.fits(network.ssid) } ?? false
    }

    /// Whether every device of a kind is one of the rule's.
    fileprivate func includes(_ kind: DiscoveryDescriptor) -> Bool {
        guard address == nil else { return false }
        guard let descriptor else { return true }
        func isSame<Trait: Equatable>(_ trait: KeyPath<DiscoveryDescriptor, Trait?>) -> Bool {
            descriptor[keyPath: trait] == nil || descriptor[keyPath: trait] == kind[keyPath: trait]
        }
        return !descriptor.wantsWiFi && isSame(\.serviceUUID) && isSame(\.companyIdentifier) && isSame(\.manufacturerData)
            && isSame(\.serviceData) && isSame(\.name.substring)
            && (descriptor.name.substring == nil || descriptor.name.options == kind.name.options)
    }

    fileprivate func matches(_ candidate: AccessoryCandidate) -> Bool {
        if let address, candidate.advertisement?.address.value != address { return false }
        guard let descriptor else { return true }
        if descriptor.wantsWiFi, candidate.network.map({ descriptor.fits($0.ssid) }) != true { return false }
        guard descriptor.wantsBluetooth else { return true }
        guard let advert = candidate.advertisement else { return false }
        return RuleList(descriptor).holds(for: advert, Circumstances(networks: candidate.network.map { [$0.ssid] } ?? []))
    }

    fileprivate func concerns(_ accessory: Accessory, _ terms: Grant.Terms?) -> Bool {
        // The Bluetooth side that another app has added is no matter of an app that never looked for one.
        let isBluetooth = terms.map { $0.includes(.bluetooth) || $0.traits != Accessory.Traits() } ?? true
        if let address, !isBluetooth || accessory.address?.value != address { return false }
        guard let descriptor else { return true }
        guard descriptor.name.substring == nil, descriptor.serviceData == nil, descriptor.manufacturerData == nil else {
            return false
        }
        if descriptor.wantsWiFi, terms?.ssid.map(descriptor.fits) != true { return false }
        // By all that it was ever known by: a new descriptor does not make it another accessory.
        let lookedFor = terms?.lookedFor
        func isKnown<Trait>(by trait: Trait?, _ traits: KeyPath<Accessory.Traits, Set<Trait>>) -> Bool {
            guard let trait else { return true }
            return isBluetooth && accessory.traits[keyPath: traits].contains(trait)
                || lookedFor?[keyPath: traits].contains(trait) == true
        }
        return isKnown(by: descriptor.serviceUUID, \.services) && isKnown(by: descriptor.companyIdentifier, \.companies)
    }
}

extension AccessPolicy.Target: CustomStringConvertible {
    /// As an admin reads it.
    public var description: String {
        var parts: [String] = []
        if let address { parts.append("address \(BluetoothAddress(value: address, kind: .public))") }
        if let service = descriptor?.serviceUUID { parts.append("service \(service)") }
        if let company = descriptor?.companyIdentifier { parts.append("company \(company)") }
        if let ssid = descriptor?.network { parts.append("network \(ssid)") }
        if let prefix = descriptor?.ssidPrefix.flatMap({ SSID($0) }) { parts.append("networks that begin with \(prefix)") }
        if let name = descriptor?.name.substring { parts.append("name with “\(name)”") }
        return parts.isEmpty ? "every accessory" : parts.joined(separator: ", ")
    }
}
