// SPDX-License-Identifier: Apache-2.0
// The part of Core Bluetooth that AccessorySetupKit's own interface mentions: UUIDs, and the keys of advertisement data.

internal import AccessoryModel
public import Foundation

/// A Bluetooth UUID of 16, 32 or 128 bits. Immutable.
///
/// A short one equals its long form. Text or data that is no UUID is kept rather than ending the process, as it does on Apple's systems: a
/// picker with it is refused with ``ASError/Code/invalidRequest``, and the message names it.
///
/// Source: Apple's documentation of `CBUUID`.
public final class CBUUID: NSObject, Sendable {
    /// The bytes, most significant first: 2, 4 or 16 of them as the UUID was given; none when it is none.
    public let data: Data

    /// Upper-case digits as many as were given: `180F`, or 8-4-4-4-12. For text that is no UUID, the text.
    public let uuidString: String

    /// Nil when what was given is no UUID.
    private let value: BluetoothUUID?

    /// A UUID from text.
    ///
    /// - Parameter string: 4, 8 or (with hyphens) 32 hexadecimal digits, in upper or lower case.
    public init(string: String) {
        value = BluetoothUUID(string)
        uuidString = value == nil ? string : string.uppercased()
        data = value == nil ? Data() : Data(Hex.bytes(string.filter { $0 != "-" }) ?? [])
    }

    /// A UUID from bytes.
    ///
    /// - Parameter data: 2, 4 or 16 bytes, most significant first.
    public convenience init(data: Data) {
        var digits = Hex.text(data)
        if data.count == 16 {
            for index in [20, 16, 12, 8] { digits.insert("-", at: digits.index(digits.startIndex, offsetBy: index)) }
        }
        self.init(string: digits)
    }

    /// A UUID of 128 bits.
    public convenience init(nsuuid uuid: UUID) {
        self.init(string: uuid.uuidString)
    }

    /// Equal when both stand for the same 128 bits.
    public override func isEqual(_ other: Any?) -> Bool {
        guard let other = other as? CBUUID else { return false }
        return value == other.value && (value != nil || uuidString == other.uuidString)
    }

    /// Goes with `isEqual`.
    public override var hash: Int { value?.hashValue ?? uuidString.hashValue }

    /// The same as ``uuidString``.
    public override var description: String { uuidString }
}

/// The key of the advertised name, a `String`. Source: Apple's documentation of the constant.
public let CBAdvertisementDataLocalNameKey = "kCBAdvDataLocalName"
/// The key of the advertised services, a `[CBUUID]`. Source: Apple's documentation of the constant.
public let CBAdvertisementDataServiceUUIDsKey = "kCBAdvDataServiceUUIDs"
/// The key of the advertised service data, a `[CBUUID: Data]`. Source: Apple's documentation of the constant.
public let CBAdvertisementDataServiceDataKey = "kCBAdvDataServiceData"
/// The key of the advertised manufacturer data, a `Data`. Source: Apple's documentation of the constant.
public let CBAdvertisementDataManufacturerDataKey = "kCBAdvDataManufacturerData"
/// The key of the advertised transmission power in dBm, an `NSNumber`. Source: Apple's documentation of the constant.
public let CBAdvertisementDataTxPowerLevelKey = "kCBAdvDataTxPowerLevel"
