// SPDX-License-Identifier: Apache-2.0
// The table of calls about a granted device with the use that each needs, for grants that do not open everything
// (Docs/View.md, "Narrowed access"). A call that is not in the table needs full access.

internal import AccessoryModel
internal import BlueZInterfaces
internal import DBusKit

/// A use of a device's characteristic, or of a descriptor of the characteristic.
struct AttributeUse: Hashable, Sendable {
    let device: ObjectPath
    let characteristic: ObjectPath
    /// Nil for the characteristic itself.
    var descriptor: ObjectPath?
    let uses: CharacteristicUses

    /// The use that takes a value out of an attribute's object; nil for another interface.
    ///
    /// - Parameter isSignal: whether the radio service sends it unasked. A descriptor's value only changes when it was
    ///   read or written.
    static func ofValue(_ path: ObjectPath, _ interface: String, _ device: ObjectPath, isSignal: Bool = false) -> Self? {
        switch interface {
        case GattCharacteristic1.interface: Self(device: device, characteristic: path, uses: isSignal ? .listen : .read)
        case GattDescriptor1.interface: Self(device: device, characteristic: path.parent, descriptor: path, uses: .read)
        default: nil
        }
    }
}

/// The permission that a call needs besides the grant.
enum CallNeed: Hashable, Sendable {
    /// None: it looks, without the values that the app may not read; or it connects, or ends something.
    case nothing
    case use(AttributeUse)
    case fullAccess

    /// - Parameters:
    ///   - path: the device's object, or one below.
    ///   - interface: nil for a call without one.
    init(_ path: ObjectPath, _ interface: String?, _ member: String, _ device: ObjectPath) {
        func use(_ uses: CharacteristicUses) -> CallNeed { .use(.init(device: device, characteristic: path, uses: uses)) }
        func useDescriptor(_ uses: CharacteristicUses) -> CallNeed {
            .use(.init(device: device, characteristic: path.parent, descriptor: path, uses: uses))
        }
        self =
            switch (interface, member) {
            case (Bus.introspectable, _), (nil, "Introspect"), (Bus.properties, "Get"), (Bus.properties, "GetAll"),
                // `Pair` and `CancelPairing` are refused to every app, and do not reach the radio service.
                (Device1.interface, Device1.Member.connect), (Device1.interface, Device1.Member.disconnect),
                (Device1.interface, Device1.Member.pair), (Device1.interface, Device1.Member.cancelPairing),
                (GattCharacteristic1.interface, GattCharacteristic1.Member.stopNotify):
                .nothing
            case (GattCharacteristic1.interface, GattCharacteristic1.Member.readValue): use(.read)
            case (GattCharacteristic1.interface, GattCharacteristic1.Member.startNotify),
                (GattCharacteristic1.interface, GattCharacteristic1.Member.acquireNotify),
                (GattCharacteristic1.interface, GattCharacteristic1.Member.confirm):
                use(.listen)
            case (GattCharacteristic1.interface, GattCharacteristic1.Member.writeValue),
                (GattCharacteristic1.interface, GattCharacteristic1.Member.acquireWrite):
                use(.write)
            case (GattDescriptor1.interface, GattDescriptor1.Member.readValue): useDescriptor(.read)
            case (GattDescriptor1.interface, GattDescriptor1.Member.writeValue): useDescriptor(.write)
            default: .fullAccess
            }
    }
}

extension Clearance {
    /// Client Characteristic Configuration: subscribing writes it.
    private static let subscription = BluetoothUUID(short: 0x2902)
    /// The characteristic that the radio service makes `Battery1` from.
    private static let battery = CharacteristicIdentity(
        service: BluetoothUUID(short: 0x180F), characteristic: BluetoothUUID(short: 0x2A19), instance: 1)

    /// Why a grant does not permit a call about its device; nil where it does.
    func refusal(ofCall path: ObjectPath, _ interface: String?, _ member: String, _ device: ObjectPath) -> BusError? {
        guard let limit = limit(of: device) else { return nil }
        switch CallNeed(path, interface, member, device) {
        case .nothing: return nil
        case .use(let use): return narrowing(of: use)
        case .fullAccess:
            return .notPermitted("\(interface.map { $0 + "." } ?? "")\(member) needs full access: the grant has access \(limit)")
        }
    }

    /// Why a grant does not permit a use; nil where it does.
    func narrowing(of use: AttributeUse) -> BusError? {
        guard let limit = limit(of: use.device) else { return nil }
        let identity = feed.identity(of: use.characteristic, use.device)
        // A subscription is for the characteristic as a whole, whatever else may be written.
        let subscribes =
            use.uses.contains(.write)
            && use.descriptor.map { feed.uuid(of: $0, use.device) ?? Self.subscription } == Self.subscription
        if !subscribes, limit.allows(use.uses, of: identity) { return nil }
        let name = identity.map { "characteristic \($0)" } ?? "this characteristic, which is not known"
        let part = use.descriptor == nil ? "" : "descriptors of "
        // It begins as bluetoothd's own: clients know the code of the attribute protocol by this text.
        let (beginning, verb) =
            use.uses.contains(.write) ? ("Write", "write") : use.uses == .read ? ("Read", "read") : ("Notify", "listen to")
        return .notPermitted("\(beginning) not permitted: the app may not \(verb) \(part)\(name): its grant has access \(limit)")
    }

    /// Whether a grant permits to look at an interface's property, or to hear of its change.
    func allows(_ property: String, of interface: String, at path: ObjectPath, _ device: ObjectPath, isSignal: Bool) -> Bool {
        guard let limit = limit(of: device) else { return true }
        switch (interface, property) {
        case (GattCharacteristic1.interface, "Value"), (GattDescriptor1.interface, "Value"):
            return AttributeUse.ofValue(path, interface, device, isSignal: isSignal).map { narrowing(of: $0) == nil } ?? false
        case (Battery1.interface, "Percentage"): return limit.allows(isSignal ? .listen : .read, of: Self.battery)
        default: return true
        }
    }
}
