// SPDX-License-Identifier: Apache-2.0
// Accessories, grants, and the apps that have them.

/// An accessory's identity in our store: a random UUID, the same for all apps, never derived from an address.
public struct AccessoryID: Hashable, Sendable, CustomStringConvertible, Comparable {
    /// Upper case, 8-4-4-4-12.
    public let rawValue: String

    /// Reads a UUID in the 8-4-4-4-12 form, in any case. Nil otherwise.
    public init?(_ rawValue: String) {
        guard rawValue.utf8.count == 36, BluetoothUUID(rawValue) != nil else { return nil }
        self.rawValue = rawValue.uppercased()
    }

    /// A random (version 4) UUID.
    public static func random() -> AccessoryID {
        var generator = SystemRandomNumberGenerator()
        let high = generator.next() & 0xFFFF_FFFF_FFFF_0FFF | 0x4000
        let low = generator.next() & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
        return AccessoryID(BluetoothUUID(high: high, low: low).description)!
    }

    /// The same as `rawValue`.
    public var description: String { rawValue }
    /// In the order of the text.
    public static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
}

/// An app's identifier, as its manifest says: reverse-DNS, `[A-Za-z0-9._-]`, at most 255 bytes.
public struct AppID: Hashable, Sendable, CustomStringConvertible, Comparable {
    /// The identifier to the letter; case counts.
    public let rawValue: String

    /// Nil for another character than those, for no or more than 255 bytes, and for a leading dot.
    public init?(_ rawValue: String) {
        let allowed = rawValue.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"):
                true
            default: false
            }
        }
        guard allowed, (1...255).contains(rawValue.utf8.count), !rawValue.hasPrefix(".") else { return nil }
        self.rawValue = rawValue
    }

    /// The same as `rawValue`.
    public var description: String { rawValue }
    /// In the order of the text; case counts.
    public static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
}

/// Whether an app may use an accessory (`ASAccessory.AccessoryState`). The raw values are the words of the store and of
/// the bus.
public enum AuthorizationState: String, Hashable, Sendable {
    /// The app may not use it.
    case unauthorized
    /// A person has picked it with `confirmAuthorization`; the app has still to finish its set-up.
    case awaitingAuthorization
    /// The app may use it, as long as its grant is enabled and no rule denies the accessory.
    case authorized
}

/// An accessory that was set up: the facts for every app. One app's use and settings are on its grant (`Grant.Terms`).
/// Its key is its identity, never an object path: paths and private addresses change.
public struct Accessory: Hashable, Sendable {
    /// The same for all apps, for as long as it is set up.
    public let id: AccessoryID
    /// As apps and the person see it, at most `Limits.nameBytes` bytes: the name that a person or an admin gave it,
    /// else its item's.
    public var displayName: String
    /// The identity address, once known; nil for an accessory without Bluetooth, which is known by its network.
    public var address: BluetoothAddress?
    /// The adapter that it was set up with; nil for one that was set up before this was noted, and without Bluetooth.
    public var adapter: BluetoothAddress?
    /// Whether it is bonded; one that needs no bond is not.
    public var isBonded: Bool
    /// Whether that bond is of our making: no other is ever removed by us.
    public var ownsBond: Bool
    /// The image of the item that it was set up with; nil when that had none.
    public var image: ProductImage?
    /// The services and companies that its adverts have named at set-ups.
    public var traits: Traits
    /// Seconds since 1970.
    public var created: Int64

    /// The Bluetooth identity and its adapter; nil without Bluetooth.
    public var peer: BluetoothPeer? { address.map { BluetoothPeer($0, adapter: adapter) } }

    /// Stores its arguments.
    ///
    /// - Parameters:
    ///   - ownsBond: nil for `isBonded`: a bond that nothing else is known of is ours.
    ///   - created: seconds since 1970.
    public init(
        id: AccessoryID, displayName: String, address: BluetoothAddress?, adapter: BluetoothAddress? = nil, isBonded: Bool,
        image: ProductImage? = nil, ownsBond: Bool? = nil, traits: Traits = Traits(), created: Int64
    ) {
        self.id = id
        self.displayName = displayName
        self.address = address
        self.adapter = adapter
        self.isBonded = isBonded
        self.ownsBond = ownsBond ?? isBonded
        self.traits = traits
        self.image = image
        self.created = created
    }
}

