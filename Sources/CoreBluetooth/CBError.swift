// SPDX-License-Identifier: Apache-2.0
// The errors of the module that are not the accessory's own: Apple's codes, and one sentence for people.

public import Foundation

/// The domain of ``CBError`` as an `NSError`.
public let CBErrorDomain: String = "CBErrorDomain"

/// An error of a link, a request or the radio.
///
/// Source: Apple's documentation of `CBError`.
public struct CBError: CustomNSError, Hashable, Sendable {
    /// The kinds of errors; the raw values are Apple's. The table of the module's article says when each comes.
    ///
    /// Source: Apple's documentation of `CBError.Code`.
    public enum Code: Int, Hashable, Sendable {
        /// A failure without a code of its own.
        case unknown = 0
        /// A value that BlueZ does not take.
        case invalidParameters = 1
        /// The service, characteristic or descriptor is not there any more.
        case invalidHandle = 2
        /// There is no link.
        case notConnected = 3
        /// More requests wait than are kept.
        case outOfSpace = 4
        /// The request was called off.
        case operationCancelled = 5
        /// No answer in time.
        case connectionTimeout = 6
        /// The link is gone.
        case peripheralDisconnected = 7
        /// The UUID may not be used.
        case uuidNotAllowed = 8
        /// It is advertising already.
        case alreadyAdvertising = 9
        /// The link could not be made.
        case connectionFailed = 10
        /// There are too many links.
        case connectionLimitReached = 11
        /// The accessory is not granted (any more).
        case unknownDevice = 12
        /// The requested operation does not exist here, or not at this accessory.
        case operationNotSupported = 13
        /// The accessory has forgotten the pairing.
        case peerRemovedPairingInformation = 14
        /// Encrypting the link took too long.
        case encryptionTimedOut = 15
        /// Too many paired devices.
        case tooManyLEPairedDevices = 16
        /// Never comes on Linux.
        case leGattExceededBackgroundNotificationLimit = 17
        /// Never comes on Linux.
        case leGattNearBackgroundNotificationLimit = 18

        /// The beginning of each message with this code. Apps compare the terms of Apple's texts, so they are here.
        var text: String {
            switch self {
            case .unknown: "Unknown error"
            case .invalidParameters: "Invalid parameters"
            case .invalidHandle: "The specified handle is invalid"
            case .notConnected: "The specified device is not connected"
            case .outOfSpace: "Out of space to complete the operation"
            case .operationCancelled: "The operation was cancelled"
            case .connectionTimeout: "The connection has timed out unexpectedly"
            case .peripheralDisconnected: "The specified device has disconnected from us"
            case .uuidNotAllowed: "The specified UUID is not allowed for this operation"
            case .alreadyAdvertising: "Advertising has already started"
            case .connectionFailed: "The connection has failed unexpectedly"
            case .connectionLimitReached: "The limit of connections is reached"
            case .unknownDevice: "The specified device is unknown"
            case .operationNotSupported: "The operation is not supported"
            case .peerRemovedPairingInformation: "Peer removed pairing information"
            case .encryptionTimedOut: "Failed to encrypt the connection, the connection has timed out unexpectedly"
            case .tooManyLEPairedDevices: "Too many LE devices are paired"
            case .leGattExceededBackgroundNotificationLimit: "The limit of notifications in the background is exceeded"
            case .leGattNearBackgroundNotificationLimit: "The limit of notifications in the background is near"
            }
        }

        /// The earlier spelling.
        public static var unkownDevice: Code { .unknownDevice }
    }

    /// The kind of error.
    public let code: Code
    let message: String

    private init(_ code: Code, message: String) {
        self.code = code
        self.message = message
    }

    /// - Parameter detail: the cause on this machine, behind the code's text.
    init(_ code: Code, _ detail: String) { self.init(code, message: "\(code.text): \(detail)") }

    /// An error with a code. Of `userInfo` only the description is kept; without one the message is the code's text.
    public init(_ code: Code, userInfo: [String: Any] = [:]) {
        self.init(code, message: userInfo[NSLocalizedDescriptionKey] as? String ?? code.text)
    }

