// SPDX-License-Identifier: Apache-2.0
// One connection to a broker, over libmosquitto, on our loop: the library reads and writes when the loop says so, and
// has no thread of its own. An owner that wants to connect again makes another one. (mosquitto.h, libmosquitto(3))

internal import CMosquitto
public import DBusKit
internal import Glibc
internal import InternetAddresses

/// A connection to an MQTT broker.
public final class MQTTConnection {
    private enum State {
        case resolving(NameLookup)
        /// The client of the library; the timer ends an attempt that gets no answer.
        case connecting(OpaquePointer, LoopSource)
        /// The timer has the library send pings, and notice that they are not answered.
        case connected(OpaquePointer, LoopSource)
        case ended
    }

    private enum Limits {
        /// Seconds for the connection and the broker's answer.
        static let connecting = 30
        /// Messages without an acknowledgement.
        static let inFlight: Int32 = 200
        /// Packets that are read in one go, between which the loop has its turn.
        static let packetsAtOnce: Int32 = 100
    }

    private let loop: MainLoop
    private let settings: MQTTSettings
    private let handler: (MQTTEvent) -> Void
    private var state = State.ended
    private var reading: LoopSource?
    private var writing: LoopSource?
    /// Reports of the library's callbacks, in which the client must not be used.
    private var reports: [MQTTEvent] = []

    /// Begins to connect.
    ///
    /// - Parameter handler: called from the loop.
    public init(_ settings: MQTTSettings, loop: MainLoop, handler: @escaping (MQTTEvent) -> Void) {
        self.loop = loop
        self.settings = settings
        self.handler = handler
        Self.initialize()
        // An address needs no look-up.
        InternetAddress(settings.host) != nil ? begin() : resolve()
    }

    deinit {
        if let client { mosquitto_destroy(client) }
        stop()
    }

    /// The library counts.
    private static func initialize() { _ = isInitialized }
    private static let isInitialized = mosquitto_lib_init() == MOSQ_ERR_SUCCESS.code

    private var client: OpaquePointer? {
        switch state {
        case .connecting(let client, _), .connected(let client, _): client
        case .resolving, .ended: nil
        }
    }

    /// Bytes of the present connection that the kernel has not taken yet, or messages that wait: whether there are any.
    public var isCongested: Bool { client.map { mosquitto_want_write($0) } ?? false }

    /// Whether packets are read. While they are not, they stay with the kernel and then the broker, as with a slow
    /// client.
    public var isReading = true {
        didSet {
            if isReading { return startReading() }
            reading?.cancel()
        }
    }

    // MARK: Requests

    /// Sends a message.
    ///
    /// - Returns: the number that `acknowledged` will have; nil where there is no connection.
    public func publish(_ message: MQTTMessage) -> Int32? {
        guard case .connected(let client, _) = state else { return nil }
        var properties = Properties()
        defer { properties.free() }
        properties.add(message)
        var number: Int32 = 0
        let code = message.payload.withUnsafeBytes {
            mosquitto_publish_v5(
                client, &number, message.topic, Int32($0.count), $0.baseAddress, message.qos, message.isRetained, properties.list)
        }
        continueWriting()
        guard code == MOSQ_ERR_SUCCESS.code else {
            loop.soon { [weak self] in self?.end(because: Self.text(code)) }
            return nil
        }
        return number
    }

    /// Subscribes to topics.
    public func subscribe(_ filters: [String], to subscription: MQTTSubscription = .everything) {
        let options: Int32 =
            switch subscription {
            case .everything: 0
            case .newFromOthers: Int32(MQTT_SUB_OPT_NO_LOCAL.rawValue | MQTT_SUB_OPT_SEND_RETAIN_NEVER.rawValue)
            }
        request { client in
            Self.withCStrings(filters) { mosquitto_subscribe_multiple(client, nil, Int32(filters.count), $0, 1, options, nil) }
        }
    }

    /// Ends a subscription.
    public func unsubscribe(_ filter: String) {
        request { mosquitto_unsubscribe($0, nil, filter) }
    }

    private func request(_ body: (OpaquePointer) -> Int32) {
        guard case .connected(let client, _) = state else { return }
        let code = body(client)
        continueWriting()
        if code != MOSQ_ERR_SUCCESS.code { loop.soon { [weak self] in self?.end(because: Self.text(code)) } }
    }

