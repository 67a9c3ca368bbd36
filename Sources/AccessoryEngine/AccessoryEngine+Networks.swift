// Accessories' networks: what Wi-Fi tells and what it means for the running picker, and joining a granted network for an app. The
// machine gives its interface back as soon as nobody is entitled to the accessory's network any more.

internal import AccessoryCore
public import AccessoryModel
internal import Logging

/// The machine is on an accessory's network, or on its way there.
final class NetworkUse {
    enum State {
        case joining
        case joined(interface: String)
        case leaving
    }

    struct Holder: Hashable {
        let client: ClientID
        let app: AppID
    }

    let accessory: AccessoryID
    let ssid: SSID
    var state = State.joining
    /// Who wants to be on it; nobody left means that it is left.
    var holders: [Holder]
    /// What is to be told once the joining, or the leaving, has ended.
    var joinWaiters: [(Holder, (SetupError?) -> Void)] = []
    var leaveWaiters: [() -> Void] = []

    init(_ accessory: AccessoryID, _ ssid: SSID, _ holder: Holder) {
        self.accessory = accessory
        self.ssid = ssid
        holders = [holder]
    }
}

extension AccessoryEngine {
    /// Joins the network of an accessory for an app; the interface is the app's until it leaves, goes, or loses its grant.
    ///
    /// - Parameters:
    ///   - network: the network that the app means; nil for the accessory's.
    ///   - completion: called once, with why not.
    /// - Throws: `InvalidRequest` for what is not granted, `UserRestricted` where the admin denies it.
    public func joinNetwork(
        of id: AccessoryID, for client: ClientID, _ app: AppID, passphrase: NetworkJoin.Passphrase?, isHidden: Bool,
        network: SSID?, completion: @escaping (SetupError?) -> Void
    ) throws(SetupError) {
        guard let accessory = ledger.accessories[id], let grant = ledger.grant(of: id, to: app), grant.isEnabled else {
            throw .invalid("accessory", id, "is not an accessory of \(app)")
        }
        guard grant.state == .authorized else {
            throw .invalid("accessory", id, "is not authorized: it is \(grant.state.rawValue)")
        }
        guard let ssid = accessory.ssid else { throw .invalid("accessory", id, "has no network") }
        if let network, network != ssid { throw .invalid("options.ssid", network, "is not the network that was granted") }
        if let denial = policy.denial(of: accessory, to: app) {
            throw SetupError(.userRestricted, "rule \(denial.name) in \(denial.source) denies \(accessory.displayName) to \(app)")
        }
        guard networks.state == .ready else {
            throw SetupError(.connectionFailed, "Wi-Fi is \(networks.state.rawValue)")
        }
        let join = NetworkJoin(ssid: ssid, passphrase: passphrase, isHidden: isHidden)
        try begin(join, of: id, NetworkUse.Holder(client: client, app: app), completion)
    }

    private func begin(
        _ join: NetworkJoin, of id: AccessoryID, _ holder: NetworkUse.Holder, _ completion: @escaping (SetupError?) -> Void
    ) throws(SetupError) {
        guard let use = networkUse else { return start(join, of: id, holder, completion) }
        let again = { [weak self] in
            guard let self else { return }
            do throws(SetupError) {
                guard self.mayUse(id, holder) else { throw SetupError(.connectionFailed, "the accessory was removed meanwhile") }
                try self.begin(join, of: id, holder, completion)
            } catch {
                completion(error)
            }
        }
        switch use.state {
        case .leaving: use.leaveWaiters.append(again)
        case .joined where use.accessory == id && use.ssid == join.ssid:
            if !use.holders.contains(holder) { use.holders.append(holder) }
            completion(nil)
        case .joining where use.accessory == id && use.ssid == join.ssid:
            if !use.holders.contains(holder) { use.holders.append(holder) }
            use.joinWaiters.append((holder, completion))
        case .joined where use.holders.allSatisfy({ $0.client == holder.client }):
            use.leaveWaiters.append(again)
            leave(use, "the app joins another network")
        case .joined, .joining:
            throw SetupError(.connectionFailed, "the Wi-Fi interface is in use for another accessory")
        }
    }

    private func start(
        _ join: NetworkJoin, of id: AccessoryID, _ holder: NetworkUse.Holder, _ completion: @escaping (SetupError?) -> Void
    ) {
        let use = NetworkUse(id, join.ssid, holder)
        use.joinWaiters = [(holder, completion)]
        networkUse = use
        log.info("joining an accessory's network", metadata: ["accessory": "\(id)", "app": "\(holder.app)"])
        networks.join(join) { [weak self] result in
            guard let self, self.networkUse === use else { return }
            let waiters = use.joinWaiters
            use.joinWaiters = []
            switch result {
            case .success(let interface):
                use.state = .joined(interface: interface)
                self.log.notice("joined an accessory's network", metadata: ["accessory": "\(id)", "interface": "\(interface)"])
                self.observer?.networkUseChanged(of: id)
                for (holder, completion) in waiters {
                    let isHeld = use.holders.contains(holder)
                    if isHeld {
                        let who = Requester.app(self.describeClient(holder.client))
                        self.audit(.joined, app: holder.app, accessory: id, by: who, why: "\(use.ssid) on \(interface)")
                        self.noteUse(of: id, by: holder.app, requester: who, as: "joined its network")
                    }
                    completion(
                        isHeld ? nil : SetupError(.connectionFailed, "left again, or no longer granted, before it was joined"))
                }
                if use.holders.isEmpty { self.leave(use, "nobody wants it any more") }
            case .failure(let failure):
                self.networkUse = nil
                self.log.warning("a network could not be joined", metadata: ["accessory": "\(id)", "reason": "\(failure)"])
                for (_, completion) in waiters { completion(SetupError(.connectionFailed, failure.message)) }
                for waiter in use.leaveWaiters { waiter() }
            }
        }
    }

