// SPDX-License-Identifier: Apache-2.0
// Calls for properties on a client's side of org.bluez: which are answered here, in the app's view of the link and of
// the adapter, which are passed on, and which settings are accepted without being set.

internal import BlueZInterfaces
internal import CallsOut
internal import DBusKit

extension BlueZProxy {
    func answerDeviceProperty(_ call: Message, _ device: ObjectPath) {
        guard let path = call.path, let (interface, property) = question(in: call) else { return }
        guard Scope.shown.contains(interface) else { return refuse(call, .unknownInterface(interface)) }
        if call.member == "Get" {
            if Clearance.isValue(property, of: interface) { return readValue(call, interface, device) }
            guard clearance.allows(property ?? "", of: interface, at: path, device, isSignal: false) else {
                return refuse(call, .notPermitted("the app may not read \(property ?? ""): its grant does not list 180F/2A19:read"))
            }
            guard interface == Device1.interface else { return pass(call, about: device) }
            let link = clearance.link(of: device)
            switch property {
            case "Connected": return reply(to: call, [.variant(.boolean(link.isConnected))])
            case "ServicesResolved": return reply(to: call, [.variant(.boolean(link.areServicesResolved))])
            default: return pass(call, about: device)
            }
        }
        pass(call, about: device) { [clearance] answer throws(BusError) in
            guard let properties = try answer.arguments().first?.vardictValue else { return answer }
            return try call.reply([.vardict(clearance.properties(properties, of: interface, at: path, device))])
        }
    }

    /// Answers from the properties that come from adverts.
    func answerHeardProperty(_ call: Message, _ device: ObjectPath) {
        guard let (interface, property) = question(in: call) else { return }
        guard interface == Device1.interface else { return refuse(call, .unknownInterface(interface)) }
        readProperties(of: device, for: call) { [weak self] in
            self?.answer(call, property, of: HeardDevice.properties($0))
        }
    }

    /// The interface, and the property of `Get`, that a call asks for; nil for a call that is refused.
    private func question(in call: Message) -> (interface: String, property: String?)? {
        guard let arguments = try? call.arguments(), let interface = arguments.first?.stringValue else {
            refuse(call, .invalidArguments("\(call.member ?? "") takes an interface, not (\(call.signature))"))
            return nil
        }
        return (interface, arguments.dropFirst().first?.stringValue)
    }

    /// Answers `Get` or `GetAll` from all properties of an object.
    private func answer(_ call: Message, _ property: String?, of properties: [String: DBusValue]) {
        guard call.member == "Get" else { return reply(to: call, [.vardict(properties)]) }
        let name = property ?? ""
        guard let value = properties[name] else { return refuse(call, .invalidArguments("No such property '\(name)'")) }
        reply(to: call, [.variant(value)])
    }

    /// Passes on a call for an attribute's value: without the link there is none, as there is none at bluetoothd before
    /// it was read.
    private func readValue(_ call: Message, _ interface: String, _ device: ObjectPath) {
        guard let use = call.path.flatMap({ AttributeUse.ofValue($0, interface, device) }) else { return }
        if let why = clearance.narrowing(of: use) { return refuse(call, narrowed: why, device) }
        let isAbsent = BusError.invalidArguments("No such property 'Value'")
        guard clearance.allows(.use(use)) else { return refuse(call, isAbsent) }
        pass(call, about: device, as: .use(use)) { [clearance] answer throws(BusError) in
            guard clearance.allows(.use(use)) else { throw isAbsent }
            return answer
        }
    }

    func answerAdapterProperty(_ call: Message, _ adapter: ObjectPath) {
        guard let (interface, property) = question(in: call) else { return }
        guard interface == Adapter1.interface else { return refuse(call, .unknownInterface(interface)) }
        if call.member == "Set" {
            return answerSetting(call, of: shown.properties(of: adapter), "apps may not change the adapter's settings")
        }
        _ = shown.showAdapters()
        answer(call, property, of: shown.properties(of: adapter))
    }

    /// Settings that bluetoothd lets be written, of adapters and devices.
    private static let settings: Set<String> = [
        "Powered", "Alias", "Discoverable", "DiscoverableTimeout", "Pairable", "PairableTimeout", "Connectable", "Trusted",
        "Blocked", "WakeAllowed", "PreferredBearer",
    ]

    /// Accepts a property's present value, which many programs set first. Any other value is the system's to set, or
    /// the daemon's.
    private func answerSetting(_ call: Message, of present: [String: DBusValue], _ refusal: String) {
        guard call.signature == "ssv", let arguments = try? call.arguments(), let key = arguments[1].stringValue else {
            return refuse(call, .invalidArguments("Set takes (ssv), not (\(call.signature))"))
        }
        guard Self.settings.contains(key), let value = present[key], arguments[2] == .variant(value) else {
            return refuse(call, .notPermitted("\(key): \(refusal)"))
        }
        reply(to: call, [])
    }

    func answerDeviceSetting(_ call: Message, _ device: ObjectPath) {
        let refusal = "the daemon sets names, trust and the like for all apps at once"
        guard let arguments = try? call.arguments(), arguments.first?.stringValue == Device1.interface
        else { return refuse(call, .notPermitted(refusal)) }
        readProperties(of: device, for: call) { [weak self] in self?.answerSetting(call, of: $0, refusal) }
    }

    /// Many programs pair before they connect, and go on after `AlreadyExists`.
    func answerPairing(_ call: Message, _ device: ObjectPath) {
        readProperties(of: device, for: call) { [weak self] in
            self?.refuse(call, $0["Paired"]?.booleanValue == true ? .bluez(.alreadyExists, "Already Exists") : .pairing)
        }
    }

    /// Reads a device's properties for a call, which is answered here where that fails.
    private func readProperties(of device: ObjectPath, for call: Message, _ body: @escaping ([String: DBusValue]) -> Void) {
        do throws(BusError) {
            forward(call, about: device, saying: try CallOut.viewLink.method.message(at: device)) { answer in
                body((try? answer.arguments().first?.vardictValue) ?? [:])
            }
        } catch {
            refuse(call, error)
        }
    }
}
