// SPDX-License-Identifier: Apache-2.0
// What the session API answers when it refuses: ASError's codes, and a message that names the offending key and value.

/// An error of the session API. Its codes are Apple's (`ASError.Code`).
public struct SetupError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kinds of refusal (`ASError.Code`, without `success`; raw values as there).
    public enum Code: Int, Hashable, Sendable, CaseIterable {
        /// A failure without a code of its own; the message says what is known.
        case unknown = 1
        /// The session was not activated.
        case activationFailed = 100
        /// The accessory could not be reached, paired or joined, or it was taken away meanwhile.
        case connectionFailed = 150
        /// The discovery time ended before there was anything to offer.
        case discoveryTimeout = 200
        /// There is no Device Discovery Extension. Never sent: Linux has none.
        case extensionNotFound = 300
        /// The session, or the app's connection, has ended.
        case invalidated = 400
        /// A key, a value or the moment of the request is wrong.
        case invalidRequest = 450
        /// A picker is being shown already, by this app or another.
        case pickerAlreadyActive = 500
        /// No picker can be shown: no picker program, no radio, or a policy against it.
        case pickerRestricted = 550
        /// The person gave up, or the picker program went away.
        case userCancelled = 700
        /// An admin or a rule does not allow it.
        case userRestricted = 750
    }

    /// For programs.
    public let code: Code
    /// For developers and admins: which request, key or value was refused, and why.
    public let message: String

    /// Stores its arguments.
    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// The code's name and the message.
    public var description: String { "\(code): \(message)" }

    /// `InvalidRequest` that names key and value.
    public static func invalid(_ key: String, _ value: some Any, _ reason: String) -> SetupError {
        SetupError(.invalidRequest, "\(key): \(shortened("\(value)")): \(reason)")
    }

    /// Values are quoted in messages, but not at any length.
    private static func shortened(_ text: String) -> String {
        text.utf8.count <= 80 ? text : String(text.prefix(60)) + "…"
    }
}

/// What happened in a session (`ASAccessoryEventType`; raw values as there).
public enum SessionEventType: Int, Hashable, Sendable, CaseIterable {
    case unknown = 0
    case activated = 10
    case invalidated = 11
    case migrationComplete = 20
    case accessoryAdded = 30
    case accessoryRemoved = 31
    case accessoryChanged = 32
    case accessoryDiscovered = 33
    case pickerDidPresent = 40
    case pickerDidDismiss = 50
    case pickerSetupBridging = 60
    case pickerSetupFailed = 70
    case pickerSetupPairing = 80
    case pickerSetupRename = 90

    /// The name on the bus.
    public var name: String { "\(self)" }
}
