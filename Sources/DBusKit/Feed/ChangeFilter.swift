// SPDX-License-Identifier: Apache-2.0
// Which messages belong to a feed's stream: the sender, the objects and the interface that are followed.

internal import Glibc

/// Finds the changes of a stream among messages, and validates them.
struct ChangeFilter {
    private let sender: [UInt8]
    private let namespace: [UInt8]
    private let interface: [UInt8]
    /// The header of the stream's last change. The next one's differs in its object and its number, as a rule.
    private var last: ValidHeader?

    init(_ stream: SignalFeed.Stream) {
        sender = Array(stream.sender.utf8)
        namespace = Array(stream.namespace.rawValue.utf8)
        interface = Array(stream.interface.utf8)
    }

    /// Calls `body` with the path and the arguments of a change: the cursor stands on the interface's name.
    ///
    /// - Returns: nil for a change of the stream; the header of another message.
    /// - Throws: for bytes that are no valid message.
    mutating func read(
        _ bytes: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer, inout ValueCursor) -> Void
    ) throws(WireMessage.Problem) -> WireMessage? {
        let message: WireMessage
        if let last, last.fits(bytes) {
            message = last.message
        } else {
            message = try WireMessage(bytes)
            guard isChange(message, bytes) else { return message }
            last = ValidHeader(message, bytes)
        }
        let path = UnsafeRawBufferPointer(rebasing: bytes[message.path])
        guard namespace.withUnsafeBytes({ path.isPath(below: $0) }) else { return try WireMessage(bytes) }
        let types = UnsafeRawBufferPointer(rebasing: bytes[message.signature])
        guard types.isEqual(to: "sa{sv}as") else { throw WireMessage.Problem("PropertiesChanged of another type") }
        var values = WireValidator(bytes, from: message.bodyOffset, to: bytes.count)
        guard values.values(types, depth: 0), values.isAtEnd else {
            throw WireMessage.Problem("a bad value at byte \(values.position)")
        }
        var arguments = ValueCursor(bytes, at: message.bodyOffset, types: types)
        // A change of another interface is one signal among others.
        guard interface.withUnsafeBytes({ arguments.isString($0) }) else { return try WireMessage(bytes) }
        body(path, &arguments)
        return nil
    }

    /// Whether it is a `PropertiesChanged` of the sender.
    private func isChange(_ message: WireMessage, _ bytes: UnsafeRawBufferPointer) -> Bool {
        func field(_ range: Range<Int>) -> UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: bytes[range]) }
        return message.type == WireMessage.signal && field(message.member).isEqual(to: "PropertiesChanged")
            && field(message.interface).isEqual(to: "org.freedesktop.DBus.Properties")
            && sender.withUnsafeBytes { field(message.sender).isEqual(to: $0) }
    }
}

/// The header of a signal that was found valid, kept to see by comparing bytes that another one is valid, too: in a
/// stream of signals of one kind, headers differ in the object's path and the number only.
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
