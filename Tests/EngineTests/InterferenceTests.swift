// SPDX-License-Identifier: Apache-2.0
// Non-interference, by playing each life twice: once with two apps, and once without the calls of the one app. The
// other app must observe, receive and be able to join the same in both. Outside of this promise (Docs/Decisions/0028)
// are the display name and image of a shared accessory, a picker that is in use, progress of a pairing that a bond
// makes superfluous, and identity: an accessory that was set up as one, by its network and by Bluetooth, is one for
// every app.
//
// A step is a whole conversation: the picker is free again at its end. Accessories are named by their address or
// network, never by identifiers, which are random.

import AccessoryCore
import AccessoryEngine
import AccessoryModel
import Logging
import TestSupport
import Testing

private struct Move: CustomStringConvertible {
    enum Kind: Int, CaseIterable {
        case setUp, setUpNetwork, migrate, update, rename, finish, fail, remove, join, reconnect
        case hear, revoke, switchGrant, rule, manifest
    }

    let kind: Kind
    let isIntruder: Bool
    let numbers: [Int]
    var description: String { "\(isIntruder ? "B" : "A") \(kind) \(numbers)" }
}

private final class World {
    static let (a, b) = (AppID("app.a")!, AppID("app.b")!)
    static let services = [BluetoothUUID("180F")!, BluetoothUUID("1812")!]
    static let devices = (1...4).map { PlayedDevice(number: UInt64($0), service: services[$0 % 2]) }
    static let names = ["Dice-1", "Dice-2", "Door"]
    static let classics: [UInt64] = [11, 12]

    let radio: PlayedRadio
    let networks = ManualNetworks()
    let engine: AccessoryEngine
    private var manifests: [AppID: AppManifest] = [:]
    private var sessions: [AppID: Session] = [:]
    private var denials: [AppID: AccessPolicy.Denial] = [:]

    /// The events that the app has observed, in order; an event that differs from the last one only in details that it
    /// may not rely on is left out.
    private(set) var observed: [String] = []
    private var lastSight = ""
    /// An accessory that was to be had as another one.
    private(set) var mistaken: String?

    init() throws {
        let store = PlayedStore()
        radio = PlayedRadio(Self.devices, PlayedBonds(), store.fuse)
        engine = try AccessoryEngine(
            radio: radio, networks: networks, store: store, clock: ManualClock(), trail: store,
            log: Logger(label: "model") { _ in SwiftLogNoOpLogHandler() })
        for app in [Self.a, Self.b] { manifests[app] = Self.manifest(of: app, supports: [.bluetooth, .wifi]) }
        engine.setManifests(manifests)
        engine.listen { [unowned self] in hear($0) }
        engine.start()
        try engine.registerPicker(ClientID("picker"))
    }

    private static func manifest(of app: AppID, supports: Set<Technology>) -> AppManifest {
        var manifest = AppManifest(id: app, name: app.rawValue, source: "/apps")
        manifest.supports = supports
        manifest.services = Set(services)
        return manifest
    }

    private func hear(_ news: EngineEvent) {
        guard case .event(let event, let session) = news, session.app.id == Self.a else { return }
        switch event.type {
        case .pickerSetupPairing, .pickerSetupBridging: return
        case .accessoryChanged where sight == lastSight: return
        default: observed.append("\(event.type) \(event.accessory.map(Self.sight) ?? "") \(event.error.map { "\($0.code)" } ?? "")")
        }
        lastSight = sight
    }

    // MARK: An app's observations

    private static func sight(_ granted: GrantedAccessory) -> String {
        let (grant, terms) = (granted.grant, granted.grant.terms)
        return [
            "\(granted.address?.value ?? 0)", "\(grant.state) \(grant.isEnabled)", "\(terms.ssid?.description ?? "-")",
            "\(terms.classicAddress?.value ?? 0)", "\(terms.descriptor.serviceUUID?.description ?? "-")",
            "\(terms.descriptor.supportedOptions.rawValue)", "\(terms.descriptor.ssidPrefix ?? [])",
        ].joined(separator: " ")
    }

