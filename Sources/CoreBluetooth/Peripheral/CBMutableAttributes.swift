// SPDX-License-Identifier: Apache-2.0
// Attributes that an app makes for the peripheral role. They compile and keep their values; there is no way to publish
// them.

public import Foundation

/// The operations that one of the app's own characteristics allows.
///
/// Source: Apple's documentation of `CBAttributePermissions`.
public struct CBAttributePermissions: OptionSet, Sendable {
    /// The bits.
    public let rawValue: UInt

    /// Permissions by their bits.
    public init(rawValue: UInt) { self.rawValue = rawValue }

    /// Reading.
    public static let readable = Self(rawValue: 0x01)
    /// Writing.
    public static let writeable = Self(rawValue: 0x02)
    /// Reading over an encrypted link.
    public static let readEncryptionRequired = Self(rawValue: 0x04)
    /// Writing over an encrypted link.
    public static let writeEncryptionRequired = Self(rawValue: 0x08)
}

/// A service of the app's own.
///
/// Source: Apple's documentation of `CBMutableService`.
open class CBMutableService: CBService {
    /// A service without characteristics.
    ///
    /// Source: Apple's documentation of `init(type:primary:)`.
    public init(type UUID: CBUUID, primary isPrimary: Bool) {
        super.init(UUID, nil, NSLock(), isPrimary: isPrimary, peripheral: nil)
    }

    /// The services that it includes.
    open override var includedServices: [CBService]? {
        get { super.includedServices }
        set { apply(included: newValue) }
    }

    /// Its characteristics.
    open override var characteristics: [CBCharacteristic]? {
        get { super.characteristics }
        set { apply(characteristics: newValue) }
    }
}

/// A characteristic of the app's own.
///
/// Source: Apple's documentation of `CBMutableCharacteristic`.
open class CBMutableCharacteristic: CBCharacteristic {
    private var storedPermissions: CBAttributePermissions
    private var ownProperties: CBCharacteristicProperties

    /// A characteristic.
    ///
    /// Source: Apple's documentation of `init(type:properties:value:permissions:)`.
    public init(
        type UUID: CBUUID, properties: CBCharacteristicProperties, value: Data?, permissions: CBAttributePermissions
    ) {
        storedPermissions = permissions
        ownProperties = properties
        super.init(UUID, nil, NSLock(), properties: properties, service: nil)
        apply(value: value)
    }

    /// The operations that the characteristic allows.
    open var permissions: CBAttributePermissions {
        get { lock.withLock { storedPermissions } }
        set { lock.withLock { storedPermissions = newValue } }
    }

    /// The operations that the characteristic supports.
    open override var properties: CBCharacteristicProperties {
        get { lock.withLock { ownProperties } }
        set { lock.withLock { ownProperties = newValue } }
    }

    /// Its value.
    open override var value: Data? {
        get { super.value }
        set { apply(value: newValue) }
    }

    /// Its descriptors.
    open override var descriptors: [CBDescriptor]? {
        get { super.descriptors }
        set { apply(descriptors: newValue) }
    }

    /// Always nil: no central can subscribe.
    open var subscribedCentrals: [CBCentral]? { nil }
}

/// A descriptor of the app's own.
///
/// Source: Apple's documentation of `CBMutableDescriptor`.
open class CBMutableDescriptor: CBDescriptor {
    /// A descriptor.
    ///
    /// Source: Apple's documentation of `init(type:value:)`.
    public init(type UUID: CBUUID, value: Any?) {
        super.init(UUID, nil, NSLock(), value: value, characteristic: nil)
    }
}
