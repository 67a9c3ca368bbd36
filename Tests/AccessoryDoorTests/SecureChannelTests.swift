// SPDX-License-Identifier: Apache-2.0
// A stranger's bytes until they are messages: a client of another implementation, clients without the key, without
// encryption and without sense, and those who replay the bytes of others.

@testable import AccessoryDoor
import ESPHomeAPI
import NoiseProtocol
import TestSupport
import Testing

/// A client at a channel.
private struct Played {
    static let hello: [UInt8] = [1, 0, 0]
    static let words: [UInt8] = FrameReader.frame([1] + Array("gateway".utf8) + [0] + Array("02:00:00:AA:BB:CC".utf8) + [0])

    static let key = PreSharedKey(base64: "VGhpcyBpcyBteSBBdXN0cmlhbiBwZXJzcGVjdGl2ZSE=")!
    static let keyBytes = Array("This is my Austrian perspective!".utf8)
    static let id = KeyID(app: "com.example.dice", fingerprint: key.fingerprint)

    var channel = SecureChannel(name: "gateway", address: "02:00:00:AA:BB:CC")
    var client = NoiseClient(key: keyBytes)
    var keys: [(KeyID, PreSharedKey)] = [(id, key)]
    /// How often the keys were asked for.
    private(set) var asked = 0

    mutating func receive(_ bytes: [UInt8]) -> [SecureChannel.Output] {
        var asked = asked
        defer { self.asked = asked }
        return channel.receive(bytes) {
            asked += 1
            return keys
        }
    }

    var handshake: [UInt8] { FrameReader.frame([0] + client.handshake) }

    /// Hello and handshake; the client then has the keys.
    mutating func open() throws {
        _ = receive(Self.hello)
        let outputs = receive(handshake)
        guard case .send(let frame)? = outputs.first else {
            Issue.record("no answer: \(outputs)")
            return
        }
        #expect(frame.prefix(4) == [1, 0, 49, 0] && outputs == [.send(frame), .greeted(Self.id)])
        let hasKey = client.finish(Array(frame[4...]))
        #expect(hasKey)
    }

    mutating func frame(_ type: UInt16, _ body: [UInt8] = []) -> [UInt8] {
        let header = [UInt8(type >> 8), UInt8(type & 0xFF), UInt8(body.count >> 8), UInt8(body.count & 0xFF)]
        return FrameReader.frame(client.encrypt(header + body))
    }

    /// Sends messages at once.
    mutating func play(_ messages: [(UInt16, [UInt8])]) -> [SecureChannel.Output] {
        var bytes: [UInt8] = []
        for (type, body) in messages { bytes += frame(type, body) }
        return receive(bytes)
    }

    mutating func message(_ bytes: [UInt8]) -> [UInt8]? { client.decrypt(Array(bytes.dropFirst(3))) }
}

extension [SecureChannel.Output] {
    fileprivate var hasEnded: Bool { if case .end? = last { true } else { false } }
    fileprivate var requests: [ClientRequest] { compactMap { if case .request(let request) = $0 { request } else { nil } } }
    /// The words of a refusal that a client understands.
    fileprivate var refusal: String? {
        guard count == 2, hasEnded, case .send(let frame)? = first, frame.count > 3, frame[3] == 1 else { return nil }
        return String(decoding: frame[4...], as: UTF8.self)
    }
}

@Suite struct SecureChannelTests {
    private var played = Played()

    @Test mutating func fromHelloToKey() {
        #expect(played.receive(Played.hello) == [.send(Played.words)])
        #expect(played.asked == 0, "the keys are of no use before the handshake")
        #expect(played.receive(played.handshake).last == .greeted(Played.id))
    }

    @Test mutating func messagesInBothDirections() throws {
        try played.open()
        #expect(played.asked == 1)
        #expect(played.play([(7, [])]) == [.request(.ping)])
        #expect(played.play([(1, [0x0A, 1, 65]), (9, [])]) == [.request(.hello(clientInfo: "A")), .request(.deviceInfo)])
        for number in 0..<300 as Range<UInt32> {
            let message = ServerMessage.read(address: 1, handle: number, [UInt8](repeating: 1, count: Int(number)))
            let body = message.body
            let bytes = played.channel.bytes(of: message)
            #expect(played.message(bytes) == [0, 74, UInt8(body.count >> 8), UInt8(body.count & 0xFF)] + body)
        }
        #expect(played.asked == 1)
    }

