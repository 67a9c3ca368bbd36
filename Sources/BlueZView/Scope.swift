// SPDX-License-Identifier: Apache-2.0
// The part of org.bluez that one app may reach, as a value: from a call's path, interface and member to its verdict.
// Nothing that is not named here is let through.

public import AccessoryModel
internal import BlueZInterfaces
public import DBusKit

/// A granted accessory, and where org.bluez has it or would have it.
public struct GrantedDevice: Hashable, Sendable {
    /// The accessory that is granted.
    public let accessory: AccessoryID
    /// Its name in the app.
    public let name: String
    /// Its objects in org.bluez, or the one that it would have; empty when there is no adapter.
    public let paths: Set<ObjectPath>
    /// The use of its characteristics that the grant opens.
    public let access: AccessLimit

    /// Stores its arguments.
    public init(accessory: AccessoryID, name: String, paths: Set<ObjectPath>, access: AccessLimit = .full) {
        self.access = access
        self.accessory = accessory
        self.name = name
        self.paths = paths
    }
}

/// The part of org.bluez that exists for an app.
struct Scope: Hashable, Sendable {
    /// The adapters that are shown: those that have the app's accessories, or where none has, the one that stands for
    /// all. Programs take the first adapter that they find, and look for their accessory there.
    var adapters: Set<ObjectPath> = []
    /// Device objects, and whose they are.
    var devices: [ObjectPath: AccessoryID] = [:]
    /// Of device objects whose use is not full.
    var limits: [ObjectPath: AccessLimit] = [:]
    /// Device objects that the app hears, and may not use otherwise; nil for an app without a grant for a kind.
    var heard: Set<ObjectPath>?
    /// Whether the app has no accessory, in range or not, and no kind.
    var isEmpty = true
    /// The adapters are on their way out, and were in sight before.
    private var keepsAdaptersInSight = false

    /// The shown interfaces of a device and of the objects below.
    static let shown: Set<String> = [
        Device1.interface, GattService1.interface, GattCharacteristic1.interface, GattDescriptor1.interface,
        Battery1.interface, Input1.interface, Bus.properties, Bus.introspectable,
    ]

    init(adapter: ObjectPath? = nil, granted: [GrantedDevice] = [], heard: Set<ObjectPath>? = nil) {
        for device in granted {
            for path in device.paths {
                devices[path] = device.accessory
                // A public and a random address may have the same object.
                let access = device.access.narrowed(by: limits[path] ?? .full)
                if access != .full { limits[path] = access }
            }
        }
        isEmpty = granted.isEmpty && heard == nil
        self.heard = heard?.subtracting(devices.keys)
        adapters = Set(devices.keys.map(\.parent))
        for path in self.heard ?? [] { adapters.insert(path.parent) }
        // A kind is heard by the adapter that the app searches with.
        if adapters.isEmpty || heard != nil, let adapter { adapters.insert(adapter) }
    }

    /// Whether the use of a device is a list of characteristics.
    var hasLists: Bool { limits.values.contains { if case .listed = $0 { true } else { false } } }

    /// Whether an object is a device that the app hears.
    func hears(_ path: ObjectPath) -> Bool { heard?.contains(path) == true }

    /// Whether a device exists for the app.
    func contains(_ device: ObjectPath) -> Bool { devices[device] != nil || hears(device) }

    /// Keeps those adapters that the radio service has, as far as it is known here (`isPresent`).
    ///
    /// The daemon and the view follow the service on separate connections, and either may be ahead. Where the daemon
    /// has lost the last adapter first, only the view's next signal shows whether the adapter has gone or the whole
    /// service, and clients must receive the signal that fits.
    mutating func keepAdapters(of old: Scope, _ isPresent: (ObjectPath) -> Bool) {
        adapters = adapters.filter(isPresent)
        guard adapters.isEmpty else { return }
        adapters = old.adapters.filter(isPresent)
        keepsAdaptersInSight = !adapters.isEmpty && old.hasAdaptersInSight
    }

    /// Whether adapters appear as they are: without an accessory they have no power, as in Apple's central manager.
    var hasAdaptersInSight: Bool { !isEmpty || keepsAdaptersInSight }

    /// The granted device that an object is, or belongs to.
    func device(of path: ObjectPath) -> ObjectPath? {
        if devices[path] != nil { return path }
        return devices.keys.first { path.isBelow($0) }
    }

    /// Whether a client with this match rule may be waiting for signals of org.bluez.
    static func mayBeFor(_ rule: MatchRule, alias: String?) -> Bool {
        rule.mayAskForSignals(
            of: [BlueZ.service] + (alias.map { [$0] } ?? []),
            interfaces: { [Bus.properties, Bus.objectManager].contains($0) || $0.hasPrefix(BlueZ.service + ".") },
            paths: { path in ["/", "/org", BlueZ.manager.rawValue].contains(path) || path.hasPrefix(BlueZ.manager.rawValue + "/") })
    }

    // MARK: Calls

    enum Verdict: Hashable {
        /// Answered from the feed.
        case managedObjects
        case introspection
        case adapterProperty(ObjectPath)
        /// A call to the manager of agents.
        case agent
        /// `StartDiscovery` and the like: the radio service counts them for each client.
        case discovery
        case connect(ObjectPath)
        case disconnect(ObjectPath)
        /// Properties of a device. The state of the link is the app's own.
        case deviceProperty(ObjectPath)
        /// Properties of a device that the app hears.
        case heardProperty(ObjectPath)
        /// Setting a device's property.
        case deviceSetting(ObjectPath)
        /// Pairing a device, which may be paired.
        case pairing(ObjectPath)
        /// Passed on, as it is.
        case passed(ObjectPath)
        /// Passed on while the app holds the link.
        case attribute(ObjectPath)
        /// As `attribute`, and the answer carries a descriptor.
        case acquisition(ObjectPath)
        case refused(BusError)
    }

