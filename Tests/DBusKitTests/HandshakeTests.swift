// SPDX-License-Identifier: Apache-2.0
// The server's side of authentication: the lines of real clients, malformed lines, and where the messages begin.

import Testing

@testable import DBusKit

@Suite struct HandshakeTests {
    private static let identifier = "0123456789abcdef0123456789abcdef"

    private func talk(_ lines: String...) -> (Handshake, [String]) {
        var handshake = Handshake(Self.identifier)
        var answers: [String] = []
        for line in lines { answers.append(handshake.receive(Array(line.utf8)).answer) }
        return (handshake, answers)
    }

    private let ok = "OK \(identifier)\r\n"

    /// libdbus, GDBus and dbus-fast name the uid that they see of themselves.
    @Test(arguments: ["30", "31303030", "3635353334"]) func anyClaimIsTaken(claim: String) {
        let (handshake, answers) = talk("\0AUTH EXTERNAL \(claim)\r\n", "NEGOTIATE_UNIX_FD\r\n", "BEGIN\r\n")
        #expect(answers == [ok, "AGREE_UNIX_FD\r\n", ""])
        #expect(handshake.step == .done && handshake.takesDescriptors)
    }

    /// sd-bus says all at once, and godbus waits for the challenge.
    @Test func noClaimIsTaken() {
        let (once, said) = talk("\0AUTH EXTERNAL\r\nDATA\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n")
        #expect(said == ["DATA\r\n\(ok)AGREE_UNIX_FD\r\n"] && once.step == .done && once.takesDescriptors)
        let (slowly, answers) = talk("\0", "AUTH EXTERNAL\r\n", "DATA 30\r\n", "BEGIN\r\n")
        #expect(answers == ["", "DATA\r\n", ok, ""] && slowly.step == .done && !slowly.takesDescriptors)
    }

    @Test func otherMechanismsAreTriedFirst() {
        let (handshake, answers) = talk("\0AUTH\r\n", "AUTH DBUS_COOKIE_SHA1 30\r\n", "AUTH ANONYMOUS\r\n", "AUTH EXTERNAL 30\r\n")
        #expect(answers == Array(repeating: "REJECTED EXTERNAL\r\n", count: 3) + [ok] && handshake.step == .begin)
    }

    @Test func aClientMayChangeItsMind() {
        let (handshake, answers) = talk("\0AUTH EXTERNAL 30\r\n", "NEGOTIATE_UNIX_FD\r\n", "CANCEL\r\n", "BEGIN\r\n")
        #expect(answers == [ok, "AGREE_UNIX_FD\r\n", "REJECTED EXTERNAL\r\n", ""])
        #expect(handshake.step == .failed && !handshake.takesDescriptors)
    }

    @Test(arguments: [
        "GET / HTTP/1.1\r\n", "\0BEGIN\r\n", "\0AUTH EXTERNAL\r\nBEGIN\r\n", "\0AUTH EXTERNAL zz\r\nBEGIN\r\n",
        "\0AUTH EXTERNAL 3\r\nBEGIN\r\n", "\0NEGOTIATE_UNIX_FD\r\nBEGIN\r\n", "\0" + String(repeating: "A", count: 100_000),
        "\0AUTH EXTERNAL 30\r\n" + String(repeating: "x", count: 100_000), "\0" + String(repeating: "AUTH\r\n", count: 100),
    ]) func nobodyElseGetsIn(words: String) {
        let (handshake, _) = talk(words)
        #expect(handshake.step == .failed)
    }

    /// In any pieces, and never a byte of the first message.
    @Test(arguments: 1...9) func theMessagesAreNotTouched(piece: Int) {
        let words = Array("\0AUTH EXTERNAL 30\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n".utf8)
        let all = words + Array("l\u{1}\r\nBEGIN\r\n".utf8)
        var handshake = Handshake(Self.identifier)
        var answer = ""
        var position = 0
        while position < all.count, handshake.step != .done {
            let (taken, said) = handshake.receive(all[position..<min(all.count, position + piece)])
            position += taken
            answer += said
        }
        #expect(position == words.count && answer == "\(ok)AGREE_UNIX_FD\r\n")
    }
}

struct ClientHandshakeTests {
    /// The end, and the bytes that were taken: the first message must stay in the socket.
    private func end(_ text: String) -> (isDone: Bool, hasFailed: Bool, descriptors: Bool, taken: Int) {
        var handshake = ClientHandshake()
        let taken = handshake.receive(Array(text.utf8)).taken
        return (handshake.isDone, handshake.hasFailed, handshake.takesDescriptors, taken)
    }

    @Test func answers() {
        #expect(end("OK 1234\r\nAGREE_UNIX_FD\r\nl\u{1}") == (true, false, true, 24))
        #expect(end("OK 1234\r\nERROR\r\nl") == (true, false, false, 16))
        #expect(end("OK 1234\r\nAGREE") == (false, false, false, 14))
    }

    @Test func refusals() {
        for text in ["REJECTED EXTERNAL\r\n", "DATA\r\n", "AGREE_UNIX_FD\r\n", "OK\r\nOK\r\n", String(repeating: "x", count: 2000)]
        {
            #expect(end(text).hasFailed, "\(text.prefix(20))")
        }
    }
}
