// SPDX-License-Identifier: Apache-2.0
// What an app wants of an accessory's attributes while the link stands: one request after the other, as the attribute
// protocol has it and as BlueZ wants it, and the values that come by themselves. Each request is answered once, also
// when the link breaks. (BlueZ, org.bluez.GattCharacteristic(5))

internal import DBusKit
internal import Foundation

/// One link's requests and notifications.
final class AttributeRequests {
    typealias Failure = any Error & Sendable

    private struct Request {
        /// What has to have gone out before.
        var follows = Predecessors.commands
        let begin: () -> Void
        let fail: (Failure) -> Void
    }

    private enum Predecessors {
        /// It is answered from what is known.
        case none
        /// All writes without response.
        case commands
        /// Those to other characteristics: it is one to this, and goes the same way.
        case commandsElsewhere(than: ObjectPath)
    }

    private enum Notifying {
        /// `StartNotify` is under way; what comes meanwhile is told after its answer.
        case starting([[UInt8]])
        case on
    }

    private let identifier: UUID
    private let device: ObjectPath
    private let core: CentralCore
    private let session: ViewSession
    private var queue: [Request] = []
    /// Where the queue begins: what is before has been taken.
    private var head = 0
    private var current: Request?
    private var call: PendingCall?
    private var timer: LoopSource?
    private var isPumping = false
    private var notifying: [ObjectPath: Notifying] = [:]
    /// The value that came by itself while it was read: BlueZ tells what is read to everybody first.
    private var echo: (path: ObjectPath, value: [UInt8]?)?
    private var channels: [ObjectPath: CommandChannel] = [:]
    /// Channels that were given back and that BlueZ still reads, and what waits for that.
    private var releasing: (paths: Set<ObjectPath>, then: () -> Void)?
    private var releaseTimer: LoopSource?
    /// Characteristics whose descriptor BlueZ does not give.
    private var withoutChannel: Set<ObjectPath> = []
    private var change = DatabaseChange()
    private var changeTimer: LoopSource?
    private var settled: (() -> Void)?
    /// What BlueZ said with a descriptor.
    private(set) var mtu: Int?
    private var hasEnded = false

    /// Requests that may wait.
    private static let mostWaiting = 1024
    /// Values that may come before the answer to `StartNotify`.
    private static let mostHeld = 4096
    /// How often a request is tried again that another client's is in the way of, and after how long.
    private static let mostTries = 50
    private static let pause = Duration.milliseconds(20)
    /// How long BlueZ is waited for to say that it has read a channel to its end.
    private static let longestRelease = Duration.seconds(1)

    init(_ identifier: UUID, _ device: ObjectPath, _ core: CentralCore, _ session: ViewSession) {
        self.identifier = identifier
        self.device = device
        self.core = core
        self.session = session
    }

    /// Answers every request with an error.
    convenience init(withoutLinkOf identifier: UUID, _ core: CentralCore, _ session: ViewSession) {
        self.init(identifier, "/", core, session)
        hasEnded = true
    }

    // MARK: The queue

    private func enqueue(_ request: Request) {
        guard !hasEnded else { return request.fail(CBError(.peripheralDisconnected, "the link has gone")) }
        guard queue.count - head < Self.mostWaiting else {
            return request.fail(CBError(.outOfSpace, "\(Self.mostWaiting) requests wait"))
        }
        queue.append(request)
        pump()
    }

    private func pump() {
        guard !isPumping else { return }
        isPumping = true
        while current == nil, head < queue.count {
            let request = queue[head]
            head += 1
            if head == queue.count || head > 256 {
                queue.removeFirst(head)
                head = 0
            }
            current = request
            inOrder(request)
        }
        isPumping = false
    }

    /// Begins a request once the writes without response before it are with BlueZ: it reads them from descriptors, and
    /// might take a call first that was made after them. It says when it has come to the end of one.
    private func inOrder(_ request: Request) {
        let paths =
            switch request.follows {
            case .none: Set<ObjectPath>()
            case .commands: Set(channels.keys)
            case .commandsElsewhere(let path): Set(channels.keys).subtracting([path])
            }
        guard !paths.isEmpty else { return request.begin() }
        for path in paths { channels.removeValue(forKey: path)?.close() }
        releasing = (paths, request.begin)
        releaseTimer = session.loop.after(Self.longestRelease) { [weak self] in self?.released(paths) }
    }

