// SPDX-License-Identifier: Apache-2.0
// The value of a characteristic or a descriptor: as the accessory holds it, and as far as bluetoothd has read it. Reads
// and writes go over a link with an MTU.

internal import AccessoryModel
internal import DBusKit

/// Follows bluetoothd 5.66: src/gatt-client.c, and src/shared/gatt-client.c below it.
final class SimulatedAttribute {
    private let key: String
    private let initial: [UInt8]
    private unowned let device: SimulatedDevice
    /// As far as bluetoothd has read it, or was notified. Writing does not change it.
    private(set) var cached: [UInt8] = []
    /// A write that the accessory has not answered yet; bluetoothd takes no second one meanwhile.
    private(set) var isWriting = false

    /// The longest value there is (Core Specification, Vol 3, Part F, 3.2.9).
    static let longest = 512
    /// How long the accessory takes to answer a write.
    private static let answerTime = Duration.milliseconds(10)

    init(_ initial: [UInt8], key: String, _ device: SimulatedDevice) {
        self.initial = initial
        self.key = key
        self.device = device
    }

    /// Values outlive connections; they belong to the accessory.
    var held: [UInt8] {
        get { device.accessory.characteristicValues[key] ?? initial }
        set { device.accessory.characteristicValues[key] = newValue }
    }

    var mtu: Int { Int(device.accessory.scenario.gatt.mtu) }

    func notified(_ value: [UInt8]) {
        held = value
        cached = value
    }

    /// Reads from an offset on, adds the result to `cached`, and answers after the accessory has.
    ///
    /// - Parameter changed: called when more is cached.
    func read(from offset: Int, _ call: MethodCall, changed: @escaping () -> Void) {
        // A later write does not change the answer.
        let held = held
        device.requests.answer { [self] in
            do throws(BusError) {
                let bytes = try cache(held, from: offset)
                changed()
                call.reply(.bytes(bytes))
            } catch {
                call.fail(error)
            }
        }
    }

    /// - Returns: `cached` from the offset on.
    private func cache(_ held: [UInt8], from offset: Int) throws(BusError) -> [UInt8] {
        guard offset <= held.count else { throw .att(.invalidOffset) }
        if offset == 0 {
            cached = []
        } else if held.count < mtu {
            // Accessories may answer so where a single packet has all of the value, and the lab's do.
            throw .att(.notLong)
        }
        let part = held[offset...]
        if offset + part.count > cached.count {
            cached += [UInt8](repeating: 0, count: offset + part.count - cached.count)
        }
        cached.replaceSubrange(offset..<offset + part.count, with: part)
        return Array(cached[offset...])
    }

    /// Writes with a response: as one request, or in parts where it is too long for that or has an offset.
    func write(_ value: [UInt8], at offset: Int) throws(BusError) {
        guard offset <= held.count else { throw .att(.invalidOffset) }
        guard offset + value.count <= Self.longest else { throw .att(.invalidLength) }
        held = held.prefix(offset) + value
    }

    /// Whether a packet without a response can carry it: three bytes are the protocol's.
    func fitsPacket(_ value: [UInt8]) -> Bool { value.count <= mtu - 3 }

    /// Answers a write when the accessory has.
    func answer(_ call: MethodCall, _ error: BusError?) {
        isWriting = true
        device.requests.answer(in: Self.answerTime) { [weak self] in
            self?.isWriting = false
            if let error { call.fail(error) } else { call.reply() }
        }
    }
}

/// The requests over a link: the accessory answers one after the other.
final class SimulatedRequests {
    private unowned let loop: MainLoop
    private var answers: [(time: Duration, body: () -> Void)] = []
    private var isBusy = false

    init(_ loop: MainLoop) {
        self.loop = loop
    }

    /// - Parameter time: that this answer takes.
    func answer(in time: Duration = .zero, _ body: @escaping () -> Void) {
        answers.append((time, body))
        proceed()
    }

