// SPDX-License-Identifier: Apache-2.0
// The port to apps' discovery extensions.

public import AccessoryModel

/// Connects to apps' discovery extensions.
public protocol DiscoveryExtensions: AnyObject {
    /// Looks at the socket of an app's extension, and connects to nothing.
    ///
    /// - Throws: `ExtensionNotFound` when it is absent or not to be trusted.
    func check(_ app: AppManifest) throws(SetupError)
    /// Connects to the extension of an app, without waiting for it.
    ///
    /// - Throws: `ExtensionNotFound` when its socket is absent, not to be trusted, or takes no connection.
    func connect(_ app: AppManifest) throws(SetupError) -> any ExtensionLink
    /// Connects to the socket that starts an app (`Wake=`), and closes the connection.
    ///
    /// - Throws: `ExtensionNotFound` when it is absent, not to be trusted, or takes no connection.
    func wake(_ app: AppManifest) throws(SetupError)
}

/// A connection to an extension. It ends with `stop`.
public protocol ExtensionLink: AnyObject {
    /// Begins the discovery. `onReport` is called from the loop, and no more after `ended` or `stop`.
    func start(_ settings: PickerSettings, onReport: @escaping (ExtensionReport) -> Void)
    /// Ends the discovery and closes the connection.
    func stop()
}

/// A message of an extension.
public enum ExtensionReport: Hashable, Sendable {
    /// It has begun.
    case started
    /// An accessory is there, or is another now.
    case present(ReportedItem)
    /// The accessory with this identifier has gone.
    case lost(String)
    /// It has sent anything else; counted, so that this is bounded too.
    case other
    /// The extension has ended, or broken the rules.
    case ended(SetupError)
}

/// An engine without extensions.
public final class NoExtensions: DiscoveryExtensions {
    /// There is nothing to set up.
    public init() {}

    public func check(_ app: AppManifest) throws(SetupError) {
        throw SetupError(.extensionNotFound, "\(app.id): no extension can be reached")
    }

    public func connect(_ app: AppManifest) throws(SetupError) -> any ExtensionLink {
        throw SetupError(.extensionNotFound, "\(app.id): no extension can be reached")
    }

    public func wake(_ app: AppManifest) throws(SetupError) {
        throw SetupError(.extensionNotFound, "\(app.id): no socket can be reached")
    }
}
