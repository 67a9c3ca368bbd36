// SPDX-License-Identifier: Apache-2.0
// What an app looks for: the traits of ASDiscoveryDescriptor, the item that names it, and the rules that make one valid.

/// A radio that an accessory is found by; the raw values are the words of manifests.
public enum Technology: String, Hashable, Sendable, CaseIterable {
    case bluetooth = "Bluetooth"
    case wifi = "WiFi"

    /// For people.
    public var name: String { self == .wifi ? "Wi-Fi" : rawValue }
}

/// The traits that an accessory must show, all of them (`ASDiscoveryDescriptor`).
public struct DiscoveryDescriptor: Hashable, Sendable {
    /// How near an accessory must be (`ASDiscoveryDescriptor.Range`).
    public enum Range: String, Hashable, Sendable {
        case `default`
        case immediate
    }

    public var companyIdentifier: CompanyIdentifier?
    public var manufacturerData: MaskedData?
    public var serviceUUID: BluetoothUUID?
    public var serviceData: MaskedData?
    public var nameSubstring: String?
    public var nameCompareOptions: CompareOptions = []
    public var range: Range = .default
    public var ssid: [UInt8]?
    public var ssidPrefix: [UInt8]?
    public var supportedOptions: SupportOptions = []
    public var wifiAware: WiFiAware?

    public init() {}

    public var wantsBluetooth: Bool { companyIdentifier != nil || serviceUUID != nil }
    public var wantsWiFi: Bool { ssid != nil || ssidPrefix != nil }
    /// The network that it names in full.
    public var network: SSID? { ssid.flatMap { SSID($0) } }

    /// Whether a network is one that this looks for.
    public func fits(_ network: SSID) -> Bool {
        network.bytes == ssid || ssidPrefix.map { network.bytes.starts(with: $0) } == true
    }

    /// What it takes to find what this looks for.
    public var technologies: Set<Technology> {
        // The Bluetooth side of an accessory of which only the beginning of its network's name is known is set up first: its app says
        // the whole name later.
        if wantsBluetooth { return ssid == nil ? [.bluetooth] : [.bluetooth, .wifi] }
        return [.wifi]
    }
}

/// Bytes to compare and which of their bits count. The lengths are equal, and no bit of the blob lies outside the mask.
public struct MaskedData: Hashable, Sendable {
    public let blob: [UInt8]
    public let mask: [UInt8]

    /// Why a pair of blob and mask is refused.
    public enum Problem: Error, Hashable, Sendable {
        case empty
        case lengthsDiffer
        case blobBitOutsideMask(index: Int)
    }

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
    public enum Role: String, Hashable, Sendable {
        case subscriber
        case publisher
    }

    public struct Match: Hashable, Sendable {
        public var string: String
        public var options: CompareOptions
        public init(string: String, options: CompareOptions) {
            self.string = string
            self.options = options
        }
    }

    public var serviceName: String?
    public var serviceRole: Role?
    public var modelName: Match?
    public var vendorName: Match?

    public init() {}
}

/// What a supported accessory can do (`ASAccessory.SupportOptions`; raw values as there).
public struct SupportOptions: OptionSet, Hashable, Sendable {
    public let rawValue: Int
    public init(rawValue: Int) { self.rawValue = rawValue }
    public static let pairingLE = SupportOptions(rawValue: 2)
    public static let transportBridging = SupportOptions(rawValue: 4)
    public static let hid = SupportOptions(rawValue: 8)

    public static let names: [(String, SupportOptions)] = [
        ("bluetoothPairingLE", .pairingLE), ("bluetoothTransportBridging", .transportBridging), ("bluetoothHID", .hid),
    ]
}

/// How a name is compared (`NSString.CompareOptions`; raw values as there).
public struct CompareOptions: OptionSet, Hashable, Sendable {
    public let rawValue: Int
    public init(rawValue: Int) { self.rawValue = rawValue }
    public static let caseInsensitive = CompareOptions(rawValue: 1)
    public static let literal = CompareOptions(rawValue: 2)
    public static let backwards = CompareOptions(rawValue: 4)
    public static let anchored = CompareOptions(rawValue: 8)
    public static let numeric = CompareOptions(rawValue: 64)
    public static let diacriticInsensitive = CompareOptions(rawValue: 128)
    public static let widthInsensitive = CompareOptions(rawValue: 256)
    public static let forcedOrdering = CompareOptions(rawValue: 512)
    public static let regularExpression = CompareOptions(rawValue: 1024)

