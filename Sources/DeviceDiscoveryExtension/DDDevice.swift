// SPDX-License-Identifier: Apache-2.0
// The accessory that an extension has found, in the words of Apple's framework.

internal import AccessoryBus
internal import AccessoryModel
internal import DBusKit
public import Foundation

// properties: those of Apple's class.
/// An accessory that an extension has found.
///
/// Properties without a meaning on Linux are kept, and go nowhere; each says so.
///
/// Source: Apple's documentation of `DDDevice`.
open class DDDevice: NSObject {
    /// The kind of device; the raw values are Apple's. Without effect on Linux.
    public enum Category: Int, Hashable, Sendable {
        /// A speaker.
        case hifiSpeaker = 0
        /// Several speakers.
        case hifiSpeakerMultiple = 1
        /// A television with a box.
        case tvWithMediaBox = 2
        /// A television.
        case tv = 3
        /// A laptop.
        case laptopComputer = 4
        /// A desktop computer.
        case desktopComputer = 5
        /// An accessory of a picker.
        case accessorySetup = 6
    }

    /// A protocol that Apple's system knows. Without effect on Linux.
    public enum `Protocol`: Int, Hashable, Sendable {
        /// None.
        case invalid = 0
        /// DIAL.
        case dial = 1
    }

    /// How far the use of a device has come. Without effect on Linux.
    public enum State: Int, Hashable, Sendable {
        /// None.
        case invalid = 0
        /// Being activated.
        case activating = 10
        /// Activated.
        case activated = 20
        /// Authorized.
        case authorized = 25
        /// Being invalidated.
        case invalidating = 30
    }

    /// Whether a device plays. Without effect on Linux.
    public enum MediaPlaybackState: Int, Hashable, Sendable {
        /// Nothing to play.
        case noContent = 0
        /// Paused.
        case paused = 1
        /// Playing.
        case playing = 2
    }

    /// The side of a Wi-Fi Aware service. Without effect on Linux.
    public enum WiFiAwareServiceRole: Int, Hashable, Sendable {
        /// It looks for the service.
        case subscriber = 10
        /// It offers the service.
        case publisher = 20
    }

    /// The name in the picker: 1 to 256 bytes. Characters that may not be shown are replaced there.
    open var displayName: String
    /// Without effect on Linux.
    open var category: Category
    /// Without effect on Linux.
    open var protocolType: UTType
    /// The extension's own identifier of the device, the same each time: 1 to 256 bytes.
    open var identifier: String
    /// The accessory's identifier for the session API. The device is offered while Bluetooth hears it, and the pick
    /// includes its Bluetooth side.
    open var bluetoothIdentifier: UUID?
    /// The Bluetooth address, where the identifier is not known: an accessory says it by mDNS, for instance. Linux
    /// only.
    open var bluetoothAddress: String?
    /// Where the app reaches the device in the network. Only a host with a port has an effect on Linux.
    open var networkEndpoint: NWEndpoint?
    /// The name of the device's network. The device is offered while Wi-Fi hears it.
    open var ssid: String?
    /// The sides of Bluetooth to pair.
    open var deviceSupports: DDDeviceSupports = []
    /// A PNG, JPEG or SVG file for the picker. Linux only.
    open var productImage: Data?
    /// Without effect on Linux.
    open var `protocol`: `Protocol` = .invalid
    /// Without effect on Linux.
    open var state: State = .invalid
    /// Without effect on Linux.
    open var url = URL(fileURLWithPath: "/")
    /// Without effect on Linux.
    open var txtRecordData: Data?
    /// Without effect on Linux.
    open var displayImageName: String?
    /// Without effect on Linux.
    open var supportsGrouping = false
    /// Without effect on Linux.
    open var mediaPlaybackState: MediaPlaybackState = .noContent
    /// Without effect on Linux.
    open var mediaContentTitle: String?
    /// Without effect on Linux.
    open var mediaContentSubtitle: String?
    /// Without effect on Linux.
    open var wifiAwareServiceName: String?
    /// Without effect on Linux.
    open var wifiAwareServiceRole: WiFiAwareServiceRole = .subscriber
    /// Without effect on Linux.
    open var wifiAwareModelName: String?
    /// Without effect on Linux.
    open var wifiAwareVendorName: String?

    /// A device with a name and an identifier; at least one of ``networkEndpoint``, ``bluetoothIdentifier``,
    /// ``bluetoothAddress`` and ``ssid`` must be set before it is reported.
    public init(displayName: String, category: Category, protocolType: UTType, identifier: String) {
        self.displayName = displayName
        self.category = category
        self.protocolType = protocolType
        self.identifier = identifier
    }

    /// The item for the daemon.
    var item: DBusValue {
        var keys = ReportedItemKeys()
        keys.identifier = identifier
        keys.name = displayName
        keys.image = productImage.map { .bytes([UInt8]($0)) }
        keys.peripheral = bluetoothIdentifier?.uuidString ?? bluetoothAddress
        keys.ssid = ssid.map { Array($0.utf8) }
        if case .hostPort(let host, let port) = networkEndpoint {
            keys.endpoint = EndpointKeys(NetworkEndpoint(host: host.text, port: port.rawValue))
        }
        keys.supportedOptions = SupportOptions(rawValue: deviceSupports.rawValue)
        return keys.wire
    }
}

/// Sides of Bluetooth that a device supports; the raw values are Apple's.
///
/// Source: Apple's documentation of `DDDeviceSupports`.
public struct DDDeviceSupports: OptionSet, Hashable, Sendable {
    /// The bits.
    public let rawValue: Int
    /// Options from bits.
    public init(rawValue: Int) { self.rawValue = rawValue }
    /// Pairs over Bluetooth Low Energy. Raw value 2.
    public static let bluetoothPairingLE = DDDeviceSupports(rawValue: 2)
    /// Has a classic side, which is paired too. Raw value 4.
    public static let bluetoothTransportBridging = DDDeviceSupports(rawValue: 4)
    /// A keyboard, mouse or the like. Raw value 8.
    public static let bluetoothHID = DDDeviceSupports(rawValue: 8)
}
