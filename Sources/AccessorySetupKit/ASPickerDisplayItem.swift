// SPDX-License-Identifier: Apache-2.0
// The items of a picker, of a migration, and of an update: their contents in the picker, and their discovery traits.

public import Foundation
internal import Synchronization

/// One kind of accessory, as the picker is to present it.
///
/// Source: Apple's documentation of `ASPickerDisplayItem`.
open class ASPickerDisplayItem: NSObject, @unchecked Sendable {
    // @unchecked because a class that is not final cannot be checked: every stored property here and in the two
    // subclasses of ours is an immutable value of a Sendable type, or a Mutex around one. An app's subclass answers for
    // its own.

    /// The picker's behaviour around a setup.
    ///
    /// Source: Apple's documentation of `ASPickerDisplayItem.SetupOptions`.
    public struct SetupOptions: OptionSet, Hashable, BitwiseCopyable, Sendable {
        /// The bits.
        public let rawValue: UInt
        /// Options from bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }
        /// The picker asks the person for a name. Raw value 1.
        public static var rename: SetupOptions { SetupOptions(rawValue: 1) }
        /// The accessory awaits authorization until the app finishes or fails it. Raw value 2.
        public static var confirmAuthorization: SetupOptions { SetupOptions(rawValue: 2) }
        /// The picker asks the person to go on in the app. Raw value 4.
        public static var finishInApp: SetupOptions { SetupOptions(rawValue: 4) }
        /// The picker stays open after the setup, for more accessories: an addition to Apple's options. Raw value 256.
        public static var pickSeveral: SetupOptions { SetupOptions(rawValue: 256) }
    }

    private struct Options: Hashable {
        var setup: SetupOptions = []
        var rename: ASAccessory.RenameOptions = []
        var end: ASAccessEnd?
        var choices: [ASAccessEnd] = []
    }

    private let title: String
    private let image: UIImage
    private let traits: ASDiscoveryDescriptor

    /// The accessory's name in the picker: up to 256 bytes of UTF-8, not blank, without control characters.
    open var name: String { title }

    /// The accessory's image in the picker. An empty one is no image: the picker shows the name alone.
    open var productImage: UIImage { image }

    /// The traits that the picker looks for: a copy of the descriptor that the item was made with.
    open var descriptor: ASDiscoveryDescriptor { traits }

    private let options = Mutex(Options())

    /// An item for accessories that show all traits of a descriptor.
    ///
    /// - Parameters:
    ///   - name: the accessory's name in the picker.
    ///   - productImage: the accessory's image in the picker, at most 1 MiB.
    ///   - descriptor: the traits that the picker looks for; it is copied.
    public init(name: String, productImage: UIImage, descriptor: ASDiscoveryDescriptor) {
        title = name
        image = productImage
        traits = descriptor.duplicate()
    }

    /// The picker's behaviour around the setup.
    open var setupOptions: SetupOptions {
        get { options.withLock { $0.setup } }
        set { options.withLock { $0.setup = newValue } }
    }

    /// The names that renaming in the picker changes. On Linux the daemon only checks the options: the name of a setup
    /// is the accessory's alone. ``ASAccessorySession/renameAccessory(_:options:completionHandler:)`` includes the
    /// network.
    open var renameOptions: ASAccessory.RenameOptions {
        get { options.withLock { $0.rename } }
        set { options.withLock { $0.rename = newValue } }
    }

    /// When the right to use the accessory ends; nil for no end. An administrator's rule may have it end earlier. Linux
    /// only.
    open var accessEnd: ASAccessEnd? {
        get { options.withLock { $0.end } }
        set { options.withLock { $0.end = newValue } }
    }

    /// Ends among which the person may choose in the picker, at most 16; empty for no choice. Linux only.
    open var accessEndChoices: [ASAccessEnd] {
        get { options.withLock { $0.choices } }
        set { options.withLock { $0.choices = newValue } }
    }

    /// Equal when name, image, descriptor and options are, and both are of one class.
    open override func isEqual(_ other: Any?) -> Bool {
        guard let other = other as? ASPickerDisplayItem else { return false }
        if self === other { return true }
        return type(of: self) == type(of: other) && title == other.title && image == other.image && traits == other.traits
            && options.withLock { $0 } == other.options.withLock { $0 }
    }

