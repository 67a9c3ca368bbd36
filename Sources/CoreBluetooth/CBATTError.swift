// SPDX-License-Identifier: Apache-2.0
// The errors that an accessory itself answers a read, a write or a subscription with: the codes of Bluetooth's
// attribute protocol.

public import Foundation

/// The domain of ``CBATTError`` as an `NSError`.
public let CBATTErrorDomain: String = "CBATTErrorDomain"

/// An error response from an accessory (Core 5.4, Vol 3, Part F, 3.4.1.1).
///
/// Source: Apple's documentation of `CBATTError`.
public struct CBATTError: CustomNSError, Hashable, Sendable {
    /// The codes of the attribute protocol; the raw values are the protocol's.
    ///
    /// Source: Apple's documentation of `CBATTError.Code`.
    public enum Code: Int, Hashable, Sendable {
        /// Nothing went wrong.
        case success = 0x00
        /// There is no such attribute.
        case invalidHandle = 0x01
        /// It cannot be read.
        case readNotPermitted = 0x02
        /// It cannot be written.
        case writeNotPermitted = 0x03
        /// The request was malformed.
        case invalidPdu = 0x04
        /// The accessory requires a pairing.
        case insufficientAuthentication = 0x05
        /// The accessory does not know the request.
        case requestNotSupported = 0x06
        /// The offset is past the end.
        case invalidOffset = 0x07
        /// The accessory requires an authorization.
        case insufficientAuthorization = 0x08
        /// Too many writes wait.
        case prepareQueueFull = 0x09
        /// Nothing was found.
        case attributeNotFound = 0x0A
        /// It cannot be read in parts.
        case attributeNotLong = 0x0B
        /// The key is too short.
        case insufficientEncryptionKeySize = 0x0C
        /// The value has the wrong length.
        case invalidAttributeValueLength = 0x0D
        /// Any other failure. An application's own code also reads as this case; `errorCode` has the code itself.
        case unlikelyError = 0x0E
        /// The accessory requires an encrypted link.
        case insufficientEncryption = 0x0F
        /// The group's type is not known.
        case unsupportedGroupType = 0x10
        /// The accessory has no room.
        case insufficientResources = 0x11

        /// The beginning of each message with this code. Apps compare the terms of Apple's texts, so they are here.
        var text: String {
            switch self {
            case .success: "Success"
            case .invalidHandle: "The handle is invalid"
            case .readNotPermitted: "Reading is not permitted"
            case .writeNotPermitted: "Writing is not permitted"
            case .invalidPdu: "The command is invalid"
            case .insufficientAuthentication: "Authentication is insufficient"
            case .requestNotSupported: "The request is not supported"
            case .invalidOffset: "The offset is invalid"
            case .insufficientAuthorization: "Authorization is insufficient"
            case .prepareQueueFull: "The prepare queue is full"
            case .attributeNotFound: "The attribute could not be found"
            case .attributeNotLong: "The attribute is not long"
            case .insufficientEncryptionKeySize: "The encryption key size is insufficient"
            case .invalidAttributeValueLength: "The value's length is invalid"
            case .unlikelyError: "Unlikely error"
            case .insufficientEncryption: "Encryption is insufficient (insufficient encryption)"
            case .unsupportedGroupType: "The group type is not supported"
            case .insufficientResources: "Resources are insufficient"
            }
        }
    }

    /// The code as it came. An application's own (0x80–0x9F) has no name.
    private let raw: Int
    let message: String

    private init(raw: Int, message: String) {
        self.raw = raw
        self.message = message
    }

    /// - Parameter detail: the text of the answer, behind the code's.
    init(raw: Int, _ detail: String) {
        self.init(raw: raw, message: "\(Code(rawValue: raw)?.text ?? "Unknown ATT error"): \(detail)")
    }