    private static func withCStrings<Value>(
        _ texts: [String], _ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>) -> Value
    ) -> Value {
        var copies = texts.map { strdup($0) }
        defer { for copy in copies { free(copy) } }
        return copies.withUnsafeMutableBufferPointer { body($0.baseAddress!) }
    }

    /// Says goodbye, so that the broker does not publish the will; `ended` follows.
    public func disconnect() {
        guard case .connected(let client, _) = state else { return end(because: "given up") }
        mosquitto_disconnect_v5(client, 0, nil)
        process(mosquitto_loop_write(client, 1))
        if self.client != nil { end(because: "disconnected") }
    }

    // MARK: The library

    private func resolve() {
        do throws(BusError) {
            let lookup = try NameLookup(settings.host, loop: loop) { [weak self] problem in
                guard let self else { return }
                if let problem { return self.end(because: problem) }
                self.begin()
            }
            state = .resolving(lookup)
        } catch {
            endSoon(error.message)
        }
    }

    private func begin() {
        state = .ended
        let owner = Unmanaged.passUnretained(self).toOpaque()
        guard let client = mosquitto_new(settings.clientID, settings.sessionExpiry == 0, owner) else {
            return endSoon("the name “\(settings.clientID)” is no client's name")
        }
        var code = mosquitto_int_option(client, MOSQ_OPT_PROTOCOL_VERSION, Int32(MQTT_PROTOCOL_V5))
        mosquitto_int_option(client, MOSQ_OPT_TCP_NODELAY, 1)
        mosquitto_int_option(client, MOSQ_OPT_SEND_MAXIMUM, Limits.inFlight)
        mosquitto_int_option(client, MOSQ_OPT_RECEIVE_MAXIMUM, Limits.inFlight)
        setCallbacks(client)
        if let tls = settings.tls {
            code = mosquitto_tls_set(client, tls.authority, nil, tls.certificate, tls.key, nil)
        }
        if let will = settings.will {
            let set = will.payload.withUnsafeBytes {
                mosquitto_will_set_v5(client, will.topic, Int32($0.count), $0.baseAddress, will.qos, will.isRetained, nil)
            }
            if code == MOSQ_ERR_SUCCESS.code { code = set }
        }
        var properties = Properties()
        defer { properties.free() }
        if settings.sessionExpiry > 0 { properties.add(sessionExpiry: settings.sessionExpiry) }
        if code == MOSQ_ERR_SUCCESS.code { code = connect(client, properties) }
        guard code == MOSQ_ERR_SUCCESS.code, mosquitto_socket(client) >= 0 else {
            mosquitto_destroy(client)
            return endSoon(Self.text(code))
        }
        let timer = loop.after(.seconds(Limits.connecting)) { [weak self] in self?.end(because: "no answer") }
        state = .connecting(client, timer)
        startReading()
        continueWriting()
    }

    private func startReading() {
        guard let client, isReading, reading?.isActive != true else { return }
        reading = loop.onReadable(mosquitto_socket(client)) { [weak self] in
            self?.read()
            return self != nil
        }
    }

    /// The library's call that does not wait for the connection takes no properties, but it uses those of an earlier
    /// call; and that one keeps them before it looks at the port.
    private func connect(_ client: OpaquePointer, _ properties: Properties) -> Int32 {
        if let list = properties.list { mosquitto_connect_bind_v5(client, settings.host, -1, 0, nil, list) }
        return mosquitto_connect_bind_async(client, settings.host, Int32(settings.port), Int32(settings.keepAlive), nil)
    }

    private func setCallbacks(_ client: OpaquePointer) {
        mosquitto_connect_v5_callback_set(client) { _, owner, code, _, _ in
            MQTTConnection.of(owner)?.reports.append(code == 0 ? .connected : .ended(MQTTConnection.reason(code)))
        }
        mosquitto_disconnect_v5_callback_set(client) { _, owner, code, _ in
            let text = code >= 128 ? MQTTConnection.reason(code) : code == 0 ? "disconnected" : MQTTConnection.text(code)
            MQTTConnection.of(owner)?.reports.append(.ended(text))
        }
        mosquitto_publish_v5_callback_set(client) { _, owner, number, code, _ in
            MQTTConnection.of(owner)?.reports.append(.acknowledged(number, isAccepted: code < 128))
        }
        mosquitto_subscribe_v5_callback_set(client) { _, owner, _, count, granted, _ in
            let isGranted = (0..<Int(count)).allSatisfy { granted.map { $0 }?[$0] ?? 128 < 128 }
            MQTTConnection.of(owner)?.reports.append(.subscribed(isGranted: isGranted))
        }
        mosquitto_message_v5_callback_set(client) { _, owner, message, properties in
            guard let message = message?.pointee, let topic = message.topic else { return }
            let payload = UnsafeRawBufferPointer(start: message.payload, count: Int(message.payloadlen))
            var received = MQTTMessage(String(cString: topic), Array(payload), isRetained: message.retain)
            received.qos = message.qos
            Properties.read(properties, into: &received)
            MQTTConnection.of(owner)?.reports.append(.received(received))
        }
    }

    private static func of(_ owner: UnsafeMutableRawPointer?) -> MQTTConnection? {
        owner.map { Unmanaged<MQTTConnection>.fromOpaque($0).takeUnretainedValue() }
    }

    private static func text(_ code: Int32) -> String {
        if code == MOSQ_ERR_ERRNO.code { return String(cString: strerror(errno)) }
        return String(cString: mosquitto_strerror(code))
    }

    private static func reason(_ code: Int32) -> String { String(cString: mosquitto_reason_string(code)) }

    // MARK: The loop

    private func read() {
        guard let client else { return }
        process(mosquitto_loop_read(client, Limits.packetsAtOnce))
    }

    private func write() {
        guard let client else { return }
        process(mosquitto_loop_write(client, Limits.packetsAtOnce))
    }

    /// Reports the outcome of a call of the library.
    private func process(_ code: Int32) {
        let reports = reports
        self.reports = []
        for report in reports {
            switch report {
            case .connected: connected()
            case .ended(let reason): return end(because: reason)
            default: handler(report)
            }
            guard client != nil else { return }
        }
        guard code == MOSQ_ERR_SUCCESS.code else { return end(because: Self.text(code)) }
        continueWriting()
    }

    private func connected() {
        guard case .connecting(let client, let timer) = state else { return }
        timer.cancel()
        // The library looks at its clock only then, and the broker waits for one and a half times as long.
        let pings = loop.every(.seconds(max(1, settings.keepAlive * 2 / 5))) { [weak self] in
            guard let self, let client = self.client else { return false }
            self.process(mosquitto_loop_misc(client))
            if self.client != nil { self.handler(.alive) }
            return self.client != nil
        }
        state = .connected(client, pings)
        handler(.connected)
    }

    private func continueWriting() {
        guard let client, mosquitto_want_write(client) else { return }
        guard writing == nil else { return }
        writing = loop.onWritable(mosquitto_socket(client)) { [weak self] in
            guard let self else { return false }
            self.write()
            guard let client = self.client, mosquitto_want_write(client) else {
                self.writing = nil
                return false
            }
            return true
        }
    }

    private func endSoon(_ reason: String) {
        loop.soon { [weak self] in self?.handler(.ended(reason)) }
    }

    private func end(because reason: String) {
        if case .ended = state { return }
        let client = client
        stop()
        state = .ended
        // It may be in the middle of one of the library's calls.
        if let client { loop.soon { mosquitto_destroy(client) } }
        handler(.ended(reason))
    }

    private func stop() {
        switch state {
        case .connecting(_, let timer), .connected(_, let timer): timer.cancel()
        case .resolving, .ended: break
        }
        reading?.cancel()
        writing?.cancel()
    }
}

