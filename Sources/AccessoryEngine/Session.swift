// SPDX-License-Identifier: Apache-2.0
// One app's session: between `CreateSession` and `Invalidate`, or the end of the app's connection.

public import AccessoryModel

/// A session of an app (org.accessorysetup1.Session).
public final class Session {
    /// The raw values are the words of `State` on the bus.
    public enum State: String, Hashable, Sendable {
        /// It may only be activated or invalidated.
        case created
        /// It has events, accessories and pickers.
        case active
        /// It is over.
        case invalidated
    }

    /// Counted up, never used twice in a daemon's life.
    public let id: Int
    /// The connection that made it and that alone may use it.
    public let client: ClientID
    /// The app, by its manifest as it was when the session was made.
    public let app: AppManifest
    /// The user whose session it is.
    public let party: Party
    /// How far it is. It goes from `created` to `active` to `invalidated`, or straight to that, and never back.
    public private(set) var state: State = .created

    init(id: Int, client: ClientID, app: AppManifest, party: Party) {
        self.id = id
        self.client = client
        self.app = app
        self.party = party
    }

    func activate() { state = .active }
    func invalidate() { state = .invalidated }

    /// Why a request cannot be served in the state that the session is in.
    func wrongState(_ request: String) -> SetupError {
        state == .invalidated
            ? SetupError(.invalidated, "\(request): the session was invalidated")
            : SetupError(.invalidRequest, "\(request): the session is \(state.rawValue)")
    }
}

/// A client connection, by its unique bus name.
public struct ClientID: Hashable, Sendable, CustomStringConvertible {
    /// The text that names the connection.
    public let rawValue: String
    /// - Parameter rawValue: a unique name, the bus's or one of our own socket.
    public init(_ rawValue: String) { self.rawValue = rawValue }
    /// The same as `rawValue`.
    public var description: String { rawValue }
    /// Stands in for a picker program where the admin's policy approves without a person. No bus name looks like this.
    public static let policy = ClientID("policy")
}
