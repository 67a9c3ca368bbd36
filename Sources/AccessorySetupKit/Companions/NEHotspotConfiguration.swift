// SPDX-License-Identifier: Apache-2.0
// The part of Network Extension that an app needs for an accessory with a hotspot: a configuration that names its
// network, and the manager that joins it. The names are Apple's, the network is one that the app was granted; nothing
// else can be joined.

internal import AccessoryBus
internal import AccessoryModel
internal import DBusKit
internal import Dispatch
public import Foundation
internal import Synchronization

/// The network of an accessory, and its credentials.
///
/// Source: Apple's documentation of `NEHotspotConfiguration`. Enterprise networks and Hotspot 2.0 have no counterpart
/// here: accessories do not open such networks.
open class NEHotspotConfiguration: NSObject, @unchecked Sendable {
    // @unchecked because a class that is not final cannot be checked: every stored property is an immutable value of a
    // Sendable type, or a Mutex. A subclass answers for its own.

    private let name: String
    private let prefix: String
    /// The network's name, 1 to 32 bytes; empty for a configuration by its beginning.
    open var ssid: String { name }
    /// The beginning of the network's name; empty for a configuration by the whole name.
    open var ssidPrefix: String { prefix }
    let passphrase: String?
    let isWEP: Bool
    private let settings = Mutex(Settings())

    private struct Settings {
        var joinsOnce = false
        var isHidden = false
        var lifeTimeInDays = 0
    }

    private init(ssid: String, ssidPrefix: String, passphrase: String?, isWEP: Bool) {
        name = ssid
        prefix = ssidPrefix
        self.passphrase = passphrase
        self.isWEP = isWEP
    }

    /// An open network.
    public convenience init(ssid: String) {
        self.init(ssid: ssid, ssidPrefix: "", passphrase: nil, isWEP: false)
    }

    /// A network with a passphrase: WPA2 or WPA3, whichever it has.
    ///
    /// - Parameters:
    ///   - ssid: the network's name.
    ///   - passphrase: 8 to 63 bytes, or the 64 hexadecimal digits of a key. It is handed to the Wi-Fi service and kept
    ///     nowhere else.
    ///   - isWEP: WEP is refused with ``NEHotspotConfigurationError/invalidWEPPassphrase``: it protects nothing.
    public convenience init(ssid: String, passphrase: String, isWEP: Bool) {
        self.init(ssid: ssid, ssidPrefix: "", passphrase: passphrase, isWEP: isWEP)
    }

    /// An open network, by the beginning of its name: the first of the app's accessories that fits.
    public convenience init(ssidPrefix: String) {
        self.init(ssid: "", ssidPrefix: ssidPrefix, passphrase: nil, isWEP: false)
    }

    /// A network with a passphrase, by the beginning of its name; see ``init(ssid:passphrase:isWEP:)``.
    public convenience init(ssidPrefix: String, passphrase: String, isWEP: Bool) {
        self.init(ssid: "", ssidPrefix: ssidPrefix, passphrase: passphrase, isWEP: isWEP)
    }

    /// Whether the network is left when the app goes. On Linux it always is.
    open var joinOnce: Bool {
        get { settings.withLock { $0.joinsOnce } }
        set { settings.withLock { $0.joinsOnce = newValue } }
    }

    /// Whether the network does not say its name.
    open var hidden: Bool {
        get { settings.withLock { $0.isHidden } }
        set { settings.withLock { $0.isHidden = newValue } }
    }

    /// The number of days to keep the configuration. Kept and ignored: on Linux it lasts as long as the app runs.
    open var lifeTimeInDays: NSNumber {
        get { NSNumber(value: settings.withLock { $0.lifeTimeInDays }) }
        set {
            let days = newValue.intValue
            settings.withLock { $0.lifeTimeInDays = days }
        }
    }

    /// For a configuration without a `problem`.
    var options: JoinOptions {
        var options = JoinOptions()
        options.passphrase = passphrase.flatMap { NetworkJoin.Passphrase($0) }
        options.isHidden = hidden
        return options
    }

    func fits(_ network: [UInt8]) -> Bool {
        // As apps know the name: lossy where it is not text.
        let name = String(decoding: network, as: UTF8.self)
        return ssid.isEmpty ? name.hasPrefix(ssidPrefix) : name == ssid
    }

    /// The error in the configuration itself; nil when it is valid.
    var problem: NEHotspotConfigurationError? {
        if ssid.isEmpty, ssidPrefix.isEmpty || ssidPrefix.utf8.count > 32 {
            return ssidPrefix.isEmpty ? .invalidSSID : .invalidSSIDPrefix
        }
        if !ssid.isEmpty, SSID(ssid) == nil { return .invalidSSID }
        guard let passphrase else { return nil }
        if isWEP { return .invalidWEPPassphrase }
        return NetworkJoin.Passphrase(passphrase) == nil ? .invalidWPAPassphrase : nil
    }
}

/// The domain of ``NEHotspotConfigurationError`` as an `NSError`.
public let NEHotspotConfigurationErrorDomain: String = "NEHotspotConfigurationErrorDomain"