extension Accessory {
    /// Services and companies that an accessory has advertised, or that an app has looked for it by: rules go by these,
    /// and an app that gives it another descriptor cannot take them away.
    public struct Traits: Hashable, Sendable {
        /// Services in its lists of services or with service data, at most `Limits.traitsPerAccessory`.
        public private(set) var services: Set<BluetoothUUID> = []
        /// Companies in its manufacturer data, at most `Limits.traitsPerAccessory`.
        public private(set) var companies: Set<CompanyIdentifier> = []

        /// No traits yet.
        public init() {}

        /// Keeps `Limits.traitsPerAccessory` of each; which of more is not determined.
        public init(services: some Sequence<BluetoothUUID>, companies: some Sequence<CompanyIdentifier>) {
            add(services, companies)
        }

        /// The services of an advert, also those with data, and its companies.
        public init(_ advertisement: Advertisement) {
            add(advertisement.serviceUUIDs, advertisement.manufacturerData.keys)
            add(advertisement.serviceData.keys, EmptyCollection())
        }

        /// The service and the company of a descriptor, as far as it names them.
        public init(_ descriptor: DiscoveryDescriptor) {
            add([descriptor.serviceUUID].compactMap(\.self), [descriptor.companyIdentifier].compactMap(\.self))
        }

        /// Adds another's traits, up to the bounds.
        public mutating func formUnion(_ other: Traits) { add(other.services, other.companies) }

        /// Bounded: adverts come from strangers.
        private mutating func add(_ services: some Sequence<BluetoothUUID>, _ companies: some Sequence<CompanyIdentifier>) {
            for service in services where self.services.count < Limits.traitsPerAccessory { self.services.insert(service) }
            for company in companies where self.companies.count < Limits.traitsPerAccessory { self.companies.insert(company) }
        }
    }
}

/// This app may use this accessory, on these terms.
public struct Grant: Hashable, Sendable {
    /// Counted up in the store, never used twice.
    public let id: Int64
    /// The app that may use it.
    public let app: AppID
    /// The accessory that may be used.
    public let accessory: AccessoryID
    /// The progress of its set-up; with `isEnabled`, it decides the app's access.
    public var state: AuthorizationState
    /// An admin's switch; a disabled grant opens nothing.
    public var isEnabled: Bool
    /// The app's use and settings.
    public var terms: Terms
    /// The uid of the person who set it up; nil where a rule approved it.
    public var user: UInt32?
    /// Seconds since 1970.
    public var created: Int64
    /// Seconds since 1970; nil when never.
    public var lastUsed: Int64?
    /// Whether the app is notified when the accessory comes into range, or leaves it.
    public var isObserved = false

    /// Stores its arguments.
    ///
    /// - Parameters:
    ///   - id: from the store, which never gives the same twice.
    ///   - user: the uid of the person who set it up; nil where a rule approved it.
    ///   - created: seconds since 1970.
    ///   - lastUsed: seconds since 1970; nil when never.
    public init(
        id: Int64, app: AppID, accessory: AccessoryID, state: AuthorizationState, isEnabled: Bool = true, terms: Terms,
        user: UInt32? = nil, created: Int64, lastUsed: Int64? = nil
    ) {
        self.id = id
        self.app = app
        self.accessory = accessory
        self.state = state
        self.isEnabled = isEnabled
        self.terms = terms
        self.user = user
        self.created = created
        self.lastUsed = lastUsed
    }
}

extension Grant {
    /// The content of a grant. Several apps may share an accessory, each on its own terms: one app's settings change
    /// nothing for another (Docs/Rules.md, rules 11 and 25).
    public struct Terms: Hashable, Sendable {
        /// The descriptor by which the app has it now. Without Bluetooth keys the app has no use of its Bluetooth side.
        public var descriptor: DiscoveryDescriptor
        /// Whether a device was picked for this app, or its bond taken over: another app may have added the Bluetooth
        /// side.
        public var hasBluetooth: Bool
        /// The services and companies of earlier descriptors.
        public var traits: Accessory.Traits
        /// The complete name of the network that the app may join; nil for none.
        public var ssid: SSID?
        /// Our number for it as a Wi-Fi Aware device, never 0 (`wifiAwarePairedDeviceID`).
        public var awareDevice: UInt64?
        /// The address of the classic side that was bridged for this app; nil for none.
        public var classicAddress: BluetoothAddress?
        /// Whether the bond of the classic side, where that has an address of its own, is of our making.
        public var ownsClassicBond: Bool
        /// Devices of a kind that the app does not hear: addresses of 48 bits, at most `Limits.excludedDevices`.
        public var excluded: Set<UInt64> = []
        /// How the app's extension knows it; nil for one that the radios alone have found.
        public var reported: ReportedIdentity?
        /// When it ends.
        public var time = TimeLimit.none
        /// The most that a person, a rule or an admin permits, whichever access the descriptor asks for.
        public var ceiling = AccessLimit.full