/// The properties of a packet, which the library keeps in a list.
private struct Properties {
    private(set) var list: OpaquePointer?

    mutating func add(_ message: MQTTMessage) {
        if let expiry = message.expiry {
            mosquitto_property_add_int32(&list, Int32(MQTT_PROP_MESSAGE_EXPIRY_INTERVAL.rawValue), expiry)
        }
        if let topic = message.responseTopic {
            mosquitto_property_add_string(&list, Int32(MQTT_PROP_RESPONSE_TOPIC.rawValue), topic)
        }
        if let correlation = message.correlation {
            mosquitto_property_add_binary(
                &list, Int32(MQTT_PROP_CORRELATION_DATA.rawValue), correlation, UInt16(clamping: correlation.count))
        }
    }

    mutating func add(sessionExpiry: UInt32) {
        mosquitto_property_add_int32(&list, Int32(MQTT_PROP_SESSION_EXPIRY_INTERVAL.rawValue), sessionExpiry)
    }

    mutating func free() { mosquitto_property_free_all(&list) }

    static func read(_ list: OpaquePointer?, into message: inout MQTTMessage) {
        guard let list else { return }
        var topic: UnsafeMutablePointer<CChar>?
        if mosquitto_property_read_string(list, Int32(MQTT_PROP_RESPONSE_TOPIC.rawValue), &topic, false) != nil, let topic {
            message.responseTopic = String(cString: topic)
            Glibc.free(topic)
        }
        var bytes: UnsafeMutableRawPointer?
        var count: UInt16 = 0
        if mosquitto_property_read_binary(list, Int32(MQTT_PROP_CORRELATION_DATA.rawValue), &bytes, &count, false) != nil {
            message.correlation = Array(UnsafeRawBufferPointer(start: bytes, count: Int(count)))
            Glibc.free(bytes)
        }
    }
}

extension mosq_err_t {
    /// As the library's functions return it.
    fileprivate var code: Int32 { Int32(rawValue) }
}
