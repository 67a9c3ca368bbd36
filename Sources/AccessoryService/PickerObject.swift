// A running picker on the bus: the registered picker program sees what the person is to see, and brings the person's answers.

internal import AccessoryBus
internal import AccessoryCore
internal import AccessoryEngine
internal import AccessoryModel
internal import DBusKit

final class PickerObject: ExportedObject {
    let path: ObjectPath
    let run: PickerRun
    private unowned let service: AccessoryService
    private(set) var interfaces: [ExportedInterface] = []

    /// Whether the picker program still has to show that it read the last offers.
    private var receipt: PendingCall?
    private var isBehind = false
    private var isClosed = false

    init(_ run: PickerRun, _ service: AccessoryService) {
        self.run = run
        self.service = service
        path = AccessoryBus.pickerPath(run.id)
        var interface = ExportedInterface(service.description(AccessoryBus.picker))
        interface.property("App") { _ in .string(run.session.app.id.rawValue) }
        interface.property("AppName") { _ in .string(run.session.app.name) }
        interface.property("Kind") { _ in .string(run.request.kind) }
        interface.property("Stage") { _ in .string(run.presentation.stage.rawValue) }
        interface.property("Offers") { [unowned service] _ in
            WireEncoding.offers(run.presentation.offers) { service.engine.hasImage(run, offer: $0) }
        }
        interface.property("Prompt") { _ in
            WireEncoding.prompt(
                run.presentation.prompt, failure: run.presentation.failure, finishInApp: run.presentation.finishInApp,
                migrations: run.ridingAlong.map(\.name))
        }
        interface.property("Deadline") { _ in .uint64(run.deadline.map { UInt64($0 * 1_000_000) } ?? 0) }
        interface.method("Pick") { [unowned self] call throws(BusError) in
            try own(call)
            let offer = call.arguments[0].stringValue ?? ""
            try asking { () throws(SetupError) in try service.engine.pick(run, offer: offer) }
            call.reply()
        }
        interface.method("Respond") { [unowned self] call throws(BusError) in
            try own(call)
            let answer = try WireDecoding.answer(call.arguments[0])
            try asking { () throws(SetupError) in try service.engine.respond(run, answer: answer) }
            call.reply()
        }
        interface.method("Cancel") { [unowned self] call throws(BusError) in
            try own(call)
            try asking { () throws(SetupError) in try service.engine.cancel(run) }
            call.reply()
        }
        interface.method("Rename") { [unowned self] call throws(BusError) in
            try own(call)
            let name = call.arguments[0].stringValue ?? ""
            try WireDecoding.checkName(name, "name")
            try asking { () throws(SetupError) in try service.engine.rename(run, to: name) }
            call.reply()
        }
        interface.method("GetImage") { [unowned self] call throws(BusError) in
            try own(call)
            let offer = call.arguments[0].stringValue ?? ""
            guard let image = try asking({ () throws(SetupError) in try service.engine.image(run, offer: offer) }) else {
                throw .failed("the offer \(offer) has no image")
            }
            guard let file = FileDescriptor.sealed(image.bytes, name: "product-image") else {
                throw .failed("no memory for the image")
            }
            call.reply(.fileDescriptor(file))
        }
        interfaces = [interface]
    }

    func isVisible(to caller: String) -> Bool {
        caller == run.client.rawValue || service.clients.isAdmin(caller)
    }

    private func own(_ call: MethodCall) throws(BusError) {
        guard call.sender == run.client.rawValue else {
            throw .accessDenied("only the picker program that shows this picker may answer for the person")
        }
    }

    /// Sends the offers, and the next ones only when these were read: a picker that does not read would otherwise fill the bus.
    func offersChanged() {
        guard !isClosed else { return }
        guard receipt?.isPending != true else {
            isBehind = true
            return
        }
        service.sendOffers(self)
        guard let ping = try? Message.call(to: run.client.rawValue, path: "/", interface: Bus.peer, member: "Ping") else { return }
        // Any answer will do, an error too: it shows that what came before was read.
        receipt = service.connection.call(ping, timeout: .seconds(10)) { [weak self] _ in
            guard let self, self.isBehind else { return }
            self.isBehind = false
            self.service.connection.loop.soon { [weak self] in self?.offersChanged() }
        }
    }

    func close() {
        isClosed = true
        receipt?.cancel()
    }
}
