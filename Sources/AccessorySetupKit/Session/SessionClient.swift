// SPDX-License-Identifier: Apache-2.0
// The half of a session that speaks to the daemon: it makes the daemon's session, loads the app's accessories, takes
// events in order, and sends requests. It lives on the module's thread.

internal import AccessoryBus
internal import DBusKit

final class SessionClient {
    private typealias Event = (type: String, details: EventDetails)

    /// The daemon's session.
    private enum Phase {
        /// Asked for; not wanted once the app has ended its own.
        case opening(isWanted: Bool)
        /// Made by the daemon with this unique name.
        case open(daemon: String, ObjectPath)
    }

    private enum Delivery {
        /// Events wait for the list of accessories.
        case loading([Event])
        case atOnce
        /// The end of a picker came before the answer to its request. It waits with all events since: the completion
        /// has to come first.
        case early([Event])
    }

    /// A request that shows a picker.
    private enum PickerRequest: Equatable {
        /// Without an answer; not wanted once its task is cancelled.
        case asked(isWanted: Bool)
        /// Done when the picker is.
        case accepted(ObjectPath)
    }

    private let core: SessionCore
    private let connection: Connection
    private let onEnd: () -> Void
    private var phase = Phase.opening(isWanted: true)
    private var subscriptions: [Subscription] = []
    private var calls: [PendingCall] = []
    private var delivery = Delivery.loading([])
    /// The known properties of the app's accessories.
    private var properties: [ObjectPath: AccessoryProperties] = [:]
    /// Accessories whose network the machine is on.
    private var joined: Set<ObjectPath> = []
    /// By the tokens of their completions.
    private var pickers: [Int: PickerRequest] = [:]

    /// The unique name of the daemon that made the session; nil before.
    var daemon: String? { if case .open(let daemon, _) = phase { daemon } else { nil } }
    private var session: ObjectPath { if case .open(_, let session) = phase { session } else { "/" } }

    /// - Parameter onEnd: called once, when the session is over.
    init(_ core: SessionCore, on connection: Connection, onEnd: @escaping () -> Void) {
        self.core = core
        self.connection = connection
        self.onEnd = onEnd
    }

    // MARK: Beginning

    func start() {
        do {
            // To the name, so that the bus may start the daemon; everything after goes to the one that answered.
            let message = try Message.call(
                to: AccessoryBus.name, path: AccessoryBus.root, interface: AccessoryBus.manager, member: "CreateSession",
                [.vardict([:])])
            calls.append(connection.call(message) { [weak self] in self?.created($0) })
        } catch {
            failActivation(error)
        }
    }

    private func created(_ result: Result<Message, BusError>) {
        do throws(BusError) {
            let reply = try result.get()
            guard let daemon = reply.sender, let session = try reply.arguments().first?.objectPathValue else {
                throw BusError.failed("CreateSession returned no session")
            }
            let isWanted = if case .opening(isWanted: false) = phase { false } else { true }
            phase = .open(daemon: daemon, session)
            listen(to: daemon)
            if !isWanted { return close() }
        } catch {
            return failActivation(error)
        }
        call(session, AccessoryBus.session, "Activate") { [weak self] result in
            if case .failure(let error) = result { self?.failActivation(error) }
        }
        // Sent along without waiting: the daemon takes messages in order, so this is the state after activation.
        call(AccessoryBus.root, Bus.objectManager, "GetManagedObjects") { [weak self] result in
            switch result {
            case .success(let values): self?.loaded(values.first)
            case .failure(let error): self?.failActivation(error)
            }
        }
    }

    private func listen(to daemon: String) {
        subscriptions = [
            connection.subscribe(sender: daemon, path: session, interface: AccessoryBus.session, member: "Event") {
                [weak self] message in
                guard let self, let arguments = try? message.arguments(), arguments.count >= 2,
                    let type = arguments[0].stringValue
                else { return }
                self.receive(type, EventDetails(wire: arguments[1].vardictValue ?? [:]))
            },
            watch(AccessoryBus.accessory, of: daemon) { [weak self] in self?.changed($0, $1) },
            watch(AccessoryBus.network, of: daemon) { [weak self] path, changes in
                guard let self, let interface = changes["Interface"]?.stringValue else { return }
                if interface.isEmpty { self.joined.remove(path) } else { self.joined.insert(path) }
            },
        ]
    }

