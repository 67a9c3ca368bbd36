// SPDX-License-Identifier: Apache-2.0
// A connection that listens: for a stream of one kind of signal, thousands a second, read from the socket into one
// buffer and walked in place. Everything else on it (answers, other signals) is libdbus' to read. It believes nothing:
// what is odd ends it, and its owner goes on with libdbus for a while (Docs/Decisions/0018-a-reader-for-adverts.md).

internal import CDBus
internal import CGLib

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#endif

/// A connection to a bus for a stream of `PropertiesChanged`, and for what must keep its order with it. On the thread
/// of its `MainLoop`.
public final class SignalFeed {
    /// The object that a signal speaks of.
    public struct Source: ~Copyable {
        fileprivate let path: UnsafeRawBufferPointer

        /// A number that stands for the path, as `ObjectPath.fingerprint` tells it; compare with `isObject` afterwards.
        public var fingerprint: UInt64 { path.fingerprint }

        /// Whether it is this object.
        public func isObject(_ other: ObjectPath) -> Bool {
            var text = other.rawValue
            return text.withUTF8 { path.isEqual(to: UnsafeRawBufferPointer($0)) }
        }

        /// Its path.
        public var objectPath: ObjectPath { ObjectPath(validated: String(decoding: path, as: UTF8.self)) }
    }

    /// Whose properties' changes are followed.
    public struct Stream {
        /// The unique name of who sends them.
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

    let loop: MainLoop
    private let stream: Stream
    /// The stream's namespace and interface, as bytes to compare with.
    private let above: [UInt8]
    private let interface: [UInt8]
    private let socket: Int32
    /// Takes a change: the cursor stands on the interface's name.
    private let onChange: (borrowing Source, inout SpanCursor) -> Void
    private let onRead: () -> Void
    private let onFailure: (String) -> Void

    private var readable: LoopSource?
    private var writable: LoopSource?
    private var pauses: ReadingPauses?
    private var outgoing: [UInt8] = []
    /// What has been read, from `begin` to `end`.
    private var buffer: UnsafeMutableRawBufferPointer
    private var begin = 0
    private var end = 0
    private var isAuthenticated = false
    /// The header of the stream's last change. The next one's differs in its object and its number, as a rule.
    private var known: KnownHeader?
    private var hasToldChanges = false
    private var isOpen = true
    private var serial: UInt32 = 0
    private var waiting: [UInt32: (Result<Message, BusError>) -> Void] = [:]
    private var handlers: [Handler] = []

    private struct Handler {
        let sender: String
        let path: ObjectPath?
        let interface: String
        let member: String
        let argument0: String?
        let take: (Message) -> Void

        func fits(_ message: Message) -> Bool {
            guard message.member == member, message.interface == interface, message.sender == sender,
                path == nil || message.path == path
            else { return false }
            guard let argument0 else { return true }
            var isFitting = false
            message.withArguments { isFitting = $0.isString(equalTo: argument0) }
            return isFitting
        }
    }

    private static let usualBuffer = 64 << 10
    /// Messages of a few hundred bytes that a socket's buffer holds, with what the kernel adds to each, are some 150.
    private static let most = 120

    /// Connects, and sends all that begins the stream without waiting for answers.
    ///
    /// - Parameters:
    ///   - pause: how long reading may wait at most while much comes, so that one wakeup serves many.
    ///   - onChange: gets each change of the stream.
    ///   - onRead: called after changes, when all that had arrived has been told.
    ///   - onFailure: called once, from the loop, when the bus is gone or sends what is odd. Nothing else is called
    ///     then.
    /// - Throws: when the bus is not on a Unix socket, or cannot be reached.
    public init(
        _ address: Connection.Address, loop: MainLoop, stream: Stream, pause: Duration,
        onChange: @escaping (borrowing Source, inout SpanCursor) -> Void, onRead: @escaping () -> Void = {},
        onFailure: @escaping (String) -> Void
    ) throws(BusError) {
        self.loop = loop
        self.stream = stream
        above = Array(stream.namespace.rawValue.utf8)
        interface = Array(stream.interface.utf8)
        self.onChange = onChange
        self.onRead = onRead
        self.onFailure = onFailure
        socket = try BusSocket.connect(address)
        buffer = .allocate(byteCount: Self.usualBuffer, alignment: 16)
        pauses = ReadingPauses(
            on: loop, BatchPace(longest: pause, most: Self.most), read: { [weak self] in self?.drain() ?? 0 },
            listen: { [weak self] in self?.listen() })
        // All at once, as sd-bus does it: the bus answers in order.
        let user = "\(getuid())".utf8.map { "3\($0 - 0x30)" }.joined()
        outgoing = Array("\0AUTH EXTERNAL \(user)\r\nBEGIN\r\n".utf8)
        listen()
        ask(.hello)
        match(
            "type='signal',sender='\(stream.sender)',interface='\(Bus.properties)',member='PropertiesChanged',"
                + "path_namespace='\(stream.namespace)',arg0='\(stream.interface)'")
    }

