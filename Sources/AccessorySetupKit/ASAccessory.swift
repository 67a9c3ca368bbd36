// SPDX-License-Identifier: Apache-2.0
// Accessories as the app sees them: immutable snapshots of the daemon's data, so that they can be passed to any thread.

internal import AccessoryBus
internal import AccessoryModel
internal import DBusKit
public import Foundation

/// An accessory that the app may use.
///
/// A snapshot: it does not change after it was made. ``ASAccessorySession/accessories`` has the present one. Two
/// snapshots are equal when they are of the same accessory.
///
/// Source: Apple's documentation of `ASAccessory`.
open class ASAccessory: NSObject, @unchecked Sendable {
    // @unchecked because a class that is not final cannot be checked: every stored property here and in the one
    // subclass of ours is an immutable value of a Sendable type (the descriptor keeps its traits behind a lock). An
    // app's subclass answers for its own.

    /// The type of a Wi-Fi Aware pairing identifier; 0 is none.
    ///
    /// Source: Apple's documentation of `ASAccessory.WiFiAwarePairedDeviceID`.
    public typealias WiFiAwarePairedDeviceID = UInt64

    /// Whether the app may use an accessory.
    ///
    /// Source: Apple's documentation of `ASAccessory.AccessoryState`; the raw values are Apple's.
    public enum AccessoryState: Int, Hashable, BitwiseCopyable, Sendable {
        /// The app may not use it (any more).
        case unauthorized = 0
        /// The person picked it; the app has still to call
        /// ``ASAccessorySession/finishAuthorization(for:settings:completionHandler:)``.
        case awaitingAuthorization = 10
        /// The app may use it.
        case authorized = 20
    }

    /// The names that renaming an accessory changes.
    ///
    /// Source: Apple's documentation of `ASAccessory.RenameOptions`.
    public struct RenameOptions: OptionSet, Hashable, BitwiseCopyable, Sendable {
        /// The bits.
        public let rawValue: UInt
        /// Options from bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }
        /// The accessory's Wi-Fi network gets the new name too. Raw value 1.
        public static var ssid: RenameOptions { RenameOptions(rawValue: 1) }
    }

    /// The capabilities of an accessory.
    ///
    /// Source: Apple's documentation of `ASAccessory.SupportOptions`; the raw values are Apple's.
    public struct SupportOptions: OptionSet, Hashable, BitwiseCopyable, Sendable {
        /// The bits.
        public let rawValue: UInt
        /// Options from bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }
        /// It pairs over Bluetooth Low Energy. Raw value 2. Without it the accessory is added without a bond.
        public static var bluetoothPairingLE: SupportOptions { SupportOptions(rawValue: 2) }
        /// It can be connected over classic Bluetooth as well. Raw value 4.
        public static var bluetoothTransportBridging: SupportOptions { SupportOptions(rawValue: 4) }
        /// It is a keyboard, mouse or the like over Bluetooth Low Energy. Raw value 8.
        public static var bluetoothHID: SupportOptions { SupportOptions(rawValue: 8) }
    }

    private let properties: AccessoryProperties
    private let search: ASDiscoveryDescriptor

    /// The name to show to the person.
    open var displayName: String { properties.displayName }

    /// Whether the app may use it.
    open var state: AccessoryState {
        switch properties.state {
        case .authorized: .authorized
        case .awaitingAuthorization: .awaitingAuthorization
        case .unauthorized: .unauthorized
        }
    }

    /// The accessory's Bluetooth identifier, the same for every app and for as long as it is set up; nil without
    /// Bluetooth. On Linux it is the daemon's, not an address: ``devicePath`` leads to BlueZ.
    open var bluetoothIdentifier: UUID? { UUID(uuidString: properties.bluetoothIdentifier) }

    /// The address over which it is bridged to classic Bluetooth: 6 bytes; nil when it is not.
    open var bluetoothTransportBridgingIdentifier: Data? {
        properties.bridgingIdentifier.isEmpty ? nil : Data(properties.bridgingIdentifier)
    }

    /// The name of the accessory's Wi-Fi network; nil without Wi-Fi. Bytes that are not UTF-8 are replaced.
    open var ssid: String? { properties.ssid.isEmpty ? nil : String(decoding: properties.ssid, as: UTF8.self) }

    /// The Wi-Fi Aware pairing identifier; 0 when there is none.
    open var wifiAwarePairedDeviceID: WiFiAwarePairedDeviceID { properties.awareDevice }

    /// The object of org.bluez for the accessory, for example `/org/bluez/hci0/dev_C0_FF_EE_00_00_01`; nil while BlueZ
    /// does not know it. Linux only: apps talk to the accessory through BlueZ.
    open var devicePath: String? { properties.device == "/" ? nil : properties.device.rawValue }

    /// A place in the network.
    public struct NetworkEndpoint: Hashable, Sendable {
        /// A name, such as `printer.local`, or an address.
        public let host: String
        /// Never 0.
        public let port: UInt16
    }

