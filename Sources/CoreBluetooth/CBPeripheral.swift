// SPDX-License-Identifier: Apache-2.0
// One of the app's accessories: its discovered attributes, and the app's requests. The class is a thin shell: requests
// go to the module's thread, and their results are applied here, on the app's queue.

internal import DBusKit
public import Foundation

/// The state of a peripheral's link.
///
/// Source: Apple's documentation of `CBPeripheralState`.
public enum CBPeripheralState: Int, Sendable {
    /// There is no link.
    case disconnected = 0
    /// The app has requested a link, which is not up yet.
    case connecting = 1
    /// The link is up.
    case connected = 2
    /// The app has ended the link, which is not down yet.
    case disconnecting = 3
}

/// An accessory that is granted to the app.
///
/// It comes from a ``CBCentralManager``. The app must keep it while it connects or is connected. Its methods may be
/// called from any thread and return at once; the delegate receives the results on the manager's queue, in order.
/// Requests are made one after the other. Each request that has an answer is answered once. When the link breaks, the
/// requests that wait are answered with an error, before `didDisconnectPeripheral`; requests that were made in between
/// are answered right after it. Requests without a link are logged and ignored.
///
/// Source: Apple's documentation of `CBPeripheral`.
open class CBPeripheral: CBPeer {
    let core: CentralCore
    private let gate = CommandGate()
    private weak var storedDelegate: (any CBPeripheralDelegate)?
    private var storedState = CBPeripheralState.disconnected
    private var storedName: String?
    private var storedServices: [CBService]?
    /// Everything that was discovered: the same object for the same attribute, also over links.
    private var attributes: [ObjectPath: CBAttribute] = [:]

    init(_ identifier: UUID, _ core: CentralCore) {
        self.core = core
        super.init(identifier)
    }

    deinit {
        core.streams.end(CBError(.operationCancelled, "the app has released the peripheral")) { $0.isOf(identifier) }
        guard storedState == .connecting || storedState == .connected else { return }
        Misuse.log("an app must keep a peripheral that it connects: disconnecting \(identifier), which was released")
        core.perform { [identifier] in $0.abandon(identifier) }
    }

    private var lock: NSLock { core.lock }

    // MARK: Properties

    /// Receives the results of requests. Not retained; once it is nil, there are no further callbacks.
    ///
    /// Source: Apple's documentation of `CBPeripheral.delegate`.
    open weak var delegate: (any CBPeripheralDelegate)? {
        get { lock.withLock { storedDelegate } }
        set { lock.withLock { storedDelegate = newValue } }
    }

    /// Its own name, else the one that the person gave it.
    ///
    /// Source: Apple's documentation of `CBPeripheral.name`.
    open var name: String? { lock.withLock { storedName } }

    /// How its link is, as of the last callback or the app's last wish.
    ///
    /// Source: Apple's documentation of `CBPeripheral.state`.
    open var state: CBPeripheralState { lock.withLock { storedState } }

    /// The services that have been discovered so far, in the order of their handles; nil before their discovery, and
    /// again once the link is down.
    ///
    /// Source: Apple's documentation of `CBPeripheral.services`.
    open var services: [CBService]? { lock.withLock { storedServices } }

    /// Whether a write without response may be sent now; when not,
    /// ``CBPeripheralDelegate/peripheralIsReady(toSendWriteWithoutResponse:)`` follows.
    ///
    /// Source: Apple's documentation of `CBPeripheral.canSendWriteWithoutResponse`.
    open var canSendWriteWithoutResponse: Bool { state == .connected && gate.hasRoom }

    /// Always false: there is no ANCS on Linux.
    ///
    /// Source: Apple's documentation of `CBPeripheral.ancsAuthorized`.
    open var ancsAuthorized: Bool { false }

    /// For a log: identifier, name and state.
    open override var description: String {
        "<CBPeripheral: identifier = \(identifier), name = \(name ?? "(null)"), state = \(state)>"
    }

    // MARK: Discovering

