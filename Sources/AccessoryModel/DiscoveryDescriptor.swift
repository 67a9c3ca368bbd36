// SPDX-License-Identifier: Apache-2.0
// The traits of ASDiscoveryDescriptor, and the item that names it. `DescriptorRules` decides which are valid.

/// A radio that an accessory is found by; the raw values are the words of manifests.
public enum Technology: String, Hashable, Sendable, CaseIterable {
    case bluetooth = "Bluetooth"
    case wifi = "WiFi"

    /// For people.
    public var name: String { self == .wifi ? "Wi-Fi" : rawValue }
}

/// All traits that an accessory must show (`ASDiscoveryDescriptor`).
public struct DiscoveryDescriptor: Hashable, Sendable {
    /// How near an accessory must be (`ASDiscoveryDescriptor.Range`).
    public enum Range: String, Hashable, Sendable, CaseIterable {
        case `default`
        case immediate
    }

    /// A text that is to be found in a Local Name.
    public struct NameMatch: Hashable, Sendable {
        /// Part of the name, or a regular expression (`bluetoothNameSubstring`), at most `Limits.nameSubstringBytes`;
        /// nil when any name will do, and none.
        public var substring: String?
        /// How it is compared (`bluetoothNameSubstringCompareOptions`); empty without a substring.
        public var options: CompareOptions = []
    }

    /// The use that an app asks for.
    public enum Access: Hashable, Sendable {
        /// To connect, and to use characteristics within a limit.
        case use(AccessLimit)
        /// The adverts of all devices of this kind, present and future ones, without a connection.
        case hear

        /// Everything that the accessory offers.
        public static let full = Access.use(.full)
        /// Reading and listening.
        public static let read = Access.use(.read)

        /// The words of the session API, where a list has a key of its own.
        public enum Word: String, Hashable, Sendable, CaseIterable {
            case full, read, listed, hear
        }

        /// Its word.
        public var word: Word {
            switch self {
            case .use(.full): .full
            case .use(.read): .read
            case .use(.listed): .listed
            case .hear: .hear
            }
        }

        /// Its list of characteristics; nil for any other use.
        public var list: CharacteristicList? { if case .use(.listed(let list)) = self { list } else { nil } }
    }

    /// The company in its manufacturer data (`bluetoothCompanyIdentifier`); nil when any will do.
    public var companyIdentifier: CompanyIdentifier?
    /// The beginning of that company's data (`bluetoothManufacturerDataBlob` and `…Mask`). Needs `companyIdentifier`.
    public var manufacturerData: MaskedData?
    /// A service that it advertises, in a list or by its service data (`bluetoothServiceUUID`); nil when any will do.
    public var serviceUUID: BluetoothUUID?
    /// The beginning of that service's data (`bluetoothServiceDataBlob` and `…Mask`). Needs `serviceUUID`.
    public var serviceData: MaskedData?
    /// Its Local Name. Needs `companyIdentifier` or `serviceUUID`, unless any name will do.
    public var name = NameMatch()
    /// How near it must be (`bluetoothRange`); counts for Bluetooth only.
    public var range: Range = .default
    /// The whole name of its network, 1–32 bytes without NUL; nil when it is not known. Not together with
    /// `ssidPrefix`.
    public var ssid: [UInt8]?
    /// The beginning of its network's name, 1–32 bytes without NUL. Not together with `ssid`.
    public var ssidPrefix: [UInt8]?
    /// Its abilities, which decide the sides that are paired.
    public var supportedOptions: SupportOptions = []
    /// The Wi-Fi Aware service that it offers or looks for; nil when it needs none. Not together with Bluetooth or
    /// `ssidPrefix`.
    public var wifiAware: WiFiAware?
    /// The use that the app asks for (`access`, `characteristics`): `hear` makes this a kind of devices. A kind has
    /// Bluetooth keys only, and no `supportedOptions`.
    public var access: Access = .full
    /// Devices of a kind that the app may hear at a time (`maxDevices`), within `Limits.heardDevices`; nil for
    /// `Limits.usualHeardDevices`. Needs `hear`.
    public var maxDevices: Int?

