// SPDX-License-Identifier: Apache-2.0
// Advertisement monitors: controllers that can compare adverts with patterns report devices by themselves, so that
// nothing has to be searched for. There is one monitor for all patterns, on all adapters whose controllers do that; the
// engine decides on its reports. (BlueZ, doc/org.bluez.AdvertisementMonitor.rst and …Manager.rst)

internal import AccessoryCore
internal import AccessoryEngine
internal import AccessoryModel
internal import BlueZInterfaces
internal import CallsOut
internal import DBusKit
internal import Logging

/// The controllers that advertisement monitors are used with.
public enum MonitorUse: String, Sendable, CaseIterable {
    /// Those that compare adverts by themselves, and wake the machine only for adverts that match.
    case offloaded
    /// All: where the controller does not, the kernel listens all the time.
    case always
    case never
}

final class AdvertMonitors {
    /// Reported to the owner.
    enum Event {
        /// Monitors have begun, or are no more.
        case activityChanged
        /// A monitor hears a device, or does no longer.
        case deviceChanged(ObjectPath)
        /// The adapter that heard a device has no power.
        case deviceUnknown(ObjectPath)
    }

    private enum Adapter {
        case asked
        /// Its controller cannot, or bluetoothd has refused.
        case without
        case registered
    }

    private enum State {
        case none
        /// bluetoothd has not confirmed it.
        case exported(AdvertMonitor)
        case active(AdvertMonitor)
        /// bluetoothd has released it: it stays away until the patterns change, or bluetoothd starts anew.
        case released
    }

    static let root: ObjectPath = "/org/accessorysetup1/monitors"

    private let connection: Connection
    private let use: MonitorUse
    private let log: Logger
    private let onEvent: (Event) -> Void
    private let server: ObjectServer
    private var patterns: [AdvertPattern] = []
    private var service: (owner: String, adapters: [ObjectPath: Adapter])?
    private var state = State.none
    /// The adapters that may be used and have power.
    private var powered: Set<ObjectPath> = []
    /// `isActive` as the owner knows it.
    private var reported = false
    /// Devices that monitors hear, as long as bluetoothd has objects for them.
    private var found: Set<ObjectPath> = []
    private var count = 0

    init(on connection: Connection, _ use: MonitorUse, log: Logger, onEvent: @escaping (Event) -> Void) {
        self.connection = connection
        self.use = use
        self.log = log
        self.onEvent = onEvent
        server = ObjectServer(on: connection, root: Self.root)
    }

    /// Whether a controller with power compares adverts.
    var isActive: Bool {
        guard case .active = state else { return false }
        return service?.adapters.contains { $0.value == .registered && powered.contains($0.key) } ?? false
    }
    func hears(_ device: ObjectPath) -> Bool { found.contains(device) }

    func serve(_ message: Message) -> Bool {
        guard let path = message.path, path == Self.root || path.isBelow(Self.root) else { return false }
        return server.serve(message)
    }

    /// Has these patterns monitored in place of earlier ones, from the next `update` on.
    func setPatterns(_ new: [AdvertPattern]) {
        guard new != patterns else { return }
        withdraw()
        patterns = new
    }

    /// The adapters may be others now.
    ///
    /// - Parameters:
    ///   - powered: those that may be used and have power.
    ///   - isPresent: whether there is such an adapter.
    func update(powered: Set<ObjectPath>, isPresent: (ObjectPath) -> Bool, of owner: String?) {
        if service?.owner != owner {
            withdraw()
            service = owner.map { ($0, [:]) }
        }
        for device in found where !powered.contains(device.parent) {
            found.remove(device)
            onEvent(.deviceUnknown(device))
        }
        guard var adapters = service?.adapters, let owner else { return }
        // bluetoothd keeps a registration while the adapter has no power.
        adapters = adapters.filter { path, state in isPresent(path) && (state != .without || powered.contains(path)) }
        service?.adapters = adapters
        self.powered = powered
        report()
        if !adapters.values.contains(.registered) { withdraw() }
        guard !patterns.isEmpty, use != .never else { return }
        for path in powered where adapters[path] == nil { probe(path, of: owner) }
        if case .none = state, adapters.values.contains(.registered) { export(to: owner) }
    }

    private func report() {
        guard isActive != reported else { return }
        reported.toggle()
        log.debug(
            reported ? "controllers monitor adverts" : "controllers monitor no adverts", metadata: ["patterns": "\(patterns.count)"]
        )
        onEvent(.activityChanged)
    }

    /// bluetoothd does not report the end of a device without an object.
    func deviceRemoved(_ path: ObjectPath) { found.remove(path) }

    private func lose(_ device: ObjectPath) {
        if found.remove(device) != nil { onEvent(.deviceChanged(device)) }
    }

    // MARK: Registration

