// SPDX-License-Identifier: Apache-2.0
// A document with the operator's signature: a JSON Web Signature in compact form, whose only algorithm is Ed25519. The
// signature covers the bytes as they are sent, so that nothing has to be written in a canonical way. (RFC 7515, RFC
// 8037)

public import JSONText

/// The kinds of signed documents: one is never valid as another.
public enum DocumentType: String, Hashable, Sendable, CaseIterable {
    case policy = "as1-policy"
    case manifests = "as1-manifests"
    case command = "as1-command"
}

/// Signs and verifies.
public enum SignedDocument {
    /// A verified document.
    public struct Opened: Hashable, Sendable {
        public let content: [UInt8]
        public let signer: PublicKey
    }

    /// In bytes, of the whole text.
    public static let maxSize = 512 << 10

    /// The signed text of a JSON value.
    public static func sign(_ content: JSON, as type: DocumentType, with key: PrivateKey) -> [UInt8] {
        let header: JSON = ["alg": "EdDSA", "kid": JSON(key.publicKey.id), "typ": JSON(type.rawValue)]
        let signed = [header, content].map { Base64.encode(Array($0.writtenInOneLine.utf8), Base64.url) }.joined(separator: ".")
        return Array((signed + "." + Base64.encode(key.signature(of: Array(signed.utf8)), Base64.url)).utf8)
    }

    /// The content and its signer, after the signature was verified. Nothing of the content is read before.
    ///
    /// - Throws: for a text that none of the keys has signed as a document of this type.
    public static func open(_ text: [UInt8], as type: DocumentType, keys: [PublicKey]) throws(FleetProblem) -> Opened {
        guard text.count <= maxSize else { throw FleetProblem("the document has \(text.count) bytes: more than \(maxSize)") }
        let parts = text.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, let signature = Base64.decode(String(decoding: parts[2], as: UTF8.self), Base64.url) else {
            throw FleetProblem("not a signed document")
        }
        let signed = Array(text[..<parts[2].startIndex].dropLast())
        guard let signer = keys.first(where: { $0.verifies(signature, of: signed) }) else {
            throw FleetProblem("the signature is not the operator's")
        }
        guard let header = Base64.decode(String(decoding: parts[0], as: UTF8.self), Base64.url),
            let values = try? JSON(parsing: header), values["alg"] == "EdDSA", values["crit"] == nil
        else { throw FleetProblem("alg: must be EdDSA") }
        guard values["typ"] == JSON(type.rawValue) else {
            throw FleetProblem("typ: \(values["typ"]?.string ?? "missing"): must be \(type.rawValue)")
        }
        guard let content = Base64.decode(String(decoding: parts[1], as: UTF8.self), Base64.url) else {
            throw FleetProblem("the content is not base64url")
        }
        return Opened(content: content, signer: signer)
    }
}

/// Reads the members of a signed content, each with its place in errors.
struct Claims {
    private let members: [String: JSON]

    init(_ content: [UInt8], allowed: Set<String>) throws(FleetProblem) {
        let value: JSON
        do throws(JSON.Mistake) {
            value = try JSON(parsing: content)
        } catch {
            throw FleetProblem("not JSON: \(error)")
        }
        try self.init(value, allowed: allowed)
    }

    init(_ value: JSON, allowed: Set<String>) throws(FleetProblem) {
        guard let members = value.members else { throw FleetProblem("not an object") }
        if let unknown = members.keys.sorted().first(where: { !allowed.contains($0) }) {
            throw FleetProblem("\(unknown): unknown key")
        }
        self.members = members
    }

    func has(_ key: String) -> Bool { members[key] != nil }

    func integer(_ key: String, _ range: ClosedRange<Int>) throws(FleetProblem) -> Int {
        guard let number = try required(key).int else { throw FleetProblem("\(key): not an integer") }
        guard range.contains(number) else {
            throw FleetProblem("\(key): \(number): must be \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    func text(_ key: String, atMost limit: Int = 256) throws(FleetProblem) -> String {
        guard let text = try required(key).string else { throw FleetProblem("\(key): not a text") }
        guard (1...limit).contains(text.utf8.count) else {
            throw FleetProblem("\(key): must have 1 to \(limit) bytes, not \(text.utf8.count)")
        }
        return text
    }

    func truth(_ key: String) throws(FleetProblem) -> Bool {
        guard let truth = try required(key).bool else { throw FleetProblem("\(key): must be true or false") }
        return truth
    }

    func optional(_ key: String, atMost limit: Int = 256) throws(FleetProblem) -> String? {
        has(key) ? try text(key, atMost: limit) : nil
    }

    func required(_ key: String) throws(FleetProblem) -> JSON {
        guard let value = members[key] else { throw FleetProblem("\(key): is missing") }
        return value
    }
}

/// The seconds since 1970 that a document may name.
let times = 0...(1 << 52)
