// SPDX-License-Identifier: Apache-2.0
// What the session API answers when it refuses: ASError's codes, and a message that names the offending key and value.

/// An error of the session API. Codes are ASError's (seed: ASError.Code).
public struct SetupError: Error, Hashable, Sendable, CustomStringConvertible {
    public enum Code: Int, Hashable, Sendable, CaseIterable {
        case unknown = 1
        case activationFailed = 100
        case connectionFailed = 150
        case discoveryTimeout = 200
        case extensionNotFound = 300
        case invalidated = 400
        case invalidRequest = 450
        case pickerAlreadyActive = 500
        case pickerRestricted = 550
        case userCancelled = 700
        case userRestricted = 750
    }

    public let code: Code
    public let message: String

    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

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
