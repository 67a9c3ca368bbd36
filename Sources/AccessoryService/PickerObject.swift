// SPDX-License-Identifier: Apache-2.0
// A running picker on the bus: the registered picker program shows it to the person, and sends the person's
// answers.

internal import AccessoryBus
internal import AccessoryCore
internal import AccessoryEngine
internal import AccessoryModel
internal import CallsOut
internal import DBusKit

final class PickerObject: ServiceObject {
    let run: PickerRun
    unowned let service: AccessoryService

    /// Whether the picker program still has to show that it read the last offers.
    private var receipt: PendingCall?
    private var isBehind = false
    private var isClosed = false
    private var published = PickerProperties()
    /// Offers whose name another one has, or had.
    private var twins: Set<String> = []

    init(_ run: PickerRun, _ service: AccessoryService) {
        self.run = run
        self.service = service
        published = current()
    }

    var path: ObjectPath { AccessoryBus.pickerPath(run.id) }
    var interfaces: [ExportedInterface] { service.members.picker }
    func isVisible(to caller: String) -> Bool { caller == run.client.rawValue || service.clients.isAdmin(caller) }

    static func members(_ description: InterfaceDescription) -> ExportedInterface {
        var table = MemberTable<PickerObject>(description)
        table.properties { picker, _ in picker.published }
        table.method("Pick", for: .itsPickerProgram, PickerObject.pick)
        table.method("PickWith", for: .itsPickerProgram, PickerObject.pickWith)
        table.method("Respond", for: .itsPickerProgram, PickerObject.respond)
        table.method("Cancel", for: .itsPickerProgram, PickerObject.cancel)
        table.method("Mute", for: .itsPickerProgram, PickerObject.mute)
        table.method("Rename", for: .itsPickerProgram, PickerObject.rename)
        table.method("GetImage", for: .itsPickerProgram, PickerObject.getImage)
        table.method("ImageData", for: .itsPickerProgram, PickerObject.imageData)
        return table.complete()
    }

    private func current() -> PickerProperties {
        let shown = run.presentation
        var properties = PickerProperties()
        properties.app = run.session.app.id.rawValue
        properties.appName = ShownName.marked(run.session.app.name)
        // The policy answers without a program.
        properties.program = run.client == .policy ? "" : ShownName.marked(service.clients.describe(run.client.rawValue))
        properties.kind = run.request.kind
        properties.stage = shown.stage.rawValue
        addTwins(among: shown.offers)
        properties.offers = shown.offers.map { offer in
            let terms = service.engine.terms(run, of: offer)
            return PickerOffer(
                offer, ends: terms.ends, choices: terms.endChoices, access: terms.access, canBeNarrowed: terms.canBeNarrowed,
                resembled: service.exportedPicker.nameInUse(resembledBy: offer),
                hasImage: service.engine.hasImage(run, offer: offer), isTwin: twins.contains(offer.id))
        }
        properties.prompt = PickerPrompt(
            shown.prompt, failure: shown.failure, finishesInApp: shown.finishInApp, migrations: run.ridingAlong.map(\.title),
            added: shown.added)
        properties.deadline = run.deadline.map { UInt64($0 * 1_000_000) } ?? 0
        return properties
    }

    private func addTwins(among offers: [Offer]) {
        var named: [String: Offer] = [:]
        for offer in offers {
            guard let other = named.updateValue(offer, forKey: offer.name) else { continue }
            twins.formUnion([offer.id, other.id])
        }
    }

    private func pick(_ call: MethodCall) throws(BusError) {
        let offer = call.arguments[0].stringValue ?? ""
        try mappingErrors { () throws(SetupError) in try service.engine.pick(run, offer: offer) }
        call.reply()
    }

    private func pickWith(_ call: MethodCall) throws(BusError) {
        let offer = call.arguments[0].stringValue ?? ""
        let choice = try PickChoice.decode(call.arguments[1])
        try mappingErrors { () throws(SetupError) in try service.engine.pick(run, offer: offer, choice) }
        call.reply()
    }

    private func respond(_ call: MethodCall) throws(BusError) {
        let answer = try AnswerKeys.decode(call.arguments[0])
        try mappingErrors { () throws(SetupError) in try service.engine.respond(run, answer: answer) }
        call.reply()
    }

