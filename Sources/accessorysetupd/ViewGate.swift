// SPDX-License-Identifier: Apache-2.0
// What the scoped view asks: who a caller is by the manifests, and what the ledger grants it. Composed here, because
// nothing else knows both the engine and the radio's paths.

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

final class ViewGate: ViewAuthority {
    private let engine: AccessoryEngine
    private let manifests: ManifestStore
    private let radio: BlueZRadio

    init(_ engine: AccessoryEngine, _ manifests: ManifestStore, _ radio: BlueZRadio) {
        self.engine = engine
        self.manifests = manifests
        self.radio = radio
    }

    func clientConnects() {
        manifests.flush()
    }

    func app(of caller: PinnedCaller) throws(IdentityFailure) -> ViewIdentity? {
        // Most who look at the bus are no app, and that is no failure.
        guard let match = try? AppMatching.match(caller.caller, in: manifests) else { return nil }
        if match.basis == .executable { try caller.check() }
        return ViewIdentity(app: match.app.id, goesByExecutable: match.basis == .executable)
    }

    func devices(of app: AppID) -> [GrantedDevice] {
        engine.reachable(for: app).compactMap { granted in
            guard let address = granted.address, case let accessory = granted.accessory else { return nil }
            var paths: Set<ObjectPath> = []
            if let known = engine.device(of: accessory).flatMap({ ObjectPath($0.rawValue) }) { paths.insert(known) }
            // Where it will be once it is heard again, for one that the radio has forgotten.
            let element = "dev_" + String(address.description.map { $0 == ":" ? "_" : $0 })
            if paths.isEmpty, let later = radio.object(of: accessory.adapter)?.appending(element) { paths.insert(later) }
            return GrantedDevice(accessory: accessory.id, name: accessory.displayName, paths: paths)
        }
    }

    func isInput(_ accessory: AccessoryID) -> Bool {
        engine.ledger.grants(of: accessory).contains { $0.terms.descriptor.supportedOptions.contains(.hid) }
    }

    func isLowEnergyOnly(_ accessory: AccessoryID) -> Bool {
        engine.ledger.accessories[accessory]?.address?.kind == .random
    }

    var adapter: ObjectPath? { radio.adapter }

    func used(_ accessory: AccessoryID, by app: AppID, _ caller: PinnedCaller, as what: String) {
        engine.noteUse(of: accessory, by: app, requester: .app(caller.caller.program), as: what)
    }

    func linkEndedAtOnce(_ accessory: AccessoryID) -> String? { engine.linkEndedAtOnce(accessory) }

    func refused(_ caller: PinnedCaller?, why: String) {
        engine.audit(.refused, by: .app(caller?.caller.program ?? "unknown"), why: why)
    }
}

extension AccessoryService: ViewService {
    /// The daemon's own name on the bus.
    public var name: String { AccessoryBus.name }
    /// Of `org.accessorysetup1.View`.
    public var peripheralsXML: String { AccessoryBus.viewXML }
}
