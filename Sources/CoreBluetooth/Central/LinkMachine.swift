// SPDX-License-Identifier: Apache-2.0
// One accessory's link as one manager wants it, as a value: attempts are repeated for as long as the app wants the
// link, and a lost link is made again where the app asked for that. (BlueZ, org.bluez.Device(5), Connect)

internal import BlueZInterfaces
internal import BlueZObjects
internal import DBusKit

/// The link as a value: events in, effects out, in this order.
struct LinkMachine {
    typealias Failure = any Error & Sendable

    enum State: Equatable {
        /// Not wanted.
        case idle
        /// Wanted, and waiting for the accessory, for power or for time. A search runs after a failed attempt, and
        /// while BlueZ has no object.
        case waiting(isSearching: Bool)
        /// `Connect` is in flight.
        case connecting(isSearching: Bool)
        /// Up; with the reason that BlueZ has given for its coming end.
        case connected(endReason: String?)
        /// The app has cancelled the link, and `Disconnect` is in flight.
        case disconnecting(thenConnects: Bool)
    }

    enum Event {
        case connect(reconnects: Bool, delay: Double)
        case cancel
        /// The pause is over.
        case retryDue
        /// `Connect` was answered: nil for success.
        case connectAnswered(BusError?)
        case disconnectAnswered
        /// An advertisement was received.
        case advertised
        /// Properties of the device, or its object, have changed.
        case deviceChanged(Set<String>)
        /// BlueZ gives the reason for an end that it signals next.
        case endAnnounced(String)
        case radioLost(Failure)
        case poweredOn
        /// The accessory is granted, with this object.
        case granted(ObjectPath)
        case revoked
        /// An earlier process of the app has left the link up.
        case adopted
        case released
    }

    enum Effect {
        /// Have `retryDue` sent, in place of an earlier one.
        case schedule(Duration)
        case cancelRetry
        /// Take a share in the link.
        case hold(ObjectPath)
        /// Give the share back.
        case release(ObjectPath)
        /// Call `Connect`.
        case connect(ObjectPath)
        /// Give the share back; the last one ends the link, or the attempt.
        case drop(ObjectPath)
        /// As `drop`, with the end of all requests. Answered by `disconnectAnswered`.
        case disconnect(ObjectPath, Failure)
        case beginRequests(ObjectPath)
        case endRequests(Failure)
        case servicesChanged
        /// Only the state: no link was wanted.
        case publishIdle
        case publishConnecting
        case publishConnected(ObjectPath)
        case publishDisconnected(Failure?, isReconnecting: Bool)
        case publishFailure(Failure)
    }

    /// The state of the radio when an event arrives.
    struct Surroundings {
        var isPoweredOn: Bool
        var tree: BlueZTree
        /// Microseconds of a monotonic clock.
        var now: Int64
    }

    private(set) var state = State.idle
    /// The accessory's object in org.bluez.
    private(set) var path: ObjectPath
    private var reconnects = false
    private var pace = AttemptPace()

    /// BlueZ may receive advertisements that it does not signal: an attempt is made without one after so long.
    private static let maxPause = Duration.seconds(15)

    init(_ path: ObjectPath) {
        self.path = path
    }

    var isConnected: Bool { if case .connected = state { true } else { false } }

    /// Whether a discovery must run for the link.
    var needsDiscovery: Bool {
        switch state {
        case .waiting(let isSearching), .connecting(let isSearching): isSearching
        case .idle, .connected, .disconnecting: false
        }
    }

    /// Applies an event, and returns the effects to carry out.
    mutating func handle(_ event: Event, _ now: Surroundings) -> [Effect] {
        switch event {
        case .connect(let reconnects, let delay): connect(reconnects, delay, now)
        case .cancel: cancel()
        case .retryDue, .poweredOn: attempt(now)
        case .connectAnswered(let error): connectAnswered(error, now)
        case .disconnectAnswered: disconnected(now)
        case .advertised: advertised(now)
        case .deviceChanged(let properties): deviceChanged(properties, now)
        case .endAnnounced(let reason): announceEnd(reason)
        case .radioLost(let error): radioLost(error, now)
        case .granted(let path): move(to: path, now)
        case .revoked: revoke(now)
        case .adopted: [.hold(path)] + begin()
        case .released: abandon()
        }
    }

    // MARK: The app's requests

    private mutating func connect(_ reconnects: Bool, _ delay: Double, _ now: Surroundings) -> [Effect] {
        self.reconnects = reconnects
        switch state {
        case .idle:
            state = .waiting(isSearching: false)
            pace.reset()
            return [.publishConnecting] + (delay > 0 ? [.schedule(.seconds(min(delay, 86_400)))] : attempt(now))
        case .waiting, .connecting: return [.publishConnecting]
        case .connected: return [.publishConnected(path)]
        case .disconnecting:
            state = .disconnecting(thenConnects: true)
            return []
        }
    }

    private mutating func cancel() -> [Effect] {
        reconnects = false
        switch state {
        case .idle: return [.publishIdle]
        case .waiting:
            state = .idle
            return [.cancelRetry, .publishDisconnected(nil, isReconnecting: false)]
        case .connecting:
            state = .idle
            return [.drop(path), .publishDisconnected(nil, isReconnecting: false)]
        case .connected:
            state = .disconnecting(thenConnects: false)
            return [.disconnect(path, CBError(.operationCancelled, "the app cancelled the connection"))]
        case .disconnecting:
            state = .disconnecting(thenConnects: false)
            return []
        }
    }

