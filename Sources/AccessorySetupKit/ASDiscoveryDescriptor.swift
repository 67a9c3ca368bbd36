// SPDX-License-Identifier: Apache-2.0
// The traits that an app looks for, under Apple's names. Mutable and shared between threads, as Apple's class is: the
// traits are one value behind a lock, with a table of their keys (AccessoryBus).

internal import AccessoryBus
internal import AccessoryModel
internal import DBusKit
public import Foundation
internal import Synchronization

/// The traits that an accessory must show, all together.
///
/// A Bluetooth descriptor needs a ``bluetoothServiceUUID`` or a ``bluetoothCompanyIdentifier``. Traits that do not fit
/// together are refused with ``ASError/Code/invalidRequest`` when the picker is requested; the message names key and
/// value. Items and requests that take a descriptor copy it.
///
/// Source: Apple's documentation of `ASDiscoveryDescriptor`.
open class ASDiscoveryDescriptor: NSObject, NSCopying, @unchecked Sendable {
    // @unchecked because a class that is not final cannot be checked: the one stored property is a Mutex around a value
    // of a Sendable type. A subclass answers for its own.

    /// How near an accessory must be.
    ///
    /// Source: Apple's documentation of `ASDiscoveryDescriptor.Range`; the raw values are Apple's.
    public enum Range: Int, Hashable, BitwiseCopyable, Sendable {
        /// As far as Bluetooth reaches.
        case `default` = 0
        /// Right next to this machine; the daemon judges it by the smoothed signal strength.
        case immediate = 10
    }

    /// Which side of a Wi-Fi Aware service the accessory is.
    ///
    /// Source: Apple's documentation of `ASDiscoveryDescriptor.WiFiAwareServiceRole`; the raw values are Apple's.
    public enum WiFiAwareServiceRole: Int, Hashable, BitwiseCopyable, Sendable {
        /// It looks for the service.
        case subscriber = 10
        /// It offers the service.
        case publisher = 20
    }

    private let lock: Mutex<DescriptorKeys>

    /// A descriptor without traits.
    public override init() {
        lock = Mutex(DescriptorKeys())
    }

    init(_ keys: DescriptorKeys) {
        lock = Mutex(keys)
    }

    private var keys: DescriptorKeys { lock.withLock { $0 } }
    private var traits: DiscoveryDescriptor { keys.traits }

    /// Makes the value before it takes the lock: an app's subclass may have a hand in it.
    private func store<Value: Sendable>(_ path: any WritableKeyPath<DescriptorKeys, Value> & Sendable, _ value: Value) {
        lock.withLock { $0[keyPath: path] = value }
    }

    func duplicate() -> ASDiscoveryDescriptor { ASDiscoveryDescriptor(keys) }

    /// A copy with the same traits (`NSCopying`).
    open func copy(with zone: NSZone? = nil) -> Any { duplicate() }

    /// Equal when all traits are.
    open override func isEqual(_ other: Any?) -> Bool { (other as? ASDiscoveryDescriptor)?.keys == keys }

    /// Goes with `isEqual`; changes with the traits.
    open override var hash: Int { keys.hashValue }

    /// The traits that are set, in the session API's words.
    open override var description: String {
        let words = (sent.wire.vardictValue ?? [:]).map { "\($0.key): \($0.value)" }.sorted()
        return "ASDiscoveryDescriptor(\(words.joined(separator: ", ")))"
    }

    // MARK: Bluetooth

    /// The company in the advertised manufacturer data; 0, the default, stands for none.
    open var bluetoothCompanyIdentifier: ASBluetoothCompanyIdentifier {
        get { ASBluetoothCompanyIdentifier(traits.companyIdentifier?.value ?? 0) }
        set { store(\.traits.companyIdentifier, newValue.rawValue == 0 ? nil : CompanyIdentifier(newValue.rawValue)) }
    }

    /// Bytes that the company's manufacturer data begins with. Needs ``bluetoothCompanyIdentifier`` and a
    /// ``bluetoothManufacturerDataMask`` of the same length; a bit outside the mask is refused, as it could match
    /// nothing.
    open var bluetoothManufacturerDataBlob: Data? {
        get { keys.manufacturerData.blob.map { Data($0) } }
        set { store(\.manufacturerData.blob, newValue.map { [UInt8]($0) }) }
    }

    /// Which bits of ``bluetoothManufacturerDataBlob`` count.
    open var bluetoothManufacturerDataMask: Data? {
        get { keys.manufacturerData.mask.map { Data($0) } }
        set { store(\.manufacturerData.mask, newValue.map { [UInt8]($0) }) }
    }

    /// A service that the accessory advertises, in a list of services or as the key of service data.
    open var bluetoothServiceUUID: CBUUID? {
        get { keys.serviceUUID.map { CBUUID(wire: $0.text) ?? CBUUID() } }
        set { store(\.serviceUUID, newValue.map { UUIDText($0.uuidString) }) }
    }

