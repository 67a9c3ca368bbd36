// SPDX-License-Identifier: Apache-2.0
// A place in the values of a message that stands in a buffer and was found valid (`WireValidator`): the same steps as
// `ValueCursor` has over libdbus, without a call for each.

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#endif

/// A place in a valid message's values.
public struct SpanCursor: ~Copyable {
    private let message: UnsafeRawBufferPointer
    /// Where the value here begins, before its padding.
    private var position: Int
    private var types: UnsafeRawBufferPointer

    /// - Parameters:
    ///   - message: all of it, as alignment counts from its first byte. What stands at `position` is valid.
    ///   - types: of the values from there on.
    init(_ message: UnsafeRawBufferPointer, at position: Int, types: UnsafeRawBufferPointer) {
        self.message = message
        self.position = position
        self.types = types
    }

    private var code: UInt8 { types.isEmpty ? 0 : types[0] }

    private func aligned(_ alignment: Int) -> Int { (position + alignment - 1) & ~(alignment - 1) }

    private func uint32(at place: Int) -> Int { Int(message.loadUnaligned(fromByteOffset: place, as: UInt32.self)) }

    /// Where the text, path or array here has its contents.
    private var contents: Range<Int> {
        let start = aligned(4)
        let count = uint32(at: start)
        guard code == UInt8(ascii: "a") else { return start + 4..<start + 4 + count }
        let alignment = WireValidator.alignment(of: types[1])
        let first = (start + 4 + alignment - 1) & ~(alignment - 1)
        return first..<first + count
    }

    @discardableResult
    public mutating func next() -> Bool {
        skip()
        return !types.isEmpty
    }

    /// Goes behind the value here.
    private mutating func skip() {
        guard !types.isEmpty else { return }
        let length = WireValidator.length(of: types, at: 0)
        switch code {
        case UInt8(ascii: "s"), UInt8(ascii: "o"): position = contents.upperBound + 1
        case UInt8(ascii: "g"): position += Int(message[position]) + 2
        case UInt8(ascii: "a"): position = contents.upperBound
        case UInt8(ascii: "v"):
            var inside = variant
            inside.skip()
            position = inside.position
        case UInt8(ascii: "("), UInt8(ascii: "{"):
            var inside = SpanCursor(
                message, at: aligned(8), types: UnsafeRawBufferPointer(rebasing: types[1..<length - 1]))
            while !inside.types.isEmpty { inside.skip() }
            position = inside.position
        default:
            let size = WireValidator.size(of: code)
            position = aligned(size) + size
        }
        types = UnsafeRawBufferPointer(rebasing: types[length...])
    }

    private var variant: SpanCursor {
        let count = Int(message[position])
        let start = position + 1
        return SpanCursor(
            message, at: start + count + 1, types: UnsafeRawBufferPointer(rebasing: message[start..<start + count]))
    }

    private var text: UnsafeRawBufferPointer? {
        switch code {
        case UInt8(ascii: "s"), UInt8(ascii: "o"): UnsafeRawBufferPointer(rebasing: message[contents])
        default: nil
        }
    }

    private var byteArray: UnsafeRawBufferPointer? {
        guard code == UInt8(ascii: "a"), types[1] == UInt8(ascii: "y") else { return nil }
        return UnsafeRawBufferPointer(rebasing: message[contents])
    }

    private func number<Number: FixedWidthInteger & BitwiseCopyable>(_ letter: Unicode.Scalar, _ type: Number.Type) -> Number? {
        guard code == UInt8(ascii: letter) else { return nil }
        return message.loadUnaligned(fromByteOffset: aligned(MemoryLayout<Number>.size), as: type)
    }

    public var string: String? { text.map { String(decoding: $0, as: UTF8.self) } }

    public func isString(_ other: StaticString) -> Bool {
        guard code == UInt8(ascii: "s"), let text else { return false }
        return text.isEqual(to: other)
    }

    func isString(_ other: UnsafeRawBufferPointer) -> Bool {
        guard code == UInt8(ascii: "s"), let text else { return false }
        return text.isEqual(to: other)
    }

