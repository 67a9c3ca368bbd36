// SPDX-License-Identifier: Apache-2.0
// The values of a connection to an MQTT broker: messages, settings, and events.

/// A message of MQTT 5, at least once unless `qos` says otherwise. (MQTT 5.0, 3.3)
public struct MQTTMessage: Hashable, Sendable {
    public var topic: String
    public var payload: [UInt8]
    /// 0 or 1.
    public var qos: Int32 = 1
    /// The broker keeps it for later subscribers; a received one was kept.
    public var isRetained = false
    /// Seconds after which the broker drops it; nil for never. (3.3.2.3.3)
    public var expiry: UInt32?
    /// Where the receiver should answer. (3.3.2.3.5)
    public var responseTopic: String?
    /// Bytes that the answer must repeat. (3.3.2.3.6)
    public var correlation: [UInt8]?

    /// - Parameters:
    ///   - topic: without wildcards.
    ///   - isRetained: whether the broker keeps it for later subscribers.
    public init(_ topic: String, _ payload: [UInt8], isRetained: Bool = false) {
        self.topic = topic
        self.payload = payload
        self.isRetained = isRetained
    }
}

/// A broker, and how to connect to it.
public struct MQTTSettings: Sendable {
    /// Files for mutual TLS.
    public struct TLS: Hashable, Sendable {
        /// The authorities that the broker's certificate must come from.
        public var authority: String
        public var certificate: String
        public var key: String

        /// PEM files.
        public init(authority: String, certificate: String, key: String) {
            self.authority = authority
            self.certificate = certificate
            self.key = key
        }
    }

    public var host: String
    public var port: UInt16
    /// Nil for a connection without encryption.
    public var tls: TLS?
    /// The broker ends an earlier connection of the same name.
    public var clientID: String
    /// The message that the broker publishes when the connection is lost.
    public var will: MQTTMessage?
    /// Seconds for which the broker keeps messages for a client that is away.
    public var sessionExpiry: UInt32 = 0
    /// Seconds between messages of a connection that is alive, 5 or more.
    public var keepAlive = 60

    public init(host: String, port: UInt16, clientID: String, tls: TLS? = nil) {
        self.host = host
        self.port = port
        self.clientID = clientID
        self.tls = tls
    }
}

/// The messages that a subscription asks for.
public enum MQTTSubscription: Sendable {
    /// Those that the broker retains, and all others.
    case everything
    /// Those of other clients, from now on.
    case newFromOthers
}

/// A report of a connection. Each connection reports `connected` at most once, and then, or instead, `ended`.
public enum MQTTEvent: Sendable {
    case connected
    /// The broker's answer to the message that was sent with this number.
    case acknowledged(Int32, isAccepted: Bool)
    /// The broker has answered a subscription.
    case subscribed(isGranted: Bool)
    case received(MQTTMessage)
    /// Two fifths of the keep-alive's time have passed, at which the connection wakes up anyway.
    case alive
    /// The connection is over, or could not be made, for this reason.
    case ended(String)
}
