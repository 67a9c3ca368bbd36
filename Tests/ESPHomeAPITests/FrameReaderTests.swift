// SPDX-License-Identifier: Apache-2.0
// Frames from bytes, however these are split, and bytes that are no frames.

import ESPHomeAPI
import Testing

@Suite struct FrameReaderTests {
    private static func frames(_ parts: [[UInt8]], limit: Int? = nil) throws(FrameReader.Fault) -> [[UInt8]] {
        var reader = FrameReader()
        if let limit { reader.limit = limit }
        var frames: [[UInt8]] = []
        for part in parts {
            reader.receive(part)
            while let frame = try reader.next() { frames.append(frame) }
        }
        return frames
    }

    private static let contents: [[UInt8]] = [[], [1], [1, 2, 3], [UInt8](repeating: 0, count: 5), [0, 0, 1]]
    private static let stream = contents.flatMap { FrameReader.frame($0) }

    /// Every way to split the bytes into three, and each byte alone.
    @Test func everySplitGivesTheSameFrames() throws {
        for first in 0...Self.stream.count {
            for second in first...Self.stream.count {
                let parts = [Self.stream[..<first], Self.stream[first..<second], Self.stream[second...]].map { Array($0) }
                #expect(try Self.frames(parts) == Self.contents)
            }
        }
        #expect(try Self.frames(Self.stream.map { [$0] }) == Self.contents)
    }

    @Test func anIncompleteFrameIsAwaited() throws {
        let frame = FrameReader.frame([1, 2, 3, 4])
        for count in 0..<frame.count { #expect(try Self.frames([Array(frame[..<count])]) == []) }
    }

    @Test func aFrameHasAMarkAndItsLength() {
        #expect(FrameReader.frame([]) == [1, 0, 0])
        #expect(FrameReader.frame([7, 8]) == [1, 0, 2, 7, 8])
        let long = FrameReader.frame([UInt8](repeating: 9, count: 0xFFFF))
        #expect(long.prefix(3) == [1, 0xFF, 0xFF] && long.count == 0x1_0002)
    }

    @Test func theFirstByteShowsAPlaintextClient() {
        // A plaintext HelloRequest; one byte is enough, and a frame before does not hide it.
        for parts in [[[0]], [[0, 0x13, 0x01]], [FrameReader.frame([1]) + [0]]] as [[[UInt8]]] {
            #expect(throws: FrameReader.Fault.plaintext) { try Self.frames(parts) }
        }
    }

    @Test(arguments: [2, 0x16, 0x47, 0x53, 0x80, 0xFF] as [UInt8]) func anotherMark(_ mark: UInt8) {
        #expect(throws: FrameReader.Fault.unknownMark) { try Self.frames([[mark]]) }
    }

    /// The length is enough to refuse a frame: its contents are not awaited.
    @Test func aLongFrameIsRefusedAtItsHeader() throws {
        let limit = FrameReader.maxHandshakeBytes
        let longest = [UInt8](repeating: 5, count: limit)
        #expect(try Self.frames([FrameReader.frame(longest)]) == [longest])
        #expect(throws: FrameReader.Fault.tooLong) { try Self.frames([Array(FrameReader.frame(longest + [5]).prefix(3))]) }
        #expect(throws: FrameReader.Fault.tooLong) { try Self.frames([[1, 0xFF, 0xFF]]) }
        #expect(throws: FrameReader.Fault.tooLong) { try Self.frames([[1, 0x10, 0x01]], limit: FrameReader.maxBytes) }
        let message = [UInt8](repeating: 6, count: FrameReader.maxBytes)
        #expect(try Self.frames([FrameReader.frame(message)], limit: FrameReader.maxBytes) == [message])
    }

    /// After the handshake the frames that have arrived already may be longer.
    @Test func theLimitIsThatOfTheMomentOfReading() throws {
        var reader = FrameReader()
        let long = [UInt8](repeating: 1, count: 1000)
        reader.receive(FrameReader.frame([9]) + FrameReader.frame(long))
        let first = try reader.next()
        reader.limit = FrameReader.maxBytes
        let second = try reader.next()
        let third = try reader.next()
        #expect(first == [9] && second == long && third == nil)
    }
}
