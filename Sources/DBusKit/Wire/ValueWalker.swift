// SPDX-License-Identifier: Apache-2.0
// What a cursor over a message's values can do, be the message libdbus' or one that stands in a buffer of ours.

/// What walks through a message's values in place. It is valid inside the closure that received it and cannot leave it.
public protocol ValueWalker: ~Copyable {
    /// Goes to the next value; false at the end.
    @discardableResult
    mutating func next() -> Bool
    /// The text here; nil when this is no text.
    var string: String? { mutating get }
    /// Whether the text here is `other`, without making a String of it.
    mutating func isString(_ other: StaticString) -> Bool
    /// Whether the text here is `other`, without making a String of it.
    mutating func isString(equalTo other: String) -> Bool
    /// Which of `words` the text here is; nil when none.
    mutating func word(among words: [StaticString]) -> Int?
    /// A number that changes with the text here, to see cheaply whether it is the same as last time.
    var fingerprint: UInt64 { mutating get }
    /// Whether the bytes here are `other`, without copying them.
    mutating func isBytes(_ other: [UInt8]) -> Bool
    /// The number here; nil when this is no `n`.
    var int16: Int16? { mutating get }
    /// The number here; nil when this is no `q`.
    var uint16: UInt16? { mutating get }
    /// The value here; nil when this is no `b`.
    var boolean: Bool? { mutating get }
    /// The bytes here; nil when this is no array of bytes.
    var bytes: [UInt8]? { mutating get }
    /// Whether the variant here has the bytes that `memory` has kept, and so the same value; else `memory` keeps these.
    /// False where it cannot tell.
    mutating func isUnchanged(since memory: inout ValueMemory) -> Bool
    /// The contents of the variant here.
    mutating func withVariant(_ body: (inout Self) -> Void)
    /// Every element of the array here. For a dictionary use `forEachEntry`.
    mutating func forEachElement(_ body: (inout Self) -> Void)
    /// Every entry of the dictionary here: the cursor stands on the key; `next()` moves it to the value.
    mutating func forEachEntry(_ body: (inout Self) -> Void)
}

extension ValueCursor: ValueWalker {}
extension SpanCursor: ValueWalker {}
