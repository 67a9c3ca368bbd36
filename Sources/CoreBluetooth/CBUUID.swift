// SPDX-License-Identifier: Apache-2.0
// The name of a service, a characteristic or a descriptor. AccessorySetupKit's descriptors use this type, too.

internal import AccessoryModel
public import Foundation

/// A Bluetooth UUID of 16, 32 or 128 bits. Immutable.
///
/// A short one equals its long form. Text or data that is no UUID ends the process, as it does on Apple's systems; the
/// message names it.
///
/// Source: Apple's documentation of `CBUUID`.
open class CBUUID: NSObject, NSCopying, @unchecked Sendable {
    // @unchecked because a class that is not final cannot be checked: every stored property is an immutable value of a
    // Sendable type. A subclass answers for its own.

    private let bytes: Data
    private let text: String
    /// Nil for the empty one.
    private let value: BluetoothUUID?

    /// The bytes, most significant first: 2, 4 or 16, depending on the form in which the UUID was given.
    open var data: Data { bytes }

    /// Upper-case digits as many as were given: `180F`, or 8-4-4-4-12.
    open var uuidString: String { text }

    /// - Parameters:
    ///   - text: the text from which the value was made, without anything else.
    private init(_ value: BluetoothUUID, _ text: String) {
        self.value = value
        self.text = text.uppercased()
        bytes = Data(Hex.bytes(text.filter { $0 != "-" }) ?? [])
    }

    /// An empty UUID, which names nothing: no bytes, no text, equal to another empty one only. Subclasses and stand-ins
    /// that must have a UUID begin with it.
    ///
    /// Source: Apple's documentation of `CBUUID`, which inherits it from `NSObject`.
    public override init() {
        value = nil
        text = ""
        bytes = Data()
    }

    /// A UUID from text. Text that is no UUID ends the process; the message names it.
    ///
    /// - Parameter string: 4, 8 or (with hyphens) 32 hexadecimal digits, in upper or lower case. Before 4 or 8 digits
    ///   there may be `0x`, which is no part of the UUID.
    ///
    /// Source: Apple's documentation of `CBUUID.init(string:)`.
    public convenience init(string: String) {
        let isPrefixed = string.lowercased().hasPrefix("0x") && [6, 10].contains(string.utf8.count)
        let digits = isPrefixed ? String(string.dropFirst(2)) : string
        guard let value = BluetoothUUID(digits) else {
            // The process ends, as on Apple's systems. Not a precondition: its message would be missing from a release
            // build.
            fatalError("CBUUID(string:): \(string.debugDescription) is no UUID: 4, 8, or with hyphens 32 hexadecimal digits")
        }
        self.init(value, digits)
    }

    /// Creates a UUID from bytes. Any other number of bytes ends the process; the message names them.
    ///
    /// - Parameter data: 2, 4 or 16 bytes, most significant first.
    ///
    /// Source: Apple's documentation of `CBUUID.init(data:)`.
    public convenience init(data: Data) {
        var digits = Hex.text(data)
        if data.count == 16 {
            for index in [20, 16, 12, 8] { digits.insert("-", at: digits.index(digits.startIndex, offsetBy: index)) }
        }
        guard let value = BluetoothUUID(digits) else {
            // Ends the process, as text that is no UUID does, and prints the reason in a release build, too. The first
            // bytes are enough to identify long data.
            fatalError("CBUUID(data:): \(data.count) bytes (\(Hex.text(data.prefix(32)))) are no UUID: 2, 4 or 16 bytes")
        }
        self.init(value, digits)
    }

    /// A UUID of 128 bits.
    ///
    /// Source: Apple's documentation of `CBUUID.init(nsuuid:)`.
    public convenience init(nsuuid uuid: UUID) {
        self.init(string: uuid.uuidString)
    }

    /// Creates a UUID from text of the bus. Text that is no UUID is not a mistake of this process, and is left out.
    package convenience init?(wire text: String) {
        guard let value = BluetoothUUID(text) else { return nil }
        self.init(value, text)
    }

    /// The same object (`NSCopying`): it never changes.
    open func copy(with zone: NSZone? = nil) -> Any { self }

    /// Equal when both stand for the same 128 bits.
    open override func isEqual(_ other: Any?) -> Bool {
        guard let other = other as? CBUUID else { return false }
        return other.value == value
    }

    /// Goes with `isEqual`.
    open override var hash: Int { value.hashValue }

    /// The assigned name of a common service, characteristic or descriptor, such as `Battery`; of others the same as
    /// ``uuidString``.
    ///
    /// Source: Apple's documentation of `CBUUID`, which does not list the names.
    open override var description: String { value.flatMap(AssignedNames.name) ?? uuidString }
}