    /// An error with a code. Of `userInfo` only the description is kept; without one the message is the code's text.
    public init(_ code: Code, userInfo: [String: Any] = [:]) {
        self.init(raw: code.rawValue, message: userInfo[NSLocalizedDescriptionKey] as? String ?? code.text)
    }

    /// The error that an object of ``CBATTErrorDomain`` stands for. The domain is not looked at.
    ///
    /// Source: the interface that Swift makes of Apple's header.
    public init(_nsError error: NSError) {
        self.init(raw: error.code, message: error.localizedDescription)
    }

    /// The code; ``Code/unlikelyError`` for one without a name.
    public var code: Code { Code(rawValue: raw) ?? .unlikelyError }
    /// The same as ``CBATTErrorDomain``.
    public static var errorDomain: String { CBATTErrorDomain }
    /// The code as it came from the accessory.
    public var errorCode: Int { raw }
    /// The message, as `NSLocalizedDescriptionKey`.
    public var errorUserInfo: [String: Any] { [NSLocalizedDescriptionKey: message] }
    /// The message.
    public var localizedDescription: String { message }

    /// Equal when the codes are; messages are for people.
    public static func == (a: CBATTError, b: CBATTError) -> Bool { a.raw == b.raw }
    /// Hashes the code.
    public func hash(into hasher: inout Hasher) { hasher.combine(raw) }
}

extension CBATTError: CustomStringConvertible {
    /// The code's name and the message.
    public var description: String { "CBATTError.\(code) (\(raw)): \(message)" }
}

/// The codes, as members of the error: `catch CBATTError.readNotPermitted`.
extension CBATTError {
    /// ``Code/success``
    public static var success: Code { .success }
    /// ``Code/invalidHandle``
    public static var invalidHandle: Code { .invalidHandle }
    /// ``Code/readNotPermitted``
    public static var readNotPermitted: Code { .readNotPermitted }
    /// ``Code/writeNotPermitted``
    public static var writeNotPermitted: Code { .writeNotPermitted }
    /// ``Code/invalidPdu``
    public static var invalidPdu: Code { .invalidPdu }
    /// ``Code/insufficientAuthentication``
    public static var insufficientAuthentication: Code { .insufficientAuthentication }
    /// ``Code/requestNotSupported``
    public static var requestNotSupported: Code { .requestNotSupported }
    /// ``Code/invalidOffset``
    public static var invalidOffset: Code { .invalidOffset }
    /// ``Code/insufficientAuthorization``
    public static var insufficientAuthorization: Code { .insufficientAuthorization }
    /// ``Code/prepareQueueFull``
    public static var prepareQueueFull: Code { .prepareQueueFull }
    /// ``Code/attributeNotFound``
    public static var attributeNotFound: Code { .attributeNotFound }
    /// ``Code/attributeNotLong``
    public static var attributeNotLong: Code { .attributeNotLong }
    /// ``Code/insufficientEncryptionKeySize``
    public static var insufficientEncryptionKeySize: Code { .insufficientEncryptionKeySize }
    /// ``Code/invalidAttributeValueLength``
    public static var invalidAttributeValueLength: Code { .invalidAttributeValueLength }
    /// ``Code/unlikelyError``
    public static var unlikelyError: Code { .unlikelyError }
    /// ``Code/insufficientEncryption``
    public static var insufficientEncryption: Code { .insufficientEncryption }
    /// ``Code/unsupportedGroupType``
    public static var unsupportedGroupType: Code { .unsupportedGroupType }
    /// ``Code/insufficientResources``
    public static var insufficientResources: Code { .insufficientResources }
}

extension CBATTError.Code {
    /// The same as ``CBATTErrorDomain``.
    public static var errorDomain: String { CBATTErrorDomain }

    /// Lets `catch CBATTError.readNotPermitted` catch a ``CBATTError`` with that code.
    public static func ~= (code: CBATTError.Code, error: any Error) -> Bool { (error as? CBATTError)?.code == code }
}