    /// The app's accessories, the oldest grant first.
    private func mine(_ app: AppID) -> [GrantedAccessory] {
        engine.ledger.grants.values.filter { $0.app == app }.sorted { $0.id < $1.id }.compactMap {
            engine.ledger.granted($0.accessory, to: app)
        }
    }

    private var sight: String {
        mine(Self.a).map { granted in
            let id = granted.accessory.id
            let uses = [Technology.bluetooth, .wifi].map { engine.mayUse(id, Self.a, by: $0) }
            return Self.sight(granted)
                + " \(uses) on \(granted.grant.terms.ssid.flatMap { engine.networkInterface(of: id, on: $0) } ?? "-")"
        }.joined(separator: "; ")
    }

    // MARK: Moves

    func make(_ move: Move) {
        let app = move.isIntruder ? Self.b : Self.a
        let outcome = perform(move, app)
        if !move.isIntruder { observed.append("\(move): \(outcome)") }
        observed.append(sight)
        lastSight = sight
        let addresses = engine.ledger.accessories.values.compactMap(\.address)
        if Set(addresses).count < addresses.count { mistaken = "two accessories have one identity" }
    }

    private func session(_ app: AppID) throws -> Session {
        if let open = sessions[app], open.state == .active { return open }
        let session = try engine.createSession(client: ClientID(app.rawValue), app: manifests[app]!, party: .user(1000))
        sessions[app] = session
        try engine.activate(session)
        return session
    }

    private func perform(_ move: Move, _ app: AppID) -> String {
        let (one, two) = (move.numbers[0], move.numbers[1])
        do {
            let session = try session(app)
            switch move.kind {
            case .setUp: try setUp(session, Self.devices[one % (move.isIntruder ? 4 : 2)], two)
            case .setUpNetwork: try setUpNetwork(session, Self.names[one % 3], two)
            case .migrate: try migrate(session, one, two)
            case .update: try withAccessory(of: app, one) { try update(session, $0, two) }
            case .rename:
                try withAccessory(of: app, one) { granted in
                    let hasNetwork = granted.grant.terms.ssid != nil && two % 2 == 0
                    try engine.renameAccessory(session, granted.accessory.id, options: hasNetwork ? .ssid : [])
                    play(answering: true) { _ in nil }
                }
            case .finish:
                try withAccessory(of: app, one) { granted in
                    try engine.finishAuthorization(session, granted.accessory.id, settings: settings(of: granted, two))
                    radio.endBridging(true)
                }
            case .fail: try withAccessory(of: app, one) { try engine.failAuthorization(session, $0.accessory.id) {} }
            case .remove: try withAccessory(of: app, one) { try engine.removeAccessory(session, $0.accessory.id) {} }
            case .join: return try join(app, one)
            case .reconnect: engine.clientGone(session.client)
            case .hear: for device in Self.devices { hear(device) }
            case .revoke:
                try withAccessory(of: app, one) { try engine.revoke($0.grant, reason: "test", by: .admin("root")) }
            case .switchGrant:
                try withAccessory(of: app, one) { try engine.setEnabled($0.grant, two % 2 == 0, by: .admin("root")) }
            case .rule:
                denials[app] = nil
                if two % 2 == 0 {
                    var descriptor = DiscoveryDescriptor()
                    if two % 4 == 0 {
                        descriptor.serviceUUID = Self.services[one % 2]
                    } else {
                        descriptor.ssid = Array(Self.names[one % 3].utf8)
                    }
                    denials[app] = .init(name: "no", source: "x", apps: [app], target: .init(descriptor: descriptor))
                }
                var policy = AccessPolicy()
                policy.denials = denials.sorted { $0.key < $1.key }.map(\.value)
                engine.setPolicy(policy)
            case .manifest:
                manifests[app] = Self.manifest(of: app, supports: [[.bluetooth, .wifi], [.bluetooth], [.wifi]][two % 3])
                engine.setManifests(manifests)
                engine.clientGone(session.client)
            }
            return "done"
        } catch let error as SetupError {
            return "\(error.code)"
        } catch {
            return "\(error)"
        }
    }

    private func withAccessory(of app: AppID, _ number: Int, _ body: (GrantedAccessory) throws -> Void) throws {
        let mine = mine(app)
        guard !mine.isEmpty else { return }
        try body(mine[number % mine.count])
    }