    /// BlueZ has read these channels to their end.
    func released(_ paths: Set<ObjectPath>) {
        guard let then = releasing?.then else { return }
        releasing?.paths.subtract(paths)
        guard releasing?.paths.isEmpty == true else { return }
        releasing = nil
        releaseTimer?.cancel()
        releaseTimer = nil
        then()
    }

    private var isIdle: Bool { current == nil && head == queue.count }

    private func finish() {
        current = nil
        call = nil
        pump()
    }

    /// The link has gone, or the app has let go of it: whoever waits is answered.
    ///
    /// - Parameter stopsNotifying: whether the link stays up for others of this process.
    func end(_ error: Failure, stopsNotifying: Bool) {
        guard !hasEnded else { return }
        hasEnded = true
        call?.cancel()
        timer?.cancel()
        changeTimer?.cancel()
        releaseTimer?.cancel()
        releasing = nil
        if case .withoutObjects(_, let timer) = resolving { timer.cancel() }
        resolving = .idle
        settled = nil
        echo = nil
        for channel in channels.values { channel.close() }
        channels = [:]
        if stopsNotifying {
            for path in notifying.keys { session.call(path, BlueZTree.characteristicInterface, "StopNotify") { _ in } }
        }
        notifying = [:]
        let waiting = (current.map { [$0] } ?? []) + queue[head...]
        current = nil
        queue = []
        head = 0
        for request in waiting { request.fail(error) }
    }

    /// Calls an attribute's method, and again while another client's request is in the way.
    private func send(
        _ path: ObjectPath, _ interface: String, _ member: String, _ arguments: [DBusValue], tries: Int = 0,
        _ completion: @escaping (Result<[DBusValue], BusError>) -> Void
    ) {
        guard session.tree.hasAttribute(path) else {
            return whenSettled { completion(.failure(.unknownObject(path))) }
        }
        call = session.call(path, interface, member, arguments) { [weak self] result in
            guard let self, !self.hasEnded else { return }
            if case .failure(let error) = result, ErrorTable.isBusy(error), tries < Self.mostTries {
                self.timer = self.session.loop.after(Self.pause) { [weak self] in
                    self?.send(path, interface, member, arguments, tries: tries + 1, completion)
                }
                return
            }
            if case .failure = result, !self.session.tree.hasAttribute(path) {
                return self.whenSettled { completion(result) }
            }
            completion(result)
        }
    }

    /// Does `body` once it is known whether attributes have gone for themselves. When they went with the link, whoever
    /// waits hears of that.
    private func whenSettled(_ body: @escaping () -> Void) {
        if change.isEmpty { body() } else { settled = body }
    }

    // MARK: Discovering

    /// Does `body` once BlueZ knows the services.
    private func whenResolved(_ body: @escaping () -> Void, fail: @escaping (Failure) -> Void) {
        enqueue(
            Request(
                follows: .none,
                begin: { [self] in
                    resolving = .unresolved(body)
                    servicesChanged()
                }, fail: fail))
    }

    /// A request that waits for the services.
    private enum Resolving {
        case idle
        case unresolved(() -> Void)
        /// BlueZ may say that the services are resolved before they are objects (its issue 1489).
        case withoutObjects(() -> Void, LoopSource)
    }

    private var resolving = Resolving.idle

    /// `ServicesResolved` may have changed.
    func servicesChanged() {
        guard case .unresolved(let body) = resolving, let known = session.tree.device(device), known.areServicesResolved else {
            return
        }
        let isExpected = known.services.contains { !BlueZTree.claimedServices.contains($0) }
        if isExpected, !session.tree.hasServices(device) {
            return awaitObjects(body, for: DatabaseChange.longestDiscovery)
        }
        resolve(body)
    }

    private func awaitObjects(_ body: @escaping () -> Void, for time: Duration) {
        resolving = .withoutObjects(body, session.loop.after(time) { [weak self] in self?.resolve(body) })
    }