/// Why a network was not joined. The raw values are Apple's.
///
/// Source: Apple's documentation of `NEHotspotConfigurationError`.
public enum NEHotspotConfigurationError: Int, CustomNSError, Hashable, Sendable {
    /// The configuration is not valid.
    case invalid = 0
    /// The name must have 1 to 32 bytes.
    case invalidSSID = 1
    /// The passphrase must have 8 to 63 bytes, or be the 64 hexadecimal digits of a key.
    case invalidWPAPassphrase = 2
    /// WEP is not offered.
    case invalidWEPPassphrase = 3
    /// Not used on Linux.
    case invalidEAPSettings = 4
    /// Not used on Linux.
    case invalidHS20Settings = 5
    /// Not used on Linux.
    case invalidHS20DomainName = 6
    /// The admin denies it.
    case userDenied = 7
    /// The network could not be joined: out of range, refused, or the passphrase is wrong.
    case `internal` = 8
    /// Not used on Linux.
    case pending = 9
    /// Not used on Linux.
    case systemConfiguration = 10
    /// Something else went wrong.
    case unknown = 11
    /// Not used on Linux.
    case joinOnceNotSupported = 12
    /// Not used on Linux: being on the network already is a success.
    case alreadyAssociated = 13
    /// Not used on Linux.
    case applicationIsNotInForeground = 14
    /// The beginning of a name must have 1 to 32 bytes.
    case invalidSSIDPrefix = 15
    /// No accessory of an active session of this app has such a network.
    case userUnauthorized = 16
    /// The daemon refuses.
    case systemDenied = 17

    /// The same as ``NEHotspotConfigurationErrorDomain``.
    public static var errorDomain: String { NEHotspotConfigurationErrorDomain }
    /// The raw value.
    public var errorCode: Int { rawValue }
    /// The meaning of the error, as `NSLocalizedDescriptionKey`.
    public var errorUserInfo: [String: Any] { [NSLocalizedDescriptionKey: text] }

    private var text: String {
        switch self {
        case .invalidSSID: "the network name must be 1 to 32 bytes long"
        case .invalidSSIDPrefix: "the network name prefix must be 1 to 32 bytes long"
        case .invalidWPAPassphrase: "the passphrase must be 8 to 63 bytes long, or 64 hexadecimal digits"
        case .invalidWEPPassphrase: "WEP networks are not supported"
        case .userUnauthorized: "no accessory of this app has such a network"
        case .userDenied: "denied by the admin"
        case .internal: "could not join the network: it is out of range, it refused, or the passphrase is wrong"
        case .systemDenied: "the daemon refused the request"
        default: "\(self)"
        }
    }

    init(_ error: any Error) {
        switch (error as? ASError)?.code {
        case .userRestricted: self = .userDenied
        case .connectionFailed: self = .internal
        case .invalidRequest, .activationFailed: self = .systemDenied
        default: self = .unknown
        }
    }
}

/// Joins and leaves the networks of the app's accessories.
///
/// The app needs an active ``ASAccessorySession`` that has the accessory: the network is the session's. The daemon
/// leaves it when the app asks for that, when the session or the app ends, or when the accessory is taken away; the
/// machine's earlier connection comes back each time.
///
/// Source: Apple's documentation of `NEHotspotConfigurationManager`.
open class NEHotspotConfigurationManager: NSObject, @unchecked Sendable {
    // @unchecked because a class that is not final cannot be checked: it has no stored properties. A subclass
    // answers for its own.

    /// The only one.
    public static let shared = NEHotspotConfigurationManager()

    /// Another one; it does the same as ``shared``.
    public override init() {}

    /// Joins a network.
    ///
    /// - Parameters:
    ///   - configuration: the network of an accessory that an active session of the app has.
    ///   - completionHandler: called once, on the session's queue (or one of the module's own where there is no
    ///     session), with nil when the machine is on the network, else with an ``NEHotspotConfigurationError``.
    @preconcurrency
    open func apply(_ configuration: NEHotspotConfiguration, completionHandler: (@Sendable ((any Error)?) -> Void)? = nil) {
        let completion = completionHandler ?? { _ in }
        if let problem = configuration.problem { return Self.queue.async { completion(problem) } }
        let options = configuration.options
        Self.onAccessory(where: configuration.fits) { Self.join($0, $1, options, completion) }
    }

    /// ``apply(_:completionHandler:)`` as an asynchronous function.
    ///
    /// - Throws: ``NEHotspotConfigurationError``.
    open func apply(_ configuration: NEHotspotConfiguration) async throws {
        try await answer { apply(configuration, completionHandler: $0) }
    }

