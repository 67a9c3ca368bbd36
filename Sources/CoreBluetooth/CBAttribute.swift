// SPDX-License-Identifier: Apache-2.0
// The services, characteristics and descriptors that the app has discovered on a peripheral. They change on the app's
// queue, together with the callback that reports the change.

internal import AccessoryModel
internal import BlueZInterfaces
internal import BlueZObjects
internal import DBusKit
public import Foundation

/// The common base class of services, characteristics and descriptors.
///
/// Source: Apple's documentation of `CBAttribute`.
open class CBAttribute: NSObject {
    private let storedUUID: CBUUID
    /// Its object in org.bluez; nil for one that the app has made.
    let path: ObjectPath?
    let lock: NSLock
    private var storedIsGone = false

    init(_ uuid: CBUUID, _ path: ObjectPath?, _ lock: NSLock) {
        storedUUID = uuid
        self.path = path
        self.lock = lock
    }

    /// The Bluetooth UUID that identifies the attribute's type.
    ///
    /// Source: Apple's documentation of `CBAttribute.uuid`.
    open var uuid: CBUUID { storedUUID }

    /// Whether the accessory does not have it any more.
    var isGone: Bool {
        get { lock.withLock { storedIsGone } }
        set { lock.withLock { storedIsGone = newValue } }
    }
}

/// A service of a peripheral.
///
/// Source: Apple's documentation of `CBService`.
open class CBService: CBAttribute {
    private weak var storedPeripheral: CBPeripheral?
    private var storedIsPrimary: Bool
    private var storedIncluded: [CBService]?
    private var storedCharacteristics: [CBCharacteristic]?

    init(_ uuid: CBUUID, _ path: ObjectPath?, _ lock: NSLock, isPrimary: Bool, peripheral: CBPeripheral?) {
        storedIsPrimary = isPrimary
        storedPeripheral = peripheral
        super.init(uuid, path, lock)
    }

    /// The peripheral that the service belongs to.
    ///
    /// Source: Apple's documentation of `CBService.peripheral`.
    open weak var peripheral: CBPeripheral? { lock.withLock { storedPeripheral } }

    /// Whether this is a primary service, rather than one to be included in others.
    ///
    /// Source: Apple's documentation of `CBService.isPrimary`.
    open var isPrimary: Bool { lock.withLock { storedIsPrimary } }

    /// The included services that have been discovered so far; nil before their discovery.
    ///
    /// Source: Apple's documentation of `CBService.includedServices`.
    open var includedServices: [CBService]? { lock.withLock { storedIncluded } }

    /// The characteristics that have been discovered so far, in the order of their handles; nil before their discovery.
    ///
    /// Source: Apple's documentation of `CBService.characteristics`.
    open var characteristics: [CBCharacteristic]? { lock.withLock { storedCharacteristics } }

    func apply(included: [CBService]?) { lock.withLock { storedIncluded = included } }
    func apply(characteristics: [CBCharacteristic]?) { lock.withLock { storedCharacteristics = characteristics } }
}

/// The operations that a characteristic supports.
///
/// Source: Apple's documentation of `CBCharacteristicProperties`; the raw values are Apple's, which are those of
/// Bluetooth (Core 5.4, Vol 3, Part G, 3.3.1.1).
public struct CBCharacteristicProperties: OptionSet, Sendable {
    /// The bits.
    public let rawValue: UInt

    /// Properties by their bits.
    public init(rawValue: UInt) { self.rawValue = rawValue }

    /// It can be broadcast.
    public static let broadcast = Self(rawValue: 0x01)
    /// It can be read.
    public static let read = Self(rawValue: 0x02)
    /// It can be written without an answer.
    public static let writeWithoutResponse = Self(rawValue: 0x04)
    /// It can be written.
    public static let write = Self(rawValue: 0x08)
    /// The characteristic sends its values as unconfirmed notifications.
    public static let notify = Self(rawValue: 0x10)
    /// The characteristic sends its values as confirmed indications.
    public static let indicate = Self(rawValue: 0x20)
    /// It takes signed writes.
    public static let authenticatedSignedWrites = Self(rawValue: 0x40)
    /// It has more properties, in a descriptor.
    public static let extendedProperties = Self(rawValue: 0x80)
    /// The characteristic sends notifications over an encrypted link only.
    public static let notifyEncryptionRequired = Self(rawValue: 0x100)
    /// The characteristic sends indications over an encrypted link only.
    public static let indicateEncryptionRequired = Self(rawValue: 0x200)

    /// BlueZ' words for them (org.bluez.GattCharacteristic(5), Flags).
    private static let words: [String: CBCharacteristicProperties] = [
        "broadcast": .broadcast, "read": .read, "write-without-response": .writeWithoutResponse, "write": .write,
        "notify": .notify,
        "indicate": .indicate, "authenticated-signed-writes": .authenticatedSignedWrites,
        "extended-properties": .extendedProperties,
        "encrypt-read": .read, "encrypt-authenticated-read": .read, "secure-read": .read, "encrypt-write": .write,
        "encrypt-authenticated-write": .write, "secure-write": .write,
        "encrypt-notify": [.notify, .notifyEncryptionRequired],
        "encrypt-authenticated-notify": [.notify, .notifyEncryptionRequired],
        "secure-notify": [.notify, .notifyEncryptionRequired],
        "encrypt-indicate": [.indicate, .indicateEncryptionRequired],
        "encrypt-authenticated-indicate": [.indicate, .indicateEncryptionRequired],
        "secure-indicate": [.indicate, .indicateEncryptionRequired],
    ]

