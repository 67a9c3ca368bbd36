// SPDX-License-Identifier: Apache-2.0
// The server's side of authentication on a socket of our own, as a value: lines in, lines out. The one mechanism is
// EXTERNAL, and the claimed uid is parsed and ignored: the kernel identifies the peer. In a user namespace a
// program sees another uid for itself than we do, so a claim could only turn it away.

/// One side of an authentication. (D-Bus Specification, "Authentication Protocol")
protocol PeerHandshake {
    /// Messages follow.
    var isDone: Bool { get }
    /// The peer is to be disconnected.
    var hasFailed: Bool { get }
    /// Whether the peer takes descriptors.
    var takesDescriptors: Bool { get }
    /// Takes bytes, up to the first message.
    ///
    /// - Returns: how many were taken, and the answer to send.
    mutating func receive(_ bytes: some Collection<UInt8>) -> (taken: Int, answer: String)
}

/// Reads a client's lines until it begins to send messages.
struct Handshake: Hashable, Sendable, PeerHandshake {
    enum Step: Hashable, Sendable {
        /// The byte before the first line.
        case nul
        case mechanism
        /// EXTERNAL without a claim: the client has one line for it.
        case claim
        case begin
        case done
        /// The client is to be disconnected.
        case failed
    }

    private(set) var step = Step.nul
    private(set) var takesDescriptors = false
    var isDone: Bool { step == .done }
    var hasFailed: Bool { step == .failed }
    private var line: [UInt8] = []
    private var lines = 0
    private let identifier: String

    /// Bytes of a line, and lines of a client: no client needs a quarter.
    static let maxLineBytes = 1024
    static let maxLines = 32

    /// - Parameter identifier: the server's, 32 hexadecimal digits.
    init(_ identifier: String) {
        self.identifier = identifier
    }

    mutating func receive(_ bytes: some Collection<UInt8>) -> (taken: Int, answer: String) {
        var taken = 0
        var answer = ""
        for byte in bytes {
            if step == .done || step == .failed { break }
            taken += 1
            if step == .nul {
                step = byte == 0 ? .mechanism : .failed
                continue
            }
            line.append(byte)
            if line.count > Self.maxLineBytes { step = .failed }
            guard line.suffix(2) == [0x0D, 0x0A] else { continue }
            let words = String(decoding: line.dropLast(2), as: UTF8.self).split(separator: " ", maxSplits: 2)
            line = []
            lines += 1
            let reply = lines > Self.maxLines ? fail() : handle(words.first ?? "", words.dropFirst())
            if let reply { answer += reply + "\r\n" }
        }
        return (taken, answer)
    }

    private mutating func handle(_ command: Substring, _ words: ArraySlice<Substring>) -> String? {
        switch (command, step) {
        case ("AUTH", .mechanism):
            guard words.first == "EXTERNAL" else { return reject() }
            guard let claim = words.dropFirst().first else {
                step = .claim
                return "DATA"
            }
            return accept(claim)
        case ("DATA", .claim): return accept(words.first ?? "")
        case ("NEGOTIATE_UNIX_FD", .begin):
            takesDescriptors = true
            return "AGREE_UNIX_FD"
        case ("BEGIN", .begin):
            step = .done
            return nil
        case ("BEGIN", _): return fail()
        case ("CANCEL", .claim), ("CANCEL", .begin), ("ERROR", .claim), ("ERROR", .begin): return reject()
        default: return "ERROR \"Unknown command\""
        }
    }

    /// - Parameter claim: a user, in hexadecimal digits; or nothing.
    private mutating func accept(_ claim: Substring) -> String {
        guard claim.allSatisfy(\.isHexDigit), claim.utf8.count % 2 == 0 else { return reject() }
        step = .begin
        return "OK \(identifier)"
    }

    private mutating func reject() -> String {
        step = .mechanism
        takesDescriptors = false
        return "REJECTED EXTERNAL"
    }

    private mutating func fail() -> String? {
        step = .failed
        return nil
    }
}
