// SPDX-License-Identifier: Apache-2.0
// The whole engine against a model of a few dozen lines: who consented to which access, which access was taken away,
// whose bond is whose. Lives of random steps, made from a seed: three apps, five accessories, admins, rules, other
// programs, a disk that fills, a daemon that dies between any two effects. A life that breaks the promise is cut down
// to its shortest form and printed; the idea is that of FoundationDB's simulator.

import AccessoryCore
import AccessoryEngine
import AccessoryModel
import Logging
import TestSupport
import Testing

/// One step of a life. Its action and its subject follow from the numbers and from the state of the world, so any step
/// can be left out.
private struct Step: CustomStringConvertible {
    enum Kind: Int, CaseIterable, Hashable {
        case leadOn, show, migrate, pick, cancel, mute, unmute, answer, name, finish, fail, remove, update, rename, leave
        case hear, paired, pairingFails, bridged, radioOff, radioOn
        case revoke, switchOff, switchOn, removeForAll, deny, allow
        case otherBonds, otherForgets, diskFull, diskFree, wait, die
    }

    let kind: Kind
    let numbers: [Int]

    var description: String { "\(kind) \(numbers)" }
}

private struct Claim: Hashable {
    let app: AppID
    let address: UInt64
}

private struct Broken: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

private final class Life {
    static let services = [BluetoothUUID("180F")!, BluetoothUUID("1812")!]
    static let devices = (1...5).map { PlayedDevice(number: UInt64($0), service: services[$0 % 2]) }
    static let classics: [UInt64] = [11, 12]
    static let apps = ["app.a", "app.b", "app.c"].map { AppID($0)! }
    static let pickerProgram = "picker"

    let kept = PlayedBonds()
    let store = PlayedStore()
    var radio: PlayedRadio
    var clock = ManualClock()
    var engine: AccessoryEngine
    var policy = AccessPolicy()

    // The model.
    /// The access that a person gave by picking, or by accepting a migration, and that has not been taken away since.
    var consented: Set<Claim> = []
    /// The part of the consented claims that waits for the app.
    var unconfirmed: Set<Claim> = []
    /// The app that has confirmed last: a bridged device is bridged for it.
    var confirming: AppID?

    init() throws {
        radio = PlayedRadio(Self.devices, kept, store.fuse)
        engine = try Self.engine(radio, store, clock)
        try begin()
    }

    private static func engine(_ radio: PlayedRadio, _ store: PlayedStore, _ clock: ManualClock) throws -> AccessoryEngine {
        let engine = try AccessoryEngine(
            radio: radio, networks: ManualNetworks(), store: store, clock: clock, trail: store,
            log: Logger(label: "model") { _ in SwiftLogNoOpLogHandler() })
        engine.describeClient = { $0.rawValue }
        return engine
    }

    private static func manifest(of app: AppID) -> AppManifest {
        var manifest = AppManifest(id: app, name: app.rawValue, source: "/apps")
        manifest.supports = [.bluetooth, .wifi]
        manifest.services = Set(services)
        return manifest
    }

    private func begin() throws {
        engine.setPolicy(policy)
        engine.setManifests(Dictionary(uniqueKeysWithValues: Self.apps.map { ($0, Self.manifest(of: $0)) }))
        engine.start()
        try engine.registerPicker(ClientID(Self.pickerProgram))
    }

    /// The daemon has died: a new one finds the same world.
    private func restart(paired: Bool) throws {
        radio.abandon(paired: paired)
        let state = radio.state
        store.fuse = Fuse()
        radio = PlayedRadio(Self.devices, kept, store.fuse)
        radio.state = state
        clock = ManualClock()
        engine = try Self.engine(radio, store, clock)
        // A grant that was written and not yet announced survives; one that was not written does not.
        try begin()
    }

    // MARK: Who is where

    private func session(of app: AppID) throws -> Session {
        if let open = engine.sessions.values.filter({ $0.app.id == app }).min(by: { $0.id < $1.id }) { return open }
        let session = try engine.createSession(client: ClientID(app.rawValue), app: Self.manifest(of: app), party: .user(1000))
        try engine.activate(session)
        return session
    }

