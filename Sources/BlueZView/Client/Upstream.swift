// SPDX-License-Identifier: Apache-2.0
// A client's own connection to the bus that carries org.bluez: bluetoothd counts discoveries and notifications for each
// of its clients, and forgets them when one goes, so each client of the view is one. Calls pass and their answers
// return, and a call can be given up.

internal import AccessoryModel
internal import BlueZInterfaces
internal import CallsOut
internal import DBusKit
internal import Logging

/// The way from one client to org.bluez.
final class Upstream {
    /// The outcome of a call.
    enum Outcome {
        case reply(Message)
        case error(Message)
        /// The bus has gone.
        case noReply
        /// It was given up here, for this reason.
        case abandoned(BusError)
    }

    private struct CallInFlight {
        /// The device that the call is about.
        let device: ObjectPath?
        let completion: (Outcome) -> Void
    }

    private let address: Connection.Address
    private let loop: MainLoop
    private let queue: ServiceQueue
    private let share: Share
    /// Of reading while signals come fast.
    private let pace: StreamPace
    private let log: Logger
    private var connection: Connection?
    private var subscriptions: [ObjectPath: Subscription] = [:]
    /// To the properties of all devices.
    private var listening: Subscription?
    private var calls: [Int: CallInFlight] = [:]
    private var callsMade = 0
    /// Calls that org.bluez has not answered, also those that were given up here.
    private var underWay: [ServiceQueue.Lane: Int] = [:]

    init(
        to address: Connection.Address, loop: MainLoop, _ queue: ServiceQueue, _ share: Share, pace: StreamPace = StreamPace(),
        log: Logger
    ) {
        self.pace = pace
        self.address = address
        self.loop = loop
        self.queue = queue
        self.share = share
        self.log = log
    }

    // MARK: The connection

    /// Connects, if it is not connected.
    ///
    /// - Parameter onDisconnect: called when the bus goes.
    /// - Returns: whether it is connected.
    func open(onDisconnect: @escaping () -> Void) -> Bool {
        guard connection == nil else { return true }
        do throws(BusError) {
            let connection = try Connection(address, loop: loop, reading: .streamed(pace))
            connection.onDisconnect = onDisconnect
            self.connection = connection
            return true
        } catch {
            log.error("could not connect to the bus for a client of the view", metadata: ["reason": "\(error)"])
            return false
        }
    }

    /// Leaves the connection to the next run.
    ///
    /// - Returns: nil when it cannot be left; nothing in the state when there is none.
    func leave(_ baggage: inout Baggage) -> LeftState? {
        guard let connection else { return [:] }
        guard let (socket, left) = connection.leave(answering: ClientConnection.restarting) else { return nil }
        return ["Upstream": baggage.pack(socket, left)]
    }

    /// Takes the connection up, with its subscriptions.
    ///
    /// - Returns: false when there was one, and it is lost.
    func resume(
        _ state: LeftState, _ baggage: Baggage, devices: some Sequence<ObjectPath>, of owner: String,
        onDisconnect: @escaping () -> Void, _ body: @escaping (Message, ObjectPath) -> Void
    ) -> Bool {
        guard let there = state["Upstream"] else { return true }
        guard let (socket, left) = baggage.unpackConnection(there),
            let connection = try? Connection(resuming: socket, left, peer: nil, reading: .streamed(pace), loop: loop)
        else { return false }
        connection.onDisconnect = onDisconnect
        self.connection = connection
        subscribe(to: devices, of: owner, busKnows: true, body)
        return true
    }

    /// Passes on signals that wait to be read.
    func catchUp() {
        connection?.catchUp()
    }

    /// Gives all calls up and leaves the bus: there the client is forgotten.
    func close() {
        abandon(.notReady) { _ in true }
        for subscription in subscriptions.values { subscription.cancel() }
        subscriptions = [:]
        stopListening()
        queue.withdrawAll(of: self, share.party)
        connection = nil
        let lanes = underWay
        underWay = [:]
        for (lane, count) in lanes {
            for _ in 0..<count { queue.leave(lane) }
        }
    }

    // MARK: Signals

    var isOpen: Bool { connection != nil }
    var isSubscribed: Bool { !subscriptions.isEmpty || listening != nil }

    /// Subscribes to `PropertiesChanged` of devices and their attributes, in addition to the present ones.
    ///
    /// - Parameter busKnows: the bus was asked for them by an earlier run.
    func subscribe(
        to devices: some Sequence<ObjectPath>, of owner: String, busKnows: Bool = false,
        _ body: @escaping (Message, ObjectPath) -> Void
    ) {
        guard let connection else { return }
        for device in devices where subscriptions[device] == nil {
            subscriptions[device] = connection.subscribe(
                sender: owner, below: device, interface: Bus.properties, member: "PropertiesChanged", busKnows: busKnows
            ) { body($0, device) }
        }
    }