    /// Discovers services. ``services`` then has them besides those of earlier calls.
    ///
    /// - Parameter serviceUUIDs: only these; nil for all.
    ///
    /// Source: Apple's documentation of `discoverServices(_:)`.
    open func discoverServices(_ serviceUUIDs: [CBUUID]?) {
        let wanted = serviceUUIDs?.map(\.key)
        request("discoverServices") { $0.discoverServices(wanted) }
    }

    /// Discovers the services that a service includes.
    ///
    /// Source: Apple's documentation of `discoverIncludedServices(_:for:)`.
    open func discoverIncludedServices(_ includedServiceUUIDs: [CBUUID]?, for service: CBService) {
        let wanted = includedServiceUUIDs?.map(\.key)
        request("discoverIncludedServices", service) { $0.discoverIncludedServices(wanted, of: $1) }
    }

    /// Discovers a service's characteristics.
    ///
    /// Source: Apple's documentation of `discoverCharacteristics(_:for:)`.
    open func discoverCharacteristics(_ characteristicUUIDs: [CBUUID]?, for service: CBService) {
        let wanted = characteristicUUIDs?.map(\.key)
        request("discoverCharacteristics", service) { $0.discoverCharacteristics(wanted, of: $1) }
    }

    /// Discovers a characteristic's descriptors.
    ///
    /// Source: Apple's documentation of `discoverDescriptors(for:)`.
    open func discoverDescriptors(for characteristic: CBCharacteristic) {
        request("discoverDescriptors", characteristic) { $0.discoverDescriptors(of: $1) }
    }

    // MARK: Values

    /// Reads a characteristic.
    ///
    /// Source: Apple's documentation of `readValue(for:)`.
    open func readValue(for characteristic: CBCharacteristic) {
        request("readValue", characteristic) { $0.readCharacteristic($1) }
    }

    /// Writes a characteristic.
    ///
    /// - Parameters:
    ///   - data: at most ``maximumWriteValueLength(for:)`` bytes.
    ///   - characteristic: one that was discovered.
    ///   - type: whether the accessory answers the write. A write without an answer is not confirmed, and may be
    ///     dropped while ``canSendWriteWithoutResponse`` is false.
    ///
    /// Source: Apple's documentation of `writeValue(_:for:type:)`.
    open func writeValue(_ data: Data, for characteristic: CBCharacteristic, type: CBCharacteristicWriteType) {
        guard type == .withoutResponse else {
            let value = [UInt8](data)
            return request("writeValue", characteristic) { $0.writeCharacteristic($1, value) }
        }
        guard state == .connected else { return Misuse.log("writeValue while the peripheral is not connected") }
        guard let path = characteristic.path, !characteristic.isGone else {
            return Misuse.log(Self.invalidated("writeValue"))
        }
        if gate.send(data, to: path) { return }
        guard gate.reserve() else {
            return Misuse.log("writeValue without response while canSendWriteWithoutResponse is false: dropped")
        }
        let value = [UInt8](data)
        ask { [gate] in $0.command(path, value, gate) }
    }

    /// The maximum number of bytes of one write: 512 with an answer, else as many as fit into a packet of the link.
    ///
    /// Source: Apple's documentation of `maximumWriteValueLength(for:)`.
    open func maximumWriteValueLength(for type: CBCharacteristicWriteType) -> Int {
        guard type == .withoutResponse else { return 512 }
        let length: Int? = core.ask(nil) { [identifier] in $1($0.maxCommandLength(identifier)) }
        return length ?? 20
    }

    /// Enables or disables the notifications of a characteristic.
    ///
    /// Source: Apple's documentation of `setNotifyValue(_:for:)`.
    open func setNotifyValue(_ enabled: Bool, for characteristic: CBCharacteristic) {
        request("setNotifyValue", characteristic) { $0.setNotifying($1, enabled) }
    }

    /// Reads a descriptor.
    ///
    /// Source: Apple's documentation of `readValue(for:)`.
    open func readValue(for descriptor: CBDescriptor) {
        request("readValue", descriptor) { $0.readDescriptor($1) }
    }

