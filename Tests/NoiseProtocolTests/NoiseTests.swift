// SPDX-License-Identifier: Apache-2.0
// The server's side of the handshake against vectors of another implementation and against the published ones
// (vectors.json, of make-vectors), and everything that a stranger may send in the place of a handshake or a message.

import CSodium
import Foundation
@testable import NoiseProtocol
import Testing

/// A handshake and the messages after it, as the other implementation has them.
struct Vector: Decodable, CustomTestStringConvertible, Sendable {
    struct Message: Decodable, Sendable {
        let payload: String
        let message: String
    }

    let comment: String
    let prologue: String
    let psk: String
    let initiator: String
    let responder: String
    let messages: [Message]

    var testDescription: String { comment }

    static let all: [Vector] = {
        let path = #filePath.replacing("NoiseTests.swift", with: "vectors.json")
        do {
            return try JSONDecoder().decode([Vector].self, from: Data(contentsOf: URL(fileURLWithPath: path)))
        } catch {
            Issue.record("\(path): \(error)")
            return []
        }
    }()

    /// Those with an empty payload in the handshake, as clients of the native API have it.
    static var ofTheAPI: [Vector] { all.filter { $0.messages[0].payload.isEmpty } }

    func key() throws -> PreSharedKey { try #require(PreSharedKey(base64: Data(hex(psk)).base64EncodedString())) }

    func outcome() throws -> Responder.Outcome {
        try #require(
            Responder.answer(hex(messages[0].message), key: try key(), prologue: hex(prologue), ephemeral: hex(responder)))
    }
}

private func hex(_ text: String) -> [UInt8] {
    let digits = text.compactMap(\.hexDigitValue)
    return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
}

@Suite struct HandshakeTests {
    @Test func thereAreVectors() {
        #expect(Vector.all.count == 4 && Vector.ofTheAPI.count == 3)
    }

    @Test(arguments: Vector.ofTheAPI) func theAnswerIsTheOtherImplementations(_ vector: Vector) throws {
        let outcome = try vector.outcome()
        #expect(outcome.answer == hex(vector.messages[1].message))
        var (receiving, sending) = (outcome.receiving, outcome.sending)
        for (index, message) in vector.messages.enumerated().dropFirst(2) {
            if index.isMultiple(of: 2) {
                #expect(receiving.decrypt(hex(message.message)) == hex(message.payload))
            } else {
                #expect(sending.encrypt(hex(message.payload)) == hex(message.message))
            }
        }
    }

    /// The published handshake has payloads, which no client of the native API sends: it is played with the parts.
    @Test(arguments: Vector.all) func theStateIsTheOtherImplementations(_ vector: Vector) throws {
        var state = SymmetricState(protocolName: "Noise_NNpsk0_25519_ChaChaPoly_SHA256")
        let first = hex(vector.messages[0].message)
        let theirs = Array(first[..<32])
        state.mixHash(hex(vector.prologue))
        state.mixKeyAndHash(hex(vector.psk))
        state.mixHash(theirs)
        state.mixKey(theirs)
        #expect(state.decryptAndHash(Array(first[32...])) == hex(vector.messages[0].payload))
        var ours = [UInt8](repeating: 0, count: 32)
        var shared = ours
        try #require(crypto_scalarmult_base(&ours, hex(vector.responder)) == 0)
        try #require(crypto_scalarmult(&shared, hex(vector.responder), theirs) == 0)
        state.mixHash(ours)
        state.mixKey(ours)
        state.mixKey(shared)
        #expect(ours + state.encryptAndHash(hex(vector.messages[1].payload)) == hex(vector.messages[1].message))
        var (client, server) = state.split()
        for (index, message) in vector.messages.enumerated().dropFirst(2) {
            let sent = index.isMultiple(of: 2) ? client.encrypt(hex(message.payload)) : server.encrypt(hex(message.payload))
            #expect(sent == hex(message.message))
        }
    }