    private func proceed() {
        while !isBusy, !answers.isEmpty {
            let (time, body) = answers.removeFirst()
            guard time > .zero else {
                body()
                continue
            }
            isBusy = true
            loop.after(time) { [weak self] in
                self?.isBusy = false
                body()
                self?.proceed()
            }
        }
    }
}

/// The options of a read or a write. (`parse_options` in gatt-client.c)
struct AttributeOptions {
    private(set) var offset = 0
    private(set) var type: String?

    init(_ options: DBusValue, hasType: Bool = false) throws(BusError) {
        for (key, value) in options.vardictValue ?? [:] {
            switch key.lowercased() {
            case "offset":
                guard case .uint16(let number) = value.unwrapped else { throw .badArguments }
                offset = Int(number)
            case "type" where hasType:
                guard let text = value.stringValue else { throw .badArguments }
                type = text.lowercased()
            default: break
            }
        }
    }
}

/// An accessory's error responses over ATT (Core Specification, Vol 3, Part F, 3.4.1.1).
enum ATTError: UInt8 {
    case readNotPermitted = 0x02
    case writeNotPermitted = 0x03
    case invalidOffset = 0x07
    case notLong = 0x0B
    case invalidLength = 0x0D
    case insufficientEncryption = 0x0F
}

extension BusError {
    static let badArguments = BusError.bluez("InvalidArguments", "Invalid arguments in method call")
    static let notSupported = BusError.bluez("NotSupported", "Operation is not supported")
    static let inProgress = BusError.bluez("InProgress", "In Progress")

    /// `create_gatt_dbus_error` in gatt-client.c.
    static func att(_ error: ATTError) -> BusError {
        switch error {
        case .readNotPermitted: .bluez("NotPermitted", "Read not permitted")
        case .writeNotPermitted: .bluez("NotPermitted", "Write not permitted")
        case .insufficientEncryption: .bluez("NotPermitted", "Not paired")
        case .invalidOffset: .bluez("InvalidArguments", "Invalid offset")
        case .invalidLength: .bluez("InvalidArguments", "Invalid Length")
        case .notLong: .bluez("Failed", "Operation failed with ATT error: 0x0b")
        }
    }
}

final class DescriptorObject: ExportedObject {
    let path: ObjectPath
    private(set) var interfaces: [ExportedInterface] = []

    init(
        _ path: ObjectPath, _ uuid: BluetoothUUID, of characteristic: ObjectPath, _ value: SimulatedAttribute,
        _ bluez: SimulatedBlueZ, isReadOnly: Bool = false
    ) {
        self.path = path
        var descriptor = ExportedInterface(bluez.descriptions[Interfaces.descriptor]!)
        descriptor.property("UUID") { _ in .string(uuid.description) }
        descriptor.property("Characteristic") { _ in .objectPath(characteristic) }
        descriptor.property("Value") { _ in .bytes(value.cached) }
        descriptor.method("ReadValue") { [unowned self, unowned bluez] call throws(BusError) in
            value.read(from: try AttributeOptions(call.arguments[0]).offset, call) { [weak self, weak bluez] in
                guard let self, let bluez else { return }
                bluez.server.propertiesChanged(self, Interfaces.descriptor, ["Value"], to: .everybody)
            }
        }
        descriptor.method("WriteValue") { call throws(BusError) in
            guard !value.isWriting else { throw .inProgress }
            let bytes = call.arguments[0].bytesValue ?? []
            let offset = try AttributeOptions(call.arguments[1]).offset
            guard !isReadOnly else { throw .att(.writeNotPermitted) }
            guard offset == 0 || !bytes.isEmpty else { throw .bluez("Failed", "Failed to initiate write") }
            var failure: BusError?
            do throws(BusError) { try value.write(bytes, at: offset) } catch { failure = error }
            value.answer(call, failure)
        }
        interfaces = [descriptor]
    }

    func isVisible(to caller: String) -> Bool { true }
}