    /// Writes a descriptor. That of notifications cannot be written: use ``setNotifyValue(_:for:)``.
    ///
    /// Source: Apple's documentation of `writeValue(_:for:)`.
    open func writeValue(_ data: Data, for descriptor: CBDescriptor) {
        guard descriptor.uuid.key != CBUUIDClientCharacteristicConfigurationString else {
            return Misuse.log("writeValue for the descriptor of notifications: use setNotifyValue")
        }
        let value = [UInt8](data)
        request("writeValue", descriptor) { $0.writeDescriptor($1, value) }
    }

    // MARK: The rest

    /// Reads the signal strength. BlueZ knows it only while a discovery hears the accessory, which is rarely the case
    /// during a connection; otherwise the request ends with ``CBError/Code/operationNotSupported``.
    ///
    /// Source: Apple's documentation of `readRSSI()`.
    open func readRSSI() {
        guard state == .connected else { return Misuse.log("readRSSI while the peripheral is not connected") }
        core.perform { [identifier, core] client in
            let rssi = client.rssi(identifier)
            core.publish(identifier) { _, peripheral in
                peripheral.delegate?.peripheral(
                    peripheral, didReadRSSI: NSNumber(value: rssi ?? 127),
                    error: rssi == nil
                        ? CBError(.operationNotSupported, "BlueZ does not report the signal strength of a link") : nil)
            }
        }
    }

    /// Not offered: the delegate gets ``CBError/Code/operationNotSupported``.
    ///
    /// Source: Apple's documentation of `openL2CAPChannel(_:)`.
    open func openL2CAPChannel(_ PSM: CBL2CAPPSM) {
        core.publish(identifier) { _, peripheral in
            peripheral.delegate?.peripheral(
                peripheral, didOpen: nil, error: CBError(.operationNotSupported, "L2CAP channels are not supported"))
        }
    }

    // MARK: -

    private static func invalidated(_ call: String) -> String {
        "\(call) with an attribute that does not, or no longer, belong to the peripheral"
    }

    private func request(_ call: String, _ body: @escaping @Sendable (AttributeRequests) -> Void) {
        guard state == .connected else { return Misuse.log("\(call) while the peripheral is not connected") }
        ask(body)
    }

    private func ask(_ body: @escaping @Sendable (AttributeRequests) -> Void) {
        gate.ask()
        core.perform { [identifier, gate] client in
            gate.arrive()
            body(client.requests(identifier))
        }
    }

    private func request(
        _ call: String, _ attribute: CBAttribute, _ body: @escaping @Sendable (AttributeRequests, ObjectPath) -> Void
    ) {
        guard let path = attribute.path, !attribute.isGone, lock.withLock({ attributes[path] === attribute }) else {
            return Misuse.log(Self.invalidated(call))
        }
        request(call) { body($0, path) }
    }

    /// Subscribes a stream to a characteristic's values.
    ///
    /// - Parameter body: receives the values, and the end; on the queue, or within this call.
    /// - Returns: cancels the subscription; may be called after its end, too.
    package func observeValues(
        of characteristic: CBCharacteristic, _ body: @escaping @Sendable (StreamEvent) -> Void
    ) -> @Sendable () -> Void {
        let invalid = CBError(.invalidHandle, "the characteristic does not, or no longer, belong to the peripheral")
        guard let path = characteristic.path else {
            body(.ended(invalid))
            return {}
        }
        let token = core.streams.add(.characteristic(identifier, path), body)
        // Checked after adding: a later change ends the stream.
        if core.isReleased || state != .connected {
            core.streams.end(token, CBError(.notConnected, "the peripheral is not connected"))
        } else if lock.withLock({ attributes[path] !== characteristic }) {
            core.streams.end(token, invalid)
        } else {
            ask { $0.setNotifying(path, true, for: token) }
        }
        return { [core, identifier] in
            core.streams.remove(token)
            core.perform { $0.requests(identifier).streamCancelled(path) }
        }
    }