    public static let names: [(String, CompareOptions)] = [
        ("caseInsensitive", .caseInsensitive), ("literal", .literal), ("backwards", .backwards),
        ("anchored", .anchored), ("numeric", .numeric), ("diacriticInsensitive", .diacriticInsensitive),
        ("widthInsensitive", .widthInsensitive), ("forcedOrdering", .forcedOrdering),
        ("regularExpression", .regularExpression),
    ]
}

/// What the picker does around a setup (`ASPickerDisplayItem.SetupOptions`).
public struct SetupOptions: OptionSet, Hashable, Sendable {
    public let rawValue: Int
    public init(rawValue: Int) { self.rawValue = rawValue }
    public static let rename = SetupOptions(rawValue: 1)
    public static let confirmAuthorization = SetupOptions(rawValue: 2)
    public static let finishInApp = SetupOptions(rawValue: 4)

    public static let names: [(String, SetupOptions)] = [
        ("rename", .rename), ("confirmAuthorization", .confirmAuthorization), ("finishInApp", .finishInApp),
    ]
}

/// What of an accessory may be renamed (`ASAccessory.RenameOptions`; raw values as there).
public struct RenameOptions: OptionSet, Hashable, Sendable {
    public let rawValue: Int
    public init(rawValue: Int) { self.rawValue = rawValue }
    /// The SSID along with the display name.
    public static let ssid = RenameOptions(rawValue: 1)

    public static let names: [(String, RenameOptions)] = [("ssid", .ssid)]
}

/// One accessory as the app presents it in the picker (`ASPickerDisplayItem`).
public struct DisplayItem: Hashable, Sendable {
    public var name: String
    public var image: ProductImage?
    public var descriptor: DiscoveryDescriptor
    public var setupOptions: SetupOptions
    public var renameOptions: RenameOptions = []
    /// What makes it a migration item (`ASMigrationDisplayItem`).
    public var migration: Migration?

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

        public var description: String {
            switch self {
            case .address(let value): BluetoothAddress(value: value, kind: .public).description
            case .identifier(let identifier): identifier.rawValue
            }
        }
    }

    public var peripheral: Peripheral?
    public var hotspotSSID: SSID?
    public var wifiAwarePairedDeviceID: UInt64?

    public init() {}
}

/// An accessory that the app has looked at and wants shown (`ASDiscoveredDisplayItem`).
public struct DiscoveredItem: Hashable, Sendable {
    public let name: String
    public let image: ProductImage?
    /// As `accessoryDiscovered` said.
    public let identifier: AccessoryID

    public init(name: String, image: ProductImage?, identifier: AccessoryID) {
        self.name = name
        self.image = image
        self.identifier = identifier
    }
}

/// What an app says when it finishes an authorization (`ASAccessorySettings`).
public struct AuthorizationSettings: Hashable, Sendable {
    public var ssid: SSID?
    /// The address of the accessory's classic side, 6 bytes.
    public var bridgingAddress: BluetoothAddress?

    public init(ssid: SSID? = nil, bridgingAddress: BluetoothAddress? = nil) {
        self.ssid = ssid
        self.bridgingAddress = bridgingAddress
    }
}

/// A product image as the app sent it: recognised by its first bytes, never trusted.
public struct ProductImage: Hashable, Sendable {
    public enum Format: String, Hashable, Sendable {
        case png
        case jpeg
        case svg
    }

    public let format: Format
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
            guard let range = text.firstRange(of: end) else { return false }
            text = text[range.upperBound...]
        }
        guard text.hasPrefix("<svg") else { return false }
        return text.dropFirst(4).first.map { $0.isWhitespace || $0 == ">" || $0 == "/" } ?? false
    }
}

/// The settings of one picker (`ASPickerDisplaySettings`).
public struct PickerSettings: Hashable, Sendable {
    /// Seconds; nil is unbounded.
    public var discoveryTimeout: Double?
    public var filtersDiscoveryResults: Bool

    public init(discoveryTimeout: Double? = 30, filtersDiscoveryResults: Bool = false) {
        self.discoveryTimeout = discoveryTimeout
        self.filtersDiscoveryResults = filtersDiscoveryResults
    }
}