    /// Looks for nothing yet: `DescriptorRules` refuses it like that.
    public init() {}

    /// Whether it stands for all devices that match it, instead of one.
    public var isKind: Bool { access == .hear }
    /// The use of an accessory's characteristics that it asks for: none for a kind.
    public var limit: AccessLimit {
        switch access {
        case .use(let limit): limit
        case .hear: .listed(CharacteristicList([]))
        }
    }
    /// Devices of a kind that the app may hear at a time.
    public var heardDevices: Int { maxDevices ?? Limits.usualHeardDevices }
    /// Whether it looks for adverts.
    public var wantsBluetooth: Bool { companyIdentifier != nil || serviceUUID != nil }
    /// Whether it looks for a network. A Wi-Fi Aware service is none.
    public var wantsWiFi: Bool { ssid != nil || ssidPrefix != nil }
    /// The network that it names in full.
    public var network: SSID? { ssid.flatMap { SSID($0) } }

    /// Whether a network is one that this looks for.
    public func fits(_ network: SSID) -> Bool {
        network.bytes == ssid || ssidPrefix.map { network.bytes.starts(with: $0) } == true
    }

    /// `wifiAware` with nothing said instead of nil.
    public var aware: WiFiAware {
        get { wifiAware ?? WiFiAware() }
        set { wifiAware = newValue == WiFiAware() ? nil : newValue }
    }

    /// The radios that find it.
    public var technologies: Set<Technology> {
        // The Bluetooth side of an accessory of which only the beginning of its network's name is known is set up
        // first: its app says the whole name later.
        if wantsBluetooth { return ssid == nil ? [.bluetooth] : [.bluetooth, .wifi] }
        return [.wifi]
    }
}

/// Bytes to compare and which of their bits count. The lengths are equal, and no bit of the blob lies outside the mask.
public struct MaskedData: Hashable, Sendable {
    /// The bytes that the payload must begin with, where the mask has ones; never empty.
    public let blob: [UInt8]
    /// Ones where a bit counts; as long as `blob`.
    public let mask: [UInt8]

    /// Why a pair of blob and mask is refused.
    public enum Problem: Error, Hashable, Sendable {
        /// The blob has no bytes.
        case empty
        /// The mask is longer or shorter than the blob.
        case lengthsDiffer
        /// The byte at this index has a bit that the mask leaves out: nothing could match it.
        case blobBitOutsideMask(index: Int)
    }

    /// - Throws: `Problem` for an empty blob, a mask of another length, and a bit of the blob outside the mask.
    public init(blob: [UInt8], mask: [UInt8]) throws(Problem) {
        guard !blob.isEmpty else { throw .empty }
        guard blob.count == mask.count else { throw .lengthsDiffer }
        for index in blob.indices where blob[index] & ~mask[index] != 0 { throw .blobBitOutsideMask(index: index) }
        self.blob = blob
        self.mask = mask
    }

    /// Compares over the blob's length, a prefix of the payload.
    public func matches(_ payload: [UInt8]) -> Bool {
        guard payload.count >= blob.count else { return false }
        for index in blob.indices where payload[index] & mask[index] != blob[index] { return false }
        return true
    }
}

/// Wi-Fi Aware traits; validated, and refused where the machine has no Wi-Fi Aware.
public struct WiFiAware: Hashable, Sendable {
    /// Which side of the service the accessory is on (`ASDiscoveryDescriptor.WiFiAwareServiceRole`). The raw values
    /// are the words of the session API.
    public enum Role: String, Hashable, Sendable, CaseIterable {
        /// It looks for the service.
        case subscriber
        /// It offers the service.
        case publisher
    }

    /// Text that is to be found in a name (`ASPropertyCompareString`).
    public struct Match: Hashable, Sendable {
        /// Part of the name, or a regular expression; 1 to `Limits.nameSubstringBytes` bytes.
        public var string: String
        /// How it is compared.
        public var options: CompareOptions
        /// Stores its arguments.
        public init(string: String, options: CompareOptions) {
            self.string = string
            self.options = options
        }
    }

