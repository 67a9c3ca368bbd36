// SPDX-License-Identifier: Apache-2.0
// An app's requests for an accessory's attributes while the link is up: one after the other, as the attribute protocol
// and BlueZ require. Each request is answered once, also when the link breaks. (BlueZ, org.bluez.GattCharacteristic(5))

internal import BlueZInterfaces
internal import BlueZObjects
internal import DBusKit
internal import Foundation

/// One link's requests and notifications.
final class AttributeRequests {
    typealias Failure = any Error & Sendable

    private struct Request {
        var follows = Predecessors.commands
        let begin: () -> Void
        let fail: (Failure) -> Void
    }

    /// The writes without response that BlueZ must have read before a request begins.
    private enum Predecessors {
        /// None: the request is answered from the object tree.
        case none
        case commands
        /// Those to other characteristics: the request takes the same channel.
        case commandsElsewhere(than: ObjectPath)
    }

    /// The current request's call, or the pause before it is repeated.
    private enum Attempt {
        case none
        case call(PendingCall)
        case pause(LoopSource)

        func cancel() {
            switch self {
            case .none: break
            case .call(let call): call.cancel()
            case .pause(let timer): timer.cancel()
            }
        }
    }

    private let identifier: UUID
    private let device: ObjectPath
    private let core: CentralCore
    private let session: ViewSession
    private let database: DatabaseWatch
    private let channels: CommandChannels
    private var queue: RequestQueue<Request>
    private var isPumping = false
    private var attempt = Attempt.none
    private var notifications = NotificationStates()

    /// How often a request is repeated that another client's request blocks, and after how long.
    private static let maxTries = 50
    private static let pause = Duration.milliseconds(20)

    /// - Parameter isClosed: whether there is no link, and every request fails.
    init(_ identifier: UUID, _ device: ObjectPath, _ core: CentralCore, _ session: ViewSession, isClosed: Bool = false) {
        self.identifier = identifier
        self.device = device
        self.core = core
        self.session = session
        queue = RequestQueue(isClosed: isClosed)
        channels = CommandChannels(session.loop)
        database = DatabaseWatch(device, session) { [core] gone in
            core.publish(identifier) { _, peripheral in
                let invalidated = peripheral.invalidate(gone)
                guard !invalidated.isEmpty || gone.isEmpty else { return }
                peripheral.delegate?.peripheral(peripheral, didModifyServices: invalidated)
            }
        }
    }

    /// The bytes of a packet, where BlueZ has answered with them.
    var mtu: Int? { channels.mtu }

    // MARK: The queue

    private func enqueue(_ request: Request) {
        do throws(RequestQueue<Request>.Refusal) {
            try queue.add(request)
        } catch {
            switch error {
            case .closed: return request.fail(CBError(.peripheralDisconnected, "the link is down"))
            case .full: return request.fail(CBError(.outOfSpace, "\(RequestQueue<Request>.maxPending) requests are pending"))
            }
        }
        pump()
    }

    private func pump() {
        guard !isPumping else { return }
        isPumping = true
        while let request = queue.next() {
            switch request.follows {
            case .none: request.begin()
            case .commands: channels.drain(except: nil, then: request.begin)
            case .commandsElsewhere(let path): channels.drain(except: path, then: request.begin)
            }
        }
        isPumping = false
    }

    private func finish() {
        attempt = .none
        queue.finish()
        pump()
    }

    /// The link is down, or the app has cancelled it: all requests are answered.
    ///
    /// - Parameter stopsNotifying: whether another manager of the process keeps the link.
    func end(_ error: Failure, stopsNotifying: Bool) {
        let unanswered = queue.close()
        attempt.cancel()
        database.end()
        channels.end()
        if stopsNotifying {
            for path in notifications.paths { session.call(path, GattCharacteristic1.interface, "StopNotify") { _ in } }
        }
        notifications = NotificationStates()
        for request in unanswered { request.fail(error) }
    }