    /// Where the app's extension has found the accessory in the network; nil for one without. Linux only.
    open var networkEndpoint: NetworkEndpoint? {
        guard let host = properties.endpoint.host, let port = properties.endpoint.port else { return nil }
        return NetworkEndpoint(host: host, port: port)
    }

    /// When the app's right to use it ends, by the machine's clock; nil for no end, and once it has ended. Linux only.
    open var accessEndDate: Date? {
        properties.ends == 0 ? nil : Date(timeIntervalSince1970: TimeInterval(properties.ends))
    }

    /// The descriptor that found it.
    open var descriptor: ASDiscoveryDescriptor { search }

    /// The daemon's object; `/` for an accessory that the daemon does not know.
    let object: ObjectPath

    /// An accessory that the daemon does not know, for subclasses that stand in for accessories in an app's tests. A
    /// request about it ends with ``ASError/Code/invalidRequest``. It equals only itself.
    public override init() {
        object = "/"
        properties = AccessoryProperties()
        search = ASDiscoveryDescriptor()
    }

    init(_ object: ObjectPath, _ properties: AccessoryProperties) {
        self.object = object
        self.properties = properties
        search = ASDiscoveryDescriptor(wire: properties.descriptor)
    }

    /// Equal when both are of the same accessory, whatever has changed about it between them.
    open override func isEqual(_ other: Any?) -> Bool {
        guard let other = other as? ASAccessory else { return false }
        return self === other || (type(of: self) == type(of: other) && key != nil && key == other.key)
    }

    /// Goes with `isEqual`.
    open override var hash: Int { key?.hashValue ?? ObjectIdentifier(self).hashValue }

    /// The identifier of the accessory; nil when it has none.
    var key: String? { object.rawValue == "/" ? nil : object.rawValue }

    /// The name, the state and the identifier.
    open override var description: String {
        "“\(displayName)” (\(state)\(bluetoothIdentifier.map { ", \($0)" } ?? ""))"
    }
}

/// An accessory in range that the app is to decide about, see
/// ``ASPickerDisplaySettings/Options/filterDiscoveryResults``.
///
/// Source: Apple's documentation of `ASDiscoveredAccessory`.
open class ASDiscoveredAccessory: ASAccessory, @unchecked Sendable {
    // @unchecked as it is inherited; the reason at `ASAccessory` speaks of this class too.

    /// The signal's strength when the accessory was discovered, in dBm (−127 to 20); nil when unknown.
    open var bluetoothRSSI: Int? { strength }

    /// Names it in an update of the picker.
    let identifier: String
    private let strength: Int?
    private let advertisement: AdvertisementEntry

    /// Creates an accessory without a discovery, for subclasses that stand in for accessories in an app's tests.
    public override init() {
        identifier = ""
        strength = nil
        advertisement = AdvertisementEntry()
        super.init()
    }

    init(_ object: ObjectPath, _ details: EventDetails) {
        identifier = details.identifier ?? ""
        strength = details.rssi
        advertisement = details.advertisement ?? AdvertisementEntry()
        var properties = details.properties ?? AccessoryProperties()
        // The app has not named it yet.
        if properties.displayName.isEmpty { properties.displayName = advertisement.localName ?? "" }
        super.init(object, properties)
    }

    override var key: String? { identifier.isEmpty ? nil : identifier }

    /// The accessory's advertisement data, under Core Bluetooth's keys: `CBAdvertisementDataLocalNameKey`,
    /// `CBAdvertisementDataServiceUUIDsKey`, `CBAdvertisementDataServiceDataKey`,
    /// `CBAdvertisementDataManufacturerDataKey` (the company identifier's two bytes, low one first, then the data; of
    /// several companies the lowest) and `CBAdvertisementDataTxPowerLevelKey`. Nil when nothing is known.
    open var bluetoothAdvertisementData: [AnyHashable: Any]? {
        var data: [AnyHashable: Any] = [:]
        data[CBAdvertisementDataLocalNameKey] = advertisement.localName
        if !advertisement.serviceUUIDs.isEmpty {
            data[CBAdvertisementDataServiceUUIDsKey] = advertisement.serviceUUIDs.compactMap { CBUUID(wire: $0) }
        }
        if !advertisement.serviceData.isEmpty {
            let pairs = advertisement.serviceData.compactMap { text, bytes in CBUUID(wire: text).map { ($0, Data(bytes)) } }
            data[CBAdvertisementDataServiceDataKey] = Dictionary(pairs) { first, _ in first }
        }
        if let (company, bytes) = advertisement.manufacturerData.min(by: { $0.key < $1.key }) {
            data[CBAdvertisementDataManufacturerDataKey] = Data([UInt8(company & 0xFF), UInt8(company >> 8)] + bytes)
        }
        if let power = advertisement.txPower { data[CBAdvertisementDataTxPowerLevelKey] = NSNumber(value: power) }
        return data.isEmpty ? nil : data
    }
}
