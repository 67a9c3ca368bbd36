// SPDX-License-Identifier: Apache-2.0
// The header of a signal that was found valid, kept to see by comparing bytes that another one is valid, too: in a
// stream of signals of one kind, headers differ in the object's path and the number only.

internal import Glibc

/// A valid signal's header.
final class ValidHeader {
    /// Its fields; number and length are those of the signal that it was made from.
    let message: WireMessage
    /// From the length of the fields to the padding behind them.
    private let fields: [UInt8]

    /// Where the length of the fields stands.
    private static let start = WireMessage.prefix - 4

    /// - Parameter bytes: the whole signal.
    init(_ message: WireMessage, _ bytes: UnsafeRawBufferPointer) {
        self.message = message
        fields = Array(bytes[Self.start..<message.bodyOffset])
    }

    /// Whether a message is a signal with this header but for its number and its path, and those are valid. Everything
    /// stands in the same places then.
    ///
    /// - Parameter bytes: a whole message, by `WireMessage.length(of:)`.
    func fits(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count >= message.bodyOffset, bytes[1] == WireMessage.signal,
            bytes.loadUnaligned(fromByteOffset: 8, as: UInt32.self) != 0
        else { return false }
        let path = message.path
        return fields.withUnsafeBytes { fields in
            func isSame(_ range: Range<Int>) -> Bool {
                let own = fields.baseAddress! + (range.lowerBound - Self.start)
                return memcmp(bytes.baseAddress! + range.lowerBound, own, range.count) == 0
            }
            return isSame(Self.start..<path.lowerBound) && isSame(path.upperBound..<message.bodyOffset)
        } && WireMessage.isObject(UnsafeRawBufferPointer(rebasing: bytes[path]))
    }
}
