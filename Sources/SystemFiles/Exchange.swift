// SPDX-License-Identifier: Apache-2.0
// The exchange of two directories, which the C library's module does not show.

internal import CSystem
internal import Effects

extension SystemFile {
    /// Exchanges two files or directories, so that readers see the one or the other.
    ///
    /// - Throws: if one does not exist, or the file system cannot exchange.
    public static func exchange(_ path: String, _ other: String) throws(SystemFileError) {
        let effect = Effect(.file, "exchange \(name(path))")
        defer { effect.done() }
        guard csystem_exchange(path, other) == 0 else { throw SystemFileError(path) }
    }
}
