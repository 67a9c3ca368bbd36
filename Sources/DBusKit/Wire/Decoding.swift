// SPDX-License-Identifier: Apache-2.0
// How much of a message is turned into values: a peer must not have us hold more than that.

/// How much of a message is turned into values.
public struct DecodingLimits: Sendable {
    /// Containers inside containers, 1…64.
    public var depth: Int
    /// Values in all, containers included.
    public var values: Int
    /// Bytes of text and of byte arrays in all.
    public var bytes: Int

    /// - Parameters:
    ///   - depth: containers inside containers, 1…64.
    ///   - values: in all, containers included.
    ///   - bytes: of text and byte arrays, in all.
    public init(depth: Int, values: Int, bytes: Int) {
        self.depth = depth
        self.values = values
        self.bytes = bytes
    }

    /// For replies of services that are trusted with more, such as BlueZ' `GetManagedObjects`.
    public static let generous = DecodingLimits(depth: 32, values: 1_000_000, bytes: 64 << 20)
    /// For messages of any peer: 16 levels, 65,536 values, 16 MiB.
    public static let standard = DecodingLimits(depth: 16, values: 65_536, bytes: 16 << 20)
}

/// A message that is being turned into values: the count towards its limits, and its descriptors.
struct Decoding {
    private let limits: DecodingLimits
    private var values = 0
    private var bytes = 0
    private var descriptors: ArraySlice<FileDescriptor>

    /// - Parameter descriptors: those of the message's values, in their order.
    init(limits: DecodingLimits, descriptors: [FileDescriptor]) {
        self.limits = limits
        self.descriptors = descriptors[...]
    }

    mutating func begin(at depth: Int) throws(BusError) {
        guard depth < limits.depth else { throw .limitsExceeded("nested more than \(limits.depth) deep") }
        values += 1
        guard values <= limits.values else { throw .limitsExceeded("more than \(limits.values) values") }
    }

    mutating func add(bytes more: Int) throws(BusError) {
        bytes += more
        guard bytes <= limits.bytes else { throw .limitsExceeded("more than \(limits.bytes) bytes") }
    }

    mutating func nextDescriptor() throws(BusError) -> FileDescriptor {
        guard let first = descriptors.popFirst() else { throw .limitsExceeded("a descriptor that is not read") }
        return first
    }
}