    /// By their addresses: identifiers are random, and a life must be the same each time.
    private static func ordered(_ accessories: some Sequence<Accessory>) -> [Accessory] {
        accessories.sorted { ($0.address?.value ?? 0) < ($1.address?.value ?? 0) }
    }

    private func accessories(of app: AppID) -> [Accessory] { Self.ordered(engine.ledger.accessories(of: app).map(\.accessory)) }

    private func terms(of accessory: Accessory, to app: AppID) -> Grant.Terms? {
        engine.ledger.grant(of: accessory.id, to: app)?.terms
    }

    private func grants() -> [Grant] { engine.ledger.grants.values.sorted { $0.id < $1.id } }

    private func withdraw(_ claim: Claim) {
        consented.remove(claim)
        unconfirmed.remove(claim)
    }

    private func claim(_ grant: Grant) -> Claim? {
        engine.ledger.accessories[grant.accessory]?.address.map { Claim(app: grant.app, address: $0.value) }
    }

    // MARK: Steps

    private static let answers: Set<Step.Kind> = [.leadOn, .pick, .cancel, .mute, .answer, .name, .paired, .pairingFails, .bridged]

    func play(_ step: Step) throws {
        let before = engine.ledger
        let lines = store.trail.count
        // A person's answer, and its consequences, are for the app that asked.
        let asking = engine.picker?.session.app.id
        let picker = engine.picker?.id
        let actor = perform(step) ?? (Self.answers.contains(step.kind) ? asking : nil)
        engine.flushAudit()
        let hasDied = store.fuse.isBurnt
        if hasDied { try restart(paired: step.numbers[2] % 2 == 0) }
        if let run = engine.picker, run.id != picker, engine.mutedApps.contains(where: { $0.app == run.session.app.id }) {
            throw Broken("\(run.session.app.id) asks although it is muted")
        }
        try check(before, hasDied: hasDied, lines: store.trail[lines...], actor: actor)
    }