    /// The error that an object of ``CBErrorDomain`` stands for; ``Code/unknown`` where its code is none of Apple's.
    /// The domain is not looked at.
    ///
    /// Source: the interface that Swift makes of Apple's header.
    public init(_nsError error: NSError) {
        self.init(Code(rawValue: error.code) ?? .unknown, message: error.localizedDescription)
    }

    /// The same as ``CBErrorDomain``.
    public static var errorDomain: String { CBErrorDomain }
    /// The code's raw value.
    public var errorCode: Int { code.rawValue }
    /// The message, as `NSLocalizedDescriptionKey`.
    public var errorUserInfo: [String: Any] { [NSLocalizedDescriptionKey: message] }
    /// The message.
    public var localizedDescription: String { message }

    /// Equal when the codes are; messages are for people.
    public static func == (a: CBError, b: CBError) -> Bool { a.code == b.code }
    /// Hashes the code.
    public func hash(into hasher: inout Hasher) { hasher.combine(code) }
}

extension CBError: CustomStringConvertible {
    /// The code's name and the message.
    public var description: String { "CBError.\(code): \(message)" }
}

/// The codes, as members of the error: `catch CBError.connectionTimeout`.
extension CBError {
    /// ``Code/unknown``
    public static var unknown: Code { .unknown }
    /// ``Code/invalidParameters``
    public static var invalidParameters: Code { .invalidParameters }
    /// ``Code/invalidHandle``
    public static var invalidHandle: Code { .invalidHandle }
    /// ``Code/notConnected``
    public static var notConnected: Code { .notConnected }
    /// ``Code/outOfSpace``
    public static var outOfSpace: Code { .outOfSpace }
    /// ``Code/operationCancelled``
    public static var operationCancelled: Code { .operationCancelled }
    /// ``Code/connectionTimeout``
    public static var connectionTimeout: Code { .connectionTimeout }
    /// ``Code/peripheralDisconnected``
    public static var peripheralDisconnected: Code { .peripheralDisconnected }
    /// ``Code/uuidNotAllowed``
    public static var uuidNotAllowed: Code { .uuidNotAllowed }
    /// ``Code/alreadyAdvertising``
    public static var alreadyAdvertising: Code { .alreadyAdvertising }
    /// ``Code/connectionFailed``
    public static var connectionFailed: Code { .connectionFailed }
    /// ``Code/connectionLimitReached``
    public static var connectionLimitReached: Code { .connectionLimitReached }
    /// ``Code/unknownDevice``
    public static var unknownDevice: Code { .unknownDevice }
    /// ``Code/unknownDevice``
    public static var unkownDevice: Code { .unknownDevice }
    /// ``Code/operationNotSupported``
    public static var operationNotSupported: Code { .operationNotSupported }
    /// ``Code/peerRemovedPairingInformation``
    public static var peerRemovedPairingInformation: Code { .peerRemovedPairingInformation }
    /// ``Code/encryptionTimedOut``
    public static var encryptionTimedOut: Code { .encryptionTimedOut }
    /// ``Code/tooManyLEPairedDevices``
    public static var tooManyLEPairedDevices: Code { .tooManyLEPairedDevices }
    /// ``Code/leGattExceededBackgroundNotificationLimit``
    public static var leGattExceededBackgroundNotificationLimit: Code { .leGattExceededBackgroundNotificationLimit }
    /// ``Code/leGattNearBackgroundNotificationLimit``
    public static var leGattNearBackgroundNotificationLimit: Code { .leGattNearBackgroundNotificationLimit }
}

extension CBError.Code {
    /// The same as ``CBErrorDomain``.
    public static var errorDomain: String { CBErrorDomain }

    /// Lets `catch CBError.connectionTimeout` catch a ``CBError`` with that code.
    public static func ~= (code: CBError.Code, error: any Error) -> Bool { (error as? CBError)?.code == code }
}