    /// Calls an attribute's method, and again while another client's request blocks it.
    private func send(
        _ path: ObjectPath, _ interface: String, _ member: String, _ arguments: [DBusValue], tries: Int = 0,
        _ completion: @escaping (Result<[DBusValue], BusError>) -> Void
    ) {
        guard session.tree.hasAttribute(path) else {
            return database.whenSettled { completion(.failure(.unknownObject(path))) }
        }
        let call = session.call(path, interface, member, arguments) { [weak self] result in
            guard let self, !self.queue.isClosed else { return }
            guard case .failure(let error) = result else { return completion(result) }
            if ErrorTable.isBusy(error), tries < Self.maxTries {
                let timer = self.session.loop.after(Self.pause) { [weak self] in
                    self?.send(path, interface, member, arguments, tries: tries + 1, completion)
                }
                self.attempt = .pause(timer)
            } else if error.isStandard("UnknownObject"), self.session.tree.hasAttribute(path) {
                // The signals about its removal, or the end of the grant, are on their way: before the next answer.
                self.session.readGrants { [weak self] in self?.failed(path, error, completion) }
            } else {
                self.failed(path, error, completion)
            }
        }
        attempt = call.map { .call($0) } ?? .none
    }

    private func failed(_ path: ObjectPath, _ error: BusError, _ completion: @escaping (Result<[DBusValue], BusError>) -> Void) {
        guard !queue.isClosed else { return }
        guard session.tree.hasAttribute(path) else { return database.whenSettled { completion(.failure(error)) } }
        completion(.failure(error))
    }

    // MARK: Discovering

    /// `ServicesResolved` may have changed.
    func servicesChanged() {
        database.servicesChanged()
    }

    func discoverServices(_ wanted: [String]?) {
        discover(wanted) { [device] in
            $0.services(of: device)
        } publish: { peripheral, found, error in
            if let found { peripheral.apply(services: found) }
            peripheral.delegate?.peripheral(peripheral, didDiscoverServices: error)
        }
    }

    func discoverIncludedServices(_ wanted: [String]?, of service: ObjectPath) {
        discover(wanted) {
            $0.includedServices(of: service)
        } publish: { peripheral, found, error in
            guard let service: CBService = peripheral.attribute(service) else { return }
            if let found { peripheral.apply(included: found, to: service) }
            peripheral.delegate?.peripheral(peripheral, didDiscoverIncludedServicesFor: service, error: error)
        }
    }

    func discoverCharacteristics(_ wanted: [String]?, of service: ObjectPath) {
        discover(wanted) {
            $0.characteristics(of: service)
        } publish: { peripheral, found, error in
            guard let service: CBService = peripheral.attribute(service) else { return }
            if let found { peripheral.apply(characteristics: found, to: service) }
            peripheral.delegate?.peripheral(peripheral, didDiscoverCharacteristicsFor: service, error: error)
        }
    }

    func discoverDescriptors(of characteristic: ObjectPath) {
        discover(nil) {
            $0.descriptors(of: characteristic)
        } publish: { peripheral, found, error in
            guard let characteristic: CBCharacteristic = peripheral.attribute(characteristic) else { return }
            if let found { peripheral.apply(descriptors: found, to: characteristic) }
            peripheral.delegate?.peripheral(peripheral, didDiscoverDescriptorsFor: characteristic, error: error)
        }
    }

    /// Finds attributes in the object tree, once BlueZ has resolved the services.
    ///
    /// - Parameters:
    ///   - wanted: only these; nil for all.
    ///   - find: nil when the attribute that they belong to does not exist.
    ///   - publish: on the app's queue, with the attributes or the error.
    private func discover(
        _ wanted: [String]?, _ find: @escaping (BlueZTree) -> [AttributeInfo]?,
        publish: @escaping @Sendable (CBPeripheral, [AttributeInfo]?, Failure?) -> Void
    ) {
        let answer = { [core, identifier] (found: [AttributeInfo]?, error: Failure?) in
            core.publish(identifier) { publish($1, found, error) }
        }
        enqueue(
            Request(
                follows: .none,
                begin: { [self] in
                    database.whenResolved { [self] in
                        let found = find(session.tree)?.filter { wanted?.contains($0.uuid) ?? true }
                        answer(found, found == nil ? CBError(.invalidHandle, "the attribute no longer exists") : nil)
                        finish()
                    }
                }, fail: { answer(nil, $0) }))
    }

    // MARK: Values

    func readCharacteristic(_ path: ObjectPath) {
        ask(path, GattCharacteristic1.interface, "ReadValue", [.vardict([:])]) { [self] in
            notifications.beginRead(path)
        } answer: { [self] result in
            switch result {
            case .success(let values):
                let value = values.first?.bytesValue ?? []
                if notifications.endRead() != value { publish(value, of: path) }
            case .failure(let error):
                publish(to: path) { (peripheral, characteristic: CBCharacteristic) in
                    peripheral.delegate?.peripheral(peripheral, didUpdateValueFor: characteristic, error: error)
                }
            }
        }
    }

