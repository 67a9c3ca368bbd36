// SPDX-License-Identifier: Apache-2.0
// A connection that listens: for a stream of one kind of signal, thousands a second, read from the socket into one
// buffer and walked in place. Everything else on it (answers, other signals) is read by libdbus. Nothing in the bytes
// is trusted: an invalid message ends the feed, and its owner goes on with libdbus for a while
// (Docs/Decisions/0018-a-reader-for-adverts.md).

internal import Glibc

/// A connection to a bus for a stream of `PropertiesChanged`, and for messages that must keep their order with it. On
/// the thread of its `MainLoop`.
public final class SignalFeed {
    /// The object that a signal is about.
    @frozen public struct Source: ~Copyable {
        fileprivate let path: UnsafeRawBufferPointer

        /// A number that stands for the path, the same as `ObjectPath.fingerprint`; compare with `isObject` afterwards.
        public var fingerprint: UInt64 { path.fingerprint }

        /// Whether it is this object.
        public func isObject(_ other: ObjectPath) -> Bool { path.isEqual(to: other.rawValue) }

        /// Its path.
        public var objectPath: ObjectPath { ObjectPath(validated: String(decoding: path, as: UTF8.self)) }
    }

    /// The objects whose properties are followed.
    public struct Stream {
        /// The unique name of the service that sends the changes.
        public let sender: String
        /// Objects below this path.
        public let namespace: ObjectPath
        /// The interface that has the properties.
        public let interface: String

        /// Stores its arguments.
        public init(sender: String, namespace: ObjectPath, interface: String) {
            self.sender = sender
            self.namespace = namespace
            self.interface = interface
        }
    }

    private enum State { case greeting, open, closed }

    private struct Events {
        let onChange: (borrowing Source, inout ValueCursor) -> Void
        let onRead: () -> Void
        let onFailure: (String) -> Void
    }

    let loop: MainLoop
    private let events: Events
    private let socket: FileDescriptor
    private let buffer = ReadBuffer()
    private var outbox: Outbox?
    private var readable: LoopSource?
    private var pauses: ReadingPauses?
    private var state = State.greeting
    private var filter: ChangeFilter
    /// Subscriptions to other signals.
    private var handlers: [(filter: SignalFilter, receive: (Message) -> Void)] = []
    private var waiting: [UInt32: (Result<Message, BusError>) -> Void] = [:]
    private var lastSerial: UInt32 = 0

    /// Connects, and sends all that begins the stream without waiting for answers.
    ///
    /// - Parameters:
    ///   - pause: how long reading waits while much arrives, so that one wakeup serves many messages.
    ///   - onChange: gets each change of the stream: the cursor stands on the interface's name.
    ///   - onRead: called after changes, once all that had arrived were handed over.
    ///   - onFailure: called once, from the loop, when the bus disconnects or sends an invalid message. Nothing else is
    ///     called afterwards.
    /// - Throws: when the bus is not on a Unix socket, or cannot be reached.
    public init(
        _ address: Connection.Address, loop: MainLoop, stream: Stream, pause: Duration,
        onChange: @escaping (borrowing Source, inout ValueCursor) -> Void, onRead: @escaping () -> Void = {},
        onFailure: @escaping (String) -> Void
    ) throws(BusError) {
        self.loop = loop
        events = Events(onChange: onChange, onRead: onRead, onFailure: onFailure)
        filter = ChangeFilter(stream)
        socket = try BusSocket.connect(address)
        outbox = Outbox(socket, on: loop) { [weak self] in self?.fail($0) }
        pauses = ReadingPauses(
            on: loop, BatchPace(pause: pause), read: { [weak self] in self?.read() ?? 0 },
            listen: { [weak self] in self?.listen() })
        listen()
        // All at once, as sd-bus does it: the bus answers in order.
        let user = "\(getuid())".utf8.map { "3\($0 - 0x30)" }.joined()
        outbox?.send(Array("\0AUTH EXTERNAL \(user)\r\nBEGIN\r\n".utf8))
        ask(.hello)
        addMatch(
            SignalFilter(
                sender: stream.sender, path: nil, namespace: stream.namespace, interface: Bus.properties,
                member: "PropertiesChanged", argument0: stream.interface
            ).rule)
    }

    deinit {
        close()
    }

    /// Ends it: unread messages are dropped, and waiting calls get `org.freedesktop.DBus.Error.Disconnected`.
    public func close() { end {} }

    private func fail(_ reason: String) { end { events.onFailure(reason) } }

