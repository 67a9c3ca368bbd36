// SPDX-License-Identifier: Apache-2.0
// Answers the scoped view: the app of a caller by the manifests, and its devices by the ledger. It is part of the
// program, because it needs both the engine and the radio's paths.

internal import AccessoryBus
internal import AccessoryCore
internal import AccessoryEngine
internal import AccessoryModel
public import AccessoryService
internal import BlueZRadio
public import BlueZView
internal import AdminFiles
internal import CallerIdentity
internal import DBusKit

final class EngineViewAuthority: ViewAuthority {
    private let engine: AccessoryEngine
    private let manifests: ManifestStore
    private let radio: BlueZRadio

    init(engine: AccessoryEngine, manifests: ManifestStore, radio: BlueZRadio) {
        self.engine = engine
        self.manifests = manifests
        self.radio = radio
    }

    func clientConnects() {
        manifests.flush()
    }

    func app(of caller: PinnedCaller) throws(IdentityFailure) -> ViewIdentity? {
        // Most clients of a bus are no apps.
        guard let match = try? AppMatching.match(caller.caller, in: manifests) else { return nil }
        if match.basis == .executable { try caller.check() }
        return ViewIdentity(
            app: match.app.id, goesByExecutable: match.basis == .executable,
            remote: match.basis == .socket ? match.app.socket?.remote : nil
        )
    }

    func devices(of app: AppID) -> [GrantedDevice] {
        engine.reachable(for: app).compactMap { granted in
            guard let address = granted.address, case let accessory = granted.accessory else { return nil }
            var paths: Set<ObjectPath> = []
            if let current = engine.device(of: accessory).flatMap({ ObjectPath($0.rawValue) }) { paths.insert(current) }
            // BlueZ may have removed the device: the path that it will have after the next advert.
            if paths.isEmpty, let later = radio.object(of: accessory.adapter)?.appending(Self.element(address)) {
                paths.insert(later)
            }
            return GrantedDevice(
                accessory: accessory.id, name: accessory.displayName, paths: paths, access: granted.grant.terms.access)
        }
    }

    func heard(by app: AppID) -> Set<ObjectPath>? {
        guard let heard = engine.heard(by: app) else { return nil }
        let adapters = radio.adapters.compactMap { radio.object(of: $0.address) }
        return Set(heard.lazy.map(Self.element).flatMap { element in adapters.lazy.compactMap { $0.appending(element) } })
    }

    func setListening(_ apps: Set<AppID>) { engine.setListening(apps) }

    /// The last part of the path of a device's object.
    private static func element(_ address: BluetoothAddress) -> String {
        "dev_" + String(address.description.map { $0 == ":" ? "_" : $0 })
    }

    func isInput(_ accessory: AccessoryID) -> Bool {
        engine.ledger.grants(of: accessory).contains { $0.terms.descriptor.supportedOptions.contains(.hid) }
    }

    func isLowEnergyOnly(_ accessory: AccessoryID) -> Bool {
        engine.ledger.accessories[accessory]?.address?.kind == .random
    }

    var adapter: ObjectPath? { radio.adapter }

    func used(_ accessory: AccessoryID, by app: AppID, _ caller: PinnedCaller, as use: String) {
        engine.recordUse(of: accessory, by: app, requester: .app(caller.program), as: use)
    }

    func linkEndedAtOnce(_ accessory: AccessoryID) -> String? { engine.linkEndedAtOnce(accessory) }

    func refused(_ accessory: AccessoryID, to app: AppID, _ caller: PinnedCaller, why: String) {
        engine.recordRefusedUse(of: accessory, by: app, requester: .app(caller.program), why: why)
    }

    func refused(_ caller: PinnedCaller?, why: String) {
        engine.record(.refused, by: .app(caller?.program ?? "unknown"), why: why)
    }
}

extension AccessoryService: ViewService {
    /// The daemon's name on the bus.
    public var name: String { AccessoryBus.name }
    /// The interface `org.accessorysetup1.View`.
    public var viewXML: String { AccessoryBus.viewXML }
}