    func writeCharacteristic(_ path: ObjectPath, _ value: [UInt8]) {
        let arguments: [DBusValue] = [.bytes(value), .vardict(["type": .string("request")])]
        ask(path, GattCharacteristic1.interface, "WriteValue", arguments) { [self] result in
            let error = result.error
            publish(to: path) { (peripheral, characteristic: CBCharacteristic) in
                peripheral.delegate?.peripheral(peripheral, didWriteValueFor: characteristic, error: error)
            }
        }
    }

    func readDescriptor(_ path: ObjectPath) {
        ask(path, GattDescriptor1.interface, "ReadValue", [.vardict([:])]) { [self] result in
            let (value, error) = ((try? result.get()).map { $0.first?.bytesValue ?? [] }, result.error)
            publish(to: path) { (peripheral, descriptor: CBDescriptor) in
                if let value { descriptor.apply(Data(value)) }
                peripheral.delegate?.peripheral(peripheral, didUpdateValueFor: descriptor, error: error)
            }
        }
    }

    func writeDescriptor(_ path: ObjectPath, _ value: [UInt8]) {
        ask(path, GattDescriptor1.interface, "WriteValue", [.bytes(value), .vardict([:])]) { [self] result in
            let error = result.error
            publish(to: path) { (peripheral, descriptor: CBDescriptor) in
                peripheral.delegate?.peripheral(peripheral, didWriteValueFor: descriptor, error: error)
            }
        }
    }

    /// Makes a request of one call.
    ///
    /// - Parameters:
    ///   - prepare: called before the call is made.
    ///   - answer: called once, with Apple's error for a failure.
    private func ask(
        _ path: ObjectPath, _ interface: String, _ member: String, _ arguments: [DBusValue],
        prepare: @escaping () -> Void = {}, answer: @escaping (Result<[DBusValue], Failure>) -> Void
    ) {
        enqueue(
            Request(
                begin: { [self] in
                    prepare()
                    send(path, interface, member, arguments) { [self] result in
                        answer(result.mapError { ErrorTable.attributeError($0) })
                        finish()
                    }
                }, fail: { answer(.failure($0)) }))
    }

    private func publish(_ value: [UInt8], of path: ObjectPath) {
        core.publish(value, of: path, identifier, endOfTurn: session.loop)
    }

    /// Calls `body` on the app's queue, if the app has discovered the attribute.
    private func publish<Attribute: CBAttribute & SendableMetatype>(
        to path: ObjectPath, _ body: @escaping @Sendable (CBPeripheral, Attribute) -> Void
    ) {
        core.publish(identifier) { _, peripheral in
            if let attribute: Attribute = peripheral.attribute(path) { body(peripheral, attribute) }
        }
    }

    // MARK: Notifications

    /// - Parameter stream: the stream that asks; nil for the app.
    func setNotifying(_ path: ObjectPath, _ isWanted: Bool, for stream: StreamObservers.Token? = nil) {
        enqueue(
            Request(
                begin: { [self] in
                    if stream == nil { notifications.wanted(path) }
                    guard isWanted != notifications.isOn(path) else {
                        publishNotifying(path, isWanted, nil, stream)
                        return finish()
                    }
                    callNotify(path, isWanted, stream)
                },
                fail: { [self] error in
                    // Apps stop notifications right before they cancel the connection, which stops them, too.
                    let hasStopped = !isWanted && (error as? CBError)?.code == .operationCancelled
                    publishNotifying(path, hasStopped ? false : nil, hasStopped ? nil : error, stream)
                }))
    }

    /// A stream was cancelled. The last one turns notifications off, unless the app itself has asked for them.
    func streamCancelled(_ path: ObjectPath) {
        enqueue(
            Request(
                begin: { [self] in
                    // By now a new stream may have taken its place.
                    guard notifications.ofStreams.contains(path), core.streams.bodies(subject(path)).isEmpty else {
                        return finish()
                    }
                    callNotify(path, false, nil)
                }, fail: { _ in }))
    }