    /// However the bytes are split, also with everything that a client may send at once.
    @Test mutating func everySplit() throws {
        let greeting = Played.hello + played.handshake
        for count in 0...greeting.count {
            var one = Played()
            let outputs = one.receive(Array(greeting[..<count])) + one.receive(Array(greeting[count...]))
            #expect(outputs.count == 3 && outputs.first == .send(Played.words) && outputs.last == .greeted(Played.id))
        }
        try played.open()
        let messages = played.frame(7) + played.frame(1, [0x0A, 1, 65]) + played.frame(11)
        var requests: [ClientRequest] = []
        for byte in messages { requests += played.receive([byte]).requests }
        #expect(requests == [.ping, .hello(clientInfo: "A"), .listEntities])
    }

    @Test mutating func theHelloHasContentsThatBothMustHaveSeen() throws {
        played.client = NoiseClient(key: Played.keyBytes, hello: [7, 8, 9])
        _ = played.receive([1, 0, 3, 7, 8, 9])
        #expect(played.receive(played.handshake).last == .greeted(Played.id))
        for other in [[], [7, 8], [7, 8, 9, 0], [9, 8, 7]] as [[UInt8]] {
            var one = Played()
            one.client = NoiseClient(key: Played.keyBytes, hello: [7, 8, 9])
            _ = one.receive(FrameReader.frame(other))
            #expect(one.receive(one.handshake).refusal == "Handshake MAC failure")
        }
    }

    // MARK: Strangers

