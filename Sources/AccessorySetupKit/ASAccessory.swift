// SPDX-License-Identifier: Apache-2.0
// Accessories as the app sees them: snapshots of what the daemon said, immutable, so that they can be handed anywhere.

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
    public enum AccessoryState: Int, Hashable, Sendable {
        /// The app may not use it (any more).
        case unauthorized = 0
        /// The person picked it; the app has still to call
        /// ``ASAccessorySession/finishAuthorization(for:settings:completionHandler:)``.
        case awaitingAuthorization = 10
        /// The app may use it.
        case authorized = 20
    }

    /// What renaming an accessory includes.
    ///
    /// Source: Apple's documentation of `ASAccessory.RenameOptions`.
    public struct RenameOptions: OptionSet, Hashable, Sendable {
        /// The bits.
        public let rawValue: UInt
        /// Options from bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }
        /// The accessory's Wi-Fi network gets the new name too. Raw value 1.
        public static var ssid: RenameOptions { RenameOptions(rawValue: 1) }
    }

    /// What an accessory can do.
    ///
    /// Source: Apple's documentation of `ASAccessory.SupportOptions`; the raw values are Apple's.
    public struct SupportOptions: OptionSet, Hashable, Sendable {
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

    private struct Snapshot: Sendable {
        var displayName = ""
        var state = AccessoryState.unauthorized
        var bluetoothIdentifier: UUID?
        var bluetoothTransportBridgingIdentifier: Data?
        var ssid: String?
        var wifiAwarePairedDeviceID: WiFiAwarePairedDeviceID = 0
        var devicePath: String?
        var descriptor = ASDiscoveryDescriptor()
    }

    private let snapshot: Snapshot

    /// The name to show to the person.
    open var displayName: String { snapshot.displayName }

    /// Whether the app may use it.
    open var state: AccessoryState { snapshot.state }

    /// The accessory's Bluetooth identifier, the same for every app and for as long as it is set up; nil without
    /// Bluetooth. On Linux it is the daemon's, not an address: ``devicePath`` leads to BlueZ.
    open var bluetoothIdentifier: UUID? { snapshot.bluetoothIdentifier }

    /// The address over which it is bridged to classic Bluetooth: 6 bytes; nil when it is not.
    open var bluetoothTransportBridgingIdentifier: Data? { snapshot.bluetoothTransportBridgingIdentifier }

    /// The name of the accessory's Wi-Fi network; nil without Wi-Fi. Bytes that are not UTF-8 are replaced.
    open var ssid: String? { snapshot.ssid }

    /// The Wi-Fi Aware pairing identifier; 0 when there is none.
    open var wifiAwarePairedDeviceID: WiFiAwarePairedDeviceID { snapshot.wifiAwarePairedDeviceID }

    /// The object of org.bluez for the accessory, for example `/org/bluez/hci0/dev_C0_FF_EE_00_00_01`; nil while BlueZ
    /// does not know it. Linux only: apps talk to the accessory through BlueZ.
    open var devicePath: String? { snapshot.devicePath }

    /// The descriptor that found it.
    open var descriptor: ASDiscoveryDescriptor { snapshot.descriptor }

    /// The daemon's object; `/` for an accessory that the daemon does not know.
    let object: ObjectPath

    /// An accessory that the daemon does not know, for subclasses that stand in for accessories in an app's tests. A
    /// request about it ends with ``ASError/Code/invalidRequest``. It equals only itself.
    public override init() {
        object = "/"
        snapshot = Snapshot()
    }

    /// - Parameter properties: of `org.accessorysetup1.Accessory`; what is missing or of a wrong type counts as empty.
    init(_ object: ObjectPath, _ properties: [String: DBusValue]) {
        self.object = object
        var snapshot = Snapshot()
        snapshot.displayName = properties["DisplayName"]?.stringValue ?? ""
        snapshot.state =
            switch properties["State"]?.stringValue.flatMap(AuthorizationState.init(rawValue:)) {
            case .authorized: .authorized
            case .awaitingAuthorization: .awaitingAuthorization
            case .unauthorized, nil: .unauthorized
            }
        snapshot.bluetoothIdentifier = properties["BluetoothIdentifier"]?.stringValue.flatMap(UUID.init(uuidString:))
        let bridging = properties["BluetoothTransportBridgingIdentifier"]?.bytesValue ?? []
        snapshot.bluetoothTransportBridgingIdentifier = bridging.isEmpty ? nil : Data(bridging)
        let network = properties["Ssid"]?.bytesValue ?? []
        snapshot.ssid = network.isEmpty ? nil : String(decoding: network, as: UTF8.self)
        snapshot.wifiAwarePairedDeviceID =
            if case .uint64(let number) = properties["WiFiAwarePairedDeviceID"]?.unwrapped { number } else { 0 }
        snapshot.devicePath = properties["Device"]?.objectPathValue.flatMap { $0.rawValue == "/" ? nil : $0.rawValue }
        snapshot.descriptor = ASDiscoveryDescriptor(wire: properties["Descriptor"]?.vardictValue ?? [:])
        self.snapshot = snapshot
    }

    /// Equal when both are of the same accessory, whatever has changed about it between them.
    open override func isEqual(_ other: Any?) -> Bool {
        guard let other = other as? ASAccessory else { return false }
        return self === other || (type(of: self) == type(of: other) && key != nil && key == other.key)
    }

    /// Goes with `isEqual`.
    open override var hash: Int { key?.hashValue ?? ObjectIdentifier(self).hashValue }

    /// What tells it from others; nil when nothing does.
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
    private let advertisement: [String: DBusValue]

    /// An accessory that nobody discovered, for subclasses that stand in for accessories in an app's tests.
    public override init() {
        identifier = ""
        strength = nil
        advertisement = [:]
        super.init()
    }

    init(_ object: ObjectPath, _ properties: [String: DBusValue], details: [String: DBusValue]) {
        identifier = details["identifier"]?.stringValue ?? ""
        strength = details["rssi"]?.integerValue
        advertisement = details["advertisement"]?.vardictValue ?? [:]
        var properties = properties
        // Nobody has named it yet.
        if properties["DisplayName"] == nil { properties["DisplayName"] = advertisement["localName"] }
        super.init(object, properties)
    }

    override var key: String? { identifier.isEmpty ? nil : identifier }

    /// What the accessory advertised, under Core Bluetooth's keys: ``CBAdvertisementDataLocalNameKey``,
    /// ``CBAdvertisementDataServiceUUIDsKey``, ``CBAdvertisementDataServiceDataKey``,
    /// ``CBAdvertisementDataManufacturerDataKey`` (the company identifier's two bytes, low one first, then the data; of
    /// several companies the lowest) and ``CBAdvertisementDataTxPowerLevelKey``. Nil when nothing is known.
    open var bluetoothAdvertisementData: [AnyHashable: Any]? {
        var data: [AnyHashable: Any] = [:]
        data[CBAdvertisementDataLocalNameKey] = advertisement["localName"]?.stringValue
        if let uuids = advertisement["serviceUUIDs"]?.stringsValue, !uuids.isEmpty {
            data[CBAdvertisementDataServiceUUIDsKey] = uuids.compactMap { CBUUID(wire: $0) }
        }
        if let entries = advertisement["serviceData"]?.entries, !entries.isEmpty {
            let pairs = entries.compactMap { entry -> (CBUUID, Data)? in
                guard let uuid = entry.key.stringValue.flatMap({ CBUUID(wire: $0) }), let bytes = entry.value.bytesValue else {
                    return nil
                }
                return (uuid, Data(bytes))
            }
            data[CBAdvertisementDataServiceDataKey] = Dictionary(pairs) { first, _ in first }
        }
        let companies = (advertisement["manufacturerData"]?.entries ?? []).compactMap { entry -> (UInt16, [UInt8])? in
            guard let number = entry.key.integerValue.flatMap({ UInt16(exactly: $0) }), let bytes = entry.value.bytesValue else {
                return nil
            }
            return (number, bytes)
        }
        if let (company, bytes) = companies.min(by: { $0.0 < $1.0 }) {
            data[CBAdvertisementDataManufacturerDataKey] = Data([UInt8(company & 0xFF), UInt8(company >> 8)] + bytes)
        }
        if let power = advertisement["txPower"]?.integerValue {
            data[CBAdvertisementDataTxPowerLevelKey] = NSNumber(value: power)
        }
        return data.isEmpty ? nil : data
    }
}
