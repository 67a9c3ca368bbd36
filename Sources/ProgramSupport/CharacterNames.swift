// SPDX-License-Identifier: Apache-2.0
// Replaces the Swift runtime's table of character names, which no program here uses: half a megabyte in each (Makefile,
// `--wrap`; Docs/Decisions/0017).

/// Replaces the runtime's `_swift_stdlib_getScalarName`: `Unicode.Scalar.Properties.name` is nil for every character.
///
/// - Returns: 0, the number of bytes written to the buffer.
@_cdecl("__wrap__swift_stdlib_getScalarName")
public func writeNoCharacterName(_ scalar: UInt32, _ buffer: UnsafeMutablePointer<UInt8>?, _ capacity: Int) -> Int { 0 }