    private func cancel(_ call: MethodCall) throws(BusError) {
        try mappingErrors { () throws(SetupError) in try service.engine.cancel(run) }
        call.reply()
    }

    private func mute(_ call: MethodCall) throws(BusError) {
        try mappingErrors { () throws(SetupError) in try service.engine.mute(run) }
        call.reply()
    }

    private func rename(_ call: MethodCall) throws(BusError) {
        let name = call.arguments[0].stringValue ?? ""
        try ShownName.check(name, "name")
        try mappingErrors { () throws(SetupError) in try service.engine.rename(run, to: name) }
        call.reply()
    }

    private func getImage(_ call: MethodCall) throws(BusError) {
        guard let file = FileDescriptor.sealed(try image(call).bytes, name: "product-image") else {
            throw .failed("no memory for the image")
        }
        call.reply(.fileDescriptor(file))
    }

    private func imageData(_ call: MethodCall) throws(BusError) { call.reply(.bytes(try image(call).bytes)) }

    /// The image that a call asks for.
    private func image(_ call: MethodCall) throws(BusError) -> ProductImage {
        let offer = call.arguments[0].stringValue ?? ""
        guard let image = try mappingErrors({ () throws(SetupError) in try service.engine.image(run, offer: offer) }) else {
            throw .failed("the offer \(offer) has no image")
        }
        return image
    }

    /// Signals the changes since the last time. A change of stage carries the offers that belong to it; offers alone
    /// are a stream, and wait for slow readers.
    ///
    /// - Parameter announce: called between the change and its signal.
    func publish(announce: () -> Void = {}) {
        let old = published
        published = current()
        announce()
        send(PickerProperties.table.changes(from: old, to: published))
    }

    /// Sends offers, when they change alone, only after the ones before were read: a picker that does not read would
    /// otherwise fill the bus.
    private func send(_ names: [String]) {
        guard !isClosed else { return }
        let isStream = names == ["Offers"]
        guard !isStream || receipt?.isPending != true else {
            isBehind = true
            return
        }
        service.server.propertiesChanged(self, AccessoryBus.picker, names, to: service.audience(with: run.client))
        guard isStream else { return }
        // Any answer will do, also an error: it shows that the earlier messages were read.
        receipt = service.connection.call(.pickerPing, of: run.client.rawValue, at: "/") { [weak self] _ in
            guard let self, self.isBehind else { return }
            self.isBehind = false
            self.service.connection.loop.soon { [weak self] in self?.send(["Offers"]) }
        }
    }

    func close() {
        isClosed = true
        receipt?.cancel()
    }
}

/// The picker on the bus, if one runs, and the names that its offers are compared with.
final class ExportedPicker {
    private(set) var object: PickerObject?
    /// Accessories' names, to be compared with offers.
    private var lookAlikes = LookAlikes()

    /// An accessory has a name from now on; nil takes its name away.
    func rename(_ id: AccessoryID, from old: String?, to new: String?) { lookAlikes.rename(id, from: old, to: new) }

    /// The name of another accessory that an offer can be taken for.
    func nameInUse(resembledBy offer: Offer) -> String? {
        let shown = [offer.advertisedName, offer.name] + (offer.network.map { [$0.ssid.description] } ?? [])
        return lookAlikes.resembled(by: shown, of: offer.shared ?? offer.identifier)
    }

    func open(_ run: PickerRun, _ service: AccessoryService) {
        let object = PickerObject(run, service)
        self.object = object
        service.server.export(object, to: service.audience(with: run.client))
    }

    func assign(from former: ClientID, to client: ClientID, _ service: AccessoryService) {
        guard let object else { return }
        if !service.clients.isAdmin(former.rawValue) { service.server.dismiss(object, to: .only([former.rawValue])) }
        object.publish {
            if !service.clients.isAdmin(client.rawValue) { service.server.announce(object, to: .only([client.rawValue])) }
        }
    }

    func close(_ run: PickerRun, _ service: AccessoryService) {
        guard let object else { return }
        self.object = nil
        object.close()
        service.server.withdraw(object.path, to: service.audience(with: run.client))
    }
}