    private mutating func disconnected(_ now: Surroundings) -> [Effect] {
        guard case .disconnecting(let thenConnects) = state else { return [] }
        state = .idle
        return [.publishDisconnected(nil, isReconnecting: false)] + (thenConnects ? connect(reconnects, 0, now) : [])
    }

    private mutating func abandon() -> [Effect] {
        defer { state = .idle }
        return switch state {
        case .connecting, .connected:
            [.endRequests(CBError(.operationCancelled, "the app has released it")), .drop(path)]
        case .idle, .waiting, .disconnecting: [.cancelRetry]
        }
    }

    // MARK: Attempts

    private mutating func attempt(_ now: Surroundings) -> [Effect] {
        guard case .waiting(let isSearching) = state, now.isPoweredOn else { return [] }
        guard now.tree.device(path) != nil else {
            state = .waiting(isSearching: true)
            return [.cancelRetry]
        }
        state = .connecting(isSearching: isSearching)
        return [.cancelRetry, .hold(path), .connect(path)]
    }

    private mutating func connectAnswered(_ error: BusError?, _ now: Surroundings) -> [Effect] {
        guard case .connecting = state else { return [] }
        guard let error else { return linkUp() }
        if ErrorTable.endsConnecting(error) { return fail(ErrorTable.linkError(error)) }
        state = .waiting(isSearching: true)
        pace.failed(now.now)
        return [.release(path), .schedule(Self.maxPause)]
    }

    private mutating func fail(_ error: Failure) -> [Effect] {
        state = .idle
        return [.cancelRetry, .release(path), .publishFailure(error)]
    }

    private mutating func advertised(_ now: Surroundings) -> [Effect] {
        let wait = pace.advertised(now.now)
        guard state == .waiting(isSearching: true) else { return [] }
        return wait > 0 ? [.schedule(.milliseconds(wait / 1000 + 1))] : attempt(now)
    }

    // MARK: Signals

    private mutating func deviceChanged(_ properties: Set<String>, _ now: Surroundings) -> [Effect] {
        let isConnected = now.tree.device(path)?.isConnected == true
        switch state {
        case .connecting where isConnected: return linkUp()
        // Only a signal that has the property: `Connect` may be answered before it.
        case .connected(let reason) where properties.contains("Connected") && !isConnected:
            return lose(ErrorTable.linkEnd(reason), requests: ErrorTable.linkEnd(nil), now)
        case .connected where properties.contains("ServicesResolved"): return [.servicesChanged]
        case .idle, .waiting, .connecting, .connected, .disconnecting: return []
        }
    }

    private mutating func announceEnd(_ reason: String) -> [Effect] {
        if isConnected { state = .connected(endReason: reason) }
        return []
    }

    private mutating func linkUp() -> [Effect] {
        pace.reset()
        return begin() + [.publishConnected(path)]
    }

    private mutating func begin() -> [Effect] {
        state = .connected(endReason: nil)
        return [.beginRequests(path)]
    }

    private mutating func lose(_ error: Failure, requests answer: Failure? = nil, _ now: Surroundings) -> [Effect] {
        state = reconnects ? .waiting(isSearching: false) : .idle
        let ended: [Effect] = [
            .release(path), .endRequests(answer ?? error), .publishDisconnected(error, isReconnecting: reconnects),
        ]
        return ended + attempt(now)
    }

    /// A link that is wanted stays wanted.
    private mutating func radioLost(_ error: Failure, _ now: Surroundings) -> [Effect] {
        switch state {
        case .connecting(let isSearching):
            state = .waiting(isSearching: isSearching)
            return [.release(path)]
        case .connected: return lose(error, now)
        case .disconnecting: return disconnected(now)
        case .idle, .waiting: return [.cancelRetry]
        }
    }

    // MARK: Grants

    private mutating func move(to new: ObjectPath, _ now: Surroundings) -> [Effect] {
        guard new != path else { return [] }
        var effects: [Effect] = []
        switch state {
        case .idle, .waiting: break
        case .connecting, .connected, .disconnecting:
            // BlueZ removes the old object first.
            guard now.tree.device(path) == nil else { return [] }
            effects = radioLost(CBError(.peripheralDisconnected, "the peripheral has another address in BlueZ"), now)
        }
        path = new
        return effects + attempt(now)
    }

    private mutating func revoke(_ now: Surroundings) -> [Effect] {
        let error = CBError(.unknownDevice, "the grant has ended")
        reconnects = false
        return switch state {
        case .idle: []
        case .waiting, .connecting: fail(error)
        case .connected: lose(error, now)
        case .disconnecting: disconnected(now)
        }
    }
}

/// When to try again: at once after silence, ever more slowly while the accessory advertises and refuses.
private struct AttemptPace {
    private var failures = 0
    private var lastFailure: Int64 = 0
    private var lastAdvertisement: Int64 = 0

    /// Microseconds without an advertisement after which an accessory counts as having been away.
    private static let silence: Int64 = 3_000_000

    mutating func reset() { failures = 0 }

    mutating func failed(_ now: Int64) {
        failures += 1
        lastFailure = now
    }

    /// - Returns: microseconds until the next attempt.
    mutating func advertised(_ now: Int64) -> Int64 {
        if now - lastAdvertisement > Self.silence { failures = 0 }
        lastAdvertisement = now
        let pause = failures == 0 ? 0 : min(5_000_000, Int64(50_000) << Int64(min(failures, 8)))
        return lastFailure + pause - now
    }
}
