// SPDX-License-Identifier: Apache-2.0
// From the bus to the classes of the module. Values of a newer daemon that this module does not know are left out or
// become `unknown`; missing values count as empty.

internal import AccessoryBus
internal import AccessoryModel
internal import DBusKit
internal import Foundation

extension ASAccessoryEvent {
    /// - Parameter details: of the session's signal `Event`.
    convenience init(type name: String, details: EventDetails) {
        let known = SessionEventType.allCases.first { $0.name == name }
        let type = known.flatMap { ASAccessoryEventType(rawValue: $0.rawValue) } ?? .unknown
        let addition: Addition? =
            switch known {
            case .accessWillEnd: .accessWillEnd
            case .accessDidEnd: .accessDidEnd
            case .presenceChanged: ASAccessoryPresence(details).map { .presenceChanged($0) }
            default: nil
            }
        let accessory: ASAccessory? =
            type == .accessoryDiscovered
            ? ASDiscoveredAccessory(details.accessory ?? "/", details)
            : details.accessory.map { ASAccessory($0, details.properties ?? AccessoryProperties()) }
        let error = details.error.map { ASError(BusError(name: $0, message: details.message ?? "")) }
        self.init(type, addition: addition, accessory: accessory, error: error)
    }
}

extension ASError {
    /// Converts an error of the bus or the daemon.
    init(_ error: BusError) {
        self.init(Self.code(of: error), error.message.isEmpty ? error.name : error.message)
    }

    private static func code(of error: BusError) -> Code {
        if let code = error.setupCode { return Code(rawValue: code.rawValue) ?? .unknown }
        let prefix = "org.freedesktop.DBus.Error."
        guard error.name.hasPrefix(prefix) else { return .unknown }
        let short = String(error.name.dropFirst(prefix.count))
        if short.hasPrefix("Spawn.") { return .connectionFailed }
        switch short {
        // The bus or the daemon is absent, or does not answer.
        case "ServiceUnknown", "NameHasNoOwner", "NoServer", "NoNetwork", "FileNotFound", "Disconnected", "NoReply", "Timeout",
            "TimedOut", "BadAddress", "IOError", "AuthFailed":
            return .connectionFailed
        // Understood, and not to be had: an older daemon, an accessory that is not the app's, too much of something.
        case "NotSupported", "UnknownMethod", "UnknownInterface", "UnknownObject", "InvalidArgs", "LimitsExceeded":
            return .invalidRequest
        default:
            return .unknown
        }
    }
}