    private func resolve(_ body: () -> Void) {
        resolving = .idle
        body()
        finish()
    }

    func discoverServices(_ wanted: [String]?) {
        discover(wanted) { [device] in
            $0.services(of: device)
        } tell: { peripheral, found, error in
            if let found { peripheral.apply(services: found) }
            peripheral.delegate?.peripheral(peripheral, didDiscoverServices: error)
        }
    }

    func discoverIncludedServices(_ wanted: [String]?, of service: ObjectPath) {
        discover(wanted) {
            $0.includedServices(of: service)
        } tell: { peripheral, found, error in
            guard let service = peripheral.service(service) else { return }
            if let found { peripheral.apply(included: found, to: service) }
            peripheral.delegate?.peripheral(peripheral, didDiscoverIncludedServicesFor: service, error: error)
        }
    }

    func discoverCharacteristics(_ wanted: [String]?, of service: ObjectPath) {
        discover(wanted) {
            $0.characteristics(of: service)
        } tell: { peripheral, found, error in
            guard let service = peripheral.service(service) else { return }
            if let found { peripheral.apply(characteristics: found, to: service) }
            peripheral.delegate?.peripheral(peripheral, didDiscoverCharacteristicsFor: service, error: error)
        }
    }

    func discoverDescriptors(of characteristic: ObjectPath) {
        discover(nil) {
            $0.descriptors(of: characteristic)
        } tell: { peripheral, found, error in
            guard let characteristic = peripheral.characteristic(characteristic) else { return }
            if let found { peripheral.apply(descriptors: found, to: characteristic) }
            peripheral.delegate?.peripheral(peripheral, didDiscoverDescriptorsFor: characteristic, error: error)
        }
    }

    /// Finds attributes in what BlueZ shows, once it knows the services.
    ///
    /// - Parameters:
    ///   - wanted: only these; nil for all.
    ///   - find: nil when what they belong to is not there.
    ///   - tell: on the app's queue, with what was found or why nothing was.
    private func discover(
        _ wanted: [String]?, _ find: @escaping (BlueZTree) -> [AttributeInfo]?,
        tell: @escaping @Sendable (CBPeripheral, [AttributeInfo]?, Failure?) -> Void
    ) {
        whenResolved { [core, identifier, session] in
            let found = find(session.tree)?.filter { wanted?.contains($0.uuid) ?? true }
            core.tell(identifier) { tell($1, found, found == nil ? Self.gone : nil) }
        } fail: { [core, identifier] error in
            core.tell(identifier) { tell($1, nil, error) }
        }
    }

    private static let gone = CBError(.invalidHandle, "the attribute is not there any more")

    // MARK: Values

    func readCharacteristic(_ path: ObjectPath) {
        ask(path, BlueZTree.characteristicInterface, "ReadValue", [.vardict([:])]) { [self] in
            echo = notifying[path] != nil ? (path, nil) : nil
        } answer: { [self] result in
            switch result {
            case .success(let values):
                let heard = echo?.value
                echo = nil
                let value = values.first?.bytesValue ?? []
                // Told already, as what came by itself.
                if heard != value { tell(value, of: path) }
            case .failure(let error):
                core.tell(identifier) { _, peripheral in
                    guard let characteristic = peripheral.characteristic(path) else { return }
                    peripheral.delegate?.peripheral(peripheral, didUpdateValueFor: characteristic, error: error)
                }
            }
        }
    }

    private func tell(_ value: [UInt8], of path: ObjectPath) {
        core.tell(value, of: path, identifier, endOfTurn: session.loop)
    }

    func writeCharacteristic(_ path: ObjectPath, _ value: [UInt8]) {
        let arguments: [DBusValue] = [.bytes(value), .vardict(["type": .string("request")])]
        ask(path, BlueZTree.characteristicInterface, "WriteValue", arguments) { [core, identifier] result in
            let error = result.failure
            core.tell(identifier) { _, peripheral in
                guard let characteristic = peripheral.characteristic(path) else { return }
                peripheral.delegate?.peripheral(peripheral, didWriteValueFor: characteristic, error: error)
            }
        }
    }

