// SPDX-License-Identifier: Apache-2.0
// A place in the values of a message that has been validated, by libdbus or by `WireValidator`: a walk through its
// bytes, without making values.

/// A place in a valid message's values. It is valid inside the closure that received it and cannot leave it.
@frozen public struct ValueCursor: ~Copyable {
    /// The types that a cursor distinguishes; `end` is behind the last value.
    @frozen public enum Kind: Sendable { case end, string, objectPath, int16, uint16, byte, boolean, bytes, array, variant, other }

    private let message: UnsafeRawBufferPointer
    /// Where the value here begins, before its padding.
    private var position: Int
    private var types: UnsafeRawBufferPointer

    /// - Parameters:
    ///   - message: all of its bytes, as alignment counts from the first one. The values at `position` are valid.
    ///   - types: of the values from there on.
    init(_ message: UnsafeRawBufferPointer, at position: Int, types: UnsafeRawBufferPointer) {
        self.message = message
        self.position = position
        self.types = types
    }

    // MARK: Where it stands

    private var code: UInt8 { types.isEmpty ? 0 : types[0] }

    private var isDictionary: Bool { code == UInt8(ascii: "a") && types[1] == UInt8(ascii: "{") }

    private func aligned(_ alignment: Int) -> Int { (position + alignment - 1) & ~(alignment - 1) }

    /// Where the text, path or array here has its contents.
    private var contents: Range<Int> {
        let start = aligned(4)
        let count = Int(message.loadUnaligned(fromByteOffset: start, as: UInt32.self))
        guard code == UInt8(ascii: "a") else { return start + 4..<start + 4 + count }
        let alignment = WireValidator.alignment(of: types[1])
        let first = (start + 4 + alignment - 1) & ~(alignment - 1)
        return first..<first + count
    }

    /// A cursor inside the variant here.
    private var variant: ValueCursor {
        let count = Int(message[position])
        let start = position + 1
        return ValueCursor(
            message, at: start + count + 1, types: UnsafeRawBufferPointer(rebasing: message[start..<start + count]))
    }

    /// A cursor inside the structure or the dictionary's entry here.
    private var fields: ValueCursor {
        let length = WireValidator.length(of: types, at: 0)
        return ValueCursor(message, at: aligned(8), types: UnsafeRawBufferPointer(rebasing: types[1..<length - 1]))
    }