    /// - Returns: the app that acted; nil when no app did.
    private func perform(_ step: Step) -> AppID? {
        let (one, two, three) = (step.numbers[0], step.numbers[1], step.numbers[2])
        let app = Self.apps[one % 3]
        switch step.kind {
        case .leadOn: return leadOn(one, two, three)
        case .show: show(app, two, three)
        case .migrate: migrate(app, two, three)
        case .pick: pick(two)
        case .cancel: if let run = engine.picker { try? engine.cancel(run) }
        case .mute: if let run = engine.picker { try? engine.mute(run) }
        case .unmute: for muted in engine.mutedApps { try? engine.unmute(muted.app, by: .person("somebody", user: nil)) }
        case .answer: answer(two % 4 != 0)
        case .name: if let run = engine.picker { try? engine.rename(run, to: "name \(two % 3)") }
        case .finish:
            let mine = accessories(of: app)
            finish(app, mine.isEmpty ? nil : mine[two % mine.count].id, three)
        case .fail:
            withAccessory(of: app, two) { session, accessory in
                try engine.failAuthorization(session, accessory.id) {}
                withdraw(Claim(app: app, address: accessory.address?.value ?? 0))
            }
        case .remove:
            withAccessory(of: app, two) { session, accessory in
                try engine.removeAccessory(session, accessory.id) {}
                withdraw(Claim(app: app, address: accessory.address?.value ?? 0))
            }
        case .update:
            withAccessory(of: app, two) { session, accessory in
                guard var descriptor = terms(of: accessory, to: app)?.descriptor else { return }
                descriptor.serviceUUID = Self.services[three % 2]
                descriptor.supportedOptions = three % 3 == 0 ? [.pairingLE, .hid] : [.pairingLE, .transportBridging]
                try engine.updateAuthorization(session, accessory.id, descriptor: descriptor)
            }
        case .rename:
            withAccessory(of: app, two) { session, accessory in
                try engine.renameAccessory(session, accessory.id, options: [])
            }
        case .leave:
            for session in engine.sessions.values.sorted(by: { $0.id < $1.id }) where session.app.id == app {
                engine.clientGone(session.client)
            }
            return app
        case .hear: hear(Self.devices[two % 5])
        case .paired: radio.endPairing()
        case .pairingFails: radio.failPairing([.refused, .busy, .other, .timeout][two % 4])
        case .bridged:
            radio.endBridging(two % 4 != 0)
            return confirming
        case .radioOff: radioBecomes(.off)
        case .radioOn: radioBecomes(.ready)
        case .revoke:
            withGrant(two) { grant in
                let claim = claim(grant)
                try engine.revoke(grant, reason: "test", by: .admin("root"))
                claim.map(withdraw)
            }
        case .switchOff: withGrant(two) { try engine.setEnabled($0, false, by: .admin("root")) }
        case .switchOn: withGrant(two) { try engine.setEnabled($0, true, by: .admin("root")) }
        case .removeForAll:
            let all = Self.ordered(engine.ledger.accessories.values)
            guard !all.isEmpty, case let accessory = all[two % all.count],
                (try? engine.remove(accessory, reason: "test", by: .admin("root"))) != nil
            else { return nil }
            for app in Self.apps { withdraw(Claim(app: app, address: accessory.address?.value ?? 0)) }
        case .deny:
            var target = AccessPolicy.Target()
            if three % 2 == 0 {
                target.address = Self.devices[two % 5].number
            } else {
                target.descriptor = DiscoveryDescriptor()
                target.descriptor?.serviceUUID = Self.services[two % 2]
            }
            policy.denials = [.init(name: "no", source: "x", apps: one % 2 == 0 ? nil : [app], target: target)]
            engine.setPolicy(policy)
        case .allow:
            policy.denials = []
            engine.setPolicy(policy)
        case .otherBonds:
            let number = (Self.devices.map(\.number) + Self.classics)[two % 7]
            let isFree = kept.owners[number] == nil && radio.pairing?.number != number && radio.bridging?.classic != number
            let isNoted = store.intents.contains { $0.address.value == number }
            guard isFree, !isNoted,
                !engine.ledger.holdsBond(with: BluetoothPeer(BluetoothAddress(value: number, kind: .public), adapter: nil))
            else { break }
            kept.owners[number] = .other
        case .otherForgets:
            guard let number = kept.owners.filter({ $0.value == .other }).keys.min() else { break }
            kept.owners[number] = nil
            radio.lose(number)
        case .diskFull: store.isFull = true
        case .diskFree: store.isFull = false
        case .wait: clock.advance(Double(1 + two % 90))
        case .die: store.fuse.left = two % 6
        }
        switch step.kind {
        case .show, .migrate, .finish, .fail, .remove, .update, .rename: return app
        default: return nil
        }
    }

    /// The usual next step, so that lives get somewhere.
    private func leadOn(_ one: Int, _ two: Int, _ three: Int) -> AppID? {
        if radio.pairing != nil {
            radio.endPairing()
        } else if radio.bridging != nil {
            radio.endBridging(true)
            return confirming
        } else if let run = engine.picker {
            switch run.presentation.stage {
            case .searching: for device in Self.devices { hear(device) }
            case .offering, .failed: pick(two)
            case .confirming where run.request == .migration: answer(true)
            case .confirming: return leadOnConfirming(run, one, three)
            case .renaming: try? engine.rename(run, to: "name")
            default: break
            }
        } else {
            radioBecomes(.ready)
            store.isFull = false
            let app = Self.apps[one % 3]
            // A person may have cancelled its last picker.
            try? engine.unmute(app, by: .person("somebody", user: nil))
            clock.advance(Limits.pickerPause.upperBound)
            show(app, two, three)
            return app
        }
        return nil
    }

    /// The app confirms; or it goes and may come back to do so; or another app that waits for the same accessory
    /// confirms.
    private func leadOnConfirming(_ run: PickerRun, _ one: Int, _ three: Int) -> AppID? {
        let app = run.session.app.id
        let waiting = run.machine.accessory.map { engine.ledger.grants(of: $0) }?.filter { $0.state == .awaitingAuthorization }.map(
            \.app)
        let others = (waiting ?? []).filter { $0 != app }
        if let other = others.first, one % 2 == 0 {
            finish(other, run.machine.accessory, three)
            return other
        }
        if one % 5 == 1 {
            engine.clientGone(run.session.client)
            return app
        }
        finish(app, run.machine.accessory, three)
        return app
    }