        /// Stores its arguments.
        ///
        /// - Parameter ownsClassicBond: counts only with a classic address.
        public init(
            _ descriptor: DiscoveryDescriptor, hasBluetooth: Bool = false,
            traits: Accessory.Traits = Accessory.Traits(),
            ssid: SSID? = nil, awareDevice: UInt64? = nil, classicAddress: BluetoothAddress? = nil, ownsClassicBond: Bool = false,
            reported: ReportedIdentity? = nil
        ) {
            self.descriptor = descriptor
            self.hasBluetooth = hasBluetooth
            self.traits = traits
            self.ssid = ssid
            self.awareDevice = awareDevice
            self.classicAddress = classicAddress
            self.ownsClassicBond = ownsClassicBond
            self.reported = reported
        }

        /// The use of the accessory's characteristics that the grant opens.
        public var access: AccessLimit { descriptor.limit.narrowed(by: ceiling) }

        /// The use that the grant opens, of an accessory or of a kind.
        public var use: DiscoveryDescriptor.Access { descriptor.isKind ? .hear : .use(access) }

        /// `access` of a single accessory, where it is not full.
        public var narrowing: AccessLimit? { descriptor.isKind || access == .full ? nil : access }

        /// All services and companies that the app has looked for it by.
        public var lookedFor: Accessory.Traits {
            var all = traits
            all.formUnion(Accessory.Traits(descriptor))
            return all
        }

        /// Takes another descriptor, and the network that was picked with it; earlier descriptors are remembered by
        /// their traits. A network that the new descriptor does not name is given up.
        public mutating func describe(by new: DiscoveryDescriptor, network: SSID?) {
            if new != descriptor {
                traits = lookedFor
                descriptor = new
            }
            let keepsNetwork = !new.wantsWiFi || ssid.map(new.fits) == true
            ssid = network ?? (keepsNetwork ? ssid : nil)
        }

        /// Whether the app may use the accessory by Bluetooth, or its network: in a network, no use can be narrowed.
        public func includes(_ technology: Technology) -> Bool {
            switch technology {
            case .bluetooth: (hasBluetooth || descriptor.isKind) && descriptor.wantsBluetooth
            case .wifi: access == .full && (ssid != nil || awareDevice != nil)
            }
        }
    }
}

/// An accessory as one app has it: identity and bond are the accessory's, everything else that the app sees comes from
/// its grant.
public struct GrantedAccessory: Hashable, Sendable {
    /// The accessory.
    public var accessory: Accessory
    /// The app's grant on it.
    public var grant: Grant

    /// Stores its arguments.
    public init(_ accessory: Accessory, _ grant: Grant) {
        self.accessory = accessory
        self.grant = grant
    }

    /// The address of its Bluetooth side, where the app may use that.
    public var address: BluetoothAddress? { grant.terms.includes(.bluetooth) ? accessory.address : nil }

    /// Whether the app sees no difference (the properties of `org.accessorysetup1.Accessory`).
    public func looksLike(_ other: GrantedAccessory) -> Bool {
        func sight(_ granted: GrantedAccessory) -> Sight {
            Sight(
                name: granted.accessory.displayName, isBluetooth: granted.address != nil, state: granted.grant.state,
                access: granted.grant.terms.access,
                terms: Grant.Terms(
                    granted.grant.terms.descriptor, ssid: granted.grant.terms.ssid, awareDevice: granted.grant.terms.awareDevice,
                    classicAddress: granted.grant.terms.classicAddress, reported: granted.grant.terms.reported))
        }
        return sight(self) == sight(other)
    }

    private struct Sight: Hashable {
        let name: String
        let isBluetooth: Bool
        let state: AuthorizationState
        let access: AccessLimit
        let terms: Grant.Terms
    }
}
