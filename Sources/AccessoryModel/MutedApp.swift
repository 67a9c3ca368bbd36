// SPDX-License-Identifier: Apache-2.0
// Apps that may not ask persons.

/// An app whose pickers are not shown: a person chose not to be asked by it.
public struct MutedApp: Hashable, Sendable {
    /// The app's identifier.
    public let app: AppID
    /// Seconds since 1970.
    public let since: Int64
    /// The person, by the program that asked for them.
    public let who: String

    /// Stores its arguments.
    ///
    /// - Parameter since: seconds since 1970.
    public init(app: AppID, since: Int64, who: String) {
        self.app = app
        self.since = since
        self.who = who
    }
}
