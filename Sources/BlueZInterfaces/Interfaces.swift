// SPDX-License-Identifier: Apache-2.0
// The interfaces of bluetoothd that are used here: members and properties, with the types of its documentation. The
// tests compare them with the simulator's own description. (BlueZ, doc/org.bluez.*.rst)

internal import DBusKit

/// org.bluez.Adapter1: a controller.
public enum Adapter1: BlueZInterface {
    case powered, discovering, address

    public static let interface = "org.bluez.Adapter1"
    public static let table = PropertyTable<Adapter1>()

    /// Methods.
    public enum Member {
        public static let startDiscovery = "StartDiscovery"
        public static let stopDiscovery = "StopDiscovery"
        public static let setDiscoveryFilter = "SetDiscoveryFilter"
        public static let getDiscoveryFilters = "GetDiscoveryFilters"
        public static let removeDevice = "RemoveDevice"
    }

    public var row: PropertyRow {
        switch self {
        case .powered: PropertyRow("Powered", "b", default: .boolean(false))
        case .discovering: PropertyRow("Discovering", "b", default: .boolean(false))
        case .address: PropertyRow("Address", "s")
        }
    }
}

/// org.bluez.Device1: a device that an adapter hears or remembers.
public enum Device1: BlueZInterface {
    case rssi, manufacturerData, serviceData, uuids, name, txPower, connected, paired, bonded, trusted, address, addressType,
        alias, servicesResolved, advertisingFlags, preferredBearer

    public static let interface = "org.bluez.Device1"
    public static let table = PropertyTable<Device1>()

    /// Methods and signals.
    public enum Member {
        public static let connect = "Connect"
        public static let disconnect = "Disconnect"
        public static let connectProfile = "ConnectProfile"
        public static let disconnectProfile = "DisconnectProfile"
        public static let pair = "Pair"
        public static let cancelPairing = "CancelPairing"
        /// Signal: why a link ended. Since 5.83.
        public static let disconnected = "Disconnected"
    }

    public var row: PropertyRow {
        switch self {
        case .rssi: PropertyRow("RSSI", "n")
        case .manufacturerData: PropertyRow("ManufacturerData", "a{qv}")
        case .serviceData: PropertyRow("ServiceData", "a{sv}")
        case .uuids: PropertyRow("UUIDs", "as", default: .strings([]))
        case .name: PropertyRow("Name", "s")
        case .txPower: PropertyRow("TxPower", "n")
        case .connected: PropertyRow("Connected", "b", default: .boolean(false))
        case .paired: PropertyRow("Paired", "b", default: .boolean(false))
        // Since 5.65.
        case .bonded: PropertyRow("Bonded", "b")
        case .trusted: PropertyRow("Trusted", "b", default: .boolean(false))
        case .address: PropertyRow("Address", "s")
        case .addressType: PropertyRow("AddressType", "s", default: .string("public"))
        case .alias: PropertyRow("Alias", "s")
        case .servicesResolved: PropertyRow("ServicesResolved", "b", default: .boolean(false))
        case .advertisingFlags: PropertyRow("AdvertisingFlags", "ay")
        // Since 5.80, where bluetoothd runs with its experimental interfaces.
        case .preferredBearer: PropertyRow("PreferredBearer", "s")
        }
    }
}

/// org.bluez.Battery1, at a device's object.
public enum Battery1: BlueZInterface {
    case percentage

    public static let interface = "org.bluez.Battery1"
    public static let table = PropertyTable<Battery1>()

    public var row: PropertyRow {
        switch self {
        case .percentage: PropertyRow("Percentage", "y")
        }
    }
}

/// org.bluez.Input1, at the object of an input device. None of its properties is used.
public enum Input1 {
    public static let interface = "org.bluez.Input1"
}

/// org.bluez.GattService1.
public enum GattService1: BlueZInterface {
    case primary, includes

    public static let interface = "org.bluez.GattService1"
    public static let table = PropertyTable<GattService1>()

    public var row: PropertyRow {
        switch self {
        case .primary: PropertyRow("Primary", "b", default: .boolean(true))
        case .includes: PropertyRow("Includes", "ao", default: .objectPaths([]))
        }
    }
}

/// org.bluez.GattCharacteristic1.
public enum GattCharacteristic1: BlueZInterface {
    case flags, mtu

    public static let interface = "org.bluez.GattCharacteristic1"
    public static let table = PropertyTable<GattCharacteristic1>()

