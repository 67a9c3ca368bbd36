// SPDX-License-Identifier: Apache-2.0
// Devices that apps hear by grants for a kind: matched while a client of the app uses the view, and kept until the
// radio drops them.

internal import AccessoryCore
public import AccessoryModel
internal import Logging

/// A device that an app hears.
public struct HeardMember: Hashable, Sendable {
    /// Of the device, at present.
    public let address: BluetoothAddress
    /// Its Local Name; empty without one. A stranger's text.
    public let name: String
}

final class Hearing {
    /// The kinds of one app, and the devices that match them.
    private struct Listener {
        let kinds: [GrantedAccessory]
        var matcher: Matcher
        /// The device's adverts, and the index of its kind.
        private(set) var members: [BluetoothAddress: (advert: Advertisement, kind: Int)] = [:]
        /// The devices of each kind, by its index: a full kind is asked for its count by each device in range.
        private(set) var counts: [Int]
        /// Kinds with as many devices as they may have, which the log has.
        var full: Set<Int> = []
        /// When each kind was last noted as used, in monotonic seconds.
        var used: [Int: Double] = [:]

        init(_ kinds: [GrantedAccessory]) {
            self.kinds = kinds
            matcher = Matcher(kinds.map(\.grant.terms.descriptor))
            counts = kinds.map { _ in 0 }
        }

        /// Adds a device, or takes in its new adverts.
        mutating func put(_ advert: Advertisement, as kind: Int) {
            if let old = members.updateValue((advert, kind), forKey: advert.address) { counts[old.kind] -= 1 }
            counts[kind] += 1
        }

        /// - Returns: the device's kind.
        mutating func remove(_ address: BluetoothAddress) -> Int? {
            guard let member = members.removeValue(forKey: address) else { return nil }
            counts[member.kind] -= 1
            return member.kind
        }

        mutating func removeAll() {
            members = [:]
            counts = kinds.map { _ in 0 }
            full = []
        }

        /// The kind that decides about a device, by its index, and the verdict; nil where no kind matches.
        mutating func verdict(on advert: Advertisement, by policy: AccessPolicy, of app: AppID) -> (kind: Int, KindVerdict)? {
            if let kind = members[advert.address]?.kind { return (kind, .heard) }
            guard let kind = matcher.firstMatch(advert, smoothedRSSI: nil) else { return nil }
            let terms = kinds[kind].grant.terms
            if terms.excluded.contains(advert.address.value) { return (kind, .excluded) }
            if let denial = policy.denial(of: AccessoryCandidate(advertisement: advert), to: app) { return (kind, .denied(denial)) }
            let most = terms.descriptor.heardDevices
            return (kind, counts[kind] < most ? .open : .full(atMost: most))
        }
    }

    private let services: EngineServices
    /// Apps with a client that uses the view.
    private var present: Set<AppID> = []
    /// Apps that observe a kind.
    private var observing: Set<AppID> = []
    private var listeners: [AppID: Listener] = [:]
    private var policy = AccessPolicy()
    private var adverts: DiscoveryToken?

    private var registry: GrantRegistry { services.registry }

    init(_ services: EngineServices) {
        self.services = services
    }

    /// The devices that an app hears; nil for an app without a kind.
    func members(of app: AppID) -> [BluetoothAddress]? {
        listeners[app].map { Array($0.members.keys) } ?? (kinds(of: app).isEmpty ? nil : [])
    }

    /// The devices that an app hears by one grant, by their addresses.
    func members(by grant: Grant) -> [HeardMember] {
        guard let listener = listeners[grant.app],
            let kind = listener.kinds.firstIndex(where: { $0.grant.id == grant.id })
        else { return [] }
        return listener.members.values.filter { $0.kind == kind }
            .map { HeardMember(address: $0.advert.address, name: $0.advert.localName ?? "") }.sorted { $0.address < $1.address }
    }

    // MARK: Changes

    /// The apps with a client that uses the view now.
    func setPresent(_ apps: Set<AppID>) {
        guard apps != present else { return }
        present = apps
        review()
    }

    /// The apps that observe a kind now.
    func setObserving(_ apps: Set<AppID>) {
        guard apps != observing else { return }
        observing = apps
        review()
    }

    /// The grants by which a device is heard.
    func grants(hearing address: BluetoothAddress) -> [Int64] {
        listeners.values.compactMap { listener in listener.members[address].map { listener.kinds[$0.kind].grant.id } }
    }

    /// Looks at the grants and rules anew: a device that they open no more is not heard from now on.
    func review() {
        var seeks = false
        let rulesChanged = policy != registry.policy
        policy = registry.policy
        let apps = present.union(observing)
        for app in apps.union(listeners.keys) {
            let kinds = apps.contains(app) ? kinds(of: app) : []
            let former = listeners[app]
            guard rulesChanged || kinds.map(\.grant.decisive) != (former?.kinds.map(\.grant.decisive) ?? []) else { continue }
            guard !kinds.isEmpty else {
                listeners[app] = nil
                continue
            }
            seeks = true
            var listener = Listener(kinds)
            for member in former?.members.values ?? [:].values { _ = admit(member.advert, to: &listener, of: app) }
            listeners[app] = listener
        }
        if listeners.isEmpty { adverts = nil }
        // Reported anew: a device that is no change to the radio may be one to a new kind.
        if seeks { adverts = services.radio.listen() }
    }