    deinit {
        close()
        buffer.deallocate()
    }

    /// Ends it: what was read and not told is dropped, and calls that wait get
    /// `org.freedesktop.DBus.Error.Disconnected`.
    public func close() { end { _ in } }

    /// - Parameter tell: is called when nothing is called any more but who waits for an answer, who is told afterwards.
    private func end(_ tell: (SignalFeed) -> Void) {
        guard isOpen else { return }
        isOpen = false
        for source in [readable, writable] { source?.cancel() }
        readable = nil
        writable = nil
        pauses?.end()
        BusSocket.end(socket)
        handlers = []
        let calls = waiting
        waiting = [:]
        tell(self)
        for completion in calls.values { completion(.failure(.disconnected("the connection that listens has ended"))) }
    }

    // MARK: What is read by libdbus

    /// Other signals, in order with the stream.
    public func subscribe(
        sender: String, path: ObjectPath?, interface: String, member: String, argument0: String? = nil,
        handler: @escaping (Message) -> Void
    ) {
        var rule = "type='signal',sender='\(sender)',interface='\(interface)',member='\(member)'"
        if let path { rule += ",path='\(path)'" }
        if let argument0 { rule += ",arg0='\(argument0)'" }
        handlers.append(
            Handler(sender: sender, path: path, interface: interface, member: member, argument0: argument0, take: handler))
        match(rule)
    }

    /// Calls a method; the answer comes in order with the stream, unless the feed ends before.
    ///
    /// - Parameter timeout: after this long the answer is `org.freedesktop.DBus.Error.NoReply`.
    public func call(
        _ message: Message, timeout: Duration = .seconds(25), completion: @escaping (Result<Message, BusError>) -> Void
    ) {
        serial += 1
        guard isOpen, let bytes = message.wireFormat(serial: serial) else {
            loop.soon { completion(.failure(.disconnected("not connected to the bus"))) }
            return
        }
        let number = serial
        let timer = loop.after(timeout) { [weak self] in
            self?.waiting.removeValue(forKey: number)?(.failure(.standard("NoReply", "no answer came in time")))
        }
        waiting[number] = { answer in
            timer.cancel()
            completion(answer)
        }
        write(bytes)
    }

    private func ask(_ bus: BusCall, _ text: String? = nil) {
        ask(bus.method, at: Bus.path, text.map { [.string($0)] } ?? []) { [weak self] result in
            guard let self, self.isOpen, case .failure(let error) = result else { return }
            self.fail("\(bus.method.member): \(error)")
        }
    }

    private func match(_ rule: String) { ask(.match, rule) }

    private func write(_ bytes: [UInt8]) {
        outgoing += bytes
        if writable == nil { flush() }
    }

    private func flush() {
        while isOpen, !outgoing.isEmpty {
            let count = outgoing.withUnsafeBytes { send(socket, $0.baseAddress!, $0.count, Int32(MSG_NOSIGNAL)) }
            if count > 0 {
                outgoing.removeFirst(count)
            } else if errno == EAGAIN {
                if writable == nil {
                    writable = loop.onWritable(socket) { [weak self] in
                        guard let self else { return false }
                        self.flush()
                        if self.outgoing.isEmpty { self.writable = nil }
                        return !self.outgoing.isEmpty
                    }
                }
                return
            } else if errno != EINTR {
                // Not from inside a call of its owner's.
                let reason = String(cString: strerror(errno))
                loop.soon { [weak self] in self?.fail(reason) }
                return
            }
        }
    }

    // MARK: Reading

    private func listen() {
        readable = loop.onReadable(socket) { [weak self] in
            guard let self else { return false }
            self.becameReadable()
            return self.readable != nil
        }
    }

    private func becameReadable() {
        let taken = drain()
        guard isOpen, pauses?.begin(after: taken) == true else { return }
        readable?.cancel()
        readable = nil
    }

    /// Reads until the socket is empty, but not for ever: the loop's other sources must have their turn.
    ///
    /// - Returns: what that counts for the pace.
    private func drain() -> Int {
        var taken = 0
        var bytes = 0
        while isOpen, taken < 1024 {
            makeRoom()
            let space = UnsafeMutableRawBufferPointer(rebasing: buffer[end...])
            let count = recv(socket, space.baseAddress!, space.count, Int32(MSG_DONTWAIT))
            if count == 0 {
                fail("the bus closed the connection")
            } else if count < 0 {
                guard errno == EAGAIN || errno == EINTR else {
                    fail(String(cString: strerror(errno)))
                    break
                }
                if errno == EAGAIN { break }
            } else {
                end += count
                bytes += count
                taken += takeAll()
                // A short read has emptied the socket.
                if count < space.count { break }
            }
        }
        if hasToldChanges, isOpen {
            hasToldChanges = false
            onRead()
        }
        return BatchPace.load(messages: taken, bytes: bytes)
    }