    private func item(_ kind: Int, _ more: Int) -> DisplayItem {
        var descriptor = DiscoveryDescriptor()
        descriptor.serviceUUID = Self.services[kind % 2]
        descriptor.supportedOptions = [[.pairingLE], [.pairingLE, .transportBridging], []][more % 3]
        var item = DisplayItem(name: "item", descriptor: descriptor)
        if more / 3 % 2 == 0 { item.setupOptions.insert(.confirmAuthorization) }
        if more / 6 % 4 == 0 { item.setupOptions.insert(.rename) }
        return item
    }

    private func show(_ app: AppID, _ two: Int, _ three: Int) {
        guard let session = try? session(of: app) else { return }
        try? engine.showPicker(session, items: [item(two, three), item(two + 1, three)], settings: PickerSettings())
    }

    private func migrate(_ app: AppID, _ two: Int, _ three: Int) {
        guard let session = try? session(of: app) else { return }
        var item = item(three, 2)
        item.setupOptions = []
        item.migration = Migration()
        item.migration?.peripheral = .address((Self.devices.map(\.number) + Self.classics)[two % 7])
        if three % 3 == 0 { item.migration?.hotspotSSID = SSID("net \(app)") }
        try? engine.showPicker(session, items: [item], settings: PickerSettings())
    }

    private func hear(_ device: PlayedDevice) {
        guard radio.scans > 0, radio.state == .ready else { return }
        var advertisement = device.advertisement
        advertisement.isPaired = kept.owners[device.number] != nil
        radio.observer?.heard([HeardDevice(address: device.address, rssi: -50, content: advertisement)])
    }

    private func pick(_ two: Int) {
        guard let run = engine.picker, !run.presentation.offers.isEmpty else { return }
        let offer = run.presentation.offers[two % run.presentation.offers.count]
        if run.request == .discovery, let address = offer.address,
            [.offering, .failed].contains(run.presentation.stage)
        {
            let claim = Claim(app: run.session.app.id, address: address.value)
            let isNew = engine.ledger.accessory(at: address).flatMap { engine.ledger.grant(of: $0.id, to: claim.app) } == nil
            consented.insert(claim)
            if isNew, offer.setup.contains(.confirmAuthorization) { unconfirmed.insert(claim) } else { unconfirmed.remove(claim) }
        }
        try? engine.pick(run, offer: offer.id)
    }

    private func answer(_ isYes: Bool) {
        guard let run = engine.picker else { return }
        if isYes, run.request == .migration, run.presentation.prompt == .consent {
            for offer in run.presentation.offers {
                guard let address = offer.address else { continue }
                let claim = Claim(app: run.session.app.id, address: address.value)
                consented.insert(claim)
                // A migrated accessory was used before: there is nothing to confirm, unless that waits already.
                guard engine.ledger.accessory(at: address).flatMap({ engine.ledger.grant(of: $0.id, to: claim.app) }) == nil else {
                    continue
                }
                unconfirmed.remove(claim)
            }
        }
        try? engine.respond(run, answer: isYes ? .accept : .reject)
    }

    private func finish(_ app: AppID, _ id: AccessoryID?, _ three: Int) {
        let mine = accessories(of: app)
        withAccessory(of: app, mine.firstIndex { $0.id == id } ?? 0) { session, accessory in
            guard engine.ledger.grant(of: accessory.id, to: app)?.state == .awaitingAuthorization else { return }
            var settings = AuthorizationSettings()
            let options = terms(of: accessory, to: app)?.descriptor.supportedOptions
            if options?.contains(.transportBridging) == true, three % 2 == 0 {
                settings.bridgingAddress = BluetoothAddress(
                    value: (Self.classics + Self.devices.map(\.number))[three / 2 % 7], kind: .public)
            }
            if radio.bridging == nil { confirming = app }
            // The confirmation counts from now on, whether it can be carried out at once or not.
            unconfirmed.remove(Claim(app: app, address: accessory.address?.value ?? 0))
            try engine.finishAuthorization(session, accessory.id, settings: settings)
        }
    }

