// SPDX-License-Identifier: Apache-2.0
// The way back to the previous connection of an interface. NetworkManager can abort an activation that begins while
// another ends, or never finish it; and after a restart it gives up when the supplicant below was still on the
// accessory's network (both seen with 1.42). So an activation is followed until it is complete, and begun again where
// it fails: one procedure, whichever of the two began it.

internal import AccessoryEngine
internal import AccessoryModel
internal import CallsOut
internal import DBusKit
internal import Logging

/// The way back as a value: events in, effects out.
struct ReconnectionMachine: Hashable {
    enum State: Hashable {
        /// The device's active connection is being read, or ours activated.
        case looking
        case following(ObjectPath)
        case pausing
        /// Nothing in range can be activated; continues when the device changes.
        case watching
        case over
    }

    enum Event: Hashable {
        case begin
        /// The active connection; nil for none.
        case found(ObjectPath?)
        /// The accessory's connection is still active.
        case foundAccessory
        case activating(ObjectPath)
        /// NetworkManager refused a call.
        case refused
        case activated
        case deactivated
        case timeUp
        case deviceChanged
    }

    enum Effect: Hashable {
        case look
        case activate
        case deactivate(ObjectPath)
        case follow(ObjectPath)
        case wait(Duration)
        /// Whether the previous connection is on its way.
        case started(Bool)
        case giveUp
    }

    private(set) var state = State.pausing
    private var attemptsLeft = 4
    /// NetworkManager was restarted, and tries by itself first.
    let isAfterRestart: Bool

    static let betweenAttempts = Duration.seconds(2)
    /// More than the 45 s for which NetworkManager waits for an address.
    static let maxActivation = Duration.seconds(50)

    init(isAfterRestart: Bool) {
        self.isAfterRestart = isAfterRestart
    }

    mutating func handle(_ event: Event) -> [Effect] {
        switch (state, event) {
        case (.pausing, .begin) where isAfterRestart: return [.wait(Self.betweenAttempts)]
        case (.pausing, .begin), (.pausing, .timeUp):
            state = .looking
            return [.look]
        case (.looking, .found(let active?)), (.looking, .activating(let active)):
            state = .following(active)
            return [.started(true), .follow(active), .wait(Self.maxActivation)]
        case (.looking, .found(nil)): return [.activate]
        case (.looking, .foundAccessory) where isAfterRestart: return failed()
        case (.looking, .refused) where isAfterRestart: state = .watching
        case (.looking, .refused), (.looking, .foundAccessory):
            state = .over
            return [.started(false)]
        case (.following, .activated): state = .over
        case (.following, .deactivated): return failed()
        case (.following(let active), .timeUp): return [.deactivate(active)]
        case (.watching, .deviceChanged):
            state = .pausing
            return [.wait(Self.betweenAttempts)]
        default: break
        }
        return []
    }

    private mutating func failed() -> [Effect] {
        attemptsLeft -= 1
        guard attemptsLeft > 0 else {
            state = .over
            return [.giveUp]
        }
        state = .pausing
        return [.wait(Self.betweenAttempts)]
    }
}

/// Performs the effects; ends when it is released.
final class Reconnection {
    /// The connection to go back to; nil for NetworkManager's choice.
    let target: ObjectPath?
    private var machine: ReconnectionMachine
    private unowned let manager: NetworkManager
    private let record: JoinRecord
    private var started: ((Bool) -> Void)?
    private var following: Subscription?
    private var timer: LoopSource?

    /// - Parameters:
    ///   - afterRestart: NetworkManager has been restarted since the record was written, and its paths are new.
    ///   - started: called once, with false where NetworkManager refused.
    init(_ manager: NetworkManager, _ record: JoinRecord, afterRestart: Bool, started: ((Bool) -> Void)? = nil) {
        self.manager = manager
        self.record = record
        self.started = started
        target = afterRestart ? nil : ObjectPath(record.previous)
        machine = ReconnectionMachine(isAfterRestart: afterRestart)
        handle(.begin)
    }

    deinit {
        following?.cancel()
        timer?.cancel()
    }

    /// The interface has appeared, or NetworkManager begins an activation by itself.
    func deviceChanged() {
        if manager.interfaces[record.interface]?.state == .ready { handle(.deviceChanged) }
    }

    private func handle(_ event: ReconnectionMachine.Event) {
        for effect in machine.handle(event) { perform(effect) }
        if case .following = machine.state { return }
        following?.cancel()
        following = nil
        if machine.state == .over { timer?.cancel() }
    }

    private func perform(_ effect: ReconnectionMachine.Effect) {
        switch effect {
        case .look: look()
        case .activate: activate()
        case .deactivate(let active):
            manager.log.warning("the previous connection is taking too long; activating it again")
            manager.deactivate(active) { _ in }
        case .follow(let active): follow(active)
        case .wait(let time):
            timer?.cancel()
            timer = manager.loop.after(time) { [weak self] in self?.handle(.timeUp) }
        case .started(let isStarted):
            started?(isStarted)
            started = nil
        case .giveUp: manager.log.warning("the previous connection could not be activated")
        }
    }

    private func look() {
        guard let path = manager.interfaces[record.interface]?.path else { return handle(.refused) }
        manager.activeConnection(of: path) { [weak self] result in
            guard let self else { return }
            guard case .success(let active) = result else { return self.handle(.refused) }
            self.handle(active.map { self.isAccessory($0) ? .foundAccessory : .found($0.path) } ?? .found(nil))
        }
    }

    /// NetworkManager names its own connection for a network of iwd's after the network.
    private func isAccessory(_ active: (path: ObjectPath, values: [String: DBusValue])) -> Bool {
        guard machine.isAfterRestart else { return active.path.rawValue == record.joined }
        let id = active.values["Id"]?.stringValue
        return id == record.ssid.map(ManagedNetwork.name) || id == record.ssid?.text
    }

    private func activate() {
        guard let path = manager.interfaces[record.interface]?.path else { return handle(.refused) }
        manager.link.call(
            .activatePreviousConnection, at: NetworkManager.root, [.objectPath(target ?? "/"), .objectPath(path), .objectPath("/")]
        ) { [weak self] result in
            guard let self else { return }
            if let error = result.error {
                self.manager.log.warning("the previous connection cannot be activated", metadata: ["error": "\(error)"])
            }
            self.handle((try? result.get())?.first?.objectPathValue.map { .activating($0) } ?? .refused)
        }
    }

    private func follow(_ active: ObjectPath) {
        let changed = { [weak self] (state: Int?) in
            guard let self, self.machine.state == .following(active) else { return }
            if state == ManagedNetwork.activated { self.handle(.activated) }
            if state == ManagedNetwork.deactivated { self.handle(.deactivated) }
        }
        following?.cancel()
        following = manager.link.onSignal(NetworkManager.active, "StateChanged", of: active) { _, arguments in
            changed(arguments.first?.integerValue)
        }
        // Changes from before the subscription.
        manager.link.properties(.managerActive, at: active) { result in
            if case .success(let values) = result { changed(values["State"]?.integerValue ?? ManagedNetwork.deactivated) }
        }
    }
}