    /// The features are asked for: they show in no signal, and are read by bluetoothd after the adapter is there.
    private func probe(_ adapter: ObjectPath, of owner: String) {
        service?.adapters[adapter] = .asked
        connection.call(.monitorFeatures, of: owner, at: adapter) { [weak self] result in
            // Without its experimental interfaces bluetoothd has no such property.
            let features = (try? result.get())?.first?.stringsValue
            guard let self, service?.owner == owner, service?.adapters[adapter] != nil else { return }
            guard let features, use == .always || features.contains(AdvertisementMonitorManager1.controllerPatterns) else {
                service?.adapters[adapter] = .without
                return
            }
            register(adapter, of: owner)
        }
    }

    private func register(_ adapter: ObjectPath, of owner: String) {
        connection.call(.monitorRegistration, of: owner, at: adapter, [.objectPath(Self.root)]) { [weak self] result in
            guard let self, service?.owner == owner, service?.adapters[adapter] != nil else { return }
            if let error = result.error, error.bluez != .alreadyExists {
                log.notice("the controller monitors no adverts", metadata: ["adapter": "\(adapter)", "error": "\(error)"])
                service?.adapters[adapter] = .without
                return
            }
            service?.adapters[adapter] = .registered
            if case .none = state, !patterns.isEmpty { export(to: owner) }
        }
    }

    // MARK: The monitor

    private func export(to owner: String) {
        count += 1
        guard let path = Self.root.appending("\(count)"),
            let monitor = try? AdvertMonitor(path, patterns, of: owner, onCall: { [weak self] in self?.called($0, of: path) })
        else { return }
        state = .exported(monitor)
        server.export(monitor, to: .only([owner]))
    }

    private func withdraw() {
        switch state {
        case .none: return
        case .exported(let monitor), .active(let monitor): server.withdraw(monitor.path, to: .only([monitor.owner]))
        case .released: break
        }
        end(.none)
    }

    private func end(_ new: State) {
        state = new
        found = []
        report()
    }

    private func called(_ call: AdvertMonitor.Call, of path: ObjectPath) {
        switch (call, state) {
        case (.activate, .exported(let monitor)) where monitor.path == path:
            state = .active(monitor)
            report()
        case (.release, .exported(let monitor)) where monitor.path == path,
            (.release, .active(let monitor)) where monitor.path == path:
            log.notice("bluetoothd has released the advertisement monitor")
            server.withdraw(path, to: .only([monitor.owner]))
            end(.released)
        case (.found(let device), .active), (.found(let device), .exported):
            guard found.count < Self.mostDevices, found.insert(device).inserted else { return }
            onEvent(.deviceChanged(device))
        case (.lost(let device), _): lose(device)
        default: break
        }
    }

    /// Controllers track far fewer.
    private static let mostDevices = 4096
}

/// The object that bluetoothd reads the patterns from, and calls.
private final class AdvertMonitor: ExportedObject {
    enum Call {
        case activate, release
        case found(ObjectPath)
        case lost(ObjectPath)
    }

    let path: ObjectPath
    let owner: String
    private(set) var interfaces: [ExportedInterface] = []

    init(_ path: ObjectPath, _ patterns: [AdvertPattern], of owner: String, onCall: @escaping (Call) -> Void) throws(BusError) {
        self.path = path
        self.owner = owner
        var monitor = ExportedInterface(try InterfaceDescription.parse(xml: AdvertisementMonitor1.description)[0])
        monitor.property("Type") { _ in .string("or_patterns") }
        // The weakest signal counts.
        monitor.property("RSSIHighThreshold") { _ in .int16(-127) }
        monitor.property("RSSILowThreshold") { _ in .int16(-127) }
        // Without a controller that compares adverts, bluetoothd reports a device that is heard this often for as long.
        monitor.property("RSSIHighTimeout") { _ in .uint16(10) }
        // Less than the 30 s after which bluetoothd drops a device that it does not know otherwise, and could not
        // report its end; and at most the 60 s of the controllers' interface.
        monitor.property("RSSILowTimeout") { _ in .uint16(20) }
        // Tenths of a second: one report in 10 s keeps the device's object.
        monitor.property("RSSISamplingPeriod") { _ in .uint16(100) }
        monitor.property("Patterns") { _ in
            .array(of: "(yyay)", patterns.map { .structure([.byte($0.start), .byte($0.type), .bytes($0.content)]) })
        }
        for (member, call) in [("Activate", Call.activate), ("Release", .release)] {
            monitor.method(member) { message throws(BusError) in
                message.reply()
                onCall(call)
            }
        }
        for (member, call) in [("DeviceFound", Call.found), ("DeviceLost", Call.lost)] {
            monitor.method(member) { message throws(BusError) in
                message.reply()
                if let device = message.arguments[0].objectPathValue { onCall(call(device)) }
            }
        }
        interfaces = [monitor]
    }

    func isVisible(to caller: String) -> Bool { caller == owner }
}
