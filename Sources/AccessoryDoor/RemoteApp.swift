// SPDX-License-Identifier: Apache-2.0
// One app elsewhere: the standing connection to its socket, by which the daemon says where its key is and from where it
// may connect, and the clients that speak for it now.

internal import DBusKit
internal import InternetAddresses
internal import Logging
internal import NoiseProtocol
internal import SystemFiles

/// An app with a socket that the door may use.
final class RemoteApp {
    /// The manifest's terms (`Remote=`, `RemoteAddresses=`).
    struct Terms: Equatable {
        let keyFile: String
        /// Empty for all addresses.
        let ranges: [AddressRange]

        func permits(_ address: InternetAddress) -> Bool { ranges.isEmpty || ranges.contains { $0.contains(address) } }
    }

    static let viewPath: ObjectPath = "/org/accessorysetup1/view"
    static let viewInterface = "org.accessorysetup1.View"
    static let daemon = "org.accessorysetup1"
    private static let retryPause = Duration.seconds(5)

    let id: String
    let socket: String
    private let loop: MainLoop
    private let log: Logger
    /// Called when the terms have changed.
    var onChange: (() -> Void)?
    /// Nil while the daemon has not said that this is an app elsewhere.
    private(set) var terms: Terms?
    /// Nil without a readable key.
    var key: PreSharedKey?
    var keyID: KeyID? { key.map { KeyID(app: id, fingerprint: $0.fingerprint) } }
    var clients: [DoorClient] = []
    private var connection: Connection?
    private var subscriptions: [Subscription] = []
    private var retry: LoopSource?

    init(_ id: String, socket: String, _ loop: MainLoop, _ log: Logger) {
        self.id = id
        self.socket = socket
        self.loop = loop
        self.log = log
        connect()
    }

    /// Ends the app's clients and the connection.
    func end() {
        retry?.cancel()
        disconnect()
        terms = nil
        cutOff()
    }

    private func connect() {
        do throws(BusError) {
            let opening = try Connection.Opening(.server("unix:path=\(socket)"))
            let connection = Connection(greeting: opening, loop: loop) { _ in }
            self.connection = connection
            connection.onDisconnect = { [weak self] in self?.lost() }
            subscriptions = [connection.watchName(Self.daemon) { [weak self] in self?.daemonChanged($0) }]
        } catch {
            log.info("no connection to the app's socket", metadata: ["app": "\(id)", "reason": "\(error.message)"])
            lost()
        }
    }

    private func disconnect() {
        for subscription in subscriptions { subscription.cancel() }
        subscriptions = []
        guard let connection else { return }
        connection.onDisconnect = nil
        // The connection may be in the middle of a message that led here.
        loop.soon { withExtendedLifetime(connection) {} }
        self.connection = nil
    }

    private func lost() {
        disconnect()
        set(nil)
        retry?.cancel()
        retry = loop.after(Self.retryPause) { [weak self] in self?.connect() }
    }

    /// A daemon that restarts keeps this connection, and the terms are those that it says then.
    private func daemonChanged(_ owner: String?) {
        guard let owner, let connection else { return }
        let signals = connection.subscribe(
            sender: owner, path: Self.viewPath, interface: Bus.properties, member: "PropertiesChanged",
            argument0: Self.viewInterface
        ) { [weak self] message in
            if let changed = message.changedProperties?.values["Remote"] { self?.read(changed) }
        }
        subscriptions = [subscriptions[0], signals]
        connection.call(Self.daemon, Self.viewPath, Bus.properties, "Get", [.string(Self.viewInterface), .string("Remote")]) {
            [weak self] result in
            if case .success(let values) = result, let value = values.first { self?.read(value) }
        }
    }

    private func read(_ value: DBusValue) {
        let fields = value.unwrapped.vardictValue ?? [:]
        guard let keyFile = fields["keyFile"]?.stringValue else { return set(nil) }
        let texts = fields["addresses"]?.stringsValue ?? []
        let ranges = texts.compactMap { AddressRange($0) }
        // A range that is not understood must not become “all addresses”.
        set(ranges.count == texts.count ? Terms(keyFile: keyFile, ranges: ranges) : nil)
    }

    private func set(_ new: Terms?) {
        guard new != terms else { return }
        terms = new
        onChange?()
    }

    /// Ends the clients that the present terms and key do not permit.
    func cutOff() {
        for client in clients where client.key != keyID || terms?.permits(client.address) != true {
            client.end("it is no longer permitted")
        }
    }
}
