// SPDX-License-Identifier: Apache-2.0
// Ends grants when their time has come, and warns their apps before. One timer waits for the next such moment, and
// nothing while no grant has an end.

internal import AccessoryCore
internal import AccessoryModel
internal import Logging

final class GrantEnds {
    private let services: EngineServices
    private var timer: (any EngineTimer)?
    private var watch: (any EngineTimer)?
    private var isReviewing = false

    private var registry: GrantRegistry { services.registry }

    /// Seconds between two tries to store an end, and between anchors while the time since the earlier boot is unknown.
    private static let retry = 60.0
    private static let betweenAnchors = 3600.0

    init(_ services: EngineServices) {
        self.services = services
    }

    /// From now on the clock is watched, also before the first grant with an end: whether the time is known is nothing
    /// that could be found out later.
    func start() {
        watch = services.clock.onClockSet { [weak self] in self?.clockSet() }
        review()
    }

    /// Ends and warns as far as it is time, and waits for the next moment.
    func review() {
        guard !isReviewing else { return }
        isReviewing = true
        defer { isReviewing = false }
        var next = Double.infinity
        for id in registry.ledger.grants.keys.sorted() {
            // One that has lost its bond ends once it is paired again: as ended, it could be renewed without pairing.
            guard let grant = registry.ledger.grants[id], grant.state != .unauthorized,
                case .running(let ends, let hasWarned) = grant.terms.time,
                let remaining = grant.terms.time.remaining(at: services.time.now)
            else { continue }
            let lead = grant.terms.time.lead
            if remaining <= 0 {
                if !end(grant) { next = min(next, Self.retry) }
            } else if remaining <= lead, !hasWarned {
                warn(grant, ends)
                next = min(next, remaining)
            } else {
                next = min(next, hasWarned ? remaining : remaining - lead)
            }
        }
        wait(next)
    }

    private func wait(_ seconds: Double) {
        timer?.cancel()
        timer = nil
        guard seconds < .infinity else { return }
        let isSettled = services.time.isSettled
        timer = services.clock.after(isSettled ? max(0, seconds) : min(max(0, seconds), Self.betweenAnchors)) { [weak self] in
            // A machine that is switched off without ever knowing the time loses an hour at most.
            if !isSettled { self?.storeAnchor() }
            self?.review()
        }
    }

    private func clockSet() {
        services.time.clockSet()
        storeAnchor()
        review()
        // Their times for people are others now.
        for grant in registry.ledger.grants.values where grant.terms.time.remaining(at: services.time.now) != nil {
            services.publisher.publish(.grantChanged(grant, from: grant))
        }
    }

    /// Stores how much time has passed: before the daemon ends.
    func storeAnchor() {
        guard timer != nil else { return }
        registry.store(services.time.anchor)
    }

    /// - Returns: whether it was stored.
    private func end(_ grant: Grant) -> Bool {
        let rules = grant.terms.time.rules.map(\.description).joined(separator: ", ")
        do throws(SetupError) {
            try services.access.end(grant, reason: "its time is over: \(rules)")
            return true
        } catch {
            // `GrantRegistry.usable` goes by the time itself.
            services.log.error(
                "could not store the end of a grant", metadata: ["grant": "\(grant.id)", "error": "\(error.message)"])
            services.publisher.publish(.access)
            return false
        }
    }

    private func warn(_ grant: Grant, _ ends: [GrantEnd]) {
        var warned = grant
        warned.terms.time = .running(ends, hasWarned: true)
        do throws(SetupError) {
            try registry.change([.grant(warned)], reason: "the app is warned of the end", by: .daemon)
        } catch {
            services.log.error("could not store a warning", metadata: ["grant": "\(grant.id)", "error": "\(error.message)"])
        }
        guard grant.isEnabled, let granted = registry.ledger.granted(grant.accessory, to: grant.app) else { return }
        services.sessions.publish(SessionEvent(.accessWillEnd, accessory: granted), to: grant.app)
    }
}
