// SPDX-License-Identifier: Apache-2.0
// The one place that decides whether something may leave to a client, asked when it leaves and not when it was asked
// for: answers, properties in them, signals, descriptors, and the packets of relayed descriptors. Each has the matter
// that it is about. (Docs/Decisions/0031)

internal import AccessoryModel
internal import BlueZInterfaces
internal import DBusKit

/// The subject of an outgoing message, as far as clearance depends on it.
enum Matter: Hashable, Sendable {
    /// Names on the bus: for every connection.
    case bus
    /// The app's, but of no single device: adapters, lists, and removed devices.
    case app
    /// A device, or an attribute's properties.
    case device(ObjectPath)
    /// A device's attribute, without a value that the grant may not open: for an app that holds the link.
    case link(ObjectPath)
    /// The value of a device's attribute, and descriptors that carry it: for an app that holds the link, and may use
    /// the attribute like this.
    case use(AttributeUse)
}

/// Decides on outgoing messages to one client.
final class Clearance {
    private let identity: ClientIdentity
    private let links: LinkCoordinator
    let feed: RadioFeed
    /// The client's part of org.bluez.
    var scope = Scope()

    init(_ identity: ClientIdentity, _ links: LinkCoordinator, _ feed: RadioFeed) {
        self.identity = identity
        self.links = links
        self.feed = feed
    }

    /// Why something may not leave; nil when it may.
    func refusal(of matter: Matter) -> BusError? {
        if case .bus = matter { return nil }
        if let changed = identity.transmissionRefusal { return changed }
        switch matter {
        case .bus, .app: return nil
        case .device(let device): return scope.contains(device) ? nil : .unknownObject(device)
        case .link(let device):
            guard scope.devices[device] != nil else { return .unknownObject(device) }
            return link(of: device).isConnected ? nil : .notConnected
        case .use(let use): return refusal(of: .link(use.device)) ?? narrowing(of: use)
        }
    }

    /// Whether something may leave.
    func allows(_ matter: Matter) -> Bool { refusal(of: matter) == nil }

    /// Whether the client's writes to a descriptor are passed on, which was given for a use.
    func accepts(packetsFor use: AttributeUse) -> Bool {
        guard identity.isAccepted, link(of: use.device).isConnected else { return false }
        return limit(of: use.device) == nil || use.uses.contains(.write) && narrowing(of: use) == nil
    }

    /// The limit of the app's use of a device; nil where everything is open.
    func limit(of device: ObjectPath) -> AccessLimit? { scope.limits[device] }

    /// A link as the client's app sees it.
    func link(of device: ObjectPath) -> LinkShares.State { links.state(of: device, seenBy: identity.app) }

    // MARK: Properties

    /// The property with an attribute's value, and the interfaces that have it.
    private static let value = "Value"
    private static let attributes: Set = [GattCharacteristic1.interface, GattDescriptor1.interface]

    /// Whether a property is an attribute's value.
    static func isValue(_ property: String?, of interface: String) -> Bool {
        property == value && attributes.contains(interface)
    }

    /// The properties of a device's object that may leave now, with the app's view of the link.
    func properties(
        _ properties: [String: DBusValue], of interface: String, at path: ObjectPath, _ device: ObjectPath
    ) -> [String: DBusValue] {
        var shown = permitted(properties, of: interface, at: path, device)
        if interface == Device1.interface {
            let link = link(of: device)
            if shown["Connected"] != nil { shown["Connected"] = .boolean(link.isConnected) }
            if shown["ServicesResolved"] != nil { shown["ServicesResolved"] = .boolean(link.areServicesResolved) }
        } else if Self.attributes.contains(interface), !allows(.link(device)) {
            shown[Self.value] = nil
        }
        return shown
    }

    /// The properties without those that the grant does not open.
    func permitted(
        _ properties: [String: DBusValue], of interface: String, at path: ObjectPath, _ device: ObjectPath, isSignal: Bool = false
    ) -> [String: DBusValue] {
        guard limit(of: device) != nil else { return properties }
        return properties.filter { allows($0.key, of: interface, at: path, device, isSignal: isSignal) }
    }
}
