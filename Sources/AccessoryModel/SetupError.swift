// SPDX-License-Identifier: Apache-2.0
// Errors of the session API: ASError's codes, and a message with the offending key and value.

/// An error of the session API. Its codes are Apple's (`ASError.Code`).
public struct SetupError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kinds of refusal (`ASError.Code`, without `success`; raw values as there).
    public enum Code: Int, Hashable, Sendable, CaseIterable {
        /// A failure without a code of its own; the message describes it.
        case unknown = 1
        /// The session was not activated.
        case activationFailed = 100
        /// The accessory could not be reached, paired or joined, or it was taken away meanwhile.
        case connectionFailed = 150
        /// The discovery time ended before there was anything to offer.
        case discoveryTimeout = 200
        /// The app has no discovery extension, or its socket is absent or not to be trusted.
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

/// The events of a session (`ASAccessoryEventType`; raw values as there).
public enum SessionEventType: Int, Hashable, Sendable, CaseIterable {
    /// Never sent.
    case unknown = 0
    /// The session is active, and its accessories can be seen.
    case activated = 10
    /// The session has ended.
    case invalidated = 11
    /// A known accessory was taken over, or could not be.
    case migrationComplete = 20
    /// The app has an accessory more.
    case accessoryAdded = 30
    /// The app no longer has an accessory.
    case accessoryRemoved = 31
    /// An accessory has another name, state or descriptor.
    case accessoryChanged = 32
    /// A picker that filters has found an accessory.
    case accessoryDiscovered = 33
    /// A grant ends soon: `RenewAccess` asks the person to renew it. An addition to Apple's events.
    case accessWillEnd = 34
    /// A grant has ended; the accessory is `unauthorized` until it is renewed. An addition.
    case accessDidEnd = 35
    /// The picker is there.
    case pickerDidPresent = 40
    /// The picker is gone; only now may the next one be shown.
    case pickerDidDismiss = 50
    /// The classic side is being paired.
    case pickerSetupBridging = 60
    /// Pairing has failed; the person may try again.
    case pickerSetupFailed = 70
    /// An accessory is being paired.
    case pickerSetupPairing = 80
    /// The person is asked for a name.
    case pickerSetupRename = 90
    /// An observed accessory has come into range, or has left it. Not among Apple's.
    case presenceChanged = 1000

    /// The name on the bus.
    public var name: String { "\(self)" }
}