    func verdict(path: ObjectPath, interface: String?, member: String) -> Verdict {
        if interface == Bus.introspectable || (interface == nil && member == "Introspect") {
            if let device = device(of: path) { return .passed(device) }
            return isAboveSomething(path) || hears(path) ? .introspection : .refused(.unknownObject(path))
        }
        if let device = device(of: path) { return verdict(device, path, interface, member) }
        if adapters.contains(path) { return adapterVerdict(path, interface, member) }
        if hears(path) { return heardVerdict(path, interface, member) }
        if path.rawValue == "/" {
            guard interface == Bus.objectManager, member == "GetManagedObjects" else {
                return .refused(Self.noMethod(interface, member))
            }
            return .managedObjects
        }
        if path == BlueZ.manager, interface?.hasPrefix("org.bluez.") == true {
            if interface == AgentManager1.interface, Agent.methods.contains(member) { return .agent }
            return .refused(.notPermitted("\(interface ?? "").\(member) is reserved for system programs"))
        }
        return .refused(.unknownObject(path))
    }

    /// Whether there is something to see below (or at) a path.
    func isAboveSomething(_ path: ObjectPath) -> Bool {
        path == BlueZ.manager || BlueZ.manager.isBelow(path) || adapters.contains(path)
    }

    private func adapterVerdict(_ path: ObjectPath, _ interface: String?, _ member: String) -> Verdict {
        switch (interface, member) {
        case (Bus.properties, "Get"), (Bus.properties, "GetAll"), (Bus.properties, "Set"): .adapterProperty(path)
        case (Adapter1.interface, Adapter1.Member.startDiscovery), (Adapter1.interface, Adapter1.Member.stopDiscovery),
            (Adapter1.interface, Adapter1.Member.setDiscoveryFilter), (Adapter1.interface, Adapter1.Member.getDiscoveryFilters):
            .discovery
        case (Adapter1.interface, Adapter1.Member.removeDevice):
            .refused(.notPermitted("apps remove accessories with org.accessorysetup1.Session.RemoveAccessory"))
        case (let interface?, _) where interface.hasPrefix("org.bluez."):
            .refused(.notPermitted("\(interface).\(member) is not for apps"))
        default: .refused(Self.noMethod(interface, member))
        }
    }

    private func heardVerdict(_ path: ObjectPath, _ interface: String?, _ member: String) -> Verdict {
        switch (interface, member) {
        case (Bus.properties, "Get"), (Bus.properties, "GetAll"): .heardProperty(path)
        case (Bus.properties, "Set"), (Device1.interface, _):
            .refused(.notPermitted("the app may hear this device, and not use it: its grant has access hear"))
        default: .refused(Self.noMethod(interface, member))
        }
    }

    private func verdict(_ device: ObjectPath, _ path: ObjectPath, _ interface: String?, _ member: String) -> Verdict {
        switch (interface, member) {
        case (Bus.properties, "Get"), (Bus.properties, "GetAll"): .deviceProperty(device)
        case (Bus.properties, "Set"): path == device ? .deviceSetting(device) : .refused(.notPermitted("apps may not set it"))
        case (Device1.interface, Device1.Member.connect): .connect(device)
        case (Device1.interface, Device1.Member.disconnect): .disconnect(device)
        case (Device1.interface, Device1.Member.pair): .pairing(device)
        case (Device1.interface, Device1.Member.cancelPairing): .refused(.pairing)
        case (Device1.interface, Device1.Member.connectProfile), (Device1.interface, Device1.Member.disconnectProfile):
            .refused(.notPermitted("profiles belong to the system; apps use Connect and Disconnect"))
        case (GattCharacteristic1.interface, GattCharacteristic1.Member.readValue),
            (GattCharacteristic1.interface, GattCharacteristic1.Member.writeValue),
            (GattCharacteristic1.interface, GattCharacteristic1.Member.startNotify),
            (GattCharacteristic1.interface, GattCharacteristic1.Member.stopNotify),
            (GattCharacteristic1.interface, GattCharacteristic1.Member.confirm),
            (GattDescriptor1.interface, GattDescriptor1.Member.readValue),
            (GattDescriptor1.interface, GattDescriptor1.Member.writeValue):
            .attribute(device)
        case (GattCharacteristic1.interface, GattCharacteristic1.Member.acquireWrite),
            (GattCharacteristic1.interface, GattCharacteristic1.Member.acquireNotify):
            .acquisition(device)
        default: .refused(Self.noMethod(interface, member))
        }
    }

    private static func noMethod(_ interface: String?, _ member: String) -> BusError {
        .unknownMethod("no such method: \(interface.map { $0 + "." } ?? "")\(member)")
    }
}

extension BusError {
    static func notPermitted(_ why: String) -> BusError { .bluez(.notPermitted, why) }
    static let pairing = notPermitted("apps pair accessories with org.accessorysetup1.Session.ShowPicker")
    /// As bluetoothd says it of attributes.
    static let notConnected = BusError.bluez(.failed, "Not connected")
    /// As bluetoothd says it of an adapter without power.
    static let notReady = BusError.bluez(.notReady, "Resource Not Ready")
}