    private func kinds(of app: AppID) -> [GrantedAccessory] {
        registry.ledger.kinds(of: app).filter { registry.obstacle(to: $0, by: .bluetooth) == nil }
    }

    /// For each device, by its address, the app's kinds that match it and the verdict of each, oldest grant first.
    func verdicts(
        on adverts: [Advertisement], of app: AppID
    ) -> [BluetoothAddress: [(granted: GrantedAccessory, verdict: KindVerdict)]] {
        let all = registry.ledger.kinds(of: app)
        guard !all.isEmpty else { return [:] }
        var listener = listeners[app] ?? Listener(kinds(of: app))
        var matchers = all.map { Matcher([$0.grant.terms.descriptor]) }
        var verdicts: [BluetoothAddress: [(granted: GrantedAccessory, verdict: KindVerdict)]] = [:]
        for advert in adverts {
            let decided = listener.verdict(on: advert, by: registry.policy, of: app)
            let decisive = decided.map { listener.kinds[$0.kind].grant.id }
            verdicts[advert.address] = all.indices.compactMap { index in
                let granted = all[index]
                if let decided, granted.grant.id == decisive { return (granted, decided.1) }
                guard matchers[index].firstMatch(advert, smoothedRSSI: nil) != nil else { return nil }
                if let obstacle = registry.obstacle(to: granted, by: .bluetooth) { return (granted, .closed(obstacle)) }
                return decisive.map { (granted, .olderGrant($0)) }
            }
        }
        return verdicts
    }

    /// Takes in adverts; publishes the apps that hear other devices now.
    func heard(_ changes: [HeardDevice]) {
        for app in listeners.keys {
            guard var listener = listeners.removeValue(forKey: app) else { continue }
            var hasNew = false
            for content in changes.lazy.compactMap(\.content) where admit(content, to: &listener, of: app) { hasNew = true }
            // An app that only observes its presence does not use a kind.
            if present.contains(app) { noteUses(&listener, changes, of: app) }
            listeners[app] = listener
            if hasNew { services.publisher.publish(.hearing(app)) }
        }
    }

    /// An app uses a kind while it hears its devices.
    private func noteUses(_ listener: inout Listener, _ changes: [HeardDevice], of app: AppID) {
        let now = services.clock.uptime
        guard
            listener.used.count < listener.kinds.count
                || listener.used.values.contains(where: { now - $0 >= GrantRegistry.betweenUses })
        else { return }
        for change in changes {
            guard let kind = listener.members[change.address]?.kind,
                listener.used[kind].map({ now - $0 >= GrantRegistry.betweenUses }) ?? true
            else { continue }
            listener.used[kind] = now
            services.registry.recordUse(
                of: listener.kinds[kind].accessory.id, by: app, requester: .daemon, as: "heard its devices")
        }
    }

    /// - Returns: whether the device is a new one.
    private func admit(_ advert: Advertisement, to listener: inout Listener, of app: AppID) -> Bool {
        guard let (kind, verdict) = listener.verdict(on: advert, by: registry.policy, of: app) else { return false }
        switch verdict {
        case .heard:
            listener.put(advert, as: kind)
            return false
        case .open:
            listener.put(advert, as: kind)
            return true
        case .full(let most):
            guard listener.full.insert(kind).inserted else { return false }
            services.log.notice(
                "a kind has as many devices as it may have",
                metadata: ["app": "\(app)", "grant": "\(listener.kinds[kind].grant.id)", "devices": "\(most)"])
            return false
        case .excluded, .denied, .olderGrant, .closed: return false
        }
    }

    /// The radio has dropped a device.
    func lost(_ address: BluetoothAddress) {
        var hasRoom = false
        for app in listeners.keys {
            guard let kind = listeners[app]?.remove(address) else { continue }
            if listeners[app]?.full.remove(kind) != nil { hasRoom = true }
            services.publisher.publish(.hearing(app))
        }
        // Reported anew, for a kind that was full.
        if hasRoom { adverts = services.radio.listen() }
    }

    /// The radio has lost all devices.
    func lostAll() {
        for app in listeners.keys { listeners[app]?.removeAll() }
    }
}

extension Grant {
    fileprivate struct Decisive: Hashable {
        let id: Int64
        let terms: Terms
    }

    /// The grant, as far as it decides on devices.
    fileprivate var decisive: Decisive {
        var terms = terms
        terms.time = .none
        return Decisive(id: id, terms: terms)
    }
}