    /// Methods.
    public enum Member {
        public static let readValue = "ReadValue"
        public static let writeValue = "WriteValue"
        public static let startNotify = "StartNotify"
        public static let stopNotify = "StopNotify"
        public static let confirm = "Confirm"
        public static let acquireWrite = "AcquireWrite"
        public static let acquireNotify = "AcquireNotify"
    }

    public var row: PropertyRow {
        switch self {
        case .flags: PropertyRow("Flags", "as", default: .strings([]))
        // Since 5.62.
        case .mtu: PropertyRow("MTU", "q")
        }
    }
}

/// org.bluez.GattDescriptor1.
public enum GattDescriptor1 {
    public static let interface = "org.bluez.GattDescriptor1"

    /// Methods.
    public enum Member {
        public static let readValue = "ReadValue"
        public static let writeValue = "WriteValue"
    }
}

/// org.bluez.AgentManager1, at `BlueZ.manager`.
public enum AgentManager1 {
    public static let interface = "org.bluez.AgentManager1"

    /// Methods.
    public enum Member {
        public static let registerAgent = "RegisterAgent"
        public static let unregisterAgent = "UnregisterAgent"
    }
}

/// org.bluez.AdvertisementMonitorManager1, at an adapter's object, where bluetoothd runs with its experimental
/// interfaces.
public enum AdvertisementMonitorManager1 {
    public static let interface = "org.bluez.AdvertisementMonitorManager1"
    /// The property with the features; it has no signal.
    public static let supportedFeatures = "SupportedFeatures"
    /// The feature of a controller that compares adverts with patterns by itself.
    public static let controllerPatterns = "controller-patterns"

    /// Methods.
    public enum Member {
        public static let registerMonitor = "RegisterMonitor"
    }
}

/// org.bluez.AdvertisementMonitor1, which bluetoothd reads and calls at a program's object.
public enum AdvertisementMonitor1 {
    public static let interface = "org.bluez.AdvertisementMonitor1"

    /// Methods and properties.
    public static let description = """
        <node><interface name="org.bluez.AdvertisementMonitor1">
          <method name="Release"/>
          <method name="Activate"/>
          <method name="DeviceFound"><arg type="o" direction="in" name="device"/></method>
          <method name="DeviceLost"><arg type="o" direction="in" name="device"/></method>
          <property name="Type" type="s" access="read"/>
          <property name="RSSIHighThreshold" type="n" access="read"/>
          <property name="RSSIHighTimeout" type="q" access="read"/>
          <property name="RSSILowThreshold" type="n" access="read"/>
          <property name="RSSILowTimeout" type="q" access="read"/>
          <property name="RSSISamplingPeriod" type="q" access="read"/>
          <property name="Patterns" type="a(yyay)" access="read"/>
        </interface></node>
        """
}

/// org.bluez.ProfileManager1, at `BlueZ.manager`.
public enum ProfileManager1 {
    public static let interface = "org.bluez.ProfileManager1"
}

/// org.bluez.Agent1, which bluetoothd calls at a program's object.
public enum Agent1 {
    public static let interface = "org.bluez.Agent1"
    /// The capability to show and to enter numbers (org.bluez.AgentManager1, `RegisterAgent`).
    public static let keyboardDisplay = "KeyboardDisplay"

    /// Methods, with their arguments and answers.
    public static let description = """
        <node><interface name="org.bluez.Agent1">
          <method name="Release"/>
          <method name="RequestPinCode"><arg type="o" direction="in" name="device"/><arg type="s" direction="out" name="pincode"/></method>
          <method name="DisplayPinCode"><arg type="o" direction="in" name="device"/><arg type="s" direction="in" name="pincode"/></method>
          <method name="RequestPasskey"><arg type="o" direction="in" name="device"/><arg type="u" direction="out" name="passkey"/></method>
          <method name="DisplayPasskey"><arg type="o" direction="in" name="device"/><arg type="u" direction="in" name="passkey"/><arg type="q" direction="in" name="entered"/></method>
          <method name="RequestConfirmation"><arg type="o" direction="in" name="device"/><arg type="u" direction="in" name="passkey"/></method>
          <method name="RequestAuthorization"><arg type="o" direction="in" name="device"/></method>
          <method name="AuthorizeService"><arg type="o" direction="in" name="device"/><arg type="s" direction="in" name="uuid"/></method>
          <method name="Cancel"/>
        </interface></node>
        """
}
