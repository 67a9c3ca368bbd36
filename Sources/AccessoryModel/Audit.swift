// SPDX-License-Identifier: Apache-2.0
// The audit trail for the admin.

/// The requester of a change, which the trail names. Every change of access has one.
public enum Requester: Hashable, Sendable, CustomStringConvertible {
    /// An app, by the program that asked.
    case app(String)
    /// A person, by the program that asked for them, and its uid where that is known.
    case person(String, user: UInt32?)
    /// An admin, by the program that asked.
    case admin(String)
    /// A rule of the policy, by its name and file.
    case rule(name: String, source: String)
    /// An entry of a claim list, by its name and file.
    case entry(name: String, source: String)
    /// The daemon, without a request.
    case daemon

    /// The person's uid; nil where no person asked.
    public var user: UInt32? { if case .person(_, let user) = self { user } else { nil } }

    /// As the trail has it.
    public var description: String {
        switch self {
        case .app(let program), .person(let program, _), .admin(let program): program
        case .rule(let name, let source): "rule \(name) in \(source)"
        case .entry(let name, let source): "\(name) in \(source)"
        case .daemon: "accessorysetupd"
        }
    }
}

/// One line of the trail.
public struct AuditEntry: Hashable, Sendable {
    /// The action. The raw values are the words of the store and of the bus.
    public enum Event: String, Hashable, Sendable, CaseIterable {
        case pickerShown
        /// An accessory was shown to the person as one to pick; once in a run.
        case offered
        /// By the person, or by a rule that approves it.
        case picked
        case paired
        /// Another program had paired the accessory before: its bond is used, and stays that program's.
        case adopted
        /// An accessory has no bond any more, and no app may use it until it is paired again.
        case unpaired
        /// An app got an accessory, or has one now that waits for its confirmation.
        case granted
        /// The app has confirmed an accessory that waited for it.
        case authorized
        /// An app has given an accessory another descriptor, which a person agreed to.
        case updated
        case renamed
        /// An app has used an accessory; at most one line a minute of each grant.
        case used
        /// The machine has joined an accessory's network for an app, and left it.
        case joined
        case left
        /// A grant has ended by its own rule; `authorized` once it is renewed.
        case ended
        /// A grant was taken away.
        case revoked
        /// Switched off or on by an admin.
        case disabled
        case enabled
        /// A person does not want to be asked by an app, and again does.
        case muted
        case unmuted
        /// The store was damaged, and a new one begun: the grants until here, and the lines, are in a file kept aside.
        case storeReplaced
        /// A request was turned down. Of many in one minute some are counted only.
        case refused
    }

    /// Counted up by the store; 0 before it is stored.
    public var id: Int64
    /// Seconds since 1970.
    public var time: Int64
    /// The action.
    public var event: Event
    /// The app that it was done for, or that asked; nil where it concerns none, or all.
    public var app: AppID?
    /// The accessory that it was done with; nil where there is none.
    public var accessory: AccessoryID?
    /// Who did it: a process as the daemon saw it, a policy's rule, or the daemon.
    public var who: String
    /// The reason, in words for the admin.
    public var why: String

    /// Stores its arguments.
    ///
    /// - Parameters:
    ///   - id: 0 before the store has counted it.
    ///   - time: seconds since 1970.
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

/// A selection of the trail's lines, oldest first: the newest `limit`, or with `from` the oldest `limit`.
public struct AuditQuery: Hashable, Sendable {
    /// Only lines of this app; nil for all.
    public var app: AppID?
    /// Seconds since 1970.
    public var since: Int64?
    /// Only lines with this number or a higher one, beginning with the oldest; nil for the newest lines.
    public var from: Int64?
    /// How many lines at most, 1 or more.
    public var limit = 1000

    /// The newest 1000 lines of all.
    public init() {}
}