    /// The service's whole name, 1–255 bytes without control characters. `DescriptorRules` refuses nil.
    public var serviceName: String?
    /// The accessory's role; nil counts as `subscriber`.
    public var serviceRole: Role?
    /// The text in its model's name; nil when any will do.
    public var modelName: Match?
    /// The text in its vendor's name; nil when any will do.
    public var vendorName: Match?

    /// Nothing said yet: `DescriptorRules` refuses it without a service name.
    public init() {}
}

/// Options with words in the session API.
public protocol NamedOptions: OptionSet, Hashable, Sendable where RawValue == Int, Element == Self {
    /// Each option with its word.
    static var names: [(String, Self)] { get }
}

/// Abilities of an accessory (`ASAccessory.SupportOptions`; raw values as there).
public struct SupportOptions: NamedOptions {
    /// Apple's bits.
    public let rawValue: Int
    /// - Parameter rawValue: Apple's bits.
    public init(rawValue: Int) { self.rawValue = rawValue }
    /// Pairs over Bluetooth Low Energy. Without any option the accessory is used without a bond.
    public static let pairingLE = SupportOptions(rawValue: 2)
    /// It has a classic side too, which is paired as well. Implies pairing.
    public static let transportBridging = SupportOptions(rawValue: 4)
    /// It is a keyboard, mouse or the like over Bluetooth Low Energy. Implies pairing.
    public static let hid = SupportOptions(rawValue: 8)

    public static let names: [(String, SupportOptions)] = [
        ("bluetoothPairingLE", .pairingLE), ("bluetoothTransportBridging", .transportBridging), ("bluetoothHID", .hid),
    ]
}

/// How a name is compared (`NSString.CompareOptions`; raw values as there).
public struct CompareOptions: NamedOptions {
    /// Foundation's bits.
    public let rawValue: Int
    /// - Parameter rawValue: Foundation's bits.
    public init(rawValue: Int) { self.rawValue = rawValue }
    /// Upper and lower case are the same.
    public static let caseInsensitive = CompareOptions(rawValue: 1)
    /// Characters are compared one by one; composed and decomposed forms differ.
    public static let literal = CompareOptions(rawValue: 2)
    /// The search begins at the end. Whether something is found does not depend on it.
    public static let backwards = CompareOptions(rawValue: 4)
    /// Only at the beginning of the name (with `backwards`: at its end).
    public static let anchored = CompareOptions(rawValue: 8)
    /// Digits count as numbers. Foundation: for ordering, without effect on a search.
    public static let numeric = CompareOptions(rawValue: 64)
    /// Accents and the like do not count.
    public static let diacriticInsensitive = CompareOptions(rawValue: 128)
    /// Full-width and half-width forms are the same.
    public static let widthInsensitive = CompareOptions(rawValue: 256)
    /// Orders equal strings. Foundation: without effect on a search.
    public static let forcedOrdering = CompareOptions(rawValue: 512)
    /// The text is a regular expression in PCRE2's syntax (Docs/Decisions/0016). Of the other options, only
    /// `caseInsensitive` and `anchored` apply.
    public static let regularExpression = CompareOptions(rawValue: 1024)

    public static let names: [(String, CompareOptions)] = [
        ("caseInsensitive", .caseInsensitive), ("literal", .literal), ("backwards", .backwards),
        ("anchored", .anchored), ("numeric", .numeric), ("diacriticInsensitive", .diacriticInsensitive),
        ("widthInsensitive", .widthInsensitive), ("forcedOrdering", .forcedOrdering),
        ("regularExpression", .regularExpression),
    ]
}

/// The picker's steps around a set-up (`ASPickerDisplayItem.SetupOptions`).
public struct SetupOptions: NamedOptions {
    /// Apple's bits.
    public let rawValue: Int
    /// - Parameter rawValue: Apple's bits.
    public init(rawValue: Int) { self.rawValue = rawValue }
    /// The person is asked for a name.
    public static let rename = SetupOptions(rawValue: 1)
    /// The accessory is `awaitingAuthorization` until the app finishes or fails it.
    public static let confirmAuthorization = SetupOptions(rawValue: 2)
    /// The picker asks the person to continue in the app once the accessory is set up.
    public static let finishInApp = SetupOptions(rawValue: 4)
    /// The picker stays open after the set-up, for more accessories: an addition to Apple's options.
    public static let pickSeveral = SetupOptions(rawValue: 256)

