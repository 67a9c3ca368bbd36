// SPDX-License-Identifier: Apache-2.0
// Comparing and recognising texts where they stand in memory, without making Strings.

internal import Glibc

extension UnsafeRawBufferPointer {
    /// The bytes of a C string.
    init(of text: UnsafePointer<CChar>) { self.init(start: text, count: strlen(text)) }

    func isEqual(to other: UnsafeRawBufferPointer) -> Bool {
        count == other.count && (isEmpty || memcmp(baseAddress!, other.baseAddress!, count) == 0)
    }

    func isEqual(to other: StaticString) -> Bool {
        isEqual(to: UnsafeRawBufferPointer(start: other.utf8Start, count: other.utf8CodeUnitCount))
    }

    func isEqual(to other: String) -> Bool {
        let isSame = other.utf8.withContiguousStorageIfAvailable { isEqual(to: UnsafeRawBufferPointer($0)) }
        return isSame ?? elementsEqual(other.utf8)
    }

    /// Whether these bytes are a path below `above`, which is not the root.
    func isPath(below above: UnsafeRawBufferPointer) -> Bool {
        count > above.count && self[above.count] == UInt8(ascii: "/")
            && UnsafeRawBufferPointer(rebasing: self[..<above.count]).isEqual(to: above)
    }

    /// A number that changes with the bytes: eight at a time, multiplied and folded.
    var fingerprint: UInt64 {
        var hash = UInt64(count)
        func add(_ bytes: UInt64) {
            hash = (hash ^ bytes) &* 0x9E37_79B9_7F4A_7C15
            hash ^= hash >> 32
        }
        var place = 0
        while place + 8 <= count {
            add(loadUnaligned(fromByteOffset: place, as: UInt64.self))
            place += 8
        }
        // The last eight once more, instead of the remainder.
        if count > 8 { add(loadUnaligned(fromByteOffset: count - 8, as: UInt64.self)) }
        if count < 8 { add(reduce(0) { $0 << 8 | UInt64($1) }) }
        return hash
    }
}

/// Compares a C string with a String.
func equals(_ pointer: UnsafePointer<CChar>, _ text: String) -> Bool { UnsafeRawBufferPointer(of: pointer).isEqual(to: text) }