    private func hear(_ device: PlayedDevice) {
        guard radio.scans > 0 else { return }
        var advertisement = device.advertisement
        advertisement.isPaired = radio.bonds.contains { $0.address == device.address }
        radio.observer?.heard([HeardDevice(address: device.address, rssi: -50, content: advertisement)])
    }

    /// The person and the radio see a picker through: everything is in range, one offer is picked, each question is
    /// accepted, and the rest is closed.
    private func play(answering isYes: Bool, _ choose: ([Offer]) -> Offer?) {
        for device in Self.devices { hear(device) }
        if networks.scans > 0 { networks.hear(Self.names[0], Self.names[1], Self.names[2]) }
        for _ in 0..<9 {
            guard let run = engine.picker else { return }
            switch run.presentation.stage {
            case .offering:
                for offer in run.presentation.offers {
                    guard let other = offer.address.flatMap(engine.ledger.accessory), other.id != offer.shared else { continue }
                    mistaken = "\(other.displayName) is offered to \(run.session.app.id) as \(offer.name)"
                }
                if let offer = choose(run.presentation.offers) { try? engine.pick(run, offer: offer.id) }
            case .confirming where run.presentation.prompt != nil: try? engine.respond(run, answer: isYes ? .accept : .reject)
            case .renaming: try? engine.rename(run, to: "Kitchen")
            default: break
            }
            radio.endPairing()
            radio.endBridging(true)
        }
        if let run = engine.picker { try? engine.cancel(run) }
    }

    private static func options(_ number: Int) -> SupportOptions {
        [[.pairingLE], [.pairingLE, .transportBridging], []][number % 3]
    }

    private func setUp(_ session: Session, _ device: PlayedDevice, _ number: Int) throws {
        var descriptor = DiscoveryDescriptor()
        descriptor.serviceUUID = device.service
        descriptor.supportedOptions = Self.options(number)
        if number / 3 % 3 == 0 { descriptor.ssidPrefix = Array("Dice-".utf8) }
        var item = DisplayItem(name: "\(session.app.id)", descriptor: descriptor)
        // The app may finish at once, later, or never: a waiting grant outlives its picker only when the app has gone.
        let isConfirming = number / 9 % 2 == 0
        if isConfirming { item.setupOptions = .confirmAuthorization }
        try engine.showPicker(session, items: [item], settings: PickerSettings())
        play(answering: true) { $0.first { $0.address == device.address } }
        if isConfirming, let run = engine.picker, let id = run.machine.accessory {
            if number / 18 % 2 == 0 { return engine.clientGone(session.client) }
            guard let granted = engine.ledger.granted(id, to: session.app.id) else { return }
            try engine.finishAuthorization(session, id, settings: settings(of: granted, number))
            play(answering: true) { _ in nil }
        }
    }

    private func setUpNetwork(_ session: Session, _ name: String, _ number: Int) throws {
        var descriptor = DiscoveryDescriptor()
        if number % 2 == 0 { descriptor.ssid = Array(name.utf8) } else { descriptor.ssidPrefix = Array(name.utf8.prefix(4)) }
        try engine.showPicker(
            session, items: [DisplayItem(name: "\(session.app.id)", descriptor: descriptor)], settings: PickerSettings())
        play(answering: true) { $0.first { $0.network?.ssid == SSID(name) } }
    }

    private func migrate(_ session: Session, _ one: Int, _ two: Int) throws {
        var descriptor = DiscoveryDescriptor()
        descriptor.ssidPrefix = Array(Self.names[one % 3].utf8.prefix(3))
        var item = DisplayItem(name: "\(session.app.id)", descriptor: descriptor)
        item.migration = Migration()
        item.migration?.hotspotSSID = SSID(Self.names[one % 3])
        try engine.showPicker(session, items: [item], settings: PickerSettings())
        play(answering: two % 4 != 0) { _ in nil }
    }

