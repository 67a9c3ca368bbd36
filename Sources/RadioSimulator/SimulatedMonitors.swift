// SPDX-License-Identifier: Apache-2.0
// The advertisement monitors of an adapter whose controller compares adverts by itself, as with Microsoft's extension
// of HCI: devices are reported when they are heard, again once in each sampling period, and when they fall silent.
// (BlueZ, src/adv_monitor.c; Linux, net/bluetooth/msft.c)

internal import AccessoryModel
internal import DBusKit

final class SimulatedMonitors {
    /// A program's root object.
    private struct Application: Hashable {
        let client: String
        let root: ObjectPath
    }

    private struct Monitor {
        let application: Application
        let path: ObjectPath
        let patterns: [Pattern]
        /// Seconds.
        let timeout: Double
        let period: Double
        /// By the accessories' `id`s.
        var devices: [String: Device] = [:]
    }

    private struct Pattern {
        let start: Int
        let type: UInt8
        let content: [UInt8]

        /// Whether a field of an advert has the bytes at their place.
        func isIn(_ fields: [(type: UInt8, data: [UInt8])]) -> Bool {
            fields.contains { $0.type == type && $0.data.dropFirst(start).starts(with: content) }
        }
    }

    private struct Device {
        let path: ObjectPath
        var heard: Double
        var reported: Double
    }

    private unowned let adapter: SimulatedAdapter
    private let features: [String]
    private var applications: [Application: [Subscription]] = [:]
    private var monitors: [Monitor] = []
    private var sweep: LoopSource?
    private var bluez: SimulatedBlueZ { adapter.bluez }

    /// `HCI_MAX_ADV_MONITOR_NUM_PATTERNS` of the kernel.
    private static let mostPatterns = 16
    private static let monitor = "org.bluez.AdvertisementMonitor1"

    init(_ adapter: SimulatedAdapter, features: [String]) {
        self.adapter = adapter
        self.features = features
    }

    func interface(_ description: InterfaceDescription) -> ExportedInterface {
        var manager = ExportedInterface(description)
        manager.property("SupportedMonitorTypes") { _ in .strings(["or_patterns"]) }
        manager.property("SupportedFeatures") { [unowned self] _ in .strings(features) }
        manager.method("RegisterMonitor") { [unowned self] call throws(BusError) in
            let application = Application(client: call.sender, root: call.arguments[0].objectPathValue ?? "/")
            guard applications[application] == nil else { throw .bluez("AlreadyExists", "Already Exists") }
            register(application, call)
        }
        manager.method("UnregisterMonitor") { [unowned self] call throws(BusError) in
            let application = Application(client: call.sender, root: call.arguments[0].objectPathValue ?? "/")
            guard applications[application] != nil else { throw .bluez("DoesNotExist", "Does Not Exist") }
            call.reply()
            remove(application)
        }
        return manager
    }

    // MARK: Programs

    private func register(_ application: Application, _ call: MethodCall) {
        let (client, root) = (application.client, application.root)
        applications[application] = [
            bluez.connection.subscribe(sender: client, path: root, interface: Bus.objectManager, member: "InterfacesAdded") {
                [weak self] message in
                if let (path, interfaces) = message.addedInterfaces() { self?.add(path, interfaces, of: application) }
            },
            bluez.connection.subscribe(sender: client, path: root, interface: Bus.objectManager, member: "InterfacesRemoved") {
                [weak self] message in
                guard let path = message.removedInterfaces?.path else { return }
                self?.monitors.removeAll { $0.application == application && $0.path == path }
                self?.follow()
            },
        ]
        bluez.connection.call(client, root, Bus.objectManager, "GetManagedObjects") { [weak self] result in
            guard let self, applications[application] != nil else { return }
            guard let objects = (try? result.get())?.first?.entries else { return call.fail(.bluez("Failed", "no objects")) }
            call.reply()
            for each in objects {
                if let path = each.key.objectPathValue { add(path, each.value, of: application) }
            }
        }
    }