    private func watch(
        _ interface: String, of daemon: String, _ changed: @escaping (ObjectPath, [String: DBusValue]) -> Void
    ) -> Subscription {
        connection.subscribe(
            sender: daemon, below: AccessoryBus.root, interface: Bus.properties, member: "PropertiesChanged", argument0: interface
        ) { message in
            if let path = message.path, let changes = message.changedProperties { changed(path, changes.values) }
        }
    }

    private func loaded(_ objects: DBusValue?) {
        var found: [ObjectPath: [String: DBusValue]] = [:]
        for entry in objects?.entries ?? [] {
            guard let path = entry.key.objectPathValue else { continue }
            found[path] = entry.value.vardictValue
        }
        func read<Record: WireRecord>(_ interface: String, at path: ObjectPath) -> Record {
            Record(wire: found[path]?[interface]?.vardictValue ?? [:])
        }
        // For a session the daemon lists only the app's accessories; an administrator's connection sees more.
        let listed: SessionProperties = read(AccessoryBus.session, at: session)
        for path in listed.accessories {
            properties[path] = read(AccessoryBus.accessory, at: path)
            let network: NetworkProperties = read(AccessoryBus.network, at: path)
            if !network.interface.isEmpty { joined.insert(path) }
        }
        let accessories = listed.accessories.compactMap { path in properties[path].map { ASAccessory(path, $0) } }
        guard case .loading(let events) = delivery else { return }
        delivery = .atOnce
        for (type, details) in events {
            if type == "activated" { deliver(type, details, accessories: accessories) } else { receive(type, details) }
        }
    }

    private func failActivation(_ error: BusError) {
        let reason = ASError(error)
        // The app needs two codes only: the daemon cannot be reached, or refuses the program.
        let told = ASError(reason.code == .connectionFailed ? .connectionFailed : .activationFailed, reason.localizedDescription)
        end(told, failing: told)
    }

    // MARK: Events

    private func receive(_ type: String, _ details: EventDetails) {
        switch delivery {
        case .loading(let events) where type != "invalidated": delivery = .loading(events + [(type, details)])
        case .early(let events) where type != "invalidated": delivery = .early(events + [(type, details)])
        default: deliver(type, details, accessories: nil)
        }
    }

    private func deliver(_ type: String, _ details: EventDetails, accessories: [ASAccessory]?) {
        let event = ASAccessoryEvent(type: type, details: details)
        let error = event.error as? ASError
        if let object = event.accessory?.object, event.eventType != .accessoryDiscovered {
            properties[object] = event.eventType == .accessoryRemoved ? nil : details.properties ?? AccessoryProperties()
            if event.eventType == .accessoryRemoved { joined.remove(object) }
        }
        guard event.eventType != .invalidated else {
            return end(
                error ?? ASError(.invalidated, "accessorysetupd ended the session"),
                failing: ASError(.invalidated, "accessorysetupd ended the session"))
        }
        if event.eventType == .pickerDidDismiss, let picker = details.picker {
            // The completion comes first, so that an app takes no success for a cancellation.
            if let token = pickers.first(where: { $0.value == .accepted(picker) })?.key {
                pickers[token] = nil
                core.finish(token, error)
            } else if pickers.values.contains(where: { if case .asked = $0 { true } else { false } }) {
                delivery = .early([(type, details)])
                return
            }
        }
        for send in core.deliver(event, accessories: accessories) { send(self) }
    }

    private func changed(_ path: ObjectPath, _ changes: [String: DBusValue]) {
        if case .loading = delivery { return }
        guard var accessory = properties[path] else { return }
        accessory.update(wire: changes)
        properties[path] = accessory
        core.refresh(ASAccessory(path, accessory))
    }

    // MARK: Networks

    func accessory(withNetwork fits: ([UInt8]) -> Bool) -> ObjectPath? {
        properties.filter { !$0.value.ssid.isEmpty && fits($0.value.ssid) }.map(\.key).min { $0.rawValue < $1.rawValue }
    }

    /// Whether the app may use an accessory, and it has a network.
    func hasNetwork(_ object: ObjectPath) -> Bool { properties[object]?.ssid.isEmpty == false }

