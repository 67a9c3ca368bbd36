// SPDX-License-Identifier: Apache-2.0
// Follows the services of one connected accessory: when BlueZ has resolved them, and when others take their place.
// (BlueZ, org.bluez.Device(5), ServicesResolved)

internal import BlueZInterfaces
internal import BlueZObjects
internal import DBusKit

/// One link's view of its accessory's attributes.
final class DatabaseWatch {
    private enum Resolution {
        case idle
        /// A request waits for the services.
        case awaited(() -> Void)
        /// BlueZ may signal that the services are resolved before they are objects (its issue 1489).
        case withoutObjects(() -> Void, LoopSource)
    }

    private enum Change {
        case none
        /// Objects also go with the link: `then` runs once it is certain that they have not.
        case settling(DatabaseChange, LoopSource, then: (() -> Void)?)
    }

    private let device: ObjectPath
    private let session: ViewSession
    private var resolution = Resolution.idle
    private var change = Change.none
    /// Called when attributes have been added or removed while the link stood.
    private let onModified: (_ removed: Set<ObjectPath>) -> Void

    init(_ device: ObjectPath, _ session: ViewSession, onModified: @escaping (_ removed: Set<ObjectPath>) -> Void) {
        self.device = device
        self.session = session
        self.onModified = onModified
    }

    func end() {
        if case .withoutObjects(_, let timer) = resolution { timer.cancel() }
        if case .settling(_, let timer, _) = change { timer.cancel() }
        (resolution, change) = (.idle, .none)
    }

    // MARK: Resolving

    /// Calls `body` once BlueZ has resolved the services. One at a time.
    func whenResolved(_ body: @escaping () -> Void) {
        resolution = .awaited(body)
        servicesChanged()
    }

    /// `ServicesResolved` may have changed.
    func servicesChanged() {
        guard case .awaited(let body) = resolution, let device = session.tree.device(device), device.areServicesResolved else {
            return
        }
        let isExpected = device.services.contains { !BlueZTree.claimedServices.contains($0) }
        guard isExpected, !session.tree.hasServices(self.device) else { return resolve(body) }
        awaitObjects(body, for: DatabaseChange.maxDiscovery)
    }

    private func awaitObjects(_ body: @escaping () -> Void, for time: Duration) {
        resolution = .withoutObjects(body, session.loop.after(time) { [weak self] in self?.resolve(body) })
    }

    private func resolve(_ body: () -> Void) {
        resolution = .idle
        body()
    }

    // MARK: Changes

    /// Calls `body` once it is certain whether removed attributes are gone for themselves. Where they went with the
    /// link, its end answers the request instead.
    func whenSettled(_ body: @escaping () -> Void) {
        guard case .settling(let change, let timer, _) = change else { return body() }
        self.change = .settling(change, timer, then: body)
    }

    /// An attribute was added or removed.
    func attributeChanged(_ path: ObjectPath, isGone: Bool) {
        // Objects that a request waits for come together, within a moment.
        if case .withoutObjects(let body, let timer) = resolution {
            timer.cancel()
            return awaitObjects(body, for: DatabaseChange.settling)
        }
        // Objects that come before the services are resolved are the first database.
        guard isGone || session.tree.device(device)?.areServicesResolved == true else { return }
        var (pending, then) = (DatabaseChange(), nil as (() -> Void)?)
        if case .settling(let earlier, let timer, let body) = change {
            timer.cancel()
            (pending, then) = (earlier, body)
        }
        pending.add(path, isGone: isGone)
        settle(pending, after: DatabaseChange.settling, then) { [weak self] in self?.settled() }
    }

    private func settle(
        _ pending: DatabaseChange, after time: Duration, _ then: (() -> Void)?, _ body: @escaping () -> Void
    ) {
        change = .settling(pending, session.loop.after(time, body), then: then)
    }

    private func settled() {
        guard case .settling(let pending, _, let then) = change else { return }
        guard pending.isUnfinished(session.tree.services(of: device)) else { return publish() }
        settle(pending, after: DatabaseChange.maxDiscovery - DatabaseChange.settling, then) { [weak self] in self?.publish() }
    }

    private func publish() {
        guard case .settling(let pending, _, let then) = change else { return }
        change = .none
        // Before the attributes are invalid: the answer could not be delivered then.
        then?()
        onModified(pending.gone)
    }
}
