// SPDX-License-Identifier: Apache-2.0
// The part of the view that is not org.bluez: a client's accessories with Bluetooth (the identifier that the session
// API gives each, the object that org.bluez has or would have for it, and its name), and how an app elsewhere connects.
// org.bluez has no place for them, and an app needs a grant to ask, not a session. (Docs/Interfaces/View.md)

internal import AccessoryModel
internal import DBusKit
internal import InternetAddresses

/// The object `org.accessorysetup1.View` for one client.
final class ViewObject {
    static let path: ObjectPath = "/org/accessorysetup1/view"
    static let interface = "org.accessorysetup1.View"
    private static let peripheralsProperty = "Peripherals"
    private static let remoteProperty = "Remote"

    private let connection: ClientConnection
    private let identity: ClientIdentity
    private let service: any ViewService
    /// The values that the client has, by property. Only their changes are signalled.
    private var latest: [String: DBusValue] = [:]

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

    /// The key and the addresses of an app elsewhere; empty for any other.
    private var remote: DBusValue {
        guard let remote = identity.remote else { return .vardict([:]) }
        return .vardict(["keyFile": .string(remote.keyFile), "addresses": .strings(remote.addresses)])
    }

    private var current: [String: DBusValue] { [Self.peripheralsProperty: peripherals, Self.remoteProperty: remote] }

    /// Answers a call to the object.
    func serve(_ call: Message) {
        if let refusal = identity.refusal {
            return connection.fail(call, .accessDenied("\(refusal)"), from: BusDriver.serviceAlias)
        }
        do throws(BusError) {
            connection.reply(to: call, try answer(call), from: BusDriver.serviceAlias, about: .app)
        } catch {
            connection.fail(call, error, from: BusDriver.serviceAlias)
        }
    }

    private func answer(_ call: Message) throws(BusError) -> [DBusValue] {
        let member = call.member ?? ""
        switch call.interface {
        case Bus.introspectable where member == "Introspect": return [.string(service.viewXML)]
        case Bus.properties: break
        case Self.interface where member == "ActFor", nil where member == "ActFor":
            try actFor(call)
            return []
        case Self.interface, nil: throw .unknownMethod("no such method: \(member)")
        case let other?: throw .unknownInterface(other)
        }
        let texts = try call.arguments().compactMap(\.stringValue)
        guard let interface = texts.first else { throw .invalidArguments("\(member) takes an interface, not (\(call.signature))") }
        guard interface == Self.interface else { throw .unknownInterface(interface) }
        switch (member, call.signature) {
        case ("Get", "ss"):
            guard let value = current[texts[1]] else { throw .unknownProperty(texts[1]) }
            latest[texts[1]] = value
            return [.variant(value)]
        case ("GetAll", "s"):
            latest = current
            return [.vardict(latest)]
        case ("Set", _): throw .readOnly(texts.count > 1 ? texts[1] : Self.peripheralsProperty)
        default: throw .unknownMethod("no such method: \(Bus.properties).\(member)")
        }
    }

    /// The door says for which peer of its app this connection is: the trail names it from now on.
    private func actFor(_ call: Message) throws(BusError) {
        let arguments = try call.arguments()
        guard call.signature == "ss", let key = arguments[0].stringValue, let address = arguments[1].stringValue else {
            throw .invalidArguments("ActFor takes a key's fingerprint and an address, not (\(call.signature))")
        }
        guard identity.remote != nil else { throw .accessDenied("the app is not remote: its manifest has no Remote=") }
        guard key.utf8.count == 8, Hex.bytes(key) != nil else { throw .invalidArguments("key: must be 8 hexadecimal digits") }
        guard let address = InternetAddress(address) else { throw .invalidArguments("address: must be an Internet address") }
        guard identity.act(for: "key \(key) at \(address)") else { throw .accessDenied("this connection acts for a peer already") }
    }

    var left: LeftState {
        var state = latest
        if let peer = identity.peer { state["Peer"] = .string(peer) }
        return state
    }

    func resume(_ state: LeftState) {
        for name in [Self.peripheralsProperty, Self.remoteProperty] { latest[name] = state[name] }
        if let peer = state["Peer"]?.stringValue { _ = identity.act(for: peer) }
    }

    /// Signals the changed properties that the client has.
    func update() {
        guard !latest.isEmpty else { return }
        let changed = current.filter { name, value in latest[name].map { $0 != value } ?? false }
        guard !changed.isEmpty else { return }
        latest.merge(changed) { $1 }
        let arguments: [DBusValue] = [.string(Self.interface), .vardict(changed), .strings([])]
        guard
            let signal = try? Message.signal(
                path: Self.path, interface: Bus.properties, member: "PropertiesChanged", arguments)
        else { return }
        connection.broadcast(signal, from: [service.name, BusDriver.serviceAlias], as: BusDriver.serviceAlias, about: .app)
    }
}