    // MARK: Results, on the queue

    func attribute<Attribute: CBAttribute>(_ path: ObjectPath) -> Attribute? {
        lock.withLock { attributes[path] as? Attribute }
    }

    func apply(state: CBPeripheralState) { lock.withLock { storedState = state } }

    /// - Returns: whether the name is another one.
    @discardableResult
    func apply(name: String?) -> Bool {
        guard let name else { return false }
        return lock.withLock {
            defer { storedName = name }
            return storedName != name
        }
    }

    func applyDisconnected(isReconnecting: Bool) {
        let attributes = lock.withLock {
            storedState = isReconnecting ? .connecting : .disconnected
            storedServices = nil
            return Array(self.attributes.values)
        }
        for attribute in attributes {
            (attribute as? CBService)?.apply(included: nil)
            (attribute as? CBService)?.apply(characteristics: nil)
            (attribute as? CBCharacteristic)?.apply(descriptors: nil)
            (attribute as? CBCharacteristic)?.apply(isNotifying: false)
        }
    }

    func apply(services found: [AttributeInfo]) {
        let services = Self.merged(services, found.map(service))
        lock.withLock { storedServices = services }
    }

    func apply(included found: [AttributeInfo], to service: CBService) {
        service.apply(included: Self.merged(service.includedServices, found.map(self.service)))
    }

    func apply(characteristics found: [AttributeInfo], to service: CBService) {
        let characteristics = found.map { info in
            attribute(info) {
                CBCharacteristic($0, info.path, core.lock, properties: info.properties, service: service)
            }
        }
        for characteristic in characteristics { characteristic.apply(service: service) }
        service.apply(characteristics: Self.merged(service.characteristics, characteristics))
    }

    func apply(descriptors found: [AttributeInfo], to characteristic: CBCharacteristic) {
        characteristic.apply(
            descriptors: found.map { info in
                attribute(info) { CBDescriptor($0, info.path, core.lock, characteristic: characteristic) }
            })
    }

    /// Invalidates objects that are gone, and all objects below them.
    ///
    /// - Returns: the services among them that the app knows.
    func invalidate(_ paths: Set<ObjectPath>) -> [CBService] {
        let gone: [CBAttribute] = lock.withLock {
            let gone = attributes.filter { entry in
                paths.contains(entry.key) || paths.contains { entry.key.isBelow($0) }
            }
            for path in gone.keys { attributes[path] = nil }
            return gone.sorted { $0.key < $1.key }.map(\.value)
        }
        for attribute in gone { attribute.isGone = true }
        let subjects = gone.compactMap(\.path).map { StreamObservers.Subject.characteristic(identifier, $0) }
        core.streams.end(CBError(.invalidHandle, "the characteristic no longer exists")) { subjects.contains($0) }
        let services = gone.compactMap { $0 as? CBService }
        lock.withLock { storedServices?.removeAll { service in services.contains { $0 === service } } }
        return services
    }

    private func service(_ info: AttributeInfo) -> CBService {
        attribute(info) { CBService($0, info.path, core.lock, isPrimary: info.isPrimary, peripheral: self) }
    }

    private func attribute<Attribute: CBAttribute>(_ info: AttributeInfo, _ make: (CBUUID) -> Attribute) -> Attribute {
        if let cached = lock.withLock({ attributes[info.path] as? Attribute }), cached.uuid.key == info.uuid {
            return cached
        }
        let new = make(CBUUID(string: info.uuid))
        lock.withLock { attributes[info.path] = new }
        return new
    }

    /// The known and the newly found attributes, each once, in the order of the handles.
    private static func merged<Attribute: CBAttribute>(_ old: [Attribute]?, _ found: [Attribute]) -> [Attribute] {
        var all: [ObjectPath: Attribute] = [:]
        for attribute in (old ?? []) + found {
            if let path = attribute.path { all[path] = attribute }
        }
        return all.sorted { $0.key < $1.key }.map(\.value)
    }
}