    /// The app adds another service, a network, or both. The intruder also makes one accessory of a network and a
    /// device that the other app does not set up.
    private func update(_ session: Session, _ granted: GrantedAccessory, _ number: Int) throws {
        var descriptor = DiscoveryDescriptor()
        if session.app.id == Self.b || granted.address != nil { descriptor.serviceUUID = Self.services[number % 2] }
        if number / 2 % 2 == 0 || descriptor.serviceUUID == nil { descriptor.ssidPrefix = Array(Self.names[number / 4 % 3].utf8) }
        descriptor.supportedOptions = descriptor.serviceUUID == nil ? [] : Self.options(number / 12)
        try engine.updateAuthorization(session, granted.accessory.id, descriptor: descriptor)
        let isUnited = granted.accessory.address == nil && descriptor.serviceUUID != nil
        play(answering: true) { $0.first { !isUnited || $0.address.map { $0.value > 2 } == true } }
    }

    private func settings(of granted: GrantedAccessory, _ number: Int) -> AuthorizationSettings {
        var settings = AuthorizationSettings()
        if granted.grant.terms.descriptor.ssidPrefix != nil, number % 2 == 0 {
            settings.ssid = SSID(Self.names[number / 2 % 3])
        }
        // One classic device cannot be the side of two accessories: each app has one of its own in mind.
        if granted.grant.terms.descriptor.supportedOptions.contains(.transportBridging), number % 3 == 0 {
            settings.bridgingAddress = BluetoothAddress(value: Self.classics[granted.grant.app == Self.a ? 0 : 1], kind: .public)
        }
        return settings
    }

    private func join(_ app: AppID, _ number: Int) throws -> String {
        var outcome = "none"
        try withAccessory(of: app, number) { granted in
            let before = networks.joins.count
            try engine.joinNetwork(
                of: granted.accessory.id, for: ClientID(app.rawValue), app, passphrase: nil, isHidden: false, network: nil
            ) { outcome = $0.map { "\($0.code)" } ?? "joined" }
            networks.joined()
            outcome += " " + networks.joins[before...].map { "\($0.ssid)" }.joined()
            engine.leaveNetwork(of: granted.accessory.id, for: ClientID(app.rawValue)) {}
            networks.left()
        }
        return outcome
    }
}

@Suite struct InterferenceTests {
    private static let lives = 1500
    private static let length = 40

    private static func moves(_ seed: UInt64) -> [Move] {
        var generator = SeededGenerator(state: seed)
        return (0..<length).map { _ in
            Move(
                kind: Move.Kind.allCases[Int.random(in: 0..<Move.Kind.allCases.count, using: &generator)],
                isIntruder: Bool.random(using: &generator), numbers: (0..<2).map { _ in Int.random(in: 0..<840, using: &generator) }
            )
        }
    }

    /// The first difference; nil when there is none.
    private static func difference(_ moves: [Move]) throws -> String? {
        let (both, alone) = (try World(), try World())
        for (number, move) in moves.enumerated() {
            let start = (both.observed.count, alone.observed.count)
            both.make(move)
            // A world without a move stands still, and observes its present state.
            if !move.isIntruder { alone.make(move) }
            if let mistaken = both.mistaken { return mistaken }
            let seen = both.observed[start.0...],
                expected = move.isIntruder ? ArraySlice(alone.observed.suffix(1)) : alone.observed[start.1...]
            // The first look may be before anything was to be seen.
            guard Array(seen) == Array(expected) || move.isIntruder && expected.isEmpty && Array(seen) == [""] else {
                return "move \(number), \(move):\n  with B:    \(Array(seen))\n  without B: \(Array(expected))"
            }
        }
        return nil
    }

    @Test func withoutTheCallsOfOneAppTheOtherObservesTheSame() throws {
        for seed in 1...UInt64(Self.lives) {
            var moves = Self.moves(seed)
            guard try Self.difference(moves) != nil else { continue }
            // Leaves out one move after the other, as long as there is still a difference.
            var index = 0
            while index < moves.count {
                var fewer = moves
                fewer.remove(at: index)
                if try Self.difference(fewer) != nil { (moves, index) = (fewer, 0) } else { index += 1 }
            }
            Issue.record("seed \(seed): \(try Self.difference(moves) ?? "")\n\(moves.map { "  \($0)" }.joined(separator: "\n"))")
            return
        }
    }
}
