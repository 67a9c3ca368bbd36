// SPDX-License-Identifier: Apache-2.0
// Where callbacks arrive in a test, as lines of text in their order.

import TestSupport

typealias Mailbox = TestSupport.Mailbox<String>

extension TestSupport.Mailbox where Element == String {
    /// Without names: BlueZ forgets an accessory without a bond after half a minute, and its name is news when it is
    /// heard again, which happens wherever a machine is slow.
    var lines: [String] { elements.filter { !$0.hasPrefix("name ") } }

    /// Waits for the `count`-th line that is, or begins with, `text`.
    @discardableResult
    func wait(_ text: String, count: Int = 1) async throws -> String {
        try await wait("“\(text)” number \(count)") { lines in
            let fitting = lines.filter { $0 == text || $0.hasPrefix(text + " ") }
            return fitting.count >= count ? fitting[count - 1] : nil
        }
    }
}
