// SPDX-License-Identifier: Apache-2.0
// A store with more in its schema than we put there: it opens, and can be used, or is kept aside; never is it found
// out when an accessory is paired.

import AccessoryCore
import AccessoryEngine
import AccessoryModel
@testable import GrantStore
import Logging
import SystemFiles
import TestSupport
import Testing

@Suite struct RehearsalTests {
    @Test func whatWeMakeCanBeUsed() throws {
        let directory = try TemporaryDirectory(inMemory: true)
        _ = try GrantStore(directory: directory.path, log: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let database = try Database(path: directory.path + "/grants.sqlite")
        let fault = Rehearsal.fault(of: try Schema.statements(of: database))
        #expect(fault == nil, "\(fault ?? "")")
    }
}
