// SPDX-License-Identifier: Apache-2.0
// Settings that go with requests: those of a picker, and those that finish an authorization.

internal import AccessoryBus
internal import AccessoryModel
internal import DBusKit
public import Foundation
internal import Synchronization

/// The duration of a picker's discovery, and whether the app filters its results.
///
/// Source: Apple's documentation of `ASPickerDisplaySettings`.
open class ASPickerDisplaySettings: NSObject, NSCopying, @unchecked Sendable {
    // @unchecked because a class that is not final cannot be checked: the one stored property is a Mutex around a value
    // of a Sendable type. A subclass answers for its own.

    /// How long a picker looks for accessories, in seconds.
    ///
    /// Source: Apple's documentation of `ASPickerDisplaySettings.DiscoveryTimeout`.
    public struct DiscoveryTimeout: RawRepresentable, Hashable, BitwiseCopyable, Sendable {
        /// Seconds, 0.1 to 86,400, or infinity.
        public let rawValue: TimeInterval
        /// A number of seconds.
        public init(rawValue: TimeInterval) { self.rawValue = rawValue }
        /// A number of seconds.
        public init(_ rawValue: TimeInterval) { self.rawValue = rawValue }
        /// 30 seconds.
        public static let `default` = DiscoveryTimeout(30)
        /// 60 seconds.
        public static let short = DiscoveryTimeout(60)
        /// Two minutes.
        public static let medium = DiscoveryTimeout(120)
        /// Five minutes.
        public static let long = DiscoveryTimeout(300)
        /// Until the app calls ``ASAccessorySession/finishPickerDiscovery(completionHandler:)`` or the person gives up.
        public static let unbounded = DiscoveryTimeout(.infinity)
    }

    /// The options that change a picker's behaviour.
    ///
    /// Source: Apple's documentation of `ASPickerDisplaySettings.Options`.
    public struct Options: OptionSet, Hashable, BitwiseCopyable, Sendable {
        /// The bits.
        public let rawValue: UInt
        /// Options from bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }
        /// Every match is an ``ASAccessoryEventType/accessoryDiscovered`` event, and the picker shows only the items
        /// that the app passes to ``ASAccessorySession/updatePicker(showing:completionHandler:)``. Raw value 1.
        public static var filterDiscoveryResults: Options { Options(rawValue: 1) }
    }

    private let lock: Mutex<PickerSettings>

    /// Settings as they are by default.
    public override init() {
        lock = Mutex(PickerSettings())
    }

    private init(_ values: PickerSettings) {
        lock = Mutex(values)
    }

    /// New settings as they are by default. An object of its own each time: changing it changes no other.
    open class var `default`: ASPickerDisplaySettings { ASPickerDisplaySettings() }

    /// How long the picker looks. 30 seconds unless set.
    open var discoveryTimeout: DiscoveryTimeout {
        get { DiscoveryTimeout(values.discoveryTimeout ?? .infinity) }
        set { lock.withLock { $0.discoveryTimeout = newValue == .unbounded ? nil : newValue.rawValue } }
    }

    /// The options that change the picker's behaviour.
    open var options: Options {
        get { Options(rawValue: UInt(bitPattern: values.options.rawValue)) }
        set { lock.withLock { $0.options = PickerSettings.Options(rawValue: Int(bitPattern: newValue.rawValue)) } }
    }

    private var values: PickerSettings { lock.withLock { $0 } }

    var wire: DBusValue { values.wire }

    func duplicate() -> ASPickerDisplaySettings { ASPickerDisplaySettings(values) }

    /// A copy with the same settings (`NSCopying`).
    open func copy(with zone: NSZone? = nil) -> Any { duplicate() }

    /// Equal when all settings are.
    open override func isEqual(_ other: Any?) -> Bool { (other as? ASPickerDisplaySettings)?.values == values }

    /// Goes with `isEqual`; changes with the settings.
    open override var hash: Int { values.hashValue }
}

/// The properties that the app has found out about an accessory that awaits authorization.
///
/// Source: Apple's documentation of `ASAccessorySettings`.
open class ASAccessorySettings: NSObject, NSCopying, @unchecked Sendable {
    // @unchecked because a class that is not final cannot be checked: the one stored property is a Mutex around a value
    // of a Sendable type. A subclass answers for its own.

    private let lock: Mutex<AuthorizationKeys>

    /// Settings that say nothing.
    public override init() {
        lock = Mutex(AuthorizationKeys())
    }

    private init(_ values: AuthorizationKeys) {
        lock = Mutex(values)
    }

    /// New settings that say nothing. An object of its own each time: changing it changes no other.
    open class var `default`: ASAccessorySettings { ASAccessorySettings() }

    /// The complete name of the accessory's network, 1 to 32 bytes of UTF-8.
    open var ssid: String? {
        get { values.ssid.map { String(decoding: $0, as: UTF8.self) } }
        set { lock.withLock { $0.ssid = newValue.map { Array($0.utf8) } } }
    }

    /// The address over which the accessory is bridged to classic Bluetooth: 6 bytes.
    open var bluetoothTransportBridgingIdentifier: Data? {
        get { values.bridgingAddress.map { Data($0) } }
        set { lock.withLock { $0.bridgingAddress = newValue.map { [UInt8]($0) } } }
    }

    private var values: AuthorizationKeys { lock.withLock { $0 } }

    var wire: DBusValue { values.wire }

    /// A copy with the same settings (`NSCopying`).
    open func copy(with zone: NSZone? = nil) -> Any { ASAccessorySettings(values) }

    /// Equal when all settings are.
    open override func isEqual(_ other: Any?) -> Bool { (other as? ASAccessorySettings)?.values == values }

    /// Goes with `isEqual`; changes with the settings.
    open override var hash: Int { values.hashValue }
}