    /// Bytes that the service's data begins with. Needs ``bluetoothServiceUUID`` and a ``bluetoothServiceDataMask`` of
    /// the same length; a bit outside the mask is refused, as it could match nothing.
    open var bluetoothServiceDataBlob: Data? {
        get { keys.serviceData.blob.map { Data($0) } }
        set { store(\.serviceData.blob, newValue.map { [UInt8]($0) }) }
    }

    /// Which bits of ``bluetoothServiceDataBlob`` count.
    open var bluetoothServiceDataMask: Data? {
        get { keys.serviceData.mask.map { Data($0) } }
        set { store(\.serviceData.mask, newValue.map { [UInt8]($0) }) }
    }

    /// A part of the advertised name.
    open var bluetoothNameSubstring: String? {
        get { traits.name.substring }
        set { store(\.traits.name.substring, newValue) }
    }

    /// How ``bluetoothNameSubstring`` is compared.
    open var bluetoothNameSubstringCompareOptions: NSString.CompareOptions {
        get { NSString.CompareOptions(rawValue: UInt(bitPattern: traits.name.options.rawValue)) }
        set { store(\.traits.name.options, CompareOptions(rawValue: Int(bitPattern: newValue.rawValue))) }
    }

    /// How near the accessory must be.
    open var bluetoothRange: Range {
        get { traits.range == .immediate ? .immediate : .default }
        set { store(\.traits.range, newValue == .immediate ? .immediate : .default) }
    }

    // MARK: Kinds

    /// The use that an app asks for: an addition to Apple's framework.
    public enum Access: Int, Hashable, BitwiseCopyable, Sendable {
        /// Everything that the accessory offers.
        case full = 0
        /// The adverts of all devices that match, present and future ones, without a connection.
        case hear = 1
        /// Reading and listening, of every characteristic. An accessory may act on a read: that cannot be known.
        case read = 2
        /// The uses of ``characteristics``, and no other.
        case listed = 3
    }

    /// The use that the app asks for; full access by default. Anything else needs Bluetooth keys, and no network.
    ///
    /// With `read` and `listed`, a person accepts less than full access, and every other use fails with
    /// `CBATTError.readNotPermitted` or `.writeNotPermitted`. Both take no `bluetoothTransportBridging` and
    /// `bluetoothHID` in ``supportedOptions``.
    ///
    /// With `hear` the descriptor stands for a kind of devices: a person accepts it once, and the picker does not offer
    /// the devices one by one. It takes no ``supportedOptions`` and no ``bluetoothRange``.
    open var access: Access {
        get {
            switch keys.access {
            case .full: .full
            case .hear: .hear
            case .read: .read
            case .listed: .listed
            }
        }
        set {
            let word: DiscoveryDescriptor.Access.Word =
                switch newValue {
                case .full: .full
                case .hear: .hear
                case .read: .read
                case .listed: .listed
                }
            store(\.access, word)
        }
    }

    /// A characteristic, and the uses that an app asks for: an addition to Apple's framework.
    public struct CharacteristicAccess: Hashable, Sendable {
        /// Uses of a characteristic.
        public struct Uses: OptionSet, Hashable, Sendable {
            /// Bits of this module.
            public let rawValue: Int
            /// Uses by their bits.
            public init(rawValue: Int) { self.rawValue = rawValue }
            /// To read its value and its descriptors.
            public static let read = Uses(rawValue: 1)
            /// To write its value and its descriptors.
            public static let write = Uses(rawValue: 2)
            /// To subscribe to it.
            public static let listen = Uses(rawValue: 4)
        }

        /// The UUID of its service: 16, 32 or 128 bits, as text.
        public var service: String
        /// Its own UUID, as text.
        public var characteristic: String
        /// Its place, from 1, among the accessory's characteristics with both UUIDs, in the order of handles; 0 for
        /// all.
        public var instance: Int
        /// The uses.
        public var uses: Uses

        /// Stores its arguments.
        public init(service: String, characteristic: String, instance: Int = 0, uses: Uses) {
            self.service = service
            self.characteristic = characteristic
            self.instance = instance
            self.uses = uses
        }
    }

    /// The characteristics of `listed` access, at most 64; empty for any other access. An entry whose UUIDs are none is
    /// left out.
    open var characteristics: [CharacteristicAccess] {
        get {
            keys.characteristics.map { entry in
                CharacteristicAccess(
                    service: entry.identity.service.shortest, characteristic: entry.identity.characteristic.shortest,
                    instance: entry.identity.instance, uses: .init(rawValue: entry.uses.rawValue))
            }
        }
        set {
            store(
                \.characteristics,
                newValue.compactMap { entry in
                    guard let service = BluetoothUUID(entry.service), let characteristic = BluetoothUUID(entry.characteristic)
                    else { return nil }
                    let identity = CharacteristicIdentity(
                        service: service, characteristic: characteristic, instance: entry.instance)
                    return AccessoryModel.CharacteristicAccess(identity, CharacteristicUses(rawValue: entry.uses.rawValue))
                })
        }
    }

    /// The number of devices of a kind that the app may hear at a time, 1 to 1,024; nil for 64. Needs ``access`` of
    /// `hear`.
    open var maxDevices: Int? {
        get { traits.maxDevices }
        set { store(\.traits.maxDevices, newValue) }
    }

