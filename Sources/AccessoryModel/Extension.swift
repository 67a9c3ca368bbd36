// SPDX-License-Identifier: Apache-2.0
// The vocabulary of discovery extensions: programs of apps that find accessories by means of their own
// (DeviceDiscoveryExtension).

/// A place in the network. The daemon passes it on, and connects to nothing.
public struct NetworkEndpoint: Hashable, Sendable, CustomStringConvertible {
    /// A name or an address: 1 to 255 letters, digits and `.-_:%` of ASCII, so that no other name looks like it.
    public let host: String
    /// Never 0.
    public let port: UInt16

    /// Nil for another host, and for port 0.
    public init?(host: String, port: UInt16) {
        let allowed = host.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"),
                UInt8(ascii: ":"), UInt8(ascii: "%"):
                true
            default: false
            }
        }
        guard allowed, (1...255).contains(host.utf8.count), port != 0 else { return nil }
        self.host = host
        self.port = port
    }

    /// As in a URL: `printer.local:631`, `[fe80::1%eth0]:631`.
    public var description: String { host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]:\(port)" : "\(host):\(port)" }
}

/// How an app's extension knows an accessory.
public struct ReportedIdentity: Hashable, Sendable {
    /// The extension's own identifier, the same each time: 1 to `Limits.nameBytes` bytes.
    public let identifier: String
    /// Nil for one that is reached by radio alone.
    public var endpoint: NetworkEndpoint?

    /// Nil for another length, and for a NUL.
    public init?(identifier: String, endpoint: NetworkEndpoint?) {
        guard (1...Limits.nameBytes).contains(identifier.utf8.count), !identifier.utf8.contains(0) else { return nil }
        self.identifier = identifier
        self.endpoint = endpoint
    }
}

/// An accessory that an app's extension has found: at least one of endpoint, Bluetooth side and network is there.
public struct ReportedItem: Hashable, Sendable {
    /// How the extension knows it.
    public var identity: ReportedIdentity
    /// Cleaned as text from the air is (`ShownName.marked`).
    public var name: String
    /// Shown beside the name; nil for none.
    public var image: ProductImage?
    /// Its Bluetooth side, which is offered only while the radio hears it; nil for none.
    public var peripheral: Migration.Peripheral?
    /// Its network, as for the Bluetooth side; nil for none.
    public var ssid: SSID?
    /// The sides of Bluetooth to pair.
    public var supportedOptions: SupportOptions = []

    /// An accessory without radio.
    public init(_ identity: ReportedIdentity, name: String) {
        self.identity = identity
        self.name = name
    }

    /// The item by which it is set up.
    ///
    /// - Parameter heard: the declared traits that its Bluetooth side shows; nil without one.
    public func displayItem(_ heard: DiscoveryDescriptor?) -> DisplayItem {
        var descriptor = heard ?? DiscoveryDescriptor()
        if heard != nil { descriptor.supportedOptions = supportedOptions }
        descriptor.ssid = ssid?.bytes
        return DisplayItem(name: name, image: image, descriptor: descriptor)
    }
}
