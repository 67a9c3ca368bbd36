// SPDX-License-Identifier: Apache-2.0
// A client's list of its accessories with Bluetooth: the identifier that the session API gives each, the object that
// org.bluez has or would have for it, and its name. org.bluez has no place for them, and an app needs a grant to ask,
// not a session. (Docs/Interfaces/View.md)

internal import AccessoryModel
internal import DBusKit

/// The list of the accessories that a client may use.
final class PeripheralList {
    static let path: ObjectPath = "/org/accessorysetup1/view"
    static let interface = "org.accessorysetup1.View"
    private static let property = "Peripherals"

    private let connection: ClientConnection
    private let identity: ClientIdentity
    private let service: any ViewService
    /// The list that the client has; nil for one that has not asked.
    private var latest: DBusValue?

    init(_ connection: ClientConnection, _ identity: ClientIdentity, _ service: any ViewService) {
        self.connection = connection
        self.identity = identity
        self.service = service
    }

    /// The accessories in the order of their identifiers; an object is `/` while there is no adapter.
    private var peripherals: DBusValue {
        .array(
            of: "(sos)",
            identity.grantedDevices.sorted { $0.accessory.rawValue < $1.accessory.rawValue }.map { device in
                .structure([
                    .string(device.accessory.rawValue), .objectPath(device.paths.min() ?? "/"), .string(device.name),
                ])
            })
    }

    /// Answers a call to the object.
    func serve(_ call: Message) {
        if let refusal = identity.refusal {
            return connection.fail(call, .accessDenied("\(refusal)"), from: BusDriver.serviceAlias)
        }
        do throws(BusError) {
            connection.reply(to: call, [try answer(call)], from: BusDriver.serviceAlias, about: .app)
        } catch {
            connection.fail(call, error, from: BusDriver.serviceAlias)
        }
    }

    private func answer(_ call: Message) throws(BusError) -> DBusValue {
        let member = call.member ?? ""
        switch call.interface {
        case Bus.introspectable where member == "Introspect": return .string(service.peripheralsXML)
        case Bus.properties: break
        case Self.interface, nil: throw .unknownMethod("no such method: \(member)")
        case let other?: throw .unknownInterface(other)
        }
        let texts = try call.arguments().compactMap(\.stringValue)
        guard let interface = texts.first else { throw .invalidArguments("\(member) takes an interface, not (\(call.signature))") }
        guard interface == Self.interface else { throw .unknownInterface(interface) }
        switch (member, call.signature) {
        case ("Get", "ss"):
            guard texts[1] == Self.property else { throw .unknownProperty(texts[1]) }
            latest = peripherals
            return .variant(peripherals)
        case ("GetAll", "s"):
            latest = peripherals
            return .vardict([Self.property: peripherals])
        case ("Set", _): throw .readOnly(Self.property)
        default: throw .unknownMethod("no such method: \(Bus.properties).\(member)")
        }
    }

    var left: LeftState { latest.map { ["Peripherals": $0] } ?? [:] }

    func resume(_ state: LeftState) {
        latest = state["Peripherals"]
    }

    /// Signals a changed list to a client that has one.
    func update() {
        guard let latest, case let new = peripherals, new != latest else { return }
        self.latest = new
        let arguments: [DBusValue] = [.string(Self.interface), .vardict([Self.property: new]), .strings([])]
        guard
            let signal = try? Message.signal(
                path: Self.path, interface: Bus.properties, member: "PropertiesChanged", arguments)
        else { return }
        connection.broadcast(signal, from: [service.name, BusDriver.serviceAlias], as: BusDriver.serviceAlias, about: .app)
    }
}