    // MARK: Wi-Fi

    /// The name of the accessory's network, 1 to 32 bytes of UTF-8. Not together with ``ssidPrefix``.
    open var ssid: String? {
        get { traits.ssid.map { String(decoding: $0, as: UTF8.self) } }
        set { store(\.traits.ssid, newValue.map { Array($0.utf8) }) }
    }

    /// The beginning of the network name of the accessory, 1 to 32 bytes of UTF-8. Not together with ``ssid``.
    open var ssidPrefix: String? {
        get { traits.ssidPrefix.map { String(decoding: $0, as: UTF8.self) } }
        set { store(\.traits.ssidPrefix, newValue.map { Array($0.utf8) }) }
    }

    // MARK: Options

    /// The capabilities of the accessory.
    open var supportedOptions: ASAccessory.SupportOptions {
        get { ASAccessory.SupportOptions(rawValue: UInt(bitPattern: traits.supportedOptions.rawValue)) }
        set { store(\.traits.supportedOptions, SupportOptions(rawValue: Int(bitPattern: newValue.rawValue))) }
    }

    // MARK: Wi-Fi Aware

    /// The accessory's Wi-Fi Aware service.
    open var wifiAwareServiceName: String? {
        get { traits.aware.serviceName }
        set { store(\.traits.aware.serviceName, newValue) }
    }

    /// Which side of the service the accessory is; counts only with ``wifiAwareServiceName``.
    open var wifiAwareServiceRole: WiFiAwareServiceRole {
        get { traits.aware.serviceRole == .publisher ? .publisher : .subscriber }
        set { store(\.traits.aware.serviceRole, newValue == .publisher ? .publisher : nil) }
    }

    /// The accessory's Wi-Fi Aware model name.
    open var wifiAwareModelNameMatch: ASPropertyCompareString? {
        get { traits.aware.modelName.map(ASPropertyCompareString.init) }
        set { store(\.traits.aware.modelName, newValue?.match) }
    }

    /// The accessory's Wi-Fi Aware vendor name.
    open var wifiAwareVendorNameMatch: ASPropertyCompareString? {
        get { traits.aware.vendorName.map(ASPropertyCompareString.init) }
        set { store(\.traits.aware.vendorName, newValue?.match) }
    }
}

/// A company of Bluetooth's assigned numbers.
///
/// Source: Apple's documentation of `ASBluetoothCompanyIdentifier`.
public struct ASBluetoothCompanyIdentifier: RawRepresentable, Hashable, BitwiseCopyable, Sendable {
    /// The number, 0x0000 to 0xFFFF.
    public let rawValue: UInt16
    /// A company by its number.
    public init(rawValue: UInt16) { self.rawValue = rawValue }
    /// A company by its number.
    public init(_ rawValue: UInt16) { self.rawValue = rawValue }
}

/// A text, and how it is compared. Immutable.
///
/// Source: Apple's documentation of `ASPropertyCompareString`.
open class ASPropertyCompareString: NSObject, @unchecked Sendable {
    // @unchecked because a class that is not final cannot be checked: both stored properties are immutable values of
    // Sendable types. A subclass answers for its own.

    private let text: String
    private let options: UInt

    /// The text.
    open var string: String { text }

    /// How it is compared.
    open var compareOptions: NSString.CompareOptions { NSString.CompareOptions(rawValue: options) }

    /// A text, and how it is compared: to the letter unless the options say otherwise.
    public init(string: String, compareOptions: NSString.CompareOptions = []) {
        text = string
        options = compareOptions.rawValue
    }

    /// Equal when text and options are.
    open override func isEqual(_ other: Any?) -> Bool {
        guard let other = other as? ASPropertyCompareString else { return false }
        return text == other.text && options == other.options
    }

    /// Goes with `isEqual`.
    open override var hash: Int { text.hashValue ^ Int(bitPattern: options) }
}

// MARK: - The wire

extension ASDiscoveryDescriptor {
    convenience init(wire values: [String: DBusValue]) {
        var keys = DescriptorKeys(wire: values)
        // The default, as in a descriptor of the app's own.
        if keys.traits.aware.serviceRole == .subscriber { keys.traits.aware.serviceRole = nil }
        self.init(keys)
    }

    /// The keys for the daemon. The role goes along with the service's name, and says nothing without it.
    var sent: DescriptorKeys {
        var keys = keys
        let aware = keys.traits.aware
        keys.traits.aware.serviceRole = aware.serviceName.map { _ in aware.serviceRole ?? .subscriber }
        return keys
    }
}

extension ASPropertyCompareString {
    fileprivate convenience init(_ match: WiFiAware.Match) {
        self.init(string: match.string, compareOptions: .init(rawValue: UInt(bitPattern: match.options.rawValue)))
    }

    fileprivate var match: WiFiAware.Match {
        WiFiAware.Match(string: string, options: CompareOptions(rawValue: Int(bitPattern: compareOptions.rawValue)))
    }
}
