// SPDX-License-Identifier: Apache-2.0
// A characteristic of a connected accessory: read, written and notified over the bus, or through the sockets that are
// handed out for that.

internal import AccessoryModel
internal import DBusKit
internal import Glibc

/// Follows src/gatt-client.c of bluetoothd 5.66, the order of its checks too.
final class CharacteristicObject: ExportedObject {
    let path: ObjectPath
    private let scenario: Scenario.Characteristic
    private let value: SimulatedAttribute
    /// The descriptor by which bluetoothd subscribes; nil for a characteristic that sends no values.
    private(set) var subscription: SimulatedAttribute?
    private unowned let device: SimulatedDevice
    private var bluez: SimulatedBlueZ { device.adapter.bluez }
    private(set) var interfaces: [ExportedInterface] = []
    private var subscribers: Set<String> = []
    private var timer: LoopSource?
    private var next = 0
    /// Descriptors that were handed out; the values go there instead of into the property.
    private var writing: Acquired?
    private var notifying: Acquired?

    private struct Acquired {
        let owner: String
        let end: FileDescriptor
        let source: LoopSource
    }

    init(_ path: ObjectPath, _ scenario: Scenario.Characteristic, key: String, _ device: SimulatedDevice) {
        self.path = path
        self.scenario = scenario
        self.device = device
        value = SimulatedAttribute(scenario.value, key: key, device)
        let service = ObjectPath(String(path.rawValue[..<(path.rawValue.lastIndex(of: "/") ?? path.rawValue.endIndex)])) ?? "/"
        var characteristic = ExportedInterface(bluez.descriptions[Interfaces.characteristic]!)
        characteristic.property("UUID") { _ in .string(scenario.uuid.description) }
        characteristic.property("Service") { _ in .objectPath(service) }
        characteristic.property("Flags") { [unowned self] _ in .strings(flags) }
        characteristic.property("Value") { [unowned self] _ in .bytes(value.cached) }
        characteristic.property("MTU") { [unowned self] _ in .uint16(UInt16(value.mtu)) }
        characteristic.property("Notifying") { [unowned self] _ in
            has("notify") || has("indicate") ? .boolean(!subscribers.isEmpty) : nil
        }
        characteristic.property("WriteAcquired") { [unowned self] _ in
            has("write-without-response") ? .boolean(writing != nil) : nil
        }
        characteristic.property("NotifyAcquired") { [unowned self] _ in has("notify") ? .boolean(notifying != nil) : nil }
        characteristic.method("ReadValue") { [unowned self] call throws(BusError) in try read(call) }
        characteristic.method("WriteValue") { [unowned self] call throws(BusError) in try write(call) }
        characteristic.method("AcquireWrite") { [unowned self] call throws(BusError) in try acquireWrite(call) }
        characteristic.method("AcquireNotify") { [unowned self] call throws(BusError) in try acquireNotify(call) }
        characteristic.method("StartNotify") { [unowned self] call throws(BusError) in
            guard notifying == nil else { throw .bluez("NotPermitted", "Notify acquired") }
            guard has("notify") || has("indicate") else { throw .notSupported }
            start(call.sender)
            call.reply()
        }
        characteristic.method("StopNotify") { [unowned self] call throws(BusError) in
            if notifying != nil {
                // Any client can stop it, not only the owner of the socket.
                endNotifying()
                return call.reply()
            }
            guard subscribers.contains(call.sender) else { throw .bluez("Failed", "No notify session started") }
            clientGone(call.sender)
            call.reply()
        }
        interfaces = [characteristic]
        if has("notify") || has("indicate") { subscription = SimulatedAttribute([0, 0], key: "\(key)/subscription", device) }
    }

    func isVisible(to caller: String) -> Bool { true }

    // MARK: Flags

    /// The flags that the accessory declares, in bluetoothd's order. Requirements for encryption are not declared.
    private lazy var flags = Self.declarable.filter { flag in
        switch flag {
        case "read", "write": scenario.flags.contains { $0 == flag || $0.hasSuffix("-" + flag) && $0 != "reliable-write" }
        case "notify", "indicate": scenario.flags.contains { $0 == flag || $0.hasSuffix("-" + flag) }
        case "extended-properties": scenario.flags.contains { $0 == flag || Self.extended.contains($0) }
        default: scenario.flags.contains(flag)
        }
    }

    private static let extended = ["reliable-write", "writable-auxiliaries"]
    private static let declarable =
        [
            "broadcast", "read", "write-without-response", "write", "notify", "indicate", "authenticated-signed-writes",
            "extended-properties",
        ] + extended

    private func has(_ flag: String) -> Bool { flags.contains(flag) }

    /// Whether the accessory wants a bond for it.
    private func isSecured(_ operation: String) -> Bool {
        scenario.flags.contains { ($0.hasPrefix("encrypt-") || $0.hasPrefix("secure-")) && $0.hasSuffix("-" + operation) }
    }

    private var isWritable: Bool { has("write") || has("write-without-response") || has("reliable-write") }

    private func checkSecurity(_ operation: String) throws(BusError) {
        guard !isSecured(operation) || device.isPaired else { throw .att(.insufficientEncryption) }
    }

    // MARK: Reading and writing

    private func read(_ call: MethodCall) throws(BusError) {
        let options = try AttributeOptions(call.arguments[0])
        guard has("read") else { throw .att(.readNotPermitted) }
        try checkSecurity("read")
        value.read(from: options.offset, call) { [weak self] in self?.changed("Value") }
    }