    init(flags: [String]) {
        self = flags.reduce(into: []) { $0.formUnion(Self.words[$1] ?? []) }
    }
}

/// Whether a write is answered.
///
/// Source: Apple's documentation of `CBCharacteristicWriteType`.
public enum CBCharacteristicWriteType: Int, Sendable {
    /// It is, by ``CBPeripheralDelegate/peripheral(_:didWriteValueFor:error:)-(_,CBCharacteristic,_)``.
    case withResponse = 0
    /// It is not.
    case withoutResponse = 1
}

/// A characteristic of a peripheral's service.
///
/// Source: Apple's documentation of `CBCharacteristic`.
open class CBCharacteristic: CBAttribute {
    private weak var storedService: CBService?
    private var storedProperties: CBCharacteristicProperties
    private var storedValue: Data?
    private var storedDescriptors: [CBDescriptor]?
    private var storedIsNotifying = false

    init(
        _ uuid: CBUUID, _ path: ObjectPath?, _ lock: NSLock, properties: CBCharacteristicProperties, service: CBService?
    ) {
        storedProperties = properties
        storedService = service
        super.init(uuid, path, lock)
    }

    /// Whose it is.
    ///
    /// Source: Apple's documentation of `CBCharacteristic.service`.
    open weak var service: CBService? { lock.withLock { storedService } }

    /// The operations that the characteristic supports.
    ///
    /// Source: Apple's documentation of `CBCharacteristic.properties`.
    open var properties: CBCharacteristicProperties { lock.withLock { storedProperties } }

    /// The value last read or last sent by the accessory; nil before the first.
    ///
    /// Source: Apple's documentation of `CBCharacteristic.value`.
    open var value: Data? { lock.withLock { storedValue } }

    /// The descriptors that have been discovered so far; nil before their discovery.
    ///
    /// Source: Apple's documentation of `CBCharacteristic.descriptors`.
    open var descriptors: [CBDescriptor]? { lock.withLock { storedDescriptors } }

    /// Whether notifications or indications are enabled.
    ///
    /// Source: Apple's documentation of `CBCharacteristic.isNotifying`.
    open var isNotifying: Bool { lock.withLock { storedIsNotifying } }

    func apply(value: Data?) { lock.withLock { storedValue = value } }
    func apply(descriptors: [CBDescriptor]?) { lock.withLock { storedDescriptors = descriptors } }
    func apply(isNotifying: Bool) { lock.withLock { storedIsNotifying = isNotifying } }
    func apply(service: CBService) { lock.withLock { storedService = service } }
}

/// A descriptor of a peripheral's characteristic.
///
/// Source: Apple's documentation of `CBDescriptor`.
open class CBDescriptor: CBAttribute {
    private weak var storedCharacteristic: CBCharacteristic?
    private var storedValue: Any?

    init(_ uuid: CBUUID, _ path: ObjectPath?, _ lock: NSLock, value: Any? = nil, characteristic: CBCharacteristic?) {
        storedValue = value
        storedCharacteristic = characteristic
        super.init(uuid, path, lock)
    }

    /// Whose it is.
    ///
    /// Source: Apple's documentation of `CBDescriptor.characteristic`.
    open weak var characteristic: CBCharacteristic? { lock.withLock { storedCharacteristic } }

    /// The value that was read last; nil before. A `String` for a user description, an `NSNumber` for extended
    /// properties and both configurations, a `Data` otherwise.
    ///
    /// Source: Apple's documentation of `CBDescriptor.value`.
    open var value: Any? { lock.withLock { storedValue } }

    func apply(_ data: Data) {
        let value = Self.value(data, of: uuid)
        lock.withLock { storedValue = value }
    }

    /// A value as Apple's types have it.
    static func value(_ data: Data, of uuid: CBUUID) -> Any {
        switch uuid.key {
        case CBUUIDCharacteristicUserDescriptionString: String(decoding: data, as: UTF8.self)
        case CBUUIDCharacteristicExtendedPropertiesString, CBUUIDClientCharacteristicConfigurationString,
            CBUUIDServerCharacteristicConfigurationString:
            // Two bytes, the least significant first.
            NSNumber(
                value: data.prefix(2).enumerated().reduce(UInt16(0)) {
                    $0 | UInt16($1.element) << UInt16(8 * $1.offset)
                })
        default: data
        }
    }
}

extension CBUUID {
    /// As the object tree names it: the shortest form.
    var key: String { BluetoothUUID(uuidString).map(BlueZTree.shortened) ?? uuidString }
}
