// SPDX-License-Identifier: Apache-2.0
// The types of Apple's Network and UniformTypeIdentifiers that DeviceDiscoveryExtension's interface mentions.

/// A place in the network.
///
/// Source: Apple's documentation of `NWEndpoint`.
public enum NWEndpoint: Hashable, Sendable {
    /// A host and a port.
    case hostPort(host: Host, port: Port)
    /// A service of mDNS. Without effect on Linux: resolve it, and report host and port.
    case service(name: String, type: String, domain: String)

    /// A name or an address.
    public struct Host: Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
        let text: String
        /// A name, such as `printer.local`, or an address.
        public init(_ text: String) { self.text = text }
        /// The same from a literal.
        public init(stringLiteral text: String) { self.text = text }
        /// The name or the address.
        public var description: String { text }
    }

    /// A port.
    public struct Port: Hashable, Sendable, RawRepresentable, ExpressibleByIntegerLiteral {
        /// The number.
        public let rawValue: UInt16
        /// Nil for 0.
        public init?(rawValue: UInt16) {
            guard rawValue != 0 else { return nil }
            self.rawValue = rawValue
        }
        /// The number as a literal.
        public init(integerLiteral rawValue: UInt16) { self.rawValue = rawValue }
    }
}

/// The identifier of a type of data, or of a protocol.
///
/// Source: Apple's documentation of `UTType`.
public struct UTType: Hashable, Sendable {
    /// Such as `com.example.protocol`.
    public let identifier: String
    /// Nil for an empty identifier; Linux has no list of types.
    public init?(_ identifier: String) {
        guard !identifier.isEmpty else { return nil }
        self.identifier = identifier
    }
}
