// SPDX-License-Identifier: Apache-2.0
// A manager's connection to the view: made again when it is lost, with grants and objects loaded before the manager is
// powered on. (Docs/View.md)

internal import BlueZInterfaces
internal import BlueZObjects
internal import DBusKit
internal import Foundation

/// The view over as many connections as it takes.
final class ViewSession {
    /// An accessory that is granted to the app.
    struct Grant: Equatable, Sendable {
        let identifier: UUID
        /// The object that org.bluez has for it, or would have.
        let path: ObjectPath
        let name: String

        init(identifier: UUID, path: ObjectPath, name: String) {
            self.identifier = identifier
            self.path = path
            self.name = name
        }

        /// A device of a kind that the app may hear. The view shows no other object without a grant of its own.
        ///
        /// - Returns: nil for a path that is no device's.
        init?(heard path: ObjectPath) {
            let digits = path.rawValue.suffix(17).split(separator: "_").compactMap { UInt8($0, radix: 16) }
            guard digits.count == 6 else { return nil }
            // Version 8 (RFC 9562, 5.8): the address, under a prefix of ours.
            identifier = UUID(
                uuid: (
                    0xAC, 0xCE, 0x55, 0x02, 0x1E, 0xA2, 0x80, 0x00, 0x80, 0x00, digits[0], digits[1], digits[2], digits[3],
                    digits[4], digits[5]
                ))
            self.path = path
            name = ""
        }
    }

    enum Event {
        case state(CBManagerState)
        case grantsChanged
        case changed(ObjectChange)
    }

    private struct Live {
        let connection: Connection
        let grants: GrantFeed
        let objects: ObjectFeed
    }

    private enum Phase {
        /// Without a connection, until the retry.
        case disconnected
        case connected(Live)
        /// The daemon takes the process for no app; a later connection may have a manifest.
        case refused(Live)
        case ended
    }

    static let daemon = "org.accessorysetup1"
    /// More than 400 values a second are read a dozen with one wakeup. Together with the view's own pace they come no
    /// later than on Apple's systems, whose links are served every 15 ms at the most often (Accessory Design
    /// Guidelines, Bluetooth, connection parameters).
    private static let pace = StreamPace(pause: .milliseconds(12), interval: .microseconds(2500))

    /// A daemon that is restarted is back by then: about three seconds.
    private static let failuresUntilUnsupported = 6

    let address: Connection.Address
    let loop: MainLoop
    private let onEvent: (Event) -> Void
    private var phase = Phase.disconnected
    private(set) var state = CBManagerState.unknown
    /// Kept while the connection is made again.
    private(set) var grants: [Grant] = []
    private var retry: LoopSource?
    private var failures = 0

    init(_ address: Connection.Address, _ loop: MainLoop, onEvent: @escaping (Event) -> Void) {
        self.address = address
        self.loop = loop
        self.onEvent = onEvent
    }

    private var live: Live? {
        switch phase {
        case .connected(let live), .refused(let live): live
        case .disconnected, .ended: nil
        }
    }

    var tree: BlueZTree { live?.objects.tree ?? BlueZTree() }

    // MARK: Life

    func start() {
        do {
            let connection = try Connection(address, loop: loop, reading: .streamed(Self.pace))
            connection.onDisconnect = { [weak self] in self?.lost() }
            phase = .connected(
                Live(
                    connection: connection, grants: GrantFeed(connection) { [weak self] in self?.handle($0) },
                    objects: ObjectFeed(connection, loop) { [weak self] in self?.handle($0) }))
        } catch {
            lost()
        }
    }

    /// Closes the connection, once the last messages have been sent.
    func end() {
        retry?.cancel()
        live?.connection.flush()
        disconnect()
        phase = .ended
    }

    private func disconnect() {
        guard let live else { return }
        live.grants.end()
        live.objects.end()
        live.connection.onDisconnect = nil
        // The connection may be in the middle of a message that led here.
        loop.soon { withExtendedLifetime(live) {} }
        phase = .disconnected
    }

    /// The daemon has ended, or does not run: retried at growing intervals up to 5 s.
    private func lost() {
        if case .ended = phase { return }
        disconnect()
        scheduleRetry(maxPause: 5)
        publishState()
    }

    private func refused() {
        guard case .connected(let live) = phase else { return }
        phase = .refused(live)
        grants = []
        publishState()
        scheduleRetry(maxPause: 30)
    }

    private func scheduleRetry(maxPause: Double) {
        failures += 1
        retry?.cancel()
        retry = loop.after(.seconds(min(maxPause, 0.05 * Double(1 << min(failures, 10))))) { [weak self] in
            self?.disconnect()
            self?.start()
        }
    }

    // MARK: State

    /// Nil while it is not known.
    private var currentState: CBManagerState? {
        switch phase {
        case .disconnected, .ended: return failures < Self.failuresUntilUnsupported ? .resetting : .unsupported
        case .refused: return .unauthorized
        case .connected(let live):
            guard live.grants.areKnown else { return nil }
            switch live.objects.state {
            case .unknown, .loading, .unreadable: return nil
            case .absent: return .poweredOff
            case .loaded:
                guard tree.adapter != nil else { return .unsupported }
                return tree.isPowered ? .poweredOn : .poweredOff
            }
        }
    }

    private func publishState() {
        guard let new = currentState, new != state else { return }
        if new == .poweredOn { failures = 0 }
        if live != nil { Refusal.isStanding = new == .unauthorized }
        state = new
        onEvent(.state(new))
    }

    private func handle(_ event: GrantFeed.Event) {
        switch event {
        case .changed(let new):
            let old = grants
            grants = new
            if new != old { onEvent(.grantsChanged) }
            publishState()
        case .refused: refused()
        }
    }

    private func handle(_ event: ObjectFeed.Event) {
        switch event {
        case .replaced:
            guard state == .poweredOn else { return }
            state = .poweredOff
            onEvent(.state(.poweredOff))
        case .stateChanged: publishState()
        case .refused: refused()
        case .changed(let change): onEvent(.changed(change))
        }
    }

    // MARK: Calls

    /// Asks the daemon for the grants; `completion` is called once they are known.
    func readGrants(_ completion: @escaping () -> Void) {
        guard let live else { return completion() }
        live.grants.read(completion)
    }

    /// Calls org.bluez; without a connection the answer is an error, from the loop.
    @discardableResult
    func call(
        _ path: ObjectPath, _ interface: String, _ member: String, _ arguments: [DBusValue] = [],
        timeout: Duration = .seconds(60),
        completion: @escaping (Result<[DBusValue], BusError>) -> Void
    ) -> PendingCall? {
        guard let connection = live?.connection else {
            loop.soon { completion(.failure(.disconnected("could not connect to the view"))) }
            return nil
        }
        return connection.call(
            BlueZ.service, path, interface, member, arguments, timeout: timeout, completion: completion)
    }
}