    public static let names: [(String, SetupOptions)] = [
        ("rename", .rename), ("confirmAuthorization", .confirmAuthorization), ("finishInApp", .finishInApp),
        ("pickSeveral", .pickSeveral),
    ]
}

/// The parts of an accessory to rename (`ASAccessory.RenameOptions`; raw values as there).
public struct RenameOptions: NamedOptions {
    /// Apple's bits.
    public let rawValue: Int
    /// - Parameter rawValue: Apple's bits.
    public init(rawValue: Int) { self.rawValue = rawValue }
    /// The SSID along with the display name.
    public static let ssid = RenameOptions(rawValue: 1)

    public static let names: [(String, RenameOptions)] = [("ssid", .ssid)]
}

/// One accessory as the app presents it in the picker (`ASPickerDisplayItem`).
public struct DisplayItem: Hashable, Sendable {
    /// The app's name for such an accessory, at most `Limits.nameBytes` bytes; see `ShownName`.
    public var name: String
    /// Shown beside the name; nil for none.
    public var image: ProductImage?
    /// The traits of such an accessory.
    public var descriptor: DiscoveryDescriptor
    /// The steps around its set-up.
    public var setupOptions: SetupOptions
    /// Checked when an item is decoded, and without effect on its set-up: a name that the person gives then is the
    /// accessory's alone.
    public var renameOptions: RenameOptions = []
    /// Set for a migration item (`ASMigrationDisplayItem`).
    public var migration: Migration?
    /// The end of the grant that the app asks for: an addition to Apple's properties. Nil for none.
    public var end: EndRule?
    /// Ends among which the person may choose, at most `Limits.endChoices`; empty for no choice. An addition.
    public var endChoices: [EndChoice] = []

    /// An item that is no migration, with no `renameOptions`.
    public init(name: String, image: ProductImage? = nil, descriptor: DiscoveryDescriptor, setupOptions: SetupOptions = []) {
        self.name = name
        self.image = image
        self.descriptor = descriptor
        self.setupOptions = setupOptions
    }
}

/// Which accessory, set up before and by other means, an app takes over.
public struct Migration: Hashable, Sendable {
    /// A Bluetooth accessory, by its address or by its identifier in our store.
    public enum Peripheral: Hashable, Sendable, CustomStringConvertible {
        /// 48 bits; public or random.
        case address(UInt64)
        /// The identifier in another app's `BluetoothIdentifier`.
        case identifier(AccessoryID)

        /// Six pairs of hexadecimal digits between colons, or a UUID. Nil otherwise.
        public init?(_ text: String) {
            if let address = BluetoothAddress(text, kind: .public) {
                self = .address(address.value)
            } else if let identifier = AccessoryID(text) {
                self = .identifier(identifier)
            } else {
                return nil
            }
        }

        /// As the initializer reads it.
        public var description: String {
            switch self {
            case .address(let value): BluetoothAddress(value: value, kind: .public).description
            case .identifier(let identifier): identifier.rawValue
            }
        }
    }

    /// The accessory's Bluetooth side (`peripheralIdentifier`); nil for none.
    public var peripheral: Peripheral?
    /// The whole name of its network (`hotspotSSID`); nil for none. Together with `peripheral`, both sides are
    /// taken over.
    public var hotspotSSID: SSID?
    /// Its number as a Wi-Fi Aware device (`Accessory.awareDevice`); nil for none.
    public var wifiAwarePairedDeviceID: UInt64?

    /// Names nothing yet.
    public init() {}
}

