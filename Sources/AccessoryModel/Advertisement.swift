// SPDX-License-Identifier: Apache-2.0
// The advertised state of accessories, collected from all adverts of one run.

/// How the radio names a device for as long as it keeps its object: an opaque token (for BlueZ, the object path).
public struct RadioDeviceID: Hashable, Sendable, CustomStringConvertible {
    /// The radio's own text; compare it, and read nothing from it.
    public let rawValue: String
    /// - Parameter rawValue: the radio's name for the device.
    public init(_ rawValue: String) { self.rawValue = rawValue }
    /// The same as `rawValue`.
    public var description: String { rawValue }
}

/// The advertised state of one device. Parts may arrive in several packets; each replaces its own part, so that an
/// accessory matches as soon as its parts together do.
public struct Advertisement: Hashable, Sendable {
    /// The radio's object for it.
    public var device: RadioDeviceID
    /// The address that it uses now, which may be a private one; the identity address once it is bonded.
    public var address: BluetoothAddress
    /// The adapter that has that object; nil when it is not known.
    public var adapter: BluetoothAddress?
    /// The Local Name that it advertises, not an alias that was set here; nil when it advertises none.
    public var localName: String?
    /// All services of its lists of services, complete or not, in the 128-bit form.
    public var serviceUUIDs: Set<BluetoothUUID> = []
    /// Payloads by service, without the UUID that they begin with on the air.
    public var serviceData: [BluetoothUUID: [UInt8]] = [:]
    /// Payloads by company, without the two bytes of the company identifier.
    public var manufacturerData: [CompanyIdentifier: [UInt8]] = [:]
    /// dBm; nil when the radio does not say (BlueZ: absent or 127).
    public var rssi: Int?
    /// dBm, as advertised.
    public var txPower: Int?
    /// Bonded with this machine.
    public var isPaired = false
    /// Connected with this machine: in range without advertising.
    public var isConnected = false

    /// Nothing heard yet but who it is.
    public init(device: RadioDeviceID, address: BluetoothAddress, adapter: BluetoothAddress? = nil) {
        self.device = device
        self.address = address
        self.adapter = adapter
    }

    /// Whether two devices say the same of themselves: name, services and data.
    public func saysTheSame(as other: Advertisement) -> Bool {
        localName == other.localName && serviceUUIDs == other.serviceUUIDs && serviceData == other.serviceData
            && manufacturerData == other.manufacturerData
    }

    /// Whether there is no name, service or data.
    public var saysNothing: Bool { localName == nil && serviceUUIDs.isEmpty && serviceData.isEmpty && manufacturerData.isEmpty }
}

/// An accessory as the radios know it: its advert, its network, or both.
public struct AccessoryCandidate: Hashable, Sendable {
    /// Its advert; nil when Bluetooth did not find it.
    public var advertisement: Advertisement?
    /// Its Wi-Fi network; nil when none is in range, or none is looked for.
    public var network: WiFiNetwork?
    /// The descriptor of a kind of devices, which has neither; nil for a single accessory.
    public var kind: DiscoveryDescriptor?

    /// Stores its arguments.
    public init(advertisement: Advertisement? = nil, network: WiFiNetwork? = nil, kind: DiscoveryDescriptor? = nil) {
        self.advertisement = advertisement
        self.network = network
        self.kind = kind
    }
}

/// A match for an app that filters for itself (`ASDiscoveredAccessory`).
public struct DiscoveredAccessory: Hashable, Sendable {
    /// Valid for `UpdatePicker` within the run; the accessory's own once it is set up.
    public let identifier: AccessoryID
    /// The first item that it matches.
    public let item: DisplayItem
    /// Its advert; nil for one with Wi-Fi only.
    public let advertisement: Advertisement?
    /// Its network, where one is in range.
    public let network: WiFiNetwork?
    /// Smoothed, dBm; nil when unknown.
    public let rssi: Int?

    /// Stores its arguments.
    public init(
        identifier: AccessoryID, item: DisplayItem, advertisement: Advertisement?, network: WiFiNetwork? = nil, rssi: Int?
    ) {
        self.identifier = identifier
        self.item = item
        self.advertisement = advertisement
        self.network = network
        self.rssi = rssi
    }
}