    private func write(_ call: MethodCall) throws(BusError) {
        guard writing == nil else { throw .bluez("NotPermitted", "Write acquired") }
        guard !value.isWriting else { throw .inProgress }
        let bytes = call.arguments[0].bytesValue ?? []
        let options = try AttributeOptions(call.arguments[1], hasType: true)
        var isSupported = false
        // Nothing can be written in parts only if there is something.
        if options.type == "reliable" || options.type == nil && has("reliable-write") {
            if !bytes.isEmpty { return request(bytes, options.offset, call) }
            isSupported = true
        }
        if options.type == "request" || options.type == nil && has("write") {
            if options.offset == 0 || !bytes.isEmpty { return request(bytes, options.offset, call) }
            isSupported = true
        }
        if options.offset == 0, options.type == "command" || options.type == nil && has("write-without-response") {
            if value.fitsPacket(bytes) {
                command(bytes)
                return call.reply()
            }
            isSupported = true
        }
        throw isSupported ? .bluez("Failed", "Failed to initiate write") : .notSupported
    }

    private func request(_ bytes: [UInt8], _ offset: Int, _ call: MethodCall) {
        var failure: BusError?
        do throws(BusError) {
            guard isWritable else { throw .att(.writeNotPermitted) }
            try checkSecurity("write")
            try value.write(bytes, at: offset)
        } catch {
            failure = error
        }
        value.answer(call, failure)
    }

    /// Without a response: a value that the accessory refuses is lost.
    private func command(_ bytes: [UInt8]) {
        guard value.fitsPacket(bytes), isWritable, !isSecured("write") || device.isPaired else { return }
        value.held = bytes
    }

    // MARK: Sockets

    private func acquireWrite(_ call: MethodCall) throws(BusError) {
        guard writing == nil else { throw .bluez("NotPermitted", "Write acquired") }
        guard has("write-without-response") else { throw .notSupported }
        let (acquired, end) = try acquire(call) { [unowned self] in
            writing = nil
            changed("WriteAcquired")
        }
        writing = acquired
        changed("WriteAcquired")
        call.reply(end, .uint16(UInt16(value.mtu)))
    }

    private func acquireNotify(_ call: MethodCall) throws(BusError) {
        guard notifying == nil else { throw .bluez("NotPermitted", "Notify acquired") }
        guard subscribers.isEmpty else { throw .inProgress }
        // Since 5.80 an indicating characteristic will do.
        guard has("notify") else { throw .notSupported }
        let (acquired, end) = try acquire(call) { [unowned self] in endNotifying() }
        notifying = acquired
        changed("NotifyAcquired")
        call.reply(end, .uint16(UInt16(value.mtu)))
        startValues()
    }

    /// Makes a pair and listens at one end; `ended` when the client has closed the other.
    ///
    /// - Returns: besides, the client's end.
    private func acquire(_ call: MethodCall, ended: @escaping () -> Void) throws(BusError) -> (Acquired, DBusValue) {
        guard let (mine, theirs) = FileDescriptor.packetPair() else { throw .bluez("Failed", "no descriptors") }
        var isDeaf = false
        let source = bluez.loop.onReadable(mine.rawValue) { [weak self] in
            // A longer packet is cut (`sock_read`), and is then too long for any MTU but the largest.
            var buffer = [UInt8](repeating: 0, count: SimulatedAttribute.longest)
            let count = recv(mine.rawValue, &buffer, buffer.count, Int32(MSG_DONTWAIT))
            // bluetoothd stops reading at an empty packet, and keeps the socket.
            if count == 0, !Self.hasHungUp(mine) {
                isDeaf = true
                return true
            }
            guard count > 0 else {
                ended()
                return false
            }
            guard let self else { return false }
            if !isDeaf { self.command(Array(buffer.prefix(count))) }
            return true
        }
        return (Acquired(owner: call.sender, end: mine, source: source), .fileDescriptor(theirs))
    }

    private static func hasHungUp(_ end: FileDescriptor) -> Bool {
        var entry = pollfd(fd: end.rawValue, events: 0, revents: 0)
        return poll(&entry, 1, 0) > 0 && entry.revents & Int16(POLLHUP) != 0
    }

    private func endNotifying() {
        stopValues()
        release(notifying)
        notifying = nil
        changed("NotifyAcquired")
    }

    private func release(_ acquired: Acquired?) {
        acquired?.source.cancel()
        acquired?.end.endConnection()
    }

    // MARK: Notifications

    private func start(_ client: String) {
        let wasIdle = subscribers.isEmpty
        subscribers.insert(client)
        guard wasIdle else { return }
        changed("Notifying")
        startValues()
    }

    private func startValues() {
        subscription?.held = [has("notify") ? 1 : 2, 0]
        guard let notify = scenario.notify, !notify.values.isEmpty else { return }
        timer = bluez.loop.every(.seconds(notify.interval)) { [weak self] in
            guard let self else { return false }
            let bytes = Array(notify.values[self.next % notify.values.count].prefix(self.value.mtu - 3))
            self.next += 1
            if let notifying = self.notifying {
                // A client that does not read misses values, as with bluetoothd.
                _ = bytes.withUnsafeBytes(notifying.end.sendPacket)
                return true
            }
            self.value.notified(bytes)
            self.changed("Value")
            return true
        }
    }

    private func stopValues() {
        subscription?.held = [0, 0]
        timer?.cancel()
        timer = nil
    }

    func clientGone(_ client: String) {
        // The descriptor may live on elsewhere, and is silent.
        if notifying?.owner == client { stopValues() }
        guard subscribers.remove(client) != nil, subscribers.isEmpty else { return }
        stopValues()
        changed("Notifying")
    }

    func stop() {
        stopValues()
        for acquired in [writing, notifying] { release(acquired) }
        writing = nil
        notifying = nil
    }

    private func changed(_ name: String) {
        bluez.server.propertiesChanged(self, Interfaces.characteristic, [name], to: .everybody)
    }
}
