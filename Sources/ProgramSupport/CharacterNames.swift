// SPDX-License-Identifier: Apache-2.0
// Takes the place of the Swift runtime's table of the names of all characters, which no program of ours reads: half a
// megabyte in each (Makefile, `--wrap`; Docs/Decisions/0017).

/// The runtime's `_swift_stdlib_getScalarName`, for no character has a name here: `Unicode.Scalar.Properties.name` is
/// nil.
///
/// - Returns: 0, the number of bytes written to the buffer.
@_cdecl("__wrap__swift_stdlib_getScalarName")
public func writeNoCharacterName(_ scalar: UInt32, _ buffer: UnsafeMutablePointer<UInt8>?, _ capacity: Int) -> Int { 0 }
