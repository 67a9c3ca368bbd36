// SPDX-License-Identifier: Apache-2.0
// Warnings to the app's developer: calls that make no sense are logged, each kind once, and ignored, as on Apple's
// systems.

internal import Foundation
internal import Synchronization

/// A call that was ignored.
enum Misuse {
    private static let logged = Mutex<Set<String>>([])

    /// Writes a line to the standard error, unless the same was written before.
    static func log(_ text: String) {
        let isNew = logged.withLock { logged in
            // Limited, because texts that differ each time would fill the set.
            logged.count < 256 && logged.insert(text).inserted
        }
        if isNew { FileHandle.standardError.write(Data("CoreBluetooth: API MISUSE: \(text)\n".utf8)) }
    }
}

/// Whether the daemon takes this process for no app.
enum Refusal {
    private static let state = Mutex(false)

    static var isStanding: Bool {
        get { state.withLock { $0 } }
        set { state.withLock { $0 = newValue } }
    }
}