    /// Goes with `isEqual`; changes with the options.
    open override var hash: Int {
        var hasher = Hasher()
        hasher.combine(title)
        hasher.combine(image)
        hasher.combine(traits)
        hasher.combine(options.withLock { $0 })
        return hasher.finalize()
    }

    /// The name and the descriptor.
    open override var description: String { "“\(name)” (\(descriptor))" }
}

/// An accessory that the app set up before it used AccessorySetupKit.
///
/// At least one identifier must be set. When a picker's items are all of this kind, the picker informs the person and
/// asks for consent; together with other items the migration happens when an accessory is set up in the same picker.
///
/// Source: Apple's documentation of `ASMigrationDisplayItem`.
open class ASMigrationDisplayItem: ASPickerDisplayItem, @unchecked Sendable {
    // @unchecked as it is inherited; the reason at `ASPickerDisplayItem` speaks of this class too.

    private struct Identifiers: Hashable {
        var peripheral: UUID?
        var address: String?
        var hotspot: String?
        var pairedDevice: ASAccessory.WiFiAwarePairedDeviceID = 0
    }

    private let identifiers = Mutex(Identifiers())

    /// The accessory's Bluetooth identifier. On Linux the one that an accessory got when another app set it up, see
    /// ``ASAccessory/bluetoothIdentifier``; for one that was paired without this framework there is
    /// ``peripheralAddress``.
    open var peripheralIdentifier: UUID? {
        get { identifiers.withLock { $0.peripheral } }
        set { identifiers.withLock { $0.peripheral = newValue } }
    }

    /// The address of a device that BlueZ is paired with, for example `C0:FF:EE:00:00:01`. Linux only; counts when
    /// ``peripheralIdentifier`` is nil.
    open var peripheralAddress: String? {
        get { identifiers.withLock { $0.address } }
        set { identifiers.withLock { $0.address = newValue } }
    }

    /// The complete name of the accessory's network, 1 to 32 bytes of UTF-8.
    open var hotspotSSID: String? {
        get { identifiers.withLock { $0.hotspot } }
        set { identifiers.withLock { $0.hotspot = newValue } }
    }

    /// The accessory's Wi-Fi Aware pairing identifier; 0, the default, is none.
    open var wifiAwarePairedDeviceID: ASAccessory.WiFiAwarePairedDeviceID {
        get { identifiers.withLock { $0.pairedDevice } }
        set { identifiers.withLock { $0.pairedDevice = newValue } }
    }

    /// Equal when the identifiers are too.
    open override func isEqual(_ other: Any?) -> Bool {
        guard super.isEqual(other), let other = other as? ASMigrationDisplayItem else { return false }
        return self === other || identifiers.withLock { $0 } == other.identifiers.withLock { $0 }
    }

    /// Goes with `isEqual`; changes with the options and the identifiers.
    open override var hash: Int { super.hash ^ identifiers.withLock { $0 }.hashValue }
}

/// A discovered accessory that the app wants in the picker, with a name and an image of its own.
///
/// Source: Apple's documentation of `ASDiscoveredDisplayItem`.
open class ASDiscoveredDisplayItem: ASPickerDisplayItem, @unchecked Sendable {
    // @unchecked as it is inherited; the reason at `ASPickerDisplayItem` speaks of this class too.

    let accessory: ASDiscoveredAccessory

    /// An item for one discovered accessory.
    ///
    /// - Parameters:
    ///   - name: the accessory's name in the picker.
    ///   - productImage: the accessory's image in the picker, at most 1 MiB.
    ///   - accessory: from an ``ASAccessoryEventType/accessoryDiscovered`` event of the picker that is being shown.
    public init(name: String, productImage: UIImage, accessory: ASDiscoveredAccessory) {
        self.accessory = accessory
        super.init(name: name, productImage: productImage, descriptor: accessory.descriptor)
    }

    /// Equal when they are for the same accessory too.
    open override func isEqual(_ other: Any?) -> Bool {
        super.isEqual(other) && (other as? ASDiscoveredDisplayItem)?.accessory == accessory
    }

    /// Goes with `isEqual`; changes with the options.
    open override var hash: Int { super.hash ^ accessory.hash }
}