    private func add(_ path: ObjectPath, _ interfaces: DBusValue, of application: Application) {
        guard let entry = interfaces.entries?.first(where: { $0.key.stringValue == Self.monitor }) else { return }
        let properties = entry.value.vardictValue ?? [:]
        let patterns = (properties["Patterns"]?.arrayValue ?? []).compactMap { each -> Pattern? in
            guard let fields = each.structureValue, fields.count == 3, let start = fields[0].integerValue,
                let type = fields[1].integerValue, let content = fields[2].bytesValue, !content.isEmpty
            else { return nil }
            return Pattern(start: start, type: UInt8(type), content: content)
        }
        guard (1...Self.mostPatterns).contains(patterns.count) else { return call("Release", path, of: application) }
        monitors.append(
            Monitor(
                application: application, path: path, patterns: patterns,
                timeout: Double(properties["RSSILowTimeout"]?.integerValue ?? 5),
                period: Double(properties["RSSISamplingPeriod"]?.integerValue ?? 0) / 10))
        call("Activate", path, of: application)
        follow()
    }

    private func call(_ member: String, _ path: ObjectPath, of application: Application, _ arguments: [DBusValue] = []) {
        bluez.connection.call(application.client, path, Self.monitor, member, arguments) { _ in }
    }

    private func remove(_ application: Application) {
        for subscription in applications.removeValue(forKey: application) ?? [] { subscription.cancel() }
        monitors.removeAll { $0.application == application }
        follow()
    }

    func clientGone(_ client: String) {
        for application in applications.keys where application.client == client { remove(application) }
    }

    /// The controller has no room for them any more.
    func release() {
        for monitor in monitors { call("Release", monitor.path, of: monitor.application) }
        monitors = []
        follow()
    }

    // MARK: Adverts

    /// Listens while there is a monitor and the adapter has power. Without power nothing is reported, and afterwards
    /// all devices are new.
    func follow() {
        guard adapter.isPowered, !monitors.isEmpty else {
            for index in monitors.indices { monitors[index].devices = [:] }
            bluez.air.stopListening(self)
            sweep?.cancel()
            return sweep = nil
        }
        guard sweep == nil else { return }
        bluez.air.listen(self, isSearch: false) { [weak self] in self?.hear($0, $1) }
        sweep = bluez.loop.every(.seconds(1)) { [weak self] in
            self?.dropSilent()
            return self != nil
        }
    }

    func end() {
        for application in applications.keys { remove(application) }
    }

    private func hear(_ accessory: AirAccessory, _ advert: Scenario.Advert) {
        let (id, now, fields) = (accessory.scenario.id, bluez.air.now, advert.payload.fields)
        for index in monitors.indices {
            let monitor = monitors[index]
            guard monitor.patterns.contains(where: { $0.isIn(fields) }) else { continue }
            if var device = monitor.devices[id] {
                device.heard = now
                if now - device.reported >= monitor.period {
                    device.reported = now
                    _ = adapter.report(accessory, advert)
                }
                monitors[index].devices[id] = device
            } else {
                let path = adapter.report(accessory, advert)
                monitors[index].devices[id] = Device(path: path, heard: now, reported: now)
                call("DeviceFound", monitor.path, of: monitor.application, [.objectPath(path)])
            }
        }
    }

    private func dropSilent() {
        let now = bluez.air.now
        for index in monitors.indices {
            for (id, device) in monitors[index].devices where now - device.heard > monitors[index].timeout {
                monitors[index].devices[id] = nil
                call("DeviceLost", monitors[index].path, of: monitors[index].application, [.objectPath(device.path)])
            }
        }
    }
}

extension Scenario.Payload {
    /// The fields as on the air: one list of services for each length. (Core Specification Supplement, Part A)
    fileprivate var fields: [(type: UInt8, data: [UInt8])] {
        var lists: [UInt8: [UInt8]] = [:]
        for service in serviceUUIDs {
            lists[service.bytes.count == 2 ? 0x03 : service.bytes.count == 4 ? 0x05 : 0x07, default: []] += service.bytes
        }
        return lists.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
            + manufacturerData.map { (0xFF, [UInt8(truncatingIfNeeded: $0.key.value), UInt8($0.key.value >> 8)] + $0.value) }
            + serviceData.map {
                (($0.key.bytes.count == 2 ? 0x16 : $0.key.bytes.count == 4 ? 0x20 : 0x21), $0.key.bytes + $0.value)
            }
    }
}

extension BluetoothUUID {
    /// In its shortest form, as adverts write it.
    fileprivate var bytes: [UInt8] {
        let digits = shortest.filter { $0 != "-" }
        let text = Array(digits)
        return stride(from: text.count - 2, through: 0, by: -2).compactMap { UInt8(String(text[$0...$0 + 1]), radix: 16) }
    }
}
