// SPDX-License-Identifier: Apache-2.0
// The entry to the central role: a manager, which finds the app's accessories and connects to them. The class is a thin
// shell: its client decides on the module's thread, and the results arrive here on the app's queue.

internal import DBusKit
public import Dispatch
public import Foundation
public import Observation

/// How a link as such has changed.
///
/// Source: Apple's documentation of `CBConnectionEvent`.
public enum CBConnectionEvent: Int, Sendable {
    /// It is down.
    case peerDisconnected = 0
    /// It is up.
    case peerConnected = 1
}

/// Which links ``CBCentralManager/registerForConnectionEvents(options:)`` is about.
///
/// Source: Apple's documentation of `CBConnectionEventMatchingOption`.
public struct CBConnectionEventMatchingOption: RawRepresentable, Hashable, Sendable {
    /// The key's text.
    public let rawValue: String

    /// A key by its text.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// A `[CBUUID]`: report accessories that have one of the given services.
    public static let serviceUUIDs = Self(rawValue: "kCBConnectionEventMatchingOptionServiceUUIDs")
    /// A `[UUID]`: these.
    public static let peripheralUUIDs = Self(rawValue: "kCBConnectionEventMatchingOptionPeripheralUUIDs")
}

/// Finds the accessories that are granted to the app, and connects to them.
///
/// The app must keep the manager, and each peripheral that it connects: when it releases one, the links end, for a
/// peripheral with a logged warning. All methods may be called from any thread. They return at once, except for the
/// methods that return peripherals: these wait for the daemon, which takes about a millisecond. The manager calls its
/// delegate on the queue that it was created with, in order and never inline; during a callback the properties have the
/// values as of that callback.
///
/// ``state`` and ``isScanning`` can be observed (`Observations`, `withObservationTracking`), as there is no KVO on
/// Linux.
///
/// Source: Apple's documentation of `CBCentralManager`.
open class CBCentralManager: CBManager, Observable {
    /// The optional features of a system.
    ///
    /// Source: Apple's documentation of `CBCentralManager.Feature`.
    public struct Feature: OptionSet, Sendable {
        /// The bits.
        public let rawValue: UInt

        /// Features by their bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// Scanning for and connecting over extended advertising. Not offered.
        public static let extendedScanAndConnect = Feature(rawValue: 1)
    }

    let core: CentralCore
    private weak var storedDelegate: (any CBCentralManagerDelegate)?
    private var storedState = CBManagerState.unknown
    private var storedIsScanning = false
    private var peripherals: [UUID: WeakPeripheral] = [:]
    private let observation = ObservationRegistrar()

    private struct WeakPeripheral {
        weak var value: CBPeripheral?
    }

    // MARK: Life

    /// A manager without a delegate, on the main queue.
    public convenience init() {
        self.init(delegate: nil, queue: nil, options: nil)
    }

    /// A manager.
    ///
    /// Source: Apple's documentation of `init(delegate:queue:)`.
    public convenience init(delegate: (any CBCentralManagerDelegate)?, queue: DispatchQueue?) {
        self.init(delegate: delegate, queue: queue, options: nil)
    }

    /// Creates a manager, which reports its state at once.
    ///
    /// - Parameters:
    ///   - delegate: receives all callbacks; not retained.
    ///   - queue: the queue on which the delegate is called; nil for the main queue.
    ///   - options: ``CBCentralManagerOptionRestoreIdentifierKey``; others are accepted and ignored.
    ///
    /// Source: Apple's documentation of `init(delegate:queue:options:)`.
    public init(delegate: (any CBCentralManagerDelegate)?, queue: DispatchQueue?, options: [String: Any]? = nil) {
        core = CentralCore(ViewAddress.current, queue, restoreIdentifier: Self.restoreIdentifier(options))
        super.init(ofRole: .central)
        begin(delegate)
    }

    /// A manager over a view of its own, for tests.
    package init(
        delegate: (any CBCentralManagerDelegate)?, queue: DispatchQueue?, options: [String: Any]? = nil, bus: String
    ) {
        core = CentralCore(.init(bus), queue, restoreIdentifier: Self.restoreIdentifier(options))
        super.init(ofRole: .central)
        begin(delegate)
    }

    private static func restoreIdentifier(_ options: [String: Any]?) -> String? {
        options?[CBCentralManagerOptionRestoreIdentifierKey] as? String
    }