    func readDescriptor(_ path: ObjectPath) {
        ask(path, BlueZTree.descriptorInterface, "ReadValue", [.vardict([:])]) { [core, identifier] result in
            let (value, error) = ((try? result.get()).map { $0.first?.bytesValue ?? [] }, result.failure)
            core.tell(identifier) { _, peripheral in
                guard let descriptor = peripheral.descriptor(path) else { return }
                if let value { descriptor.apply(Data(value)) }
                peripheral.delegate?.peripheral(peripheral, didUpdateValueFor: descriptor, error: error)
            }
        }
    }

    func writeDescriptor(_ path: ObjectPath, _ value: [UInt8]) {
        let arguments: [DBusValue] = [.bytes(value), .vardict([:])]
        ask(path, BlueZTree.descriptorInterface, "WriteValue", arguments) { [core, identifier] result in
            let error = result.failure
            core.tell(identifier) { _, peripheral in
                guard let descriptor = peripheral.descriptor(path) else { return }
                peripheral.delegate?.peripheral(peripheral, didWriteValueFor: descriptor, error: error)
            }
        }
    }

    /// Makes a request of one call.
    ///
    /// - Parameters:
    ///   - prepare: called before the call is made.
    ///   - answer: called once, with Apple's error where it failed.
    private func ask(
        _ path: ObjectPath, _ interface: String, _ member: String, _ arguments: [DBusValue],
        prepare: @escaping () -> Void = {}, answer: @escaping (Result<[DBusValue], Failure>) -> Void
    ) {
        enqueue(
            Request(
                begin: { [self] in
                    prepare()
                    send(path, interface, member, arguments) { [self] result in
                        answer(result.mapError { ErrorTable.error($0) })
                        finish()
                    }
                }, fail: { answer(.failure($0)) }))
    }

    // MARK: Notifications

    func setNotifying(_ path: ObjectPath, _ isWanted: Bool) {
        let tell: @Sendable (Bool?, Failure?) -> Void = { [core, identifier] isOn, error in
            core.tell(identifier) { _, peripheral in
                guard let characteristic = peripheral.characteristic(path) else { return }
                if let isOn { characteristic.apply(isNotifying: isOn) }
                peripheral.delegate?.peripheral(peripheral, didUpdateNotificationStateFor: characteristic, error: error)
            }
        }
        enqueue(
            Request(
                begin: { [self] in
                    guard isWanted != (notifying[path] != nil) else {
                        tell(isWanted, nil)
                        return finish()
                    }
                    if isWanted { notifying[path] = .starting([]) }
                    send(path, BlueZTree.characteristicInterface, isWanted ? "StartNotify" : "StopNotify", []) {
                        [self] result in
                        switch result {
                        case .success where isWanted:
                            tell(true, nil)
                            startTelling(path)
                        case .success:
                            notifying[path] = nil
                            tell(false, nil)
                        case .failure(let error):
                            if isWanted { notifying[path] = nil }
                            tell(nil, ErrorTable.error(error))
                        }
                        finish()
                    }
                },
                fail: { error in
                    // Apps stop what notifies right before they let go: then it has stopped, too.
                    let hasStopped = !isWanted && (error as? CBError)?.code == .operationCancelled
                    if hasStopped { tell(false, nil) } else { tell(nil, error) }
                }))
    }

    private func startTelling(_ path: ObjectPath) {
        guard case .starting(let values) = notifying[path] else { return }
        notifying[path] = .on
        for value in values { tell(value, of: path) }
    }

    /// A characteristic has told a value.
    func valueChanged(_ path: ObjectPath, _ value: [UInt8]) {
        switch notifying[path] {
        case .starting(var values):
            guard values.count < Self.mostHeld else { return }
            values.append(value)
            notifying[path] = .starting(values)
        case .on:
            if echo?.path == path { echo?.value = value }
            tell(value, of: path)
        case nil: break
        }
    }

    // MARK: Writing without response