    /// - Parameter report: called when no event follows any more; the waiting calls end afterwards.
    private func end(_ report: () -> Void) {
        guard state != .closed else { return }
        state = .closed
        readable?.cancel()
        readable = nil
        pauses?.end()
        outbox?.close()
        socket.endConnection()
        handlers = []
        let calls = waiting
        waiting = [:]
        report()
        for completion in calls.values { completion(.failure(.disconnected("the connection that listens has ended"))) }
    }

    // MARK: Calls and other signals, which libdbus reads

    /// Other signals, in order with the stream.
    public func subscribe(
        sender: String, path: ObjectPath?, interface: String, member: String, argument0: String? = nil,
        handler: @escaping (Message) -> Void
    ) {
        let filter = SignalFilter(
            sender: sender, path: path, namespace: nil, interface: interface, member: member, argument0: argument0)
        handlers.append((filter, handler))
        addMatch(filter.rule)
    }

    /// Calls a method; the answer arrives in order with the stream, unless the feed ends before.
    ///
    /// - Parameter timeout: after this long the answer is `org.freedesktop.DBus.Error.NoReply`.
    public func call(
        _ message: Message, timeout: Duration = .seconds(25), completion: @escaping (Result<Message, BusError>) -> Void
    ) {
        lastSerial += 1
        let serial = lastSerial
        guard state != .closed, let bytes = message.wireFormat(serial: serial) else {
            loop.soon { completion(.failure(.disconnected("not connected to the bus"))) }
            return
        }
        let timer = loop.after(timeout) { [weak self] in
            self?.waiting.removeValue(forKey: serial)?(.failure(.standard("NoReply", "no answer arrived in time")))
        }
        waiting[serial] = { answer in
            timer.cancel()
            completion(answer)
        }
        outbox?.send(bytes)
    }

    private func addMatch(_ rule: String) { ask(.match, rule) }

    private func ask(_ bus: BusCall, _ text: String? = nil) {
        ask(bus.method, at: Bus.path, text.map { [.string($0)] } ?? []) { [weak self] result in
            if case .failure(let error) = result { self?.fail("\(bus.method.member): \(error)") }
        }
    }

    private func receive(_ message: Message, answering serial: UInt32) {
        switch message.kind {
        case .reply: waiting.removeValue(forKey: serial)?(.success(message))
        case .error:
            if let error = message.error { waiting.removeValue(forKey: serial)?(.failure(error)) }
        case .signal:
            for handler in handlers where handler.filter.isOf(message) && handler.filter.fits(message) { handler.receive(message) }
        case .call, .other: break
        }
    }

    // MARK: Reading

    private func listen() {
        readable = loop.onReadable(socket.rawValue) { [weak self] in
            guard let self else { return false }
            let load = read()
            guard state != .closed, pauses?.begin(after: load) == true else { return true }
            readable = nil
            return false
        }
    }

    /// Reads until the socket is empty, but not for ever: the loop's other sources must have their turn.
    ///
    /// - Returns: how much that counts for the pace.
    private func read() -> Int {
        var (messages, bytes, changes) = (0, 0, 0)
        reading: while state != .closed, messages < 1024 {
            let filling = buffer.fill(from: socket)
            do throws(WireMessage.Problem) {
                if state == .greeting { try readGreeting() }
                while state == .open, let message = try buffer.nextMessage() {
                    messages += 1
                    bytes += message.count
                    let other = try filter.read(message) { path, arguments in
                        changes += 1
                        events.onChange(Source(path: path), &arguments)
                    }
                    guard let other else { continue }
                    guard let whole = Message.demarshal(message) else { throw WireMessage.Problem("invalid by libdbus") }
                    receive(whole, answering: other.replySerial)
                }
            } catch {
                fail("\(error)")
            }
            switch filling {
            case .failed(let reason): fail(reason)
            case .nothing, .read(isAll: true): break reading
            case .read(isAll: false): continue
            }
        }
        if changes > 0, state == .open { events.onRead() }
        return BatchPace.load(messages: messages, bytes: bytes)
    }

    /// The bus' answer to `AUTH`: a line that begins with `OK`.
    private func readGreeting() throws(WireMessage.Problem) {
        guard let line = try buffer.nextLine() else { return }
        guard line.starts(with: "OK ".utf8) else {
            throw WireMessage.Problem("the bus refused us: \(String(decoding: line.prefix(100), as: UTF8.self))")
        }
        state = .open
    }
}