    /// The type of the elements of the array here.
    private var element: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: types[1..<WireValidator.length(of: types, at: 0)])
    }

    /// The type of the value here.
    public var type: Kind {
        switch code {
        case 0: .end
        case UInt8(ascii: "s"): .string
        case UInt8(ascii: "o"): .objectPath
        case UInt8(ascii: "n"): .int16
        case UInt8(ascii: "q"): .uint16
        case UInt8(ascii: "y"): .byte
        case UInt8(ascii: "b"): .boolean
        case UInt8(ascii: "v"): .variant
        case UInt8(ascii: "a"): types[1] == UInt8(ascii: "y") ? .bytes : .array
        default: .other
        }
    }

    // MARK: Steps

    /// Goes to the next value; false at the end.
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
        case UInt8(ascii: "v"): position = variant.end
        case UInt8(ascii: "("), UInt8(ascii: "{"): position = fields.end
        default:
            let size = WireValidator.size(of: code)
            position = aligned(size) + size
        }
        types = UnsafeRawBufferPointer(rebasing: types[length...])
    }

    /// Where the values from here on end.
    private var end: Int {
        var cursor = ValueCursor(message, at: position, types: types)
        while !cursor.types.isEmpty { cursor.skip() }
        return cursor.position
    }

    /// The contents of the variant here.
    public func withVariant(_ body: (inout ValueCursor) -> Void) {
        guard code == UInt8(ascii: "v") else { return }
        var inside = variant
        body(&inside)
    }

    /// Goes into the variant here, and into the one in it, up to the first other type. Values after the variant are out
    /// of reach then.
    public mutating func enterVariants() {
        while code == UInt8(ascii: "v") { self = variant }
    }

    /// The fields of the structure here: the cursor stands on the first.
    public func withStructure(_ body: (inout ValueCursor) -> Void) {
        guard code == UInt8(ascii: "(") else { return }
        var inside = fields
        body(&inside)
    }

    /// Every element of the array here, but for one of bytes. For a dictionary use `forEachEntry`.
    public func forEachElement(_ body: (inout ValueCursor) -> Void) {
        guard type == .array else { return }
        forEachPlace(element) { inside in
            // The body may move its cursor.
            var here = ValueCursor(inside.message, at: inside.position, types: inside.types)
            body(&here)
            inside.skip()
        }
    }

    /// Every entry of the dictionary here: the cursor stands on the key; `next()` moves it to the value.
    public func forEachEntry(_ body: (inout ValueCursor) -> Void) {
        guard isDictionary else { return }
        let element = element
        forEachPlace(UnsafeRawBufferPointer(rebasing: element[1..<element.count - 1]), alignment: 8) { entry in
            body(&entry)
            // Most bodies have walked to the value, whose end is the entry's.
            while !entry.types.isEmpty { entry.skip() }
        }
    }

    private func forEachPlace(_ types: UnsafeRawBufferPointer, alignment: Int = 1, _ body: (inout ValueCursor) -> Void) {
        let places = contents
        var place = places.lowerBound
        while place < places.upperBound {
            var inside = ValueCursor(message, at: (place + alignment - 1) & ~(alignment - 1), types: types)
            body(&inside)
            place = inside.position
        }
    }

    /// Reads an `a{sv}`, or another dictionary with texts as keys: `body` gets the entries whose key is one of `keys`,
    /// in the order of the wire, a key that occurs twice twice. Of the others only the key is read.
    ///
    /// - Parameter body: gets the key's place in `keys`; the cursor stands on the value, inside all variants around it.
    /// - Returns: false when this is no such dictionary; `body` was not called then. An empty dictionary may have keys
    ///   of any type.
    @discardableResult
    public func forEachEntry(among keys: [StaticString], _ body: (Int, inout ValueCursor) -> Void) -> Bool {
        guard isDictionary, types[2] == UInt8(ascii: "s") || contents.isEmpty else { return false }
        forEachEntry { entry in
            guard let index = entry.word(among: keys) else { return }
            entry.skip()
            entry.enterVariants()
            body(index, &entry)
        }
        return true
    }

    // MARK: Texts

    private var text: UnsafeRawBufferPointer? {
        switch code {
        case UInt8(ascii: "s"), UInt8(ascii: "o"): UnsafeRawBufferPointer(rebasing: message[contents])
        default: nil
        }
    }

    private var stringText: UnsafeRawBufferPointer? { code == UInt8(ascii: "s") ? text : nil }

    /// The text or the path here; nil for another type.
    public var string: String? { text.map { String(decoding: $0, as: UTF8.self) } }

    /// The path here; nil when this is no `o`.
    public var objectPath: ObjectPath? { code == UInt8(ascii: "o") ? string.map { ObjectPath(validated: $0) } : nil }

    /// Whether the text here is `other`, without making a String.
    public func isString(_ other: StaticString) -> Bool { stringText?.isEqual(to: other) ?? false }

    /// Whether the text here is `other`, without making a String.
    public func isString(equalTo other: String) -> Bool { stringText?.isEqual(to: other) ?? false }

    func isString(_ other: UnsafeRawBufferPointer) -> Bool { stringText?.isEqual(to: other) ?? false }

    /// Which of `words` the text here is; nil when none.
    public func word(among words: [StaticString]) -> Int? {
        guard let text = stringText else { return nil }
        for index in words.indices where text.isEqual(to: words[index]) { return index }
        return nil
    }

    /// Whether `part` occurs in the text here, compared byte by byte; false for another type.
    public func contains(_ part: StaticString) -> Bool {
        guard let text = stringText else { return false }
        let count = part.utf8CodeUnitCount
        return (0...text.count).contains { place in
            place + count <= text.count && UnsafeRawBufferPointer(rebasing: text[place..<place + count]).isEqual(to: part)
        }
    }

    /// A number that changes with the text here, to see cheaply whether it is the same as last time; 0 for another
    /// type.
    public var fingerprint: UInt64 { stringText?.fingerprint ?? 0 }

    // MARK: Numbers and bytes

    private func number<Number: FixedWidthInteger & BitwiseCopyable>(_ letter: Unicode.Scalar, _ type: Number.Type) -> Number? {
        guard code == UInt8(ascii: letter) else { return nil }
        return message.loadUnaligned(fromByteOffset: aligned(MemoryLayout<Number>.size), as: type)
    }

    /// The number here; nil when this is no `y`.
    public var byte: UInt8? { number("y", UInt8.self) }
    /// The number here; nil when this is no `n`.
    public var int16: Int16? { number("n", Int16.self) }
    /// The number here; nil when this is no `q`.
    public var uint16: UInt16? { number("q", UInt16.self) }
    /// The value here; nil when this is no `b`.
    public var boolean: Bool? { number("b", UInt32.self).map { $0 != 0 } }

    /// The number here, of any integer type; nil for another type, and for a number that `Int` cannot hold.
    public var integer: Int? { basic?.integerValue }

    private var byteArray: UnsafeRawBufferPointer? {
        type == .bytes ? UnsafeRawBufferPointer(rebasing: message[contents]) : nil
    }

    /// The bytes here; nil when this is no array of bytes.
    public var bytes: [UInt8]? { byteArray.map { Array($0) } }

    /// Whether the bytes here are `other`, without copying them.
    public func isBytes(_ other: [UInt8]) -> Bool {
        guard let byteArray else { return false }
        return other.withUnsafeBytes { byteArray.isEqual(to: $0) }
    }

    /// The paths in the array here, in or out of variants, without elements of other types; nil when this is no array.
    public var objectPaths: [ObjectPath]? {
        guard type == .bytes || type == .array && !isDictionary else { return nil }
        var paths: [ObjectPath] = []
        forEachElement { element in
            element.enterVariants()
            if let path = element.objectPath { paths.append(path) }
        }
        return paths
    }

    /// Whether the variant here has the bytes that `memory` has kept, and so the same value; otherwise `memory` keeps
    /// these. False for another type.
    public func isUnchanged(since memory: inout ValueMemory) -> Bool {
        guard code == UInt8(ascii: "v") else {
            memory.forget()
            return false
        }
        return memory.isSame(UnsafeRawBufferPointer(rebasing: message[position..<variant.end]), at: position)
    }

    // MARK: Values

    /// The value here, with everything in it. Nil at the end, when it passes the limits, and when a descriptor is in
    /// it.
    public func value(limits: DecodingLimits = .standard) -> DBusValue? {
        guard !types.isEmpty else { return nil }
        var cursor = ValueCursor(message, at: position, types: types)
        var decoding = Decoding(limits: limits, descriptors: [])
        return try? cursor.decode(&decoding, depth: 0)
    }

    /// All values from here on.
    mutating func decodeAll(_ decoding: inout Decoding, depth: Int) throws(BusError) -> [DBusValue] {
        var values: [DBusValue] = []
        while !types.isEmpty { values.append(try decode(&decoding, depth: depth)) }
        return values
    }

    /// Takes the value here, and goes behind it.
    private mutating func decode(_ decoding: inout Decoding, depth: Int) throws(BusError) -> DBusValue {
        try decoding.begin(at: depth)
        switch code {
        case UInt8(ascii: "a"): return try decodeArray(&decoding, depth: depth)
        case UInt8(ascii: "v"):
            var inside = variant
            let value = try inside.decode(&decoding, depth: depth + 1)
            go(behind: inside.position)
            return .variant(value)
        case UInt8(ascii: "("):
            var inside = fields
            let values = try inside.decodeAll(&decoding, depth: depth + 1)
            go(behind: inside.position)
            return .structure(values)
        case UInt8(ascii: "h"):
            skip()
            return .fileDescriptor(try decoding.nextDescriptor())
        default:
            try decoding.add(bytes: text?.count ?? 0)
            guard let value = basic else { throw .invalidArguments("unknown type code \(code)") }
            skip()
            return value
        }
    }

    /// The value of a basic type here, but for a descriptor; nil for another type.
    private var basic: DBusValue? {
        switch code {
        case UInt8(ascii: "y"): byte.map { .byte($0) }
        case UInt8(ascii: "b"): boolean.map { .boolean($0) }
        case UInt8(ascii: "n"): int16.map { .int16($0) }
        case UInt8(ascii: "q"): uint16.map { .uint16($0) }
        case UInt8(ascii: "i"): number("i", Int32.self).map { .int32($0) }
        case UInt8(ascii: "u"): number("u", UInt32.self).map { .uint32($0) }
        case UInt8(ascii: "x"): number("x", Int64.self).map { .int64($0) }
        case UInt8(ascii: "t"): number("t", UInt64.self).map { .uint64($0) }
        case UInt8(ascii: "d"): number("d", UInt64.self).map { .double(Double(bitPattern: $0)) }
        case UInt8(ascii: "s"): string.map { .string($0) }
        case UInt8(ascii: "o"): objectPath.map { .objectPath($0) }
        case UInt8(ascii: "g"):
            .signature(String(decoding: message[position + 1..<position + 1 + Int(message[position])], as: UTF8.self))
        default: nil
        }
    }

    private mutating func decodeArray(_ decoding: inout Decoding, depth: Int) throws(BusError) -> DBusValue {
        let places = contents
        if let byteArray {
            try decoding.add(bytes: byteArray.count)
            go(behind: places.upperBound)
            return .bytes(Array(byteArray))
        }
        let isDictionary = isDictionary
        let element = element
        let inner = isDictionary ? UnsafeRawBufferPointer(rebasing: element[1..<element.count - 1]) : element
        var values: [DBusValue] = []
        var entries: [DBusValue.Entry] = []
        var inside = ValueCursor(message, at: places.lowerBound, types: inner)
        while inside.position < places.upperBound {
            if isDictionary {
                inside.position = inside.aligned(8)
                let key = try inside.decode(&decoding, depth: depth + 1)
                entries.append(.init(key, try inside.decode(&decoding, depth: depth + 1)))
            } else {
                values.append(try inside.decode(&decoding, depth: depth + 1))
            }
            inside.types = inner
        }
        go(behind: places.upperBound)
        func type(_ letters: Slice<UnsafeRawBufferPointer>) -> Signature {
            Signature(validated: String(decoding: letters, as: UTF8.self))
        }
        // A key is of one letter.
        return isDictionary
            ? .dictionary(key: type(inner[..<1]), value: type(inner[1...]), entries) : .array(of: type(inner[...]), values)
    }

    private mutating func go(behind end: Int) {
        position = end
        types = UnsafeRawBufferPointer(rebasing: types[WireValidator.length(of: types, at: 0)...])
    }
}

/// The bytes that a variant was last read from, to see by one comparison that it is the same again: most adverts of an
/// accessory repeat the one before. Small, because each property of each object has one.
@frozen public struct ValueMemory {
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