    /// Sends a value that nobody answers. What was written before goes first.
    ///
    /// - Parameter gate: gets its place back once the value is gone.
    func command(_ path: ObjectPath, _ value: [UInt8], _ gate: CommandGate) {
        let done: () -> Void = { [core, identifier] in
            guard gate.give() else { return }
            core.tell(identifier) { _, peripheral in
                guard peripheral.state == .connected else { return }
                peripheral.delegate?.peripheralIsReady(toSendWriteWithoutResponse: peripheral)
            }
        }
        enqueue(
            Request(
                // A packet of no bytes would read as the end: an empty value is a call, and waits as others do.
                follows: value.isEmpty ? .commands : .commandsElsewhere(than: path),
                begin: { [self] in
                    if value.isEmpty || withoutChannel.contains(path) { return commandByCall(path, value, done) }
                    if let channel = channels[path] { return commandByChannel(channel, path, value, done) }
                    send(path, BlueZTree.characteristicInterface, "AcquireWrite", [.vardict([:])]) { [self] result in
                        guard case .success(let values) = result, values.count == 2,
                            let descriptor = values[0].fileDescriptorValue
                        else {
                            withoutChannel.insert(path)
                            return commandByCall(path, value, done)
                        }
                        mtu = values[1].integerValue
                        let channel = CommandChannel(descriptor, gate, session.loop) { [weak self] in
                            self?.channels[path] = nil
                        }
                        channels[path] = channel
                        commandByChannel(channel, path, value, done)
                    }
                }, fail: { _ in done() }))
    }

    private func commandByChannel(
        _ channel: CommandChannel, _ path: ObjectPath, _ value: [UInt8], _ done: @escaping () -> Void
    ) {
        channel.send(value) { [weak self] isSent in
            guard let self, !self.hasEnded else { return }
            guard isSent else {
                self.channels.removeValue(forKey: path)?.close()
                return self.commandByCall(path, value, done)
            }
            self.finish()
            // First, so that an app that hears of room finds the short way open. Who waits must not be overtaken on it:
            // within the pump the next request is not the current one yet.
            if self.isIdle { channel.openGate(to: path) }
            done()
        }
    }

    private func commandByCall(_ path: ObjectPath, _ value: [UInt8], _ done: @escaping () -> Void) {
        let options: [String: DBusValue] = ["type": .string("command")]
        send(path, BlueZTree.characteristicInterface, "WriteValue", [.bytes(value), .vardict(options)]) { [self] _ in
            done()
            finish()
        }
    }

    // MARK: Another database

    /// An attribute has come or gone. Objects go with the link, too: that is known only after a moment.
    func attributeChanged(_ path: ObjectPath, isGone: Bool) {
        if isGone {
            channels.removeValue(forKey: path)?.close()
            released([path])
            notifying[path] = nil
        }
        // So do they come while a request waits for them: together, within a moment.
        if case .withoutObjects(let body, let timer) = resolving {
            timer.cancel()
            return awaitObjects(body, for: DatabaseChange.settling)
        }
        // Objects that come while the services are still being looked for are the first database, not another.
        guard isGone || session.tree.device(device)?.areServicesResolved == true else { return }
        change.note(path, isGone: isGone)
        changeTimer?.cancel()
        changeTimer = session.loop.after(DatabaseChange.settling) { [weak self] in self?.changeSettled() }
    }

    private func changeSettled() {
        guard change.isUnfinished(session.tree.services(of: device)) else { return tellModified() }
        let rest = DatabaseChange.longestDiscovery - DatabaseChange.settling
        changeTimer = session.loop.after(rest) { [weak self] in self?.tellModified() }
    }

    private func tellModified() {
        guard !change.isEmpty, !hasEnded else { return }
        let gone = change.gone
        change = DatabaseChange()
        // Before the attributes are invalid: nobody could be told then.
        let body = settled
        settled = nil
        body?()
        core.tell(identifier) { _, peripheral in
            let invalidated = peripheral.invalidate(gone)
            guard !invalidated.isEmpty || gone.isEmpty else { return }
            peripheral.delegate?.peripheral(peripheral, didModifyServices: invalidated)
        }
    }
}

extension Result {
    /// What went wrong; nil when nothing did.
    fileprivate var failure: Failure? { if case .failure(let error) = self { error } else { nil } }
}
