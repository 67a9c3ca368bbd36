// SPDX-License-Identifier: Apache-2.0
// Performs the effects of one accessory's `LinkMachine`: calls, the retry timer, the app's requests, and callbacks.

internal import BlueZInterfaces
internal import BlueZObjects
internal import DBusKit
internal import Foundation

/// Lives on the runtime's thread, as long as its client.
final class PeripheralLink {
    let identifier: UUID
    private unowned let client: CentralClient
    private var machine: LinkMachine
    /// `Connect` or `Disconnect`: the states in which one is in flight own it.
    private var call: PendingCall?
    private var retry: LoopSource?
    /// The app's requests, while the link is up.
    private(set) var requests: AttributeRequests?

    init(_ grant: ViewSession.Grant, _ client: CentralClient) {
        identifier = grant.identifier
        machine = LinkMachine(grant.path)
        self.client = client
    }

    private var core: CentralCore { client.core }
    private var session: ViewSession { client.session }
    var path: ObjectPath { machine.path }
    var isConnected: Bool { machine.isConnected }
    var needsDiscovery: Bool { machine.needsDiscovery }

    func handle(_ event: LinkMachine.Event) {
        let neededDiscovery = needsDiscovery
        let now = LinkMachine.Surroundings(
            isPoweredOn: session.state == .poweredOn, tree: session.tree, now: session.loop.now)
        let effects = machine.handle(event, now)
        switch machine.state {
        case .connecting, .disconnecting: break
        case .idle, .waiting, .connected:
            // A late answer must not be taken for that of a later attempt.
            call?.cancel()
            call = nil
        }
        for effect in effects { perform(effect) }
        if needsDiscovery != neededDiscovery { client.searchesChanged() }
    }

    private func perform(_ effect: LinkMachine.Effect) {
        switch effect {
        case .schedule(let pause):
            retry?.cancel()
            retry = session.loop.after(pause) { [weak self] in self?.handle(.retryDue) }
        case .cancelRetry:
            retry?.cancel()
            retry = nil
        case .hold(let path): client.hold(path)
        case .release(let path): _ = client.release(path)
        case .connect(let path):
            call?.cancel()
            call = session.call(path, Device1.interface, "Connect", timeout: .seconds(120)) { [weak self] in
                self?.handle(.connectAnswered($0.error))
            }
        case .drop(let path):
            if client.release(path) { session.call(path, Device1.interface, "Disconnect") { _ in } }
        case .disconnect(let path, let error):
            let isLast = client.release(path)
            endRequests(error, stopsNotifying: !isLast)
            guard isLast else { return handle(.disconnectAnswered) }
            call = session.call(path, Device1.interface, "Disconnect") { [weak self] _ in
                self?.handle(.disconnectAnswered)
            }
        case .beginRequests(let path): requests = AttributeRequests(identifier, path, core, session)
        case .endRequests(let error): endRequests(error, stopsNotifying: false)
        case .servicesChanged: requests?.servicesChanged()
        case .publishIdle: core.publish(identifier) { _, peripheral in peripheral.apply(state: .disconnected) }
        case .publishConnecting: core.publish(identifier) { _, peripheral in peripheral.apply(state: .connecting) }
        case .publishConnected(let path): publishConnected(session.tree.device(path)?.displayName)
        case .publishDisconnected(let error, let isReconnecting): publishDisconnected(error, isReconnecting)
        case .publishFailure(let error): core.publishFailure(identifier, error)
        }
    }

    private func endRequests(_ error: LinkMachine.Failure, stopsNotifying: Bool) {
        requests?.end(error, stopsNotifying: stopsNotifying)
        requests = nil
    }

    private func publishConnected(_ name: String?) {
        core.publish(identifier) { manager, peripheral in
            peripheral.apply(name: name)
            peripheral.apply(state: .connected)
            manager.delegate?.centralManager(manager, didConnect: peripheral)
        }
    }

    private func publishDisconnected(_ error: LinkMachine.Failure?, _ isReconnecting: Bool) {
        let now = Date().timeIntervalSinceReferenceDate
        core.publish(identifier) { manager, peripheral in
            peripheral.applyDisconnected(isReconnecting: isReconnecting)
            manager.core.streams.end(error) { $0.isOf(peripheral.identifier) }
            manager.delegate?.centralManager(
                manager, didDisconnectPeripheral: peripheral, timestamp: now, isReconnecting: isReconnecting,
                error: error)
        }
    }
}
