// SPDX-License-Identifier: Apache-2.0
// One accessory's link as one manager wants it: made, tried again for as long as the app wants it, told at the moment
// it stands, and made again by itself where the app asked for that. (BlueZ, org.bluez.Device(5), Connect)

internal import DBusKit
internal import Foundation

/// Lives on the module's thread, as long as its client.
final class PeripheralLink {
    private enum Phase {
        /// Nobody wants it.
        case idle
        /// Wanted, and waiting for the accessory, for power or for time.
        case waiting
        /// Wanted, and `Connect` is under way.
        case calling
        case up
        /// The app has let go of it, and `Disconnect` is under way.
        case ending(wantsAgain: Bool)
    }

    let identifier: UUID
    /// Its object in org.bluez.
    private(set) var path: ObjectPath
    private unowned let client: CentralClient
    private var phase = Phase.idle
    private var reconnects = false
    private var call: PendingCall?
    private var timer: LoopSource?
    /// An attempt has failed, or there is no object: it is listened for.
    private var isSearching = false
    private var failures = 0
    private var lastFailure: Int64 = 0
    private var lastHeard: Int64 = 0
    /// Why the link ends, in BlueZ' word, when it has said so.
    private var endReason: String?
    /// What the app wants of its attributes; there while it is up.
    private(set) var requests: AttributeRequests?

    /// Microseconds without a sign after which an accessory counts as having been away.
    private static let silence: Int64 = 3_000_000
    /// An attempt without a sign of the accessory, for BlueZ may hear what we do not.
    private static let longestPause = Duration.seconds(15)

    init(_ grant: ViewSession.Grant, _ client: CentralClient) {
        identifier = grant.identifier
        path = grant.path
        self.client = client
    }

    private var core: CentralCore { client.core }
    private var session: ViewSession { client.session }

    /// Whether the link stands.
    var isUp: Bool { if case .up = phase { true } else { false } }

    /// Whether a discovery must run for it.
    var needsDiscovery: Bool {
        switch phase {
        case .waiting, .calling: isSearching
        default: false
        }
    }

    // MARK: The app's wishes

    /// The app wants the link.
    func connect(reconnects: Bool, delay: Double) {
        self.reconnects = reconnects
        switch phase {
        case .idle:
            phase = .waiting
            failures = 0
            tellConnecting()
            guard delay > 0 else { return attempt() }
            pause(.seconds(min(delay, 86_400)))
        case .waiting, .calling: tellConnecting()
        case .up: tellConnected()
        case .ending: phase = .ending(wantsAgain: true)
        }
    }

    /// The app does not want the link any more.
    func cancel() {
        reconnects = false
        switch phase {
        case .idle: core.tell(identifier) { _, peripheral in peripheral.apply(state: .disconnected) }
        case .waiting:
            stopTrying()
            ended()
        case .calling:
            stopTrying()
            if client.release(path) { session.call(path, BlueZTree.deviceInterface, "Disconnect") { _ in } }
            ended()
        case .up: endLink()
        case .ending: phase = .ending(wantsAgain: false)
        }
    }

    private func endLink() {
        phase = .ending(wantsAgain: false)
        let isLast = client.release(path)
        requests?.end(CBError(.operationCancelled, "the app has let go of the peripheral"), stopsNotifying: !isLast)
        requests = nil
        guard isLast else { return ended() }
        session.call(path, BlueZTree.deviceInterface, "Disconnect") { [weak self] _ in self?.ended() }
    }

    private func ended() {
        let wantsAgain = if case .ending(wantsAgain: true) = phase { true } else { false }
        phase = .idle
        tellDisconnected(nil, isReconnecting: false)
        if wantsAgain { connect(reconnects: reconnects, delay: 0) }
    }

    private func stopTrying() {
        call?.cancel()
        call = nil
        timer?.cancel()
        timer = nil
        isSearching = false
        client.searchesChanged()
    }

    // MARK: Trying

    private func attempt() {
        guard case .waiting = phase, session.state == .poweredOn else { return }
        timer?.cancel()
        timer = nil
        guard session.tree.device(path) != nil else {
            isSearching = true
            return client.searchesChanged()
        }
        phase = .calling
        client.hold(path)
        call = session.call(path, BlueZTree.deviceInterface, "Connect", timeout: .seconds(120)) { [weak self] in
            self?.answered($0)
        }
    }

    private func answered(_ result: Result<[DBusValue], BusError>) {
        call = nil
        guard case .calling = phase else { return }
        switch result {
        case .success: linkUp()
        case .failure(let error) where ErrorTable.endsConnecting(error): failed(ErrorTable.error(error))
        case .failure:
            phase = .waiting
            _ = client.release(path)
            failures += 1
            lastFailure = session.loop.now
            isSearching = true
            client.searchesChanged()
            pause(Self.longestPause)
        }
    }

    private func failed(_ error: any Error & Sendable) {
        stopTrying()
        _ = client.release(path)
        phase = .idle
        core.tell(identifier) { manager, peripheral in
            peripheral.apply(state: .disconnected)
            manager.delegate?.centralManager(manager, didFailToConnect: peripheral, error: error)
        }
    }

