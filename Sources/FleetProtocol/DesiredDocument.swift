// SPDX-License-Identifier: Apache-2.0
// The files that a gateway should have: policy or manifests, all of a kind in one document, with a version that only
// grows.

internal import JSONText

/// A set of files for some gateways.
public struct DesiredDocument: Hashable, Sendable {
    /// The files' kind, which is also the last level of the topic.
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// Files of policy.d (Docs/Policy.md).
        case policy
        /// Manifests of apps (Docs/Manifest.md).
        case manifests

        /// The type of the signed document.
        public var type: DocumentType { self == .policy ? .policy : .manifests }
    }

    public let kind: Kind
    public let fleet: String
    /// Grows with each document of the kind; a gateway refuses one that is not newer.
    public let version: Int
    /// Seconds since 1970, within which a gateway may begin to use the document. It then stays in force.
    public let validity: Range<Int>
    public let gateways: GatewaySelector
    /// The contents by the files' names.
    public let files: [String: String]
    /// SHA-256 of the signed content, in hexadecimal digits.
    public let hash: String

    private static let maxFiles = 64

    /// Reads a document.
    ///
    /// - Parameters:
    ///   - text: with signature.
    ///   - keys: of the operators.
    /// - Throws: for a document that is not signed, or is not valid at any time on any gateway.
    public init(_ text: [UInt8], kind: Kind, keys: [PublicKey]) throws(FleetProblem) {
        let content = try SignedDocument.open(text, as: kind.type, keys: keys).content
        let claims = try Claims(content, allowed: ["fleet", "version", "iat", "nbf", "exp", "gateways", "files"])
        self.kind = kind
        fleet = try claims.text("fleet")
        version = try claims.integer("version", 1...(1 << 52))
        let begin = try claims.integer("nbf", times)
        let end = try claims.integer("exp", times)
        guard begin < end else { throw FleetProblem("exp: \(end): must be after nbf") }
        validity = begin..<end
        gateways = try GatewaySelector(claims.required("gateways"))
        guard let files = try claims.required("files").members else { throw FleetProblem("files: not an object") }
        guard files.count <= Self.maxFiles else { throw FleetProblem("files: \(files.count): at most \(Self.maxFiles)") }
        var contents: [String: String] = [:]
        for (name, value) in files {
            guard Self.isFileName(name) else { throw FleetProblem("files: \(name): \(Self.fileRule)") }
            guard let text = value.string else { throw FleetProblem("files: \(name): not a text") }
            contents[name] = text
        }
        self.files = contents
        hash = Digest.text(content)
    }

    /// Whether a file of a document may have this name.
    public static func isFileName(_ name: String) -> Bool {
        (6...128).contains(name.utf8.count) && name.hasSuffix(".conf") && name.first != "." && name.first != "-"
            && name.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), 0x30...0x39, UInt8(ascii: "."),
                    UInt8(ascii: "-"), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }

    /// The rule in words, for errors.
    public static let fileRule = "must be letters, digits, “.”, “-” and “_”, and end in .conf"

    /// The signed text of a document.
    ///
    /// - Throws: for a document that a gateway would refuse.
    public static func sign(
        _ kind: Kind, fleet: String, version: Int, validity: Range<Int>, gateways: GatewaySelector, files: [String: String],
        with key: PrivateKey
    ) throws(FleetProblem) -> [UInt8] {
        let content: JSON = [
            "fleet": JSON(fleet), "version": JSON(version), "nbf": JSON(validity.lowerBound), "exp": JSON(validity.upperBound),
            "gateways": JSON(gateways.elements), "files": .object(files.mapValues { JSON($0) }),
        ]
        let text = SignedDocument.sign(content, as: kind.type, with: key)
        _ = try Self(text, kind: kind, keys: [key.publicKey])
        return text
    }
}