    private func withAccessory(of app: AppID, _ number: Int, _ body: (Session, Accessory) throws -> Void) {
        let mine = accessories(of: app)
        guard !mine.isEmpty, let session = try? session(of: app) else { return }
        try? body(session, mine[number % mine.count])
    }

    private func withGrant(_ number: Int, _ body: (Grant) throws -> Void) {
        let all = grants()
        guard !all.isEmpty else { return }
        try? body(all[number % all.count])
    }

    private func radioBecomes(_ state: RadioState) {
        guard radio.state != state else { return }
        radio.state = state
        if state != .ready {
            radio.failPairing(.unavailable)
            radio.endBridging(false)
        }
        radio.observer?.radioChanged(state, reason: "test")
    }

    /// The state of all participants, for the reader of a failure.
    var situation: String {
        let grants = grants().map { grant in
            "\(grant.app):\(engine.ledger.accessories[grant.accessory]?.address?.value ?? 0)\(grant.isEnabled ? "" : " off")\(grant.state == .authorized ? "" : "?")"
        }
        let bonds = kept.owners.sorted { $0.key < $1.key }.map { "\($0.key)\($0.value == .ours ? "" : " other's")" }
        let intents = store.intents.map { "\($0.purpose) \($0.address.value)" }
        let run = engine.picker.map { "\($0.session.app.id) \($0.request.kind) \($0.presentation.stage)" } ?? "none"
        let radio = "\(self.radio.state), pairs \(self.radio.pairing?.number ?? 0), bridges \(self.radio.bridging?.classic ?? 0)"
        return "grants \(grants) bonds \(bonds) intents \(intents) picker \(run) radio \(radio)\(store.isFull ? " full" : "")"
    }

    // MARK: Invariants

    private func check(_ before: Ledger, hasDied: Bool, lines: ArraySlice<AuditEntry>, actor: AppID?) throws {
        let ledger = engine.ledger
        for grant in grants() {
            guard let accessory = ledger.accessories[grant.accessory], let claim = claim(grant) else {
                throw Broken("a grant of nothing")
            }
            guard consented.contains(claim) else { throw Broken("\(grant.app) has \(claim.address), and nobody gave it that") }
            if grant.state == .authorized, unconfirmed.contains(claim) {
                throw Broken("\(grant.app) is authorized for \(claim.address), and has not confirmed it")
            }
            try checkDenial(grant, accessory, claim)
            guard before.grants[grant.id] == nil else { continue }
            if let denial = policy.denial(of: GrantedAccessory(accessory, grant)) {
                throw Broken("granted although rule \(denial.name) denies it")
            }
            let device = Self.devices.first { $0.number == claim.address }
            let services = [grant.terms.descriptor.serviceUUID] + accessory.traits.services.map { $0 }
            guard let device, services.contains(device.service) else {
                throw Broken("granted \(claim.address) although nothing like it was asked for")
            }
        }
        guard kept.wronged.isEmpty else { throw Broken("the bond of another program was removed: \(kept.wronged)") }
        if radio.state == .ready, radio.pairing == nil, radio.bridging == nil, engine.picker == nil {
            for (number, owner) in kept.owners where owner == .ours {
                guard !ledger.holdsBond(with: BluetoothPeer(BluetoothAddress(value: number, kind: .public), adapter: nil)) else {
                    continue
                }
                throw Broken("the bond \(number) is an orphan")
            }
        }
        if let actor, !hasDied {
            for app in Self.apps where app != actor {
                guard before.accessories(of: app).map(\.grant) == ledger.accessories(of: app).map(\.grant) else {
                    throw Broken("what \(app) sees was changed by \(actor)")
                }
            }
        }
        // Also where it died: a change and its line are on the disk together, or neither is.
        try checkTrail(before, ledger, lines)
    }

    /// A rule denies every accessory that it matches by the accessory's own properties, whatever the app says now.
    private func checkDenial(_ grant: Grant, _ accessory: Accessory, _ claim: Claim) throws {
        let device = Self.devices.first { $0.number == claim.address }
        let speaks = policy.denials.contains { rule in
            rule.apps?.contains(grant.app) != false
                && (rule.target.address == claim.address
                    || rule.target.address == nil && rule.target.descriptor?.serviceUUID == device?.service)
        }
        if speaks, policy.denial(of: GrantedAccessory(accessory, grant)) == nil {
            throw Broken("\(grant.app) reaches \(claim.address), which a rule denies")
        }
    }

    /// Each change of access has a line, with who asked for it; and there is no line without a change.
    private func checkTrail(_ before: Ledger, _ after: Ledger, _ lines: ArraySlice<AuditEntry>) throws {
        func count(_ event: AuditEntry.Event) -> Int { lines.count { $0.event == event } }
        let (old, new) = (before.grants, after.grants)
        let both = new.values.compactMap { grant in old[grant.id].map { ($0, grant) } }
        let changes: [(AuditEntry.Event, AuditEntry.Event?, Int)] = [
            (.granted, .revoked, new.keys.count { old[$0] == nil } - old.keys.count { new[$0] == nil }),
            (.enabled, .disabled, both.count { !$0.isEnabled && $1.isEnabled } - both.count { $0.isEnabled && !$1.isEnabled }),
        ]
        for (more, less, difference) in changes where count(more) - (less.map(count) ?? 0) != difference {
            throw Broken("\(difference) changes of \(more), and the trail has \(lines.map { "\($0.event) by \($0.who)" })")
        }
        let authorized = both.count { $0.state != .authorized && $1.state == .authorized }
        guard count(.authorized) == authorized else {
            throw Broken("\(authorized) were authorized, and the trail has \(count(.authorized))")
        }
        for line in lines where [.granted, .authorized, .revoked, .enabled, .disabled, .updated, .renamed].contains(line.event) {
            guard line.who != "\(Requester.daemon)" else { throw Broken("nobody asked for: \(line.event)") }
        }
    }
}

@Suite struct EngineModelTests {
    private static let lives = 1200
    private static let steps = 200