    private func begin(_ delegate: (any CBCentralManagerDelegate)?) {
        storedDelegate = delegate
        core.begin(self)
        do {
            try CentralRegistry.perform { [core] in $0.open(core) }
        } catch {
            core.publish { $0.apply(.unsupported) }
        }
    }

    deinit {
        core.streams.end(CBError(.operationCancelled, "the app has released the manager")) { _ in true }
        try? CentralRegistry.perform { [core] in $0.close(core) }
    }

    // MARK: Properties

    /// Receives all callbacks. Not retained; once it is nil, there are no further callbacks.
    ///
    /// Source: Apple's documentation of `CBCentralManager.delegate`.
    open weak var delegate: (any CBCentralManagerDelegate)? {
        get { core.lock.withLock { storedDelegate } }
        set { core.lock.withLock { storedDelegate = newValue } }
    }

    /// Whether Bluetooth can be used, as of the last callback.
    open override var state: CBManagerState {
        observation.access(self, keyPath: \.state)
        return core.lock.withLock { storedState }
    }

    /// Whether the app's scan runs.
    ///
    /// Source: Apple's documentation of `CBCentralManager.isScanning`.
    open var isScanning: Bool {
        observation.access(self, keyPath: \.isScanning)
        return core.lock.withLock { storedIsScanning }
    }

    /// Whether the system offers something; it does not.
    ///
    /// Source: Apple's documentation of `supports(_:)`.
    open class func supports(_ features: Feature) -> Bool { features.isEmpty }

    // MARK: Peripherals that are known

    /// The accessories with these identifiers that are granted to the app, also such that BlueZ does not know at the
    /// moment.
    ///
    /// - Returns: in the order of `identifiers`. The same object for the same identifier each time. Nothing while the
    ///   manager is not ``CBManagerState/poweredOn``.
    ///
    /// Source: Apple's documentation of `retrievePeripherals(withIdentifiers:)`.
    open func retrievePeripherals(withIdentifiers identifiers: [UUID]) -> [CBPeripheral] {
        guard isPoweredOn("retrievePeripherals") else { return [] }
        let names = core.ask([:]) { $0.names(of: identifiers, $1) }
        return identifiers.filter { names[$0] != nil }.map { found($0, names[$0]) }
    }

    /// The accessories whose links the app has, through this manager or another program of the app, that have one of
    /// the services.
    ///
    /// Source: Apple's documentation of `retrieveConnectedPeripherals(withServices:)`.
    open func retrieveConnectedPeripherals(withServices serviceUUIDs: [CBUUID]) -> [CBPeripheral] {
        guard isPoweredOn("retrieveConnectedPeripherals") else { return [] }
        let services = serviceUUIDs.map(\.key)
        let names: [UUID: String] = core.ask([:]) { $1($0.connected(withServices: services)) }
        return names.sorted { $0.key.uuidString < $1.key.uuidString }.map { found($0.key, $0.value) }
    }

    private func found(_ identifier: UUID, _ name: String?) -> CBPeripheral {
        let peripheral = peripheral(identifier)
        if peripheral.name == nil { peripheral.apply(name: name) }
        return peripheral
    }

    // MARK: Scanning

    /// Looks for the app's accessories that advertise. A scan that runs is replaced.
    ///
    /// - Parameters:
    ///   - serviceUUIDs: report only accessories that advertise one of the given services; nil or empty for all.
    ///   - options: ``CBCentralManagerScanOptionAllowDuplicatesKey``.
    ///
    /// Source: Apple's documentation of `scanForPeripherals(withServices:options:)`.
    open func scanForPeripherals(withServices serviceUUIDs: [CBUUID]?, options: [String: Any]? = nil) {
        guard isPoweredOn("scanForPeripherals") else { return }
        setScanning(true)
        let request = Scanner.Request(
            services: serviceUUIDs?.map(\.key),
            allowsDuplicates: Self.flag(options?[CBCentralManagerScanOptionAllowDuplicatesKey]))
        core.perform { $0.beginScan(request) }
    }

    /// Ends the scan; the delegate receives no further discoveries.
    ///
    /// Source: Apple's documentation of `stopScan()`.
    open func stopScan() {
        setScanning(false)
        core.perform { $0.stopScan() }
    }

    // MARK: Links

