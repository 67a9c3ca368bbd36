// SPDX-License-Identifier: Apache-2.0
// The traits that an app looks for. Mutable and shared between threads, as Apple's class is: the traits are one value
// behind a lock.

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
    public enum Range: Int, Hashable, Sendable {
        /// As far as Bluetooth reaches.
        case `default` = 0
        /// Right next to this machine; the daemon judges it by the smoothed signal strength.
        case immediate = 10
    }

    /// Which side of a Wi-Fi Aware service the accessory is.
    ///
    /// Source: Apple's documentation of `ASDiscoveryDescriptor.WiFiAwareServiceRole`; the raw values are Apple's.
    public enum WiFiAwareServiceRole: Int, Hashable, Sendable {
        /// It looks for the service.
        case subscriber = 10
        /// It offers the service.
        case publisher = 20
    }

    /// The traits as one value.
    struct Traits: Hashable, Sendable {
        var companyIdentifier = ASBluetoothCompanyIdentifier(0)
        var manufacturerDataBlob: Data?
        var manufacturerDataMask: Data?
        var serviceUUID: CBUUID?
        var serviceDataBlob: Data?
        var serviceDataMask: Data?
        var nameSubstring: String?
        var nameCompareOptions: UInt = 0
        var range = Range.default
        var ssid: String?
        var ssidPrefix: String?
        var supportedOptions: ASAccessory.SupportOptions = []
        var wifiAwareServiceName: String?
        var wifiAwareServiceRole = WiFiAwareServiceRole.subscriber
        var wifiAwareModelNameMatch: ASPropertyCompareString?
        var wifiAwareVendorNameMatch: ASPropertyCompareString?
    }

    private let lock: Mutex<Traits>

    /// A descriptor without traits.
    public override init() {
        lock = Mutex(Traits())
    }

    init(_ traits: Traits) {
        lock = Mutex(traits)
    }

    var traits: Traits { lock.withLock { $0 } }

    func duplicate() -> ASDiscoveryDescriptor { ASDiscoveryDescriptor(traits) }

    /// A copy with the same traits (`NSCopying`).
    open func copy(with zone: NSZone? = nil) -> Any { duplicate() }

    /// Equal when all traits are.
    open override func isEqual(_ other: Any?) -> Bool {
        (other as? ASDiscoveryDescriptor)?.traits == traits
    }

    /// Goes with `isEqual`; changes with the traits.
    open override var hash: Int { traits.hashValue }

    /// The traits that are set, in the session API's words.
    open override var description: String {
        let words = wireValues.map { "\($0.key): \($0.value)" }.sorted()
        return "ASDiscoveryDescriptor(\(words.joined(separator: ", ")))"
    }

    // MARK: Bluetooth

    /// The company in the advertised manufacturer data; 0, the default, stands for none.
    open var bluetoothCompanyIdentifier: ASBluetoothCompanyIdentifier {
        get { traits.companyIdentifier }
        set { lock.withLock { $0.companyIdentifier = newValue } }
    }

    /// Bytes that the company's manufacturer data begins with. Needs ``bluetoothCompanyIdentifier`` and a
    /// ``bluetoothManufacturerDataMask`` of the same length; a bit outside the mask is refused, as it could match
    /// nothing.
    open var bluetoothManufacturerDataBlob: Data? {
        get { traits.manufacturerDataBlob }
        set { lock.withLock { $0.manufacturerDataBlob = newValue } }
    }

    /// Which bits of ``bluetoothManufacturerDataBlob`` count.
    open var bluetoothManufacturerDataMask: Data? {
        get { traits.manufacturerDataMask }
        set { lock.withLock { $0.manufacturerDataMask = newValue } }
    }

    /// A service that the accessory advertises, in a list of services or as the key of service data.
    open var bluetoothServiceUUID: CBUUID? {
        get { traits.serviceUUID }
        set { lock.withLock { $0.serviceUUID = newValue } }
    }

    /// Bytes that the service's data begins with. Needs ``bluetoothServiceUUID`` and a ``bluetoothServiceDataMask`` of
    /// the same length; a bit outside the mask is refused, as it could match nothing.
    open var bluetoothServiceDataBlob: Data? {
        get { traits.serviceDataBlob }
        set { lock.withLock { $0.serviceDataBlob = newValue } }
    }

    /// Which bits of ``bluetoothServiceDataBlob`` count.
    open var bluetoothServiceDataMask: Data? {
        get { traits.serviceDataMask }
        set { lock.withLock { $0.serviceDataMask = newValue } }
    }

    /// A part of the advertised name.
    open var bluetoothNameSubstring: String? {
        get { traits.nameSubstring }
        set { lock.withLock { $0.nameSubstring = newValue } }
    }

    /// How ``bluetoothNameSubstring`` is compared.
    open var bluetoothNameSubstringCompareOptions: NSString.CompareOptions {
        get { NSString.CompareOptions(rawValue: traits.nameCompareOptions) }
        set { lock.withLock { $0.nameCompareOptions = newValue.rawValue } }
    }

    /// How near the accessory must be.
    open var bluetoothRange: Range {
        get { traits.range }
        set { lock.withLock { $0.range = newValue } }
    }

    // MARK: Wi-Fi

    /// The name of the accessory's network, 1 to 32 bytes of UTF-8. Not together with ``ssidPrefix``.
    open var ssid: String? {
        get { traits.ssid }
        set { lock.withLock { $0.ssid = newValue } }
    }

    /// The beginning of the network name of the accessory, 1 to 32 bytes of UTF-8. Not together with ``ssid``.
    open var ssidPrefix: String? {
        get { traits.ssidPrefix }
        set { lock.withLock { $0.ssidPrefix = newValue } }
    }

    // MARK: Options

    /// The capabilities of the accessory.
    open var supportedOptions: ASAccessory.SupportOptions {
        get { traits.supportedOptions }
        set { lock.withLock { $0.supportedOptions = newValue } }
    }

    // MARK: Wi-Fi Aware

    /// The accessory's Wi-Fi Aware service.
    open var wifiAwareServiceName: String? {
        get { traits.wifiAwareServiceName }
        set { lock.withLock { $0.wifiAwareServiceName = newValue } }
    }

    /// Which side of the service the accessory is; counts only with ``wifiAwareServiceName``.
    open var wifiAwareServiceRole: WiFiAwareServiceRole {
        get { traits.wifiAwareServiceRole }
        set { lock.withLock { $0.wifiAwareServiceRole = newValue } }
    }

    /// The accessory's Wi-Fi Aware model name.
    open var wifiAwareModelNameMatch: ASPropertyCompareString? {
        get { traits.wifiAwareModelNameMatch }
        set { lock.withLock { $0.wifiAwareModelNameMatch = newValue } }
    }

    /// The accessory's Wi-Fi Aware vendor name.
    open var wifiAwareVendorNameMatch: ASPropertyCompareString? {
        get { traits.wifiAwareVendorNameMatch }
        set { lock.withLock { $0.wifiAwareVendorNameMatch = newValue } }
    }
}