    /// An app has done with an accessory's network. Nothing happens to one that it had not joined.
    ///
    /// - Parameter completion: called once the interface is given back, or where others use it still, at once.
    public func leaveNetwork(of id: AccessoryID, for client: ClientID, completion: @escaping () -> Void) {
        guard let use = networkUse, use.accessory == id, use.holders.contains(where: { $0.client == client }) else {
            return completion()
        }
        use.holders.removeAll { $0.client == client }
        guard use.holders.isEmpty else { return completion() }
        use.leaveWaiters.append(completion)
        leave(use, "left by the app")
    }

    /// The interface that is on an accessory's network now; nil when none is.
    public func networkInterface(of id: AccessoryID) -> String? {
        guard let use = networkUse, use.accessory == id, case .joined(let interface) = use.state else { return nil }
        return interface
    }

    private func leave(_ use: NetworkUse, _ reason: String) {
        // One that is being joined is left once it is: what is half made could not be undone.
        guard case .joined = use.state else { return }
        end(use, reason)
        use.state = .leaving
        observer?.networkUseChanged(of: use.accessory)
        networks.leave { [weak self] in
            guard let self, self.networkUse === use else { return }
            self.networkUse = nil
            for waiter in use.leaveWaiters { waiter() }
        }
    }

    private func end(_ use: NetworkUse, _ reason: String) {
        log.notice("left an accessory's network", metadata: ["accessory": "\(use.accessory)", "reason": "\(reason)"])
        audit(.left, accessory: use.accessory, by: .daemon, why: reason)
    }

    /// Leaves the joined network if nobody is entitled to it any more.
    func reviewNetworkUse() {
        guard let use = networkUse else { return }
        let entitled = use.holders.filter { mayUse(use.accessory, $0) }
        let isOurs = ledger.accessories[use.accessory]?.ssid == use.ssid
        guard entitled != use.holders || !isOurs else { return }
        use.holders = isOurs ? entitled : []
        if use.holders.isEmpty { leave(use, "the app is gone, or its grant") }
    }

    /// Apps without a manifest have no grant that counts.
    public func reviewNetworkUse(keeping isKnown: (AppID) -> Bool) {
        guard let use = networkUse, use.holders.contains(where: { !isKnown($0.app) }) else { return }
        use.holders.removeAll { !isKnown($0.app) }
        if use.holders.isEmpty { leave(use, "the app's manifest is gone") }
    }

    private func mayUse(_ id: AccessoryID, _ holder: NetworkUse.Holder) -> Bool {
        guard let accessory = ledger.accessories[id], let grant = ledger.grant(of: id, to: holder.app), grant.isEnabled,
            grant.state == .authorized, policy.denial(of: accessory, to: holder.app) == nil
        else { return false }
        return sessions.values.contains { $0.client == holder.client && $0.app.id == holder.app }
    }

    /// Gives the interface back, for a daemon that ends.
    public func leaveNetworks(_ completion: @escaping () -> Void) {
        guard let use = networkUse else { return completion() }
        use.holders = []
        use.leaveWaiters.append(completion)
        leave(use, "the daemon ends")
    }
}

extension AccessoryEngine: NetworkRadioObserver {
    public func networkRadioChanged(_ state: RadioState, reason: String) {
        log.notice("Wi-Fi is \(state.rawValue)", metadata: ["reason": "\(reason)"])
        observer?.networkRadioStateChanged(state)
        if state != .ready { lost(.wifi, "Wi-Fi: \(reason)") }
    }

    public func scanFailed(_ failure: RadioFailure) {
        log.error("scanning for networks failed", metadata: ["reason": "\(failure)"])
        lost(.wifi, "scanning for networks failed: \(failure)")
    }

    public func heard(networks: [WiFiNetwork]) {
        noteHeard(networks)
        guard let run = picker, run.machine.needsScan, run.take(networks) else { return }
        scheduleDiscoveries(run)
        refreshOffers()
    }

    public func heard(services: [AwareService]) {
        guard let run = picker, run.machine.needsScan, run.take(services) else { return }
        scheduleDiscoveries(run)
        refreshOffers()
    }

    public func networkLost(reason: String) {
        guard let use = networkUse, case .joined = use.state else { return }
        end(use, reason)
        networkUse = nil
        observer?.networkUseChanged(of: use.accessory)
        for waiter in use.leaveWaiters { waiter() }
    }
}