    /// Subscribes to `PropertiesChanged` of all devices, once.
    func listen(to owner: String, busKnows: Bool, _ body: @escaping (Message) -> Void) {
        guard let connection, listening == nil else { return }
        listening = connection.subscribe(
            sender: owner, below: BlueZ.manager, interface: Bus.properties, member: "PropertiesChanged",
            argument0: Device1.interface, busKnows: busKnows, handler: body)
    }

    func stopListening() {
        listening?.cancel()
        listening = nil
    }

    func unsubscribe(from device: ObjectPath) {
        subscriptions.removeValue(forKey: device)?.cancel()
    }

    // MARK: Calls

    /// Passes a client's call on, when it is its user's turn.
    ///
    /// - Parameters:
    ///   - lane: the calls that it stands behind at org.bluez; nil for one that waits there for a link, and delays
    ///     no other call.
    ///   - mayStart: asked when its turn has come; an error is its outcome.
    ///   - completion: called exactly once, later.
    /// - Throws: when it is not passed on.
    func forward(
        _ call: Message, about device: ObjectPath?, in lane: ServiceQueue.Lane?, mayStart: @escaping () -> BusError? = { nil },
        completion: @escaping (Outcome) -> Void
    ) throws(BusError) {
        guard connection != nil else { throw .notReady }
        try share.reserve(.calls)
        callsMade += 1
        let number = callsMade
        calls[number] = CallInFlight(device: device, completion: completion)
        guard let lane else { return send(call, number, in: nil) }
        queue.enter(lane, of: share.party, owner: self) { [weak self] in
            guard let self, self.calls[number] != nil else { return false }
            if let error = mayStart() {
                self.finish(number, .abandoned(error))
                return false
            }
            self.send(call, number, in: lane)
            return true
        }
    }

    /// Calls `body` after the client's earlier calls over a device's link.
    func afterWaiting(about device: ObjectPath, _ body: @escaping () -> Void) {
        queue.afterWaiting(.link(device), of: share.party, owner: self, body)
    }

    private func send(_ call: Message, _ number: Int, in lane: ServiceQueue.Lane?) {
        if let lane { underWay[lane, default: 0] += 1 }
        // By its name: an answer can only come from its owner, and answers are known by their serial. The app may not
        // care for one; whether it worked matters here, and a call without one would count for ever.
        _ = connection?.pass(call, to: BlueZ.service) { [weak self] answer in
            guard let self else { return }
            if let lane, let count = self.underWay[lane], count > 0 {
                self.underWay[lane] = count - 1
                self.queue.leave(lane)
            }
            self.finish(number, answer.map { $0.kind == .error ? .error($0) : .reply($0) } ?? .noReply)
        }
    }

    private func finish(_ number: Int, _ outcome: Outcome) {
        guard let call = calls.removeValue(forKey: number) else { return }
        share.release(.calls)
        call.completion(outcome)
    }

    /// Gives up the calls about a device.
    func abandonCalls(about device: ObjectPath, _ error: BusError) {
        abandon(error) { $0.device == device }
    }

    /// Gives up all calls.
    func abandonCalls(_ error: BusError) {
        abandon(error) { _ in true }
    }

    private func abandon(_ error: BusError, _ isMeant: (CallInFlight) -> Bool) {
        for (number, call) in calls where isMeant(call) { finish(number, .abandoned(error)) }
    }

    /// Asks for all objects; not counted, because it is no call of the client's.
    func managedObjects(_ body: @escaping ([DBusValue.Entry]) -> Void) {
        connection?.call(.viewClientObjects, at: "/") { result in
            body((try? result.get())?.first?.entries ?? [])
        }
    }

    /// Asks for the properties of devices; not counted, as before.
    func properties(
        of devices: [ObjectPath], each body: @escaping (ObjectPath, [String: DBusValue]) -> Void, completion: @escaping () -> Void
    ) {
        connection?.askEach(
            .viewLink, at: devices,
            each: { index, answer in
                if let properties = (try? answer.arguments())?.first?.vardictValue { body(devices[index], properties) }
            }, completion: completion)
    }

    /// Stops notifications that the client has begun.
    func stopNotifying(_ characteristic: ObjectPath) {
        connection?.call(.viewStopNotify, at: characteristic) { _ in }
    }
}
