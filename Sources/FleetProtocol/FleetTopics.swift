// SPDX-License-Identifier: Apache-2.0
// The topics of a fleet (Docs/Fleet.md): each gateway has its own below `as/1/FLEET/GATEWAY/`.

/// The topics of one gateway.
public struct FleetTopics: Hashable, Sendable {
    /// The fleet's name.
    public let fleet: String
    /// The gateway's name, unique in the fleet, and the common name of its certificate.
    public let gateway: String
    /// All topics of the gateway begin so.
    public let root: String

    /// - Returns: nil for names that a topic, or a certificate's common name, cannot have.
    public init?(fleet: String, gateway: String) {
        guard Self.isName(fleet), Self.isName(gateway), gateway != Self.operators else { return nil }
        self.fleet = fleet
        self.gateway = gateway
        root = Self.prefix(of: fleet) + "\(gateway)/"
    }

    /// The first levels of the topics of all gateways.
    public static func prefix(of fleet: String) -> String { "as/1/\(fleet)/" }

    /// Whether a fleet or a gateway may have this name: 1 to 63 lower-case letters, digits and hyphens, of which the
    /// first is no hyphen.
    public static func isName(_ text: String) -> Bool {
        let bytes = text.utf8
        return (1...63).contains(bytes.count) && bytes.first != UInt8(ascii: "-")
            && bytes.allSatisfy {
                (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) || (0x30...0x39).contains($0) || $0 == UInt8(ascii: "-")
            }
    }

    /// The operators' own level, which no gateway may have as its name.
    public static let operators = "operators"

    /// The rule in words, for errors.
    public static let nameRule = "must be 1 to 63 lower-case letters, digits and hyphens, not beginning with a hyphen"

    /// The topic with this end.
    public func topic(_ end: String) -> String { root + end }

    /// The end of one of the gateway's topics; nil for another topic.
    public func end(of topic: String) -> String? {
        topic.hasPrefix(root) ? String(topic.dropFirst(root.count)) : nil
    }

    /// The gateway of a topic of the fleet, and the topic's end; nil for another topic.
    public static func parse(_ topic: String, fleet: String) -> (gateway: String, end: String)? {
        let prefix = prefix(of: fleet)
        guard topic.hasPrefix(prefix), let slash = topic.dropFirst(prefix.count).firstIndex(of: "/") else { return nil }
        let gateway = String(topic[topic.index(topic.startIndex, offsetBy: prefix.count)..<slash])
        return isName(gateway) ? (gateway, String(topic[topic.index(after: slash)...])) : nil
    }

    /// State of the connection, retained; also the will.
    public static let status = "status"
    /// Lines of the audit trail.
    public static let audit = "audit"
    /// The last line that the operator's collector has, retained.
    public static let auditSeen = "audit-seen"
    /// Where answers go: an operator's program may name any topic below it.
    public static let answer = "answer/"
    /// Retained descriptions of the gateway's state, one object each.
    public static let reported = "reported/"
    /// A message that the agent sends to itself, after which it has received all that the broker retains.
    public static let marker = "reported-marker"
    /// Signed documents, retained.
    public static let desired = "desired/"
    /// Signed commands.
    public static let command = "cmd/"
    /// Passkeys of pickers, encrypted, never retained.
    public static let secret = "secret/"
}

/// An error in a message, a document or a command, for people: with key and value.
public struct FleetProblem: Error, Hashable, Sendable, CustomStringConvertible {
    public let description: String

    /// - Parameter description: names key and value.
    public init(_ description: String) { self.description = description }
}
