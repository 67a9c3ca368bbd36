// SPDX-License-Identifier: Apache-2.0
// The bytes that a value was last read from, to see by one comparison that it is the same again: most adverts of an
// accessory repeat the one before.

/// The bytes of a variant when it was last read. Small, because each property of each object has one.
public struct ValueMemory {
    /// Longer variants are not kept. Payloads of an advert have 31 bytes in all, or a few hundred where they are
    /// extended.
    static let maxBytes = 128

    private var bytes: [UInt8] = []
    /// Where it began, as far as alignment goes by it: elsewhere the same bytes are another value.
    private var offset = 0

    /// Remembers nothing.
    public init() {}

    /// Whether these are the bytes that were kept; else they are kept now.
    ///
    /// - Parameter position: from the message's beginning.
    mutating func isSame(_ other: UnsafeRawBufferPointer, at position: Int) -> Bool {
        if position & 7 == offset, bytes.withUnsafeBytes({ $0.isEqual(to: other) }) { return true }
        bytes.removeAll(keepingCapacity: true)
        if other.count <= Self.maxBytes { bytes += other }
        offset = position & 7
        return false
    }

    mutating func forget() { bytes.removeAll(keepingCapacity: true) }
}