    /// Networks of accessories that the machine is on.
    var joinedNetworks: [String] {
        joined.compactMap { properties[$0]?.ssid }.map { String(decoding: $0, as: UTF8.self) }
    }

    /// Sends a request to an accessory's object; `completion` is called on the session's queue.
    func request(
        on object: ObjectPath, _ member: String, _ arguments: [DBusValue],
        completion: @escaping @Sendable ((any Error)?) -> Void
    ) {
        guard let token = core.open(completion) else { return }
        call(object, AccessoryBus.accessory, member, arguments, timeout: .seconds(60)) { [weak self] result in
            guard case .failure(let error) = result else { return self?.core.finish(token, nil) ?? () }
            self?.core.finish(token, ASError(error))
        }
    }

    // MARK: Requests

    /// Sends a request of the app's.
    ///
    /// - Parameter showsPicker: the answer is a picker's path, and the request is done when that picker is.
    func request(_ token: Int, _ member: String, _ arguments: [DBusValue], showsPicker: Bool) {
        if showsPicker { pickers[token] = .asked(isWanted: true) }
        // The daemon may have the request wait after the person has cancelled.
        call(session, AccessoryBus.session, member, arguments, timeout: .seconds(showsPicker ? 60 : 25)) { [weak self] result in
            guard let self else { return }
            let wasWanted = self.pickers.removeValue(forKey: token) != .asked(isWanted: false)
            switch result {
            case .failure(let error): self.core.finish(token, ASError(error))
            case .success(let values):
                // "/" is done without a picker.
                if showsPicker, let picker = values.first?.objectPathValue, picker != "/" {
                    self.accepted(token, picker, isWanted: wasWanted)
                } else {
                    self.core.finish(token, nil)
                }
            }
            // The end of a picker that waited for this answer can now be reported.
            guard showsPicker, case .early(let events) = self.delivery else { return }
            self.delivery = .atOnce
            for (type, details) in events { self.receive(type, details) }
        }
    }

    private func accepted(_ token: Int, _ picker: ObjectPath, isWanted: Bool) {
        pickers[token] = .accepted(picker)
        let waiting = if case .early(let events) = delivery { events } else { [] as [Event] }
        let hasEnded = waiting.contains { $0.type == "pickerDidDismiss" && $0.details.picker == picker }
        if !isWanted, !hasEnded { cancelPicker() }
    }

    /// Dismisses the picker of a cancelled request. The request is done when the picker is, as always.
    func giveUp(_ token: Int) {
        switch pickers[token] {
        case .asked: pickers[token] = .asked(isWanted: false)
        case .accepted: cancelPicker()
        case nil: break
        }
    }

    /// A daemon that does not know the call leaves the picker to the person, and a daemon whose picker has ended
    /// meanwhile refuses. Both outcomes are fine.
    private func cancelPicker() {
        call(session, AccessoryBus.session, "CancelPicker") { _ in }
    }

    private func call(
        _ path: ObjectPath, _ interface: String, _ member: String, _ arguments: [DBusValue] = [],
        timeout: Duration = .seconds(25), completion: @escaping (Result<[DBusValue], BusError>) -> Void
    ) {
        calls.removeAll { !$0.isPending }
        let call = connection.call(
            daemon ?? AccessoryBus.name, path, interface, member, arguments, timeout: timeout, limits: .generous,
            completion: completion)
        if let call { calls.append(call) }
    }

    // MARK: Ending

    /// The daemon that made the session is gone.
    func lost(_ reason: String) {
        let error = ASError(.connectionFailed, reason)
        end(error, failing: error)
    }

    /// Ends the daemon's session after the app has invalidated or released its own. A session that the daemon is still
    /// making is ended once it is made, lest it stay behind.
    func close() {
        guard case .open = phase else { return phase = .opening(isWanted: false) }
        call(session, AccessoryBus.session, "Invalidate") { _ in }
        finish()
    }

    private func end(_ reason: ASError, failing error: ASError) {
        core.end(reason, failing: error)
        finish()
    }

    private func finish() {
        // Cancelled one by one: a call that waits would keep its completion, and with it the session, until the bus
        // answers.
        for call in calls { call.cancel() }
        calls = []
        for subscription in subscriptions { subscription.cancel() }
        subscriptions = []
        onEnd()
    }
}
