// SPDX-License-Identifier: Apache-2.0
// The one place that decides whether something may leave to a client, asked when it leaves and not when it was asked
// for: answers, properties in them, signals, descriptors, and the packets of those that were handed out. Each says what
// it is about. (Docs/Decisions/0031)

internal import BlueZInterfaces
internal import DBusKit

/// What is about to leave, as far as it matters for whether it may.
enum Matter: Hashable, Sendable {
    /// Names on the bus: for every connection.
    case bus
    /// What is the app's, but no device of its own: adapters, lists, and that a device has gone.
    case app
    /// A device, or what is below it.
    case device(ObjectPath)
    /// What an attribute of a device holds, and descriptors that carry it: for an app that holds the link.
    case value(ObjectPath)
}

/// Decides what may leave to one client.
final class Clearance {
    private let identity: ClientIdentity
    private let links: LinkCoordinator
    /// What there is for the client.
    var scope = Scope()

    init(_ identity: ClientIdentity, _ links: LinkCoordinator) {
        self.identity = identity
        self.links = links
    }

    /// Why something may not leave; nil when it may.
    func refusal(of matter: Matter) -> BusError? {
        if case .bus = matter { return nil }
        if let changed = identity.transmissionRefusal { return changed }
        switch matter {
        case .bus, .app: return nil
        case .device(let device): return scope.devices[device] == nil ? .unknownObject(device) : nil
        case .value(let device):
            guard scope.devices[device] != nil else { return .unknownObject(device) }
            return link(of: device).isConnected ? nil : .notConnected
        }
    }

    /// Whether something may leave.
    func allows(_ matter: Matter) -> Bool { refusal(of: matter) == nil }

    /// Whether what the client writes to a descriptor of a device's is passed on to it.
    func takes(packetsFor device: ObjectPath) -> Bool { identity.isAccepted && link(of: device).isConnected }

    /// A link as the client's app sees it.
    func link(of device: ObjectPath) -> LinkShares.State { links.state(of: device, seenBy: identity.app) }

    // MARK: Properties

    /// The property that carries what an attribute holds, of these interfaces.
    private static let value = "Value"
    private static let attributes: Set = [GattCharacteristic1.interface, GattDescriptor1.interface]

    /// Whether a property is an attribute's value.
    static func isValue(_ property: String?, of interface: String) -> Bool {
        property == value && attributes.contains(interface)
    }

    /// The properties of a device's object that may leave now, with the app's view of the link.
    func properties(_ properties: [String: DBusValue], of interface: String, _ device: ObjectPath) -> [String: DBusValue] {
        var shown = properties
        if interface == Device1.interface {
            let link = link(of: device)
            if shown["Connected"] != nil { shown["Connected"] = .boolean(link.isConnected) }
            if shown["ServicesResolved"] != nil { shown["ServicesResolved"] = .boolean(link.areServicesResolved) }
        } else if Self.attributes.contains(interface), !allows(.value(device)) {
            shown[Self.value] = nil
        }
        return shown
    }
}