    private func callNotify(_ path: ObjectPath, _ isWanted: Bool, _ stream: StreamObservers.Token?) {
        if isWanted { notifications.starting(path, forStream: stream != nil) }
        send(path, GattCharacteristic1.interface, isWanted ? "StartNotify" : "StopNotify", []) { [self] in
            notifyingAnswered(path, isWanted, $0, stream)
            finish()
        }
    }

    private func notifyingAnswered(
        _ path: ObjectPath, _ isWanted: Bool, _ result: Result<[DBusValue], BusError>, _ stream: StreamObservers.Token?
    ) {
        switch result {
        case .success where isWanted:
            publishNotifying(path, true, nil, stream)
            for value in notifications.started(path) { publish(value, of: path) }
        case .success:
            notifications.stopped(path)
            publishNotifying(path, false, nil, stream)
        case .failure(let error):
            if isWanted { notifications.stopped(path) }
            publishNotifying(path, nil, ErrorTable.attributeError(error), stream)
        }
    }

    private func publishNotifying(
        _ path: ObjectPath, _ isOn: Bool?, _ error: Failure?, _ stream: StreamObservers.Token?
    ) {
        publish(to: path) { [subject = subject(path)] (peripheral, characteristic: CBCharacteristic) in
            if let isOn { characteristic.apply(isNotifying: isOn) }
            peripheral.core.streams.answered(subject, isOn: isOn, error, to: stream)
            peripheral.delegate?.peripheral(peripheral, didUpdateNotificationStateFor: characteristic, error: error)
        }
    }

    private func subject(_ path: ObjectPath) -> StreamObservers.Subject { .characteristic(identifier, path) }

    /// BlueZ has signalled a characteristic's value.
    func valueChanged(_ path: ObjectPath, _ value: [UInt8]) {
        if notifications.received(value, of: path) { publish(value, of: path) }
    }

    // MARK: Writing without response

    /// Sends a value without response, after all that was written before.
    ///
    /// - Parameter gate: gets its place back once the value is gone.
    func command(_ path: ObjectPath, _ value: [UInt8], _ gate: CommandGate) {
        let done: () -> Void = { [core, identifier] in
            guard gate.giveBack() else { return }
            core.publish(identifier) { _, peripheral in
                guard peripheral.state == .connected else { return }
                peripheral.delegate?.peripheralIsReady(toSendWriteWithoutResponse: peripheral)
            }
        }
        enqueue(
            Request(
                // A packet of no bytes would read as the end: an empty value is a call, and waits like other calls.
                follows: value.isEmpty ? .commands : .commandsElsewhere(than: path),
                begin: { [self] in
                    if value.isEmpty || channels.isRefused(path) { return commandByCall(path, value, done) }
                    if let channel = channels[path] { return commandByChannel(channel, path, value, done) }
                    send(path, GattCharacteristic1.interface, "AcquireWrite", [.vardict([:])]) { [self] answer in
                        guard let channel = channels.open(path, answer, gate) else { return commandByCall(path, value, done) }
                        commandByChannel(channel, path, value, done)
                    }
                }, fail: { _ in done() }))
    }

    private func commandByChannel(
        _ channel: CommandChannel, _ path: ObjectPath, _ value: [UInt8], _ done: @escaping () -> Void
    ) {
        channel.send(value) { [weak self] isSent in
            guard let self, !self.queue.isClosed else { return }
            guard isSent else {
                self.channels.close(path)
                return self.commandByCall(path, value, done)
            }
            self.finish()
            // First, so that an app that is called back for room finds the short way open. Pending requests must not be
            // overtaken on it: within the pump the next request is not the current one yet.
            if self.queue.isIdle { channel.openGate(to: path) }
            done()
        }
    }

    private func commandByCall(_ path: ObjectPath, _ value: [UInt8], _ done: @escaping () -> Void) {
        let options: [String: DBusValue] = ["type": .string("command")]
        send(path, GattCharacteristic1.interface, "WriteValue", [.bytes(value), .vardict(options)]) { [self] _ in
            done()
            finish()
        }
    }

    /// BlueZ has read a channel to its end.
    func released(_ path: ObjectPath) {
        channels.released([path])
    }

    // MARK: Another database

    /// An attribute was added or removed.
    func attributeChanged(_ path: ObjectPath, isGone: Bool) {
        if isGone {
            channels.close(path)
            channels.released([path])
            notifications.stopped(path)
        }
        database.attributeChanged(path, isGone: isGone)
    }
}