/// A company of Bluetooth's assigned numbers.
///
/// Source: Apple's documentation of `ASBluetoothCompanyIdentifier`.
public struct ASBluetoothCompanyIdentifier: RawRepresentable, Hashable, Sendable {
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
        var traits = Traits()
        if let company = values["bluetoothCompanyIdentifier"]?.integerValue.flatMap({ UInt16(exactly: $0) }) {
            traits.companyIdentifier = ASBluetoothCompanyIdentifier(company)
        }
        traits.manufacturerDataBlob = values["bluetoothManufacturerDataBlob"]?.bytesValue.map { Data($0) }
        traits.manufacturerDataMask = values["bluetoothManufacturerDataMask"]?.bytesValue.map { Data($0) }
        traits.serviceUUID = values["bluetoothServiceUUID"]?.stringValue.flatMap { CBUUID(wire: $0) }
        traits.serviceDataBlob = values["bluetoothServiceDataBlob"]?.bytesValue.map { Data($0) }
        traits.serviceDataMask = values["bluetoothServiceDataMask"]?.bytesValue.map { Data($0) }
        traits.nameSubstring = values["bluetoothNameSubstring"]?.stringValue
        traits.nameCompareOptions = OptionWords.compare.bits(values["bluetoothNameSubstringCompareOptions"])
        if values["bluetoothRange"]?.stringValue == "immediate" { traits.range = .immediate }
        traits.ssid = values["ssid"]?.bytesValue.map { String(decoding: $0, as: UTF8.self) }
        traits.ssidPrefix = values["ssidPrefix"]?.bytesValue.map { String(decoding: $0, as: UTF8.self) }
        traits.supportedOptions = ASAccessory.SupportOptions(rawValue: OptionWords.support.bits(values["supportedOptions"]))
        traits.wifiAwareServiceName = values["wifiAwareServiceName"]?.stringValue
        if values["wifiAwareServiceRole"]?.stringValue == "publisher" { traits.wifiAwareServiceRole = .publisher }
        traits.wifiAwareModelNameMatch = values["wifiAwareModelNameMatch"].flatMap(ASPropertyCompareString.init(wire:))
        traits.wifiAwareVendorNameMatch = values["wifiAwareVendorNameMatch"].flatMap(ASPropertyCompareString.init(wire:))
        self.init(traits)
    }
}

