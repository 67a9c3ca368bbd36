// SPDX-License-Identifier: Apache-2.0
// Cuts a client's bytes into frames: a mark, a length of two bytes, and the contents. Nothing is trusted before the
// handshake, so that the first frames must be short.

/// The frames of one connection, as its bytes arrive.
public struct FrameReader: Sendable {
    /// Why the connection must end.
    public enum Fault: Error, Equatable, Sendable {
        /// The client does not encrypt.
        case plaintext
        /// A mark that no version of the API has.
        case unknownMark
        /// A frame longer than the limit.
        case tooLong
    }

    /// A client's longest message is a write of 512 bytes, and its own name.
    public static let maxBytes = 4096
    /// Before the handshake is over.
    public static let maxHandshakeBytes = 128
    /// The mark of a frame.
    static let mark: UInt8 = 1

    /// The limit of the frames that follow.
    public var limit = maxHandshakeBytes
    private var buffer: [UInt8] = []

    public init() {}

    /// Takes bytes as they arrive.
    public mutating func receive(_ bytes: some Sequence<UInt8>) { buffer += bytes }

    /// The contents of the next frame; nil until it is complete.
    public mutating func next() throws(Fault) -> [UInt8]? {
        guard let mark = buffer.first else { return nil }
        guard mark == Self.mark else { throw mark == 0 ? .plaintext : .unknownMark }
        guard buffer.count >= 3 else { return nil }
        let length = Int(buffer[1]) << 8 | Int(buffer[2])
        guard length <= limit else { throw .tooLong }
        guard buffer.count >= 3 + length else { return nil }
        defer { buffer.removeFirst(3 + length) }
        return Array(buffer[3..<3 + length])
    }

    /// A frame with these contents, of at most 65,535 bytes.
    public static func frame(_ contents: [UInt8]) -> [UInt8] {
        precondition(contents.count <= 0xFFFF)
        return [mark, UInt8(contents.count >> 8), UInt8(contents.count & 0xFF)] + contents
    }
}
