// SPDX-License-Identifier: Apache-2.0
// The address of a broker, as in settings.

/// The address of a broker: `mqtts://HOST[:PORT]`, or `mqtt://` for one on this machine.
public struct BrokerAddress: Hashable, Sendable {
    public let host: String
    public let port: UInt16
    /// Whether the connection is encrypted.
    public let isEncrypted: Bool

    /// Why a text is no address of a broker.
    public struct Mistake: Error, Hashable, Sendable, CustomStringConvertible {
        public let description: String

        /// - Parameter description: for people.
        public init(_ description: String) { self.description = description }
    }

    /// - Throws: for another address. Without encryption every hop on the way can read everything, and only this
    ///   machine is no way.
    public init(_ text: String) throws(Mistake) {
        let schemes = ["mqtts://": true, "mqtt://": false]
        guard let (scheme, isEncrypted) = schemes.first(where: { text.hasPrefix($0.key) }) else {
            throw Mistake("must be mqtts://HOST or mqtts://HOST:PORT")
        }
        self.isEncrypted = isEncrypted
        var rest = text.dropFirst(scheme.count)
        var port = isEncrypted ? UInt16(8883) : 1883
        // An address of IPv6 is in brackets.
        if let colon = rest.lastIndex(of: ":"), rest.last != "]" {
            guard let number = UInt16(rest[rest.index(after: colon)...]), number > 0 else {
                throw Mistake("the port must be 1 to 65535")
            }
            port = number
            rest = rest[..<colon]
        }
        if rest.first == "[", rest.last == "]" { rest = rest.dropFirst().dropLast() }
        guard !rest.isEmpty, !rest.contains("/"), !rest.contains("@") else { throw Mistake("the host is missing") }
        host = String(rest)
        self.port = port
        guard isEncrypted || host == "localhost" || host == "::1" || host.hasPrefix("127.") else {
            throw Mistake("mqtt:// is for a broker on this machine; use mqtts://")
        }
    }

    /// - Parameters:
    ///   - clientID: the name of the connection.
    ///   - tls: the files; not used for a broker on this machine.
    public func settings(clientID: String, tls: MQTTSettings.TLS?) -> MQTTSettings {
        MQTTSettings(host: host, port: port, clientID: clientID, tls: isEncrypted ? tls : nil)
    }
}