    /// Joins the network of an accessory that has a passphrase.
    ///
    /// Source: Apple's documentation of `joinAccessoryHotspot(_:passphrase:completionHandler:)`.
    ///
    /// - Parameters:
    ///   - accessory: one of an active session's ``ASAccessorySession/accessories``, with a network
    ///     (``ASAccessory/ssid``).
    ///   - passphrase: 8 to 63 bytes, or the 64 hexadecimal digits of a key.
    ///   - completionHandler: as that of ``apply(_:completionHandler:)``.
    ///     ``NEHotspotConfigurationError/userUnauthorized`` where no active session has the accessory, or it has no
    ///     network.
    @preconcurrency
    open func joinAccessoryHotspot(
        _ accessory: ASAccessory, passphrase: String, completionHandler: (@Sendable ((any Error)?) -> Void)? = nil
    ) {
        join(accessory, passphrase, completionHandler ?? { _ in })
    }

    /// ``joinAccessoryHotspot(_:passphrase:completionHandler:)`` as an asynchronous function.
    ///
    /// - Throws: ``NEHotspotConfigurationError``.
    open func joinAccessoryHotspot(_ accessory: ASAccessory, passphrase: String) async throws {
        try await answer { joinAccessoryHotspot(accessory, passphrase: passphrase, completionHandler: $0) }
    }

    /// Joins the network of an accessory that is open.
    ///
    /// Source: Apple's documentation of `joinAccessoryHotspotWithoutSecurity(_:completionHandler:)`.
    ///
    /// - Parameters:
    ///   - accessory: one of an active session's ``ASAccessorySession/accessories``, with a network
    ///     (``ASAccessory/ssid``).
    ///   - completionHandler: as that of ``joinAccessoryHotspot(_:passphrase:completionHandler:)``.
    @preconcurrency
    open func joinAccessoryHotspotWithoutSecurity(
        _ accessory: ASAccessory, completionHandler: (@Sendable ((any Error)?) -> Void)? = nil
    ) {
        join(accessory, nil, completionHandler ?? { _ in })
    }

    /// ``joinAccessoryHotspotWithoutSecurity(_:completionHandler:)`` as an asynchronous function.
    ///
    /// - Throws: ``NEHotspotConfigurationError``.
    open func joinAccessoryHotspotWithoutSecurity(_ accessory: ASAccessory) async throws {
        try await answer { joinAccessoryHotspotWithoutSecurity(accessory, completionHandler: $0) }
    }

    private func join(
        _ accessory: ASAccessory, _ passphrase: String?, _ completion: @escaping @Sendable ((any Error)?) -> Void
    ) {
        var options = JoinOptions()
        options.passphrase = passphrase.flatMap { NetworkJoin.Passphrase($0) }
        if passphrase != nil, options.passphrase == nil {
            return Self.queue.async { completion(NEHotspotConfigurationError.invalidWPAPassphrase) }
        }
        // The daemon knows the accessory's network, also one whose name is no text.
        let object = accessory.object
        do {
            try SessionRegistry.perform { [options] in Self.join($0.client(having: object), object, options, completion) }
        } catch {
            Self.queue.async { completion(NEHotspotConfigurationError.userUnauthorized) }
        }
    }

    /// On the module's thread.
    private static func join(
        _ client: SessionClient?, _ object: ObjectPath?, _ options: JoinOptions,
        _ completion: @escaping @Sendable ((any Error)?) -> Void
    ) {
        guard let client, let object else { return queue.async { completion(NEHotspotConfigurationError.userUnauthorized) } }
        client.request(on: object, "JoinNetwork", [options.wire]) { error in
            completion(error.map { NEHotspotConfigurationError($0) })
        }
    }

    private func answer(_ request: (@escaping @Sendable ((any Error)?) -> Void) -> Void) async throws {
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            request { error in
                if let error { continuation.resume(throwing: error) } else { continuation.resume() }
            }
        }
    }

    /// Leaves a network. One that is not joined stays as it is.
    open func removeConfiguration(forSSID SSID: String) {
        let configuration = NEHotspotConfiguration(ssid: SSID)
        Self.onAccessory(where: configuration.fits) { client, object in
            if let client, let object { client.request(on: object, "LeaveNetwork", []) { _ in } }
        }
    }

    /// The networks of the app's accessories that the machine is on.
    @preconcurrency
    open func getConfiguredSSIDs(completionHandler: @escaping @Sendable ([String]) -> Void) {
        do {
            try SessionRegistry.perform { sessions in
                let names = sessions.joinedNetworks
                Self.queue.async { completionHandler(names) }
            }
        } catch {
            Self.queue.async { completionHandler([]) }
        }
    }

    /// ``getConfiguredSSIDs(completionHandler:)`` as an asynchronous function.
    open func configuredSSIDs() async -> [String] {
        await withCheckedContinuation { continuation in getConfiguredSSIDs { continuation.resume(returning: $0) } }
    }

    private static let queue = DispatchQueue(label: "org.accessorysetup1.networks")

    /// On the module's thread, with nil where no session has such an accessory.
    private static func onAccessory(
        where fits: @escaping @Sendable ([UInt8]) -> Bool, _ body: @escaping @Sendable (SessionClient?, ObjectPath?) -> Void
    ) {
        do {
            try SessionRegistry.perform { sessions in
                let found = sessions.accessory(withNetwork: fits)
                body(found?.client, found?.object)
            }
        } catch {
            body(nil, nil)
        }
    }
}