    @Test mutating func theWrongKey() {
        played.client = NoiseClient(key: [UInt8](repeating: 1, count: 32))
        _ = played.receive(Played.hello)
        #expect(
            played.receive(played.handshake) == [
                .send(FrameReader.frame([1] + Array("Handshake MAC failure".utf8))), .end(reason: "no such key"),
            ])
        #expect(played.receive(played.handshake) == [], "nothing follows the end")
        #expect(played.channel.bytes(of: .ping) == [])
    }

    @Test mutating func withoutAKeyThereIsNone() {
        played.keys = []
        _ = played.receive(Played.hello)
        #expect(played.receive(played.handshake).refusal == "Handshake MAC failure")
    }

    @Test mutating func oneKeyOfMany() throws {
        let others = (0..<20).map { (KeyID(app: "app\($0)", fingerprint: ""), PreSharedKey.random()) }
        played.keys = others.prefix(10) + played.keys + others.suffix(10)
        try played.open()
    }

    /// The keys are those at the time of the handshake.
    @Test mutating func aKeyThatIsRevokedBetweenHelloAndHandshake() {
        _ = played.receive(Played.hello)
        played.keys = []
        #expect(played.receive(played.handshake).refusal == "Handshake MAC failure")
    }

    @Test mutating func aPlaintextClient() {
        // HelloRequest as it is sent without encryption.
        #expect(played.receive([0, 0x10, 1] + [UInt8](repeating: 65, count: 16)).refusal == "Bad indicator byte")
        played = Played()
        _ = played.receive(Played.hello)
        #expect(played.receive([0]).refusal == "Bad indicator byte")
    }

    @Test(arguments: [Array("GET / HTTP/1.1\r\n\r\n".utf8), [0x16, 3, 1, 2, 0], Array("SSH-2.0-x\r\n".utf8), [0xFF]] as [[UInt8]])
    mutating func otherProtocols(_ bytes: [UInt8]) { #expect(played.receive(bytes).refusal == "Bad indicator byte") }

    @Test mutating func handshakesThatAreNone() {
        for frame in [
            [], [0], [0] + played.client.handshake.dropLast(), [0] + played.client.handshake + [0], [1] + played.client.handshake,
            played.client.handshake, [UInt8](repeating: 0, count: 128),
        ] as [[UInt8]] {
            var one = Played()
            _ = one.receive(Played.hello)
            #expect(one.receive(FrameReader.frame(frame)).refusal == "Handshake error", "\(frame.count)")
            #expect(one.asked == 0)
        }
    }

    @Test mutating func aLongFrameBeforeTheHandshake() {
        #expect(played.receive([1, 0, 129]).hasEnded)
        played = Played()
        _ = played.receive(Played.hello)
        #expect(played.receive([1, 0xFF, 0xFF]).hasEnded)
    }

    /// Requests in the place of a handshake are no requests.
    @Test mutating func requestsBeforeTheHandshake() {
        #expect(played.receive(FrameReader.frame([0, 7, 0, 0])) == [.send(Played.words)], "a hello of any contents")
        #expect(played.receive(FrameReader.frame([0, 7, 0, 0])).refusal == "Handshake error")
    }

    // MARK: Replay

    /// Who replays a client's bytes gets the answer to the handshake, which is another one; no message of the former
    /// connection is a request then.
    @Test mutating func aReplayedConnection() throws {
        try played.open()
        let recorded = [Played.hello, played.handshake, played.frame(1, [0x0A, 1, 65]), played.frame(7)]
        #expect(played.receive(recorded[2]).requests.count == 1)
        var replayed = Played()
        var outputs: [SecureChannel.Output] = []
        for bytes in recorded { outputs += replayed.receive(bytes) }
        #expect(outputs.requests == [] && outputs.hasEnded)
        #expect(outputs.contains(.greeted(Played.id)), "the door does nothing yet for such a client")
    }

    @Test mutating func aReplayedMessageEndsTheConnection() throws {
        try played.open()
        let frame = played.frame(7)
        #expect(played.receive(frame).requests == [.ping])
        #expect(played.receive(frame) == [.end(reason: "a message that is not encrypted with the key")])
        #expect(played.play([(7, [])]) == [])
    }

    @Test mutating func aSkippedOrChangedMessageEndsTheConnection() throws {
        try played.open()
        _ = played.frame(7)
        #expect(played.play([(7, [])]).hasEnded)
        played = Played()
        try played.open()
        var frame = played.frame(7)
        frame[5] ^= 1
        #expect(played.receive(frame).hasEnded)
    }

    @Test mutating func aMessageInPlaintextEndsTheConnectionWithoutAWord() throws {
        try played.open()
        let outputs = played.receive([0, 0, 7])
        #expect(outputs.count == 1 && outputs.hasEnded)
    }

    // MARK: Messages

    @Test mutating func malformedMessages() throws {
        for message in [[], [0], [0, 7], [0, 7, 0], [0, 1, 0, 1, 0x0A], [0xFF, 0xFF, 0, 1, 0x0B]] as [[UInt8]] {
            var one = Played()
            try one.open()
            let outputs = one.receive(FrameReader.frame(one.client.encrypt(message)))
            #expect(outputs.count == 1 && outputs.hasEnded, "\(message)")
        }
    }

    /// As ESPHome's own clients do, which have the frame's length already.
    @Test mutating func theLengthInAMessageIsIgnored() throws {
        try played.open()
        let frame = FrameReader.frame(played.client.encrypt([0, 1, 0xFF, 0xFF, 0x0A, 1, 65]))
        #expect(played.receive(frame).requests == [.hello(clientInfo: "A")])
    }

    @Test mutating func theLongestMessages() throws {
        try played.open()
        let value = [UInt8](repeating: 7, count: 512)
        let body = [0x08, 1, 0x10, 3, 0x22, 0x80, 0x04] + value
        #expect(played.play([(75, body)]).requests == [.write(address: 1, handle: 3, needsResponse: false, value)])
        let longest = ServerMessage.read(address: 0, handle: 0, [UInt8](repeating: 1, count: ServerMessage.maxBytes - 4))
        #expect(longest.body.count == ServerMessage.maxBytes)
        #expect(played.channel.bytes(of: longest).count == 3 + 0xFFFF)
        let tooLong = ServerMessage.read(address: 0, handle: 0, [UInt8](repeating: 1, count: ServerMessage.maxBytes - 3))
        #expect(played.channel.bytes(of: tooLong) == [], "it is left out, and counts for nothing")
        #expect(played.receive([1, 0x10, 0x01]).hasEnded, "a client's may be shorter")
    }

    @Test mutating func nothingIsSentBeforeTheHandshake() {
        #expect(played.channel.bytes(of: .ping) == [])
        _ = played.receive(Played.hello)
        #expect(played.channel.bytes(of: .ping) == [])
    }

    /// Random bytes, and good bytes that were changed, never become a request.
    @Test func strangersBytes() throws {
        for seed in 0..<300 as Range<UInt64> {
            var random = SeededGenerator(state: seed)
            var played = Played()
            var bytes = Played.hello + played.handshake
            if seed.isMultiple(of: 3) {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            } else {
                bytes = (0..<Int.random(in: 0...300, using: &random)).map { _ in
                    UInt8.random(in: 0...(seed % 3 == 1 ? 1 : 255), using: &random)
                }
            }
            bytes += (0..<200).map { _ in UInt8.random(in: 0...255, using: &random) }
            var outputs: [SecureChannel.Output] = []
            while !bytes.isEmpty {
                let count = min(bytes.count, Int.random(in: 1...60, using: &random))
                outputs += played.receive(Array(bytes[..<count]))
                bytes.removeFirst(count)
            }
            #expect(outputs.requests == [], "seed \(seed)")
            #expect(outputs.count { if case .end = $0 { true } else { false } } <= 1, "seed \(seed)")
        }
    }
}