    private func pause(_ duration: Duration) {
        timer?.cancel()
        timer = session.loop.after(duration) { [weak self] in self?.attempt() }
    }

    /// The accessory was heard: it is tried at once, but ever more slowly while it is there and does not let itself be
    /// connected.
    func heard() {
        let now = session.loop.now
        if now - lastHeard > Self.silence { failures = 0 }
        lastHeard = now
        guard case .waiting = phase, isSearching else { return }
        let pause = failures == 0 ? 0 : min(5_000_000, Int64(50_000) << Int64(min(failures, 8)))
        let wait = lastFailure + pause - now
        guard wait > 0 else { return attempt() }
        self.pause(.milliseconds(wait / 1000 + 1))
    }

    // MARK: What BlueZ says

    /// Its object is there, has gone, or says something else.
    func deviceChanged(_ changed: Set<String>) {
        let device = session.tree.device(path)
        switch phase {
        case .calling where device?.isConnected == true: linkUp()
        // Only what says so: `Connect` may be answered before the property is told.
        case .up where changed.contains("Connected") && device?.isConnected != true:
            lost(ErrorTable.linkEnd(endReason), requests: ErrorTable.linkEnd(nil))
        case .up where changed.contains("ServicesResolved"): requests?.servicesChanged()
        default: break
        }
    }

    /// The link ends, which is told next.
    func ends(_ reason: String) {
        endReason = reason
    }

    private func linkUp() {
        // Told by the property: the answer says nothing more, and must not be taken for that of a later attempt.
        call?.cancel()
        call = nil
        timer?.cancel()
        timer = nil
        isSearching = false
        failures = 0
        begin()
        tellConnected()
        client.searchesChanged()
    }

    /// Takes over a link that stands, as it was when an earlier process of the app ended.
    func adopt() {
        client.hold(path)
        begin()
    }

    private func begin() {
        phase = .up
        endReason = nil
        requests = AttributeRequests(identifier, path, core, session)
    }

    /// - Parameters:
    ///   - error: what the app hears of the link.
    ///   - answer: what it hears of what it has asked for; nil for the same.
    private func lost(_ error: any Error & Sendable, requests answer: (any Error & Sendable)? = nil) {
        _ = client.release(path)
        requests?.end(answer ?? error, stopsNotifying: false)
        requests = nil
        phase = reconnects ? .waiting : .idle
        tellDisconnected(error, isReconnecting: reconnects)
        if reconnects { attempt() }
    }

    /// The radio, or the daemon, has gone. What is wanted stays wanted.
    func radioLost(_ error: any Error & Sendable) {
        timer?.cancel()
        timer = nil
        switch phase {
        case .calling:
            call?.cancel()
            call = nil
            _ = client.release(path)
            phase = .waiting
        case .up: lost(error)
        case .ending: ended()
        case .idle, .waiting: break
        }
    }

    func radioCame() {
        attempt()
    }

    /// What is granted: nil when it is not granted any more.
    func granted(_ grant: ViewSession.Grant?) {
        guard let grant else { return revoked() }
        guard grant.path != path else { return }
        switch phase {
        case .idle: path = grant.path
        case .waiting:
            path = grant.path
            attempt()
        default:
            // The old object goes; then the new one is used.
            if session.tree.device(path) == nil {
                radioLost(CBError(.peripheralDisconnected, "BlueZ knows the peripheral by another address"))
                path = grant.path
                attempt()
            }
        }
    }

    private func revoked() {
        let error = CBError(.unknownDevice, "the accessory is not granted to the app any more")
        reconnects = false
        switch phase {
        case .idle: break
        case .waiting, .calling: failed(error)
        case .up: lost(error)
        case .ending: ended()
        }
    }

    /// The manager has gone: the link is the app's in the view, and would linger there.
    func abandon() {
        timer?.cancel()
        call?.cancel()
        switch phase {
        case .calling, .up:
            requests?.end(CBError(.operationCancelled, "the manager has gone"), stopsNotifying: false)
            if client.release(path) { session.call(path, BlueZTree.deviceInterface, "Disconnect") { _ in } }
        case .idle, .waiting, .ending: break
        }
        phase = .idle
    }

    // MARK: Telling

    private func tellConnecting() {
        core.tell(identifier) { _, peripheral in peripheral.apply(state: .connecting) }
    }

    private func tellConnected() {
        let name = session.tree.device(path)?.name
        core.tell(identifier) { manager, peripheral in
            peripheral.apply(name: name)
            peripheral.apply(state: .connected)
            manager.delegate?.centralManager(manager, didConnect: peripheral)
        }
    }

    private func tellDisconnected(_ error: (any Error & Sendable)?, isReconnecting: Bool) {
        let now = Date().timeIntervalSinceReferenceDate
        core.tell(identifier) { manager, peripheral in
            peripheral.applyDisconnected(isReconnecting: isReconnecting)
            manager.delegate?.centralManager(
                manager, didDisconnectPeripheral: peripheral, timestamp: now, isReconnecting: isReconnecting,
                error: error)
        }
    }
}