    @Test func anotherKeyOrPrologueIsNotAnswered() throws {
        let vector = try #require(Vector.ofTheAPI.first)
        let (message, key, prologue) = (hex(vector.messages[0].message), try vector.key(), hex(vector.prologue))
        #expect(Responder.answer(message, key: key, prologue: prologue) != nil)
        #expect(Responder.answer(message, key: .random(), prologue: prologue) == nil)
        for other in [[], prologue + [0], Array(prologue.dropLast()), Array("NoiseAPIInit".utf8) + [0, 1]] {
            #expect(Responder.answer(message, key: key, prologue: other) == nil)
        }
        // One bit of the key.
        for bit in 0..<256 {
            var bytes = hex(vector.psk)
            bytes[bit / 8] ^= 1 << UInt8(bit % 8)
            let key = try #require(PreSharedKey(base64: Data(bytes).base64EncodedString()))
            #expect(Responder.answer(message, key: key, prologue: prologue) == nil)
        }
    }

    @Test func aChangedOrTruncatedMessageIsNotAnswered() throws {
        let vector = try #require(Vector.ofTheAPI.first)
        let (message, key, prologue) = (hex(vector.messages[0].message), try vector.key(), hex(vector.prologue))
        for count in 0..<message.count {
            #expect(Responder.answer(Array(message[..<count]), key: key, prologue: prologue) == nil)
        }
        #expect(Responder.answer(message + [0], key: key, prologue: prologue) == nil)
        for bit in 0..<message.count * 8 {
            var changed = message
            changed[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(Responder.answer(changed, key: key, prologue: prologue) == nil, "bit \(bit)")
        }
    }

    /// Points of small order give one secret with every key of ours. A client that has the key sends a valid tag with
    /// them, so that only the secret is wrong. (RFC 7748, 6.1)
    @Test(arguments: [
        String(repeating: "00", count: 32), "01" + String(repeating: "00", count: 31),
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        // The same with the bit that is not looked at.
        String(repeating: "00", count: 31) + "80", "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    ])
    func aKeyOfSmallOrderIsNotAnswered(_ point: String) throws {
        let key = PreSharedKey.random()
        let prologue = Array("NoiseAPIInit\0\0".utf8)
        #expect(Responder.answer(firstMessage(hex(point), key, prologue), key: key, prologue: prologue) == nil)
        // The same bytes around a good point are answered.
        let good = firstMessage(try publicKey(of: [UInt8](repeating: 7, count: 32)), key, prologue)
        #expect(Responder.answer(good, key: key, prologue: prologue) != nil)
    }

    private func publicKey(of secret: [UInt8]) throws -> [UInt8] {
        var point = [UInt8](repeating: 0, count: 32)
        try #require(crypto_scalarmult_base(&point, secret) == 0)
        return point
    }

    /// The message of a client that has the key.
    private func firstMessage(_ point: [UInt8], _ key: PreSharedKey, _ prologue: [UInt8]) -> [UInt8] {
        var state = SymmetricState(protocolName: "Noise_NNpsk0_25519_ChaChaPoly_SHA256")
        state.mixHash(prologue)
        state.mixKeyAndHash(key.bytes)
        state.mixHash(point)
        state.mixKey(point)
        return point + state.encryptAndHash([])
    }

    @Test func eachAnswerHasAKeyOfItsOwn() throws {
        let vector = try #require(Vector.ofTheAPI.first)
        let answers = try (0..<8).map { _ in
            try #require(Responder.answer(hex(vector.messages[0].message), key: vector.key(), prologue: hex(vector.prologue)))
                .answer
        }
        #expect(Set(answers).count == 8 && answers.allSatisfy { $0.count == Responder.messageBytes })
    }
}

@Suite struct CipherTests {
    private let vector: Vector

    init() throws { vector = try #require(Vector.ofTheAPI.first { $0.messages.count == 6 }) }

    private var messages: [[UInt8]] { [2, 4].map { hex(vector.messages[$0].message) } }
    private var payloads: [[UInt8]] { [2, 4].map { hex(vector.messages[$0].payload) } }

    @Test func messagesComeOnceAndInOrder() throws {
        var receiving = try vector.outcome().receiving
        #expect(receiving.decrypt(messages[1]) == nil, "before its time")
        #expect(receiving.decrypt(messages[0]) == payloads[0], "a refused message counts for nothing")
        #expect(receiving.decrypt(messages[0]) == nil, "replayed")
        #expect(receiving.decrypt(messages[1]) == payloads[1])
        #expect(receiving.decrypt(messages[1]) == nil)
    }

    @Test func aChangedMessageIsRefused() throws {
        var receiving = try vector.outcome().receiving
        for count in 0..<messages[0].count { #expect(receiving.decrypt(Array(messages[0][..<count])) == nil) }
        for bit in 0..<messages[0].count * 8 {
            var changed = messages[0]
            changed[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(receiving.decrypt(changed) == nil)
        }
        #expect(receiving.decrypt(messages[0], authenticating: [0]) == nil)
        #expect(receiving.decrypt(messages[0]) == payloads[0])
    }

    @Test func theDirectionsHaveKeysOfTheirOwn() throws {
        let outcome = try vector.outcome()
        var (receiving, sending) = (outcome.receiving, outcome.sending)
        #expect(receiving.decrypt(sending.encrypt([1, 2, 3])) == nil)
    }

    @Test func anEmptyMessageIsItsTag() throws {
        var sending = try vector.outcome().sending
        var other = try vector.outcome().sending
        let message = sending.encrypt([])
        #expect(message.count == CipherState.overhead && other.decrypt(message) == [])
    }

    /// The count is least significant byte first: beyond 255 messages a second byte counts.
    @Test func aThousandMessages() throws {
        var (sending, receiving) = (try vector.outcome().sending, try vector.outcome().sending)
        var seen: Set<[UInt8]> = []
        for number in 0..<1000 {
            let message = sending.encrypt([1, 2, 3, 4])
            #expect(seen.insert(message).inserted, "message \(number) is encrypted as an earlier one")
            #expect(receiving.decrypt(message) == [1, 2, 3, 4])
        }
    }
}

@Suite struct PreSharedKeyTests {
    private static let text = "VGhpcyBpcyBteSBBdXN0cmlhbiBwZXJzcGVjdGl2ZSE="

    @Test func aKeyInBase64() throws {
        let key = try #require(PreSharedKey(base64: Self.text))
        #expect(key.bytes == Array("This is my Austrian perspective!".utf8) && key.base64 == Self.text)
        #expect(PreSharedKey(base64: Self.text.dropFirst(0)) == key, "also from a part of a text")
        for _ in 0..<100 {
            let random = PreSharedKey.random()
            #expect(random.base64.utf8.count == 44 && PreSharedKey(base64: random.base64) == random && random != key)
            #expect(random.base64 == Data(random.bytes).base64EncodedString())
        }
    }

    /// Of other lengths; with padding that is missing, too long or elsewhere; with bits after the last byte, white
    /// space, more than the key, and letters of another alphabet or of none.
    private static let others: [String] = {
        var all = [
            "", "=", "AA==", text + "=", text + "==", " " + text, text + " ", text + "\n", "\n" + text, text + "\0", text + text,
        ]
        all += [40, 44, 48, 4096].map { String(repeating: "A", count: $0) }
        all.append(String(repeating: "A", count: 42) + "==")
        all += [String(text.dropLast()), "=" + text.dropLast(), String(repeating: "=", count: 44)]
        all += [text.dropLast(2) + "F=", text.dropLast(2) + "-="]
        all.append("\(text.prefix(20)) \(text.dropFirst(20))")
        all += ["_", "\0", "*"].map { $0 + text.dropFirst() }
        all.append("é" + text.dropFirst(2))
        return all
    }()

    @Test(arguments: others)
    func anotherTextIsNoKey(_ text: String) {
        #expect(PreSharedKey(base64: text) == nil)
    }

    @Test func theFingerprintIsOfSHA256() throws {
        // printf '%s' 'This is my Austrian perspective!' | sha256sum
        #expect(try #require(PreSharedKey(base64: Self.text)).fingerprint == "09857100")
        #expect(PreSharedKey.random().fingerprint != PreSharedKey.random().fingerprint)
        #expect(Digest.sha256(Array("abc".utf8)) == hex("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"))
    }
}