extension ASPropertyCompareString {
    fileprivate convenience init?(wire value: DBusValue) {
        guard let fields = value.structureValue, fields.count == 2, let text = fields[0].stringValue else { return nil }
        self.init(string: text, compareOptions: NSString.CompareOptions(rawValue: OptionWords.compare.bits(fields[1])))
    }
}

extension ASDiscoveryDescriptor {
    /// The keys and values of the traits that are set.
    var wireValues: [String: DBusValue] {
        let traits = traits
        var values: [String: DBusValue] = [:]
        if traits.companyIdentifier.rawValue != 0 {
            values["bluetoothCompanyIdentifier"] = .uint16(traits.companyIdentifier.rawValue)
        }
        values["bluetoothManufacturerDataBlob"] = traits.manufacturerDataBlob.map(DBusValue.init)
        values["bluetoothManufacturerDataMask"] = traits.manufacturerDataMask.map(DBusValue.init)
        values["bluetoothServiceUUID"] = traits.serviceUUID.map { .string($0.uuidString) }
        values["bluetoothServiceDataBlob"] = traits.serviceDataBlob.map(DBusValue.init)
        values["bluetoothServiceDataMask"] = traits.serviceDataMask.map(DBusValue.init)
        values["bluetoothNameSubstring"] = traits.nameSubstring.map { .string($0) }
        values["bluetoothNameSubstringCompareOptions"] = OptionWords.compare.value(traits.nameCompareOptions)
        if traits.range == .immediate { values["bluetoothRange"] = .string("immediate") }
        values["ssid"] = traits.ssid.map(DBusValue.init(utf8:))
        values["ssidPrefix"] = traits.ssidPrefix.map(DBusValue.init(utf8:))
        values["supportedOptions"] = OptionWords.support.value(traits.supportedOptions.rawValue)
        if let name = traits.wifiAwareServiceName {
            values["wifiAwareServiceName"] = .string(name)
            values["wifiAwareServiceRole"] = .string(traits.wifiAwareServiceRole == .publisher ? "publisher" : "subscriber")
        }
        values["wifiAwareModelNameMatch"] = traits.wifiAwareModelNameMatch.map(DBusValue.init)
        values["wifiAwareVendorNameMatch"] = traits.wifiAwareVendorNameMatch.map(DBusValue.init)
        return values
    }
}
