// SPDX-License-Identifier: Apache-2.0
// The running hash and key of a handshake. (Noise Protocol Framework, revision 34, 5.2; HKDF with HMAC-SHA256, 4.3)

internal import CSodium

/// The state of a handshake, whose keys depend on everything that was sent.
struct SymmetricState {
    private var hash: [UInt8]
    private var chainingKey: [UInt8]
    private var cipher: CipherState?

    init(protocolName: String) {
        let name = Array(protocolName.utf8)
        hash = name.count <= 32 ? name + [UInt8](repeating: 0, count: 32 - name.count) : Self.sha256(name)
        chainingKey = hash
    }

    mutating func mixHash(_ bytes: [UInt8]) { hash = Self.sha256(hash + bytes) }

    mutating func mixKey(_ input: [UInt8]) {
        let outputs = expand(input, 2)
        chainingKey = outputs[0]
        cipher = CipherState(key: outputs[1])
    }

    mutating func mixKeyAndHash(_ input: [UInt8]) {
        let outputs = expand(input, 3)
        chainingKey = outputs[0]
        mixHash(outputs[1])
        cipher = CipherState(key: outputs[2])
    }

    /// - Returns: nil for a message that was not encrypted with these keys.
    mutating func decryptAndHash(_ message: [UInt8]) -> [UInt8]? {
        guard let text = cipher?.decrypt(message, authenticating: hash) else { return nil }
        mixHash(message)
        return text
    }

    mutating func encryptAndHash(_ text: [UInt8]) -> [UInt8] {
        guard let message = cipher?.encrypt(text, authenticating: hash) else { return text }
        mixHash(message)
        return message
    }

    /// The keys of the connection: the initiator's direction first.
    func split() -> (CipherState, CipherState) {
        let outputs = expand([], 2)
        return (CipherState(key: outputs[0]), CipherState(key: outputs[1]))
    }

    private func expand(_ input: [UInt8], _ count: UInt8) -> [[UInt8]] {
        let temporary = Self.hmac(chainingKey, input)
        var outputs: [[UInt8]] = []
        for index in 1...count { outputs.append(Self.hmac(temporary, (outputs.last ?? []) + [index])) }
        return outputs
    }

    private static func hmac(_ key: [UInt8], _ bytes: [UInt8]) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: 32)
        crypto_auth_hmacsha256(&output, bytes, UInt64(bytes.count), key)
        return output
    }

    static func sha256(_ bytes: [UInt8]) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: 32)
        crypto_hash_sha256(&output, bytes, UInt64(bytes.count))
        return output
    }
}
