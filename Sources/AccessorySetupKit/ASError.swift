// SPDX-License-Identifier: Apache-2.0
// The errors of the module: one code for programs, one sentence for people. All refusals of the daemon, the bus and the
// module itself arrive as such an error.

public import Foundation

/// The domain of ``ASError`` as an `NSError`.
///
/// Source: Apple's documentation of `ASErrorDomain`.
public let ASErrorDomain: String = "ASErrorDomain"

/// An error code, and a message that names the request, the key or the value that was refused.
///
/// An `NSError` of ``ASErrorDomain`` is also an `ASError`, as on Apple's systems: `error as? ASError` finds it, and
/// `catch ASError.userCancelled` catches it.
///
/// Source: Apple's documentation of `ASError`. `localizedDescription` returns the message.
public struct ASError: CustomNSError, Hashable, Sendable {
    /// The kinds of errors. A kind that this module does not know (of a newer daemon) is ``unknown``.
    ///
    /// Source: Apple's documentation of `ASError.Code`; the raw values are Apple's.
    public enum Code: Int, Hashable, BitwiseCopyable, Sendable {
        /// Nothing went wrong. Never delivered; a completion handler gets nil instead.
        case success = 0
        /// A failure without a code of its own; the message has the known details.
        case unknown = 1
        /// The session was not activated. On Linux mostly: no manifest matches the calling program.
        case activationFailed = 100
        /// The daemon or the bus cannot be reached or went away, or the link to the accessory failed.
        case connectionFailed = 150
        /// The picker's time ended before there was anything to offer.
        case discoveryTimeout = 200
        /// The app has no discovery extension: its manifest names none, or the socket there is absent.
        case extensionNotFound = 300
        /// The session ended before the request did, or had ended already.
        case invalidated = 400
        /// A value, a key or the moment of the request is wrong. Mistakes that end the process on Apple's systems are
        /// this error here.
        case invalidRequest = 450
        /// A picker is being shown already, by this app or another.
        case pickerAlreadyActive = 500
        /// No picker can be shown: no picker program is running, or Bluetooth is off or absent.
        case pickerRestricted = 550
        /// The person gave up.
        case userCancelled = 700
        /// The person does not allow it.
        case userRestricted = 750

        /// The message of an error that says no more.
        fileprivate var text: String {
            switch self {
            case .success: "Success"
            case .unknown: "Unknown error"
            case .activationFailed: "Activation failed"
            case .connectionFailed: "Connection failed"
            case .discoveryTimeout: "Discovery timed out"
            case .extensionNotFound: "Extension not found"
            case .invalidated: "The session is invalidated"
            case .invalidRequest: "Invalid request"
            case .pickerAlreadyActive: "A picker is already active"
            case .pickerRestricted: "The picker is restricted"
            case .userCancelled: "The user cancelled"
            case .userRestricted: "Restricted by the user"
            }
        }
    }

    /// Of ``ASErrorDomain``, always.
    private let stored: NSError

    /// The kind of error. A number that this module does not know is ``Code/unknown``; ``errorCode`` still has it.
    public var code: Code { Code(rawValue: stored.code) ?? .unknown }

    init(_ code: Code, _ message: String) {
        self.init(code, userInfo: [NSLocalizedDescriptionKey: message])
    }

    /// An error with a code.
    ///
    /// - Parameters:
    ///   - code: the kind of error.
    ///   - userInfo: further details, under the keys of `NSError`; `NSLocalizedDescriptionKey` is the message. Without
    ///     it, the message is the code's text.
    public init(_ code: Code, userInfo: [String: Any] = [:]) {
        let named = userInfo.merging([NSLocalizedDescriptionKey: code.text]) { given, _ in given }
        stored = NSError(domain: ASErrorDomain, code: code.rawValue, userInfo: named)
    }

    /// Nil for an error of another domain.
    private init?(_ error: NSError) {
        guard error.domain == ASErrorDomain else { return nil }
        stored = error
    }

    /// The same as ``ASErrorDomain``.
    public static var errorDomain: String { ASErrorDomain }
    /// The code's raw value.
    public var errorCode: Int { stored.code }
    /// Further details, with the message under `NSLocalizedDescriptionKey`.
    public var errorUserInfo: [String: Any] { stored.userInfo }
    /// The same as ``errorUserInfo``.
    public var userInfo: [String: Any] { stored.userInfo }
    /// The message.
    public var localizedDescription: String { stored.localizedDescription }

    /// Equal when the codes are; messages are for people.
    public static func == (a: ASError, b: ASError) -> Bool { a.errorCode == b.errorCode }

    /// Hashes the code.
    public func hash(into hasher: inout Hasher) { hasher.combine(errorCode) }
}

extension ASError: CustomStringConvertible {
    /// The code's name and the message.
    public var description: String { "ASError.\(code): \(localizedDescription)" }
}

// The conformance by which Swift's casts bridge a class to a struct, also on Linux: it makes `error as? ASError` find
// an NSError. The names are the standard library's. swift-format-ignore
extension ASError: _ObjectiveCBridgeable {
    /// The error as an object.
    public func _bridgeToObjectiveC() -> NSError { stored }

    /// The error of an object that is known to be one.
    public static func _forceBridgeFromObjectiveC(_ source: NSError, result: inout ASError?) {
        result = ASError(source)
    }

    /// The error of an object, where its domain is ``ASErrorDomain``.
    public static func _conditionallyBridgeFromObjectiveC(_ source: NSError, result: inout ASError?) -> Bool {
        result = ASError(source)
        return result != nil
    }

    /// The error of an object that is known to be one.
    public static func _unconditionallyBridgeFromObjectiveC(_ source: NSError?) -> ASError {
        // The compiler calls this where the domain was found to be ours. Not a precondition: its message would be
        // missing from a release build.
        guard let error = source.flatMap({ ASError($0) }) else { fatalError("\(source?.domain ?? "nil") is not \(ASErrorDomain)") }
        return error
    }
}

extension ASError {
    /// ``Code/success``
    public static var success: Code { .success }
    /// ``Code/unknown``
    public static var unknown: Code { .unknown }
    /// ``Code/activationFailed``
    public static var activationFailed: Code { .activationFailed }
    /// ``Code/connectionFailed``
    public static var connectionFailed: Code { .connectionFailed }
    /// ``Code/discoveryTimeout``
    public static var discoveryTimeout: Code { .discoveryTimeout }
    /// ``Code/extensionNotFound``
    public static var extensionNotFound: Code { .extensionNotFound }
    /// ``Code/invalidated``
    public static var invalidated: Code { .invalidated }
    /// ``Code/invalidRequest``
    public static var invalidRequest: Code { .invalidRequest }
    /// ``Code/pickerAlreadyActive``
    public static var pickerAlreadyActive: Code { .pickerAlreadyActive }
    /// ``Code/pickerRestricted``
    public static var pickerRestricted: Code { .pickerRestricted }
    /// ``Code/userCancelled``
    public static var userCancelled: Code { .userCancelled }
    /// ``Code/userRestricted``
    public static var userRestricted: Code { .userRestricted }
}

extension ASError.Code {
    /// The same as ``ASErrorDomain``.
    public static var errorDomain: String { ASErrorDomain }

    /// Lets `catch ASError.userCancelled` catch an ``ASError`` with that code, or an `NSError` of ``ASErrorDomain``.
    public static func ~= (code: ASError.Code, error: any Error) -> Bool {
        (error as? ASError)?.code == code
    }
}