    public func isString(equalTo other: String) -> Bool {
        guard code == UInt8(ascii: "s"), let text else { return false }
        var other = other
        return other.withUTF8 { text.isEqual(to: UnsafeRawBufferPointer($0)) }
    }

    public func word(among words: [StaticString]) -> Int? {
        guard code == UInt8(ascii: "s"), let text else { return nil }
        for index in words.indices where text.isEqual(to: words[index]) { return index }
        return nil
    }

    public var fingerprint: UInt64 { code == UInt8(ascii: "s") ? text?.fingerprint ?? 0 : 0 }

    public func isBytes(_ other: [UInt8]) -> Bool {
        guard let byteArray else { return false }
        return other.withUnsafeBytes { byteArray.isEqual(to: $0) }
    }

    public var int16: Int16? { number("n", Int16.self) }
    public var uint16: UInt16? { number("q", UInt16.self) }
    public var boolean: Bool? { number("b", UInt32.self).map { $0 != 0 } }
    public var bytes: [UInt8]? { byteArray.map { Array($0) } }

    public func isUnchanged(since memory: inout ValueMemory) -> Bool {
        guard code == UInt8(ascii: "v") else {
            memory.forget()
            return false
        }
        var inside = variant
        inside.skip()
        return memory.isSame(UnsafeRawBufferPointer(rebasing: message[position..<inside.position]), at: position)
    }

    public func withVariant(_ body: (inout SpanCursor) -> Void) {
        guard code == UInt8(ascii: "v") else { return }
        var inside = variant
        body(&inside)
    }

    public func forEachElement(_ body: (inout SpanCursor) -> Void) {
        guard code == UInt8(ascii: "a"), types[1] != UInt8(ascii: "y") else { return }
        forEachPlace(types: 1..<WireValidator.length(of: types, at: 0)) { inside in
            // The body may move its cursor.
            var here = SpanCursor(message, at: inside.position, types: inside.types)
            body(&here)
            inside.skip()
        }
    }

    public func forEachEntry(_ body: (inout SpanCursor) -> Void) {
        guard code == UInt8(ascii: "a"), types[1] == UInt8(ascii: "{") else { return }
        let length = WireValidator.length(of: types, at: 0)
        let pair = UnsafeRawBufferPointer(rebasing: types[2..<length - 1])
        let range = contents
        var place = range.lowerBound
        while place < range.upperBound {
            var entry = SpanCursor(message, at: (place + 7) & ~7, types: pair)
            body(&entry)
            // Most bodies have walked to the value, whose end is the entry's.
            while !entry.types.isEmpty { entry.skip() }
            place = entry.position
        }
    }

    private func forEachPlace(types range: Range<Int>, _ body: (inout SpanCursor) -> Void) {
        let element = UnsafeRawBufferPointer(rebasing: types[range])
        let places = contents
        var place = places.lowerBound
        while place < places.upperBound {
            var inside = SpanCursor(message, at: place, types: element)
            body(&inside)
            place = inside.position
        }
    }
}

extension UnsafeRawBufferPointer {
    func isEqual(to other: UnsafeRawBufferPointer) -> Bool {
        count == other.count && (isEmpty || memcmp(baseAddress!, other.baseAddress!, count) == 0)
    }

    func isEqual(to other: StaticString) -> Bool {
        isEqual(to: UnsafeRawBufferPointer(start: other.utf8Start, count: other.utf8CodeUnitCount))
    }

    /// A number that changes with the bytes: eight of them at a time, multiplied and folded.
    var fingerprint: UInt64 {
        var hash = UInt64(count)
        func take(_ bytes: UInt64) {
            hash = (hash ^ bytes) &* 0x9E37_79B9_7F4A_7C15
            hash ^= hash >> 32
        }
        var place = 0
        while place + 8 <= count {
            take(loadUnaligned(fromByteOffset: place, as: UInt64.self))
            place += 8
        }
        // The last eight once more, instead of what is left over.
        if count > 8 { take(loadUnaligned(fromByteOffset: count - 8, as: UInt64.self)) }
        if count < 8 { take(reduce(0) { $0 << 8 | UInt64($1) }) }
        return hash
    }
}