/// An accessory that the app has looked at and wants shown (`ASDiscoveredDisplayItem`).
public struct DiscoveredItem: Hashable, Sendable {
    /// The app's name for this accessory, instead of its item's; at most `Limits.nameBytes` bytes.
    public let name: String
    /// The app's image for this accessory, instead of its item's; nil keeps that.
    public let image: ProductImage?
    /// As `accessoryDiscovered` said.
    public let identifier: AccessoryID

    /// Stores its arguments.
    public init(name: String, image: ProductImage?, identifier: AccessoryID) {
        self.name = name
        self.image = image
        self.identifier = identifier
    }
}

/// An app's settings when it finishes an authorization (`ASAccessorySettings`).
public struct AuthorizationSettings: Hashable, Sendable {
    /// The whole name of the network whose beginning the descriptor has; nil for no change.
    public var ssid: SSID?
    /// The address of the accessory's classic side, 6 bytes.
    public var bridgingAddress: BluetoothAddress?

    /// Stores its arguments.
    public init(ssid: SSID? = nil, bridgingAddress: BluetoothAddress? = nil) {
        self.ssid = ssid
        self.bridgingAddress = bridgingAddress
    }
}

/// A product image as the app sent it: recognised by its first bytes, never trusted.
public struct ProductImage: Hashable, Sendable {
    /// The format of an image.
    public enum Format: String, Hashable, Sendable {
        case png
        case jpeg
        case svg
    }

    /// The format by the first bytes; the rest is not read.
    public let format: Format
    /// The file as it was sent, undecoded.
    public let bytes: [UInt8]

    /// Nil when the bytes are neither PNG, JPEG nor SVG.
    public init?(_ bytes: [UInt8]) {
        if bytes.starts(with: [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]) {
            format = .png
        } else if bytes.starts(with: [0xFF, 0xD8, 0xFF]) {
            format = .jpeg
        } else {
            guard Self.isSVG(bytes) else { return nil }
            format = .svg
        }
        self.bytes = bytes
    }

    /// Whether the first element is `svg`, after any declaration, comments and document type.
    private static func isSVG(_ bytes: [UInt8]) -> Bool {
        var text = Substring(String(decoding: bytes.prefix(4096), as: UTF8.self))
        if text.first == "\u{FEFF}" { text.removeFirst() }
        while true {
            text = text.drop(while: \.isWhitespace)
            let end: String? =
                text.hasPrefix("<!--")
                ? "-->" : text.hasPrefix("<?") ? "?>" : text.lowercased().hasPrefix("<!doctype svg") ? ">" : nil
            guard let end else { break }
            while !text.isEmpty, !text.hasPrefix(end) { text = text.dropFirst() }
            guard !text.isEmpty else { return false }
            text = text.dropFirst(end.count)
        }
        guard text.hasPrefix("<svg") else { return false }
        return text.dropFirst(4).first.map { $0.isWhitespace || $0 == ">" || $0 == "/" } ?? false
    }
}

/// The settings of one picker (`ASPickerDisplaySettings`).
public struct PickerSettings: Hashable, Sendable {
    /// Changes of the picker's behaviour (`ASPickerDisplaySettings.Options`; raw values as there).
    public struct Options: NamedOptions {
        /// Apple's bits.
        public let rawValue: Int
        /// - Parameter rawValue: Apple's bits.
        public init(rawValue: Int) { self.rawValue = rawValue }
        /// Nothing is offered before the app names it (Docs/Rules.md rule 9).
        public static let filterDiscoveryResults = Options(rawValue: 1)

        public static let names: [(String, Options)] = [("filterDiscoveryResults", .filterDiscoveryResults)]
    }

    /// Seconds, within `Limits.discoveryTimeout`; nil is unbounded.
    public var discoveryTimeout: Double? = 30
    /// Changes of its behaviour.
    public var options: Options = []
    /// Seconds to wait for a picker program that can show the picker, instead of failing at once; within
    /// `Limits.pickerWait`, or infinity.
    public var waitForPicker: Double = 0

    /// The defaults.
    public init() {}
    /// The default is not to wait.
    public init(discoveryTimeout: Double?, options: Options = []) {
        self.discoveryTimeout = discoveryTimeout
        self.options = options
    }
}