    /// Keeps what is not whole at the buffer's beginning, and grows for a message that is longer.
    private func makeRoom() {
        if begin > 0 {
            if end > begin { memmove(buffer.baseAddress!, buffer.baseAddress! + begin, end - begin) }
            end -= begin
            begin = 0
        }
        if end == buffer.count {
            resize(to: buffer.count * 2)
        } else if end == 0, buffer.count > Self.usualBuffer {
            resize(to: Self.usualBuffer)
        }
    }

    private func resize(to size: Int) {
        let new = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 16)
        if end > 0 { memcpy(new.baseAddress!, buffer.baseAddress!, end) }
        buffer.deallocate()
        buffer = new
    }

    /// Takes every whole message; how many.
    private func takeAll() -> Int {
        if !isAuthenticated, !takeGreeting() { return 0 }
        var taken = 0
        while isOpen {
            let bytes = UnsafeRawBufferPointer(rebasing: buffer[begin..<end])
            do throws(WireMessage.Problem) {
                guard let length = try WireMessage.length(of: bytes), length <= bytes.count else { break }
                begin += length
                taken += 1
                try take(UnsafeRawBufferPointer(rebasing: bytes[..<length]))
            } catch {
                fail("\(error)")
            }
        }
        return taken
    }

    /// The bus' answer to `AUTH`: a line that begins with `OK`.
    private func takeGreeting() -> Bool {
        let bytes = buffer[begin..<end]
        guard let newline = bytes.firstIndex(of: UInt8(ascii: "\n")) else {
            if bytes.count > 1024 { fail("the bus does not speak D-Bus") }
            return false
        }
        guard bytes.starts(with: "OK ".utf8) else {
            fail("the bus refused us: \(String(decoding: bytes[..<newline].prefix(100), as: UTF8.self))")
            return false
        }
        begin = newline + 1
        isAuthenticated = true
        return true
    }

    private func take(_ bytes: UnsafeRawBufferPointer) throws(WireMessage.Problem) {
        if let known, known.fits(bytes), isBelow(known.message, bytes), try takeChange(known.message, bytes) { return }
        let message = try WireMessage(bytes)
        let isOfStream = message.type == WireMessage.signal && isOfStream(message, bytes)
        if isOfStream { known = KnownHeader(message, bytes) }
        guard isOfStream, isBelow(message, bytes), try takeChange(message, bytes) else {
            guard let whole = Message.demarshal(bytes) else { throw WireMessage.Problem("what libdbus finds invalid") }
            return deliver(whole, message.replySerial)
        }
    }

    /// Whether it is of the interface that is followed; else somebody may want it all the same.
    private func takeChange(_ message: WireMessage, _ bytes: UnsafeRawBufferPointer) throws(WireMessage.Problem) -> Bool {
        var body = WireValidator(bytes, from: message.bodyOffset, to: bytes.count)
        let types = UnsafeRawBufferPointer(rebasing: bytes[message.signature])
        guard types.isEqual(to: "sa{sv}as") else { throw WireMessage.Problem("PropertiesChanged of another type") }
        guard body.values(types, depth: 0), body.isAtEnd else {
            throw WireMessage.Problem("a bad value at byte \(body.position)")
        }
        var arguments = SpanCursor(bytes, at: message.bodyOffset, types: types)
        guard interface.withUnsafeBytes({ arguments.isString($0) }) else { return false }
        hasToldChanges = true
        onChange(Source(path: UnsafeRawBufferPointer(rebasing: bytes[message.path])), &arguments)
        return true
    }

    /// Whether it is such a signal from the one who is followed.
    private func isOfStream(_ message: WireMessage, _ bytes: UnsafeRawBufferPointer) -> Bool {
        func field(_ range: Range<Int>) -> UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: bytes[range]) }
        guard field(message.member).isEqual(to: "PropertiesChanged"),
            field(message.interface).isEqual(to: "org.freedesktop.DBus.Properties")
        else { return false }
        var sender = stream.sender
        return sender.withUTF8 { field(message.sender).isEqual(to: UnsafeRawBufferPointer($0)) }
    }

    /// Whether it is of an object that is followed.
    private func isBelow(_ message: WireMessage, _ bytes: UnsafeRawBufferPointer) -> Bool {
        let path = UnsafeRawBufferPointer(rebasing: bytes[message.path])
        return above.withUnsafeBytes { above in
            path.count > above.count && path[above.count] == UInt8(ascii: "/")
                && UnsafeRawBufferPointer(rebasing: path[..<above.count]).isEqual(to: above)
        }
    }

    private func deliver(_ message: Message, _ replySerial: UInt32) {
        switch message.kind {
        case .reply: waiting.removeValue(forKey: replySerial)?(.success(message))
        case .error:
            if let error = message.error { waiting.removeValue(forKey: replySerial)?(.failure(error)) }
        case .signal:
            for handler in handlers where handler.fits(message) { handler.take(message) }
        case .call, .other: break
        }
    }

    private func fail(_ reason: String) {
        end { $0.onFailure(reason) }
    }
}