    /// Connects. There is no time-out: the manager tries until the link is up, the app calls
    /// ``cancelPeripheralConnection(_:)`` or releases the manager, or the grant ends; also when BlueZ or the daemon
    /// restarts meanwhile.
    ///
    /// - Parameters:
    ///   - peripheral: one of this manager's.
    ///   - options: ``CBConnectPeripheralOptionEnableAutoReconnect`` and ``CBConnectPeripheralOptionStartDelayKey``.
    ///
    /// Source: Apple's documentation of `connect(_:options:)`.
    open func connect(_ peripheral: CBPeripheral, options: [String: Any]? = nil) {
        guard isPoweredOn("connect"), isOwn(peripheral, "connect") else { return }
        if peripheral.state != .connected { peripheral.apply(state: .connecting) }
        let reconnects = Self.flag(options?[CBConnectPeripheralOptionEnableAutoReconnect])
        let delay = (options?[CBConnectPeripheralOptionStartDelayKey] as? NSNumber)?.doubleValue ?? 0
        core.perform { [identifier = peripheral.identifier] in
            $0.connect(identifier, reconnects: reconnects, delay: delay)
        }
    }

    /// Ends a link, or the attempt to make one; `didDisconnectPeripheral` follows, without an error.
    ///
    /// Source: Apple's documentation of `cancelPeripheralConnection(_:)`.
    open func cancelPeripheralConnection(_ peripheral: CBPeripheral) {
        guard isOwn(peripheral, "cancelPeripheralConnection") else { return }
        if peripheral.state != .disconnected { peripheral.apply(state: .disconnecting) }
        core.perform { [identifier = peripheral.identifier] in $0.cancel(identifier) }
    }

    /// Reports the app's links to the delegate, including links that another program of the app makes.
    ///
    /// - Parameter options: which links; nil for none any more.
    ///
    /// Source: Apple's documentation of `registerForConnectionEvents(options:)`.
    open func registerForConnectionEvents(options: [CBConnectionEventMatchingOption: Any]? = nil) {
        let filter = options.map { options in
            CentralClient.ConnectionEventFilter(
                services: (options[.serviceUUIDs] as? [CBUUID])?.map(\.key),
                peripherals: (options[.peripheralUUIDs] as? [UUID]).map { Set($0) })
        }
        core.perform { $0.setEventFilter(filter) }
    }

    // MARK: -

    /// Passes the present state and all later ones on to a stream.
    ///
    /// - Parameter body: receives the states, and the end; on the queue, or within this call.
    /// - Returns: cancels it.
    package func observeState(_ body: @escaping @Sendable (StreamEvent) -> Void) -> @Sendable () -> Void {
        let token = core.lock.withLock {
            body(.state(storedState))
            return core.streams.add(.state, body)
        }
        return { [core] in core.streams.remove(token) }
    }

    private func isPoweredOn(_ call: String) -> Bool {
        guard state == .poweredOn else {
            Misuse.log("\(call) while the manager is not poweredOn")
            return false
        }
        return true
    }

    private func isOwn(_ peripheral: CBPeripheral, _ call: String) -> Bool {
        guard peripheral.core === core else {
            Misuse.log("\(call) with a peripheral of another manager")
            return false
        }
        return true
    }

    private static func flag(_ value: Any?) -> Bool { (value as? Bool) ?? (value as? NSNumber)?.boolValue ?? false }

    /// The one object for an accessory; a new one when the app has none.
    func peripheral(_ identifier: UUID) -> CBPeripheral {
        core.lock.withLock {
            if let peripheral = peripherals[identifier]?.value { return peripheral }
            let peripheral = CBPeripheral(identifier, core)
            peripherals[identifier] = WeakPeripheral(value: peripheral)
            return peripheral
        }
    }

    /// The object for an accessory, if the app has kept it.
    func retained(_ identifier: UUID) -> CBPeripheral? { core.lock.withLock { peripherals[identifier]?.value } }

    /// Another state; on the queue.
    func apply(_ state: CBManagerState) {
        let streams = observation.withMutation(of: self, keyPath: \.state) {
            core.lock.withLock {
                storedState = state
                return core.streams.bodies(.state)
            }
        }
        for body in streams { body(.state(state)) }
        if state != .poweredOn, core.lock.withLock({ storedIsScanning }) { setScanning(false) }
        delegate?.centralManagerDidUpdateState(self)
    }

    private func setScanning(_ new: Bool) {
        observation.withMutation(of: self, keyPath: \.isScanning) { core.lock.withLock { storedIsScanning = new } }
    }
}