    private static func steps(_ seed: UInt64) -> [Step] {
        var generator = SeededGenerator(state: seed)
        return (0..<steps).map { _ in
            let isLeading = UInt64.random(in: 0..<2, using: &generator) == 0
            let kind = Step.Kind.allCases[Int.random(in: 0..<Step.Kind.allCases.count, using: &generator)]
            return Step(
                kind: isLeading ? .leadOn : kind, numbers: (0..<3).map { _ in Int.random(in: 0..<840, using: &generator) })
        }
    }

    /// A life, step by step.
    private static func story(_ steps: [Step]) throws -> String {
        let life = try Life()
        return steps.map { step in
            try? life.play(step)
            return "  \(step)\n      \(life.situation)"
        }.joined(separator: "\n")
    }

    /// The first broken invariant, and its step; nil when all hold.
    private static func run(_ steps: [Step]) -> (why: String, steps: Int)? {
        do {
            let life = try Life()
            for (number, step) in steps.enumerated() {
                do { try life.play(step) } catch { return ("\(error)", number + 1) }
            }
            return nil
        } catch {
            return ("\(error)", 0)
        }
    }

    /// Leaves out the steps that the same failure does not need.
    private static func shrink(_ steps: [Step], _ why: String) -> [Step] {
        var steps = steps
        var size = steps.count / 2
        var length = steps.count
        while size > 0 {
            var start = 0
            while start < steps.count {
                var shorter = steps
                shorter.removeSubrange(start..<min(start + size, steps.count))
                if let failure = run(shorter), failure.why.prefix(16) == why.prefix(16) {
                    steps = Array(shorter.prefix(failure.steps))
                } else {
                    start += size
                }
            }
            // Once more from the beginning, as long as that helps.
            if size == 1, steps.count < length { (size, length) = (steps.count, steps.count) }
            size /= 2
        }
        return steps
    }

    @Test func thePromiseHolds() throws {
        for seed in 1...UInt64(Self.lives) {
            let steps = Self.steps(seed)
            guard let failure = Self.run(steps) else { continue }
            let short = Self.shrink(Array(steps.prefix(failure.steps)), failure.why)
            Issue.record("seed \(seed), \(short.count) steps: \(Self.run(short)?.why ?? failure.why)\n\(try Self.story(short))")
            return
        }
    }
}
