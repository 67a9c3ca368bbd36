// SPDX-License-Identifier: Apache-2.0
// The trail: what was done with accessories, by whom and why, kept for the admin.

/// Who asks for a change. Every change of access needs one, and the trail tells it; nothing is changed by nobody.
public enum Requester: Hashable, Sendable, CustomStringConvertible {
    /// An app, by the program that asked.
    case app(String)
    /// A person, by the picker program that asked for them.
    case person(String)
    /// An admin, by the program that asked.
    case admin(String)
    /// A rule of the policy, by its name and file.
    case rule(name: String, source: String)
    /// The daemon: nobody asked, something happened.
    case daemon

    /// As the trail has it.
    public var description: String {
        switch self {
        case .app(let program), .person(let program), .admin(let program): program
        case .rule(let name, let source): "rule \(name) in \(source)"
        case .daemon: "accessorysetupd"
        }
    }
}

/// One line of the trail.
public struct AuditEntry: Hashable, Sendable {
    public enum Event: String, Hashable, Sendable, CaseIterable {
        case pickerShown
        case offered
        case picked
        case paired
        case granted
        /// The app has confirmed an accessory that waited for it.
        case authorized
        /// An app has given an accessory another descriptor, which a person agreed to.
        case updated
        case renamed
        /// The first use on a connection.
        case used
        /// The machine has joined an accessory's network for an app, and left it.
        case joined
        case left
        case revoked
        /// Switched off or on by an admin.
        case disabled
        case enabled
        case refused
    }

    /// Counted up by the store; 0 before it is stored.
    public var id: Int64
    /// Seconds since 1970.
    public var time: Int64
    public var event: Event
    public var app: AppID?
    public var accessory: AccessoryID?
    /// Who did it: a process as the daemon saw it, a policy's rule, or the daemon.
    public var who: String
    public var why: String

    public init(
        id: Int64 = 0, time: Int64, event: Event, app: AppID? = nil, accessory: AccessoryID? = nil, who: String, why: String
    ) {
        self.id = id
        self.time = time
        self.event = event
        self.app = app
        self.accessory = accessory
        self.who = who
        self.why = why
    }
}

/// Which lines of the trail are asked for; the newest `limit` of them, oldest first.
public struct AuditQuery: Hashable, Sendable {
    public var app: AppID?
    /// Seconds since 1970.
    public var since: Int64?
    public var limit = 1000

    public init() {}
}
