// SPDX-License-Identifier: Apache-2.0
// The bus side of the terminal picker: registers, follows the picker object, and has a view show it to the
// person.

internal import AccessoryBus
internal import AccessoryModel
internal import DBusKit

extension PickerProperties {
    /// Six digits.
    var passkey: String {
        let digits = String(prompt.passkey ?? 0)
        return String(repeating: "0", count: max(0, 6 - digits.count)) + digits
    }
    var isNaming: Bool { stage == "renaming" }
}

/// Shows a picker to the person and takes the answers.
protocol PickerView: AnyObject {
    func waiting()
    func began(_ state: PickerProperties)
    func changed(_ state: PickerProperties, from old: PickerProperties)
    func refused(_ message: String)
    func ended(_ state: PickerProperties)
}

final class PickerClient {
    let loop: MainLoop
    private let connection: Connection
    private let view: any PickerView
    private var owner: String?
    private var path: ObjectPath?
    private var isCancelled = false
    private var state = PickerProperties()
    private var subscriptions: [Subscription] = []
    /// Called at the end of a run: true when an accessory was set up.
    var onEnd: ((_ added: Bool, _ cancelled: Bool) -> Void)?
    var onDaemonGone: (() -> Void)?

    init(_ address: Connection.Address, loop: MainLoop, view: any PickerView) throws(BusError) {
        self.loop = loop
        self.view = view
        connection = try Connection(address, loop: loop)
        connection.onDisconnect = { [unowned self] in onDaemonGone?() }
    }

    /// Registers as a picker program.
    func start() throws(BusError) {
        // The first call starts the daemon where the bus can do that.
        _ = try connection.callAndWait(AccessoryBus.name, AccessoryBus.root, Bus.peer, "Ping")
        let name =
            try connection.callAndWait(Bus.name, Bus.path, Bus.name, "GetNameOwner", [.string(AccessoryBus.name)])[0].stringValue
            ?? ""
        owner = name
        subscriptions = [
            connection.subscribe(sender: name, path: AccessoryBus.root, interface: Bus.objectManager, member: "InterfacesAdded") {
                [unowned self] message in
                if let added = message.addedInterfaces() { appeared(added.path, added.interfaces) }
            },
            connection.subscribe(sender: name, path: AccessoryBus.root, interface: Bus.objectManager, member: "InterfacesRemoved") {
                [unowned self] message in
                if let path, message.removedInterfaces?.path == path { disappeared() }
            },
            connection.subscribe(
                sender: name, interface: Bus.properties, member: "PropertiesChanged", argument0: AccessoryBus.picker
            ) { [unowned self] message in
                guard message.path == path, let arguments = try? message.arguments() else { return }
                update(arguments[1])
            },
            connection.watchName(AccessoryBus.name) { [unowned self] new in
                if new != owner { onDaemonGone?() }
            },
        ]
        var capabilities = PickerCapabilities()
        capabilities.label = "accessoryctl picker"
        if view is UnattendedView { capabilities.isUnattended = true }
        _ = try connection.callAndWait(
            AccessoryBus.name, AccessoryBus.root, AccessoryBus.manager, "RegisterPicker", [capabilities.wire])
        view.waiting()
        let objects = try connection.callAndWait(AccessoryBus.name, AccessoryBus.root, Bus.objectManager, "GetManagedObjects")
        for entry in objects.first?.entries ?? [] {
            if let path = entry.key.objectPathValue { appeared(path, entry.value) }
        }
    }

    private func appeared(_ path: ObjectPath, _ interfaces: DBusValue) {
        guard self.path == nil, let properties = interfaces.vardictValue?[AccessoryBus.picker] else { return }
        self.path = path
        isCancelled = false
        state = PickerProperties()
        state.update(wire: properties.vardictValue ?? [:])
        view.began(state)
    }

    private func update(_ properties: DBusValue) {
        let old = state
        state.update(wire: properties.vardictValue ?? [:])
        if state != old { view.changed(state, from: old) }
    }

    private func disappeared() {
        path = nil
        view.ended(state)
        onEnd?(state.stage == "done", isCancelled)
    }

    /// The product image of an offer; nothing comes when there is none, or it cannot be had.
    func image(of offer: PickerOffer, completion: @escaping ([UInt8]) -> Void) {
        guard let path, offer.hasImage else { return }
        connection.call(AccessoryBus.name, path, AccessoryBus.picker, "GetImage", [.string(offer.id)]) { result in
            guard let file = (try? result.get())?.first?.fileDescriptorValue,
                let bytes = file.readFile(limit: Limits.imageBytes)
            else { return }
            completion(bytes)
        }
    }

    // MARK: Answers

    /// - Parameters:
    ///   - end: one of the offer's choices; nil for the app's end.
    ///   - access: one of the offer's choices; nil for all that the app asks for.
    func pick(_ offer: PickerOffer, end: String? = nil, access: String? = nil) {
        var choice: [String: DBusValue] = [:]
        if let end { choice["end"] = .string(end) }
        if let access { choice["access"] = .string(access) }
        if choice.isEmpty { call("Pick", [.string(offer.id)]) } else { call("PickWith", [.string(offer.id), .vardict(choice)]) }
    }
    func respond(_ answer: PromptAnswer) { call("Respond", [AnswerKeys(answer).wire]) }

    func rename(_ name: String) { call("Rename", [.string(name)]) }

    /// Asked for a name in a set-up: the accessory keeps the one it has. The set-up goes on.
    func keepName() { call("Cancel", []) }

    func cancel() {
        isCancelled = true
        call("Cancel", [])
    }

    /// Cancels, and has the app not ask again.
    func mute() {
        isCancelled = true
        call("Mute", [])
    }

    private func call(_ member: String, _ arguments: [DBusValue]) {
        guard let path else { return }
        connection.call(AccessoryBus.name, path, AccessoryBus.picker, member, arguments) { [weak self] result in
            guard let self, case .failure(let error) = result, self.path == path else { return }
            self.view.refused(error.message)
        }
    }
}
