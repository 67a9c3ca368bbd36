// SPDX-License-Identifier: Apache-2.0
// The interfaces of NetworkManager that the simulator serves, as introspection XML (from its introspection/*.xml,
// 1.42).

internal import DBusKit

enum NetworkManagerXML {
    static let root = "org.freedesktop.NetworkManager"
    static let settings = "org.freedesktop.NetworkManager.Settings"
    static let connection = "org.freedesktop.NetworkManager.Settings.Connection"
    static let device = "org.freedesktop.NetworkManager.Device"
    static let wireless = "org.freedesktop.NetworkManager.Device.Wireless"
    static let accessPoint = "org.freedesktop.NetworkManager.AccessPoint"
    static let active = "org.freedesktop.NetworkManager.Connection.Active"

    static let text = """
        <node>
          <interface name="org.freedesktop.NetworkManager">
            <method name="GetDevices"><arg name="devices" type="ao" direction="out"/></method>
            <method name="GetAllDevices"><arg name="devices" type="ao" direction="out"/></method>
            <method name="GetDeviceByIpIface"><arg name="iface" type="s" direction="in"/><arg name="device" type="o" direction="out"/></method>
            <method name="ActivateConnection">
              <arg name="connection" type="o" direction="in"/><arg name="device" type="o" direction="in"/>
              <arg name="specific_object" type="o" direction="in"/><arg name="active_connection" type="o" direction="out"/>
            </method>
            <method name="AddAndActivateConnection">
              <arg name="connection" type="a{sa{sv}}" direction="in"/><arg name="device" type="o" direction="in"/>
              <arg name="specific_object" type="o" direction="in"/><arg name="path" type="o" direction="out"/>
              <arg name="active_connection" type="o" direction="out"/>
            </method>
            <method name="AddAndActivateConnection2">
              <arg name="connection" type="a{sa{sv}}" direction="in"/><arg name="device" type="o" direction="in"/>
              <arg name="specific_object" type="o" direction="in"/><arg name="options" type="a{sv}" direction="in"/>
              <arg name="path" type="o" direction="out"/><arg name="active_connection" type="o" direction="out"/>
              <arg name="result" type="a{sv}" direction="out"/>
            </method>
            <method name="DeactivateConnection"><arg name="active_connection" type="o" direction="in"/></method>
            <signal name="StateChanged"><arg name="state" type="u"/></signal>
            <signal name="DeviceAdded"><arg name="device_path" type="o"/></signal>
            <signal name="DeviceRemoved"><arg name="device_path" type="o"/></signal>
            <property name="Devices" type="ao" access="read"/>
            <property name="AllDevices" type="ao" access="read"/>
            <property name="NetworkingEnabled" type="b" access="read"/>
            <property name="WirelessEnabled" type="b" access="readwrite"/>
            <property name="WirelessHardwareEnabled" type="b" access="read"/>
            <property name="ActiveConnections" type="ao" access="read"/>
            <property name="Version" type="s" access="read"/>
            <property name="State" type="u" access="read"/>
          </interface>
          <interface name="org.freedesktop.NetworkManager.Settings">
            <method name="ListConnections"><arg name="connections" type="ao" direction="out"/></method>
            <signal name="NewConnection"><arg name="connection" type="o"/></signal>
            <signal name="ConnectionRemoved"><arg name="connection" type="o"/></signal>
            <property name="Connections" type="ao" access="read"/>
          </interface>
          <interface name="org.freedesktop.NetworkManager.Settings.Connection">
            <method name="GetSettings"><arg name="settings" type="a{sa{sv}}" direction="out"/></method>
            <method name="Delete"/>
            <signal name="Removed"/>
            <property name="Unsaved" type="b" access="read"/>
            <property name="Flags" type="u" access="read"/>
            <property name="Filename" type="s" access="read"/>
          </interface>
          <interface name="org.freedesktop.NetworkManager.Device">
            <method name="Disconnect"/>
            <signal name="StateChanged">
              <arg name="new_state" type="u"/><arg name="old_state" type="u"/><arg name="reason" type="u"/>
            </signal>
            <property name="Udi" type="s" access="read"/>
            <property name="Interface" type="s" access="read"/>
            <property name="IpInterface" type="s" access="read"/>
            <property name="Driver" type="s" access="read"/>
            <property name="State" type="u" access="read"/>
            <property name="StateReason" type="(uu)" access="read"/>
            <property name="ActiveConnection" type="o" access="read"/>
            <property name="Managed" type="b" access="readwrite"/>
            <property name="Autoconnect" type="b" access="readwrite"/>
            <property name="DeviceType" type="u" access="read"/>
            <property name="AvailableConnections" type="ao" access="read"/>
            <property name="HwAddress" type="s" access="read"/>
          </interface>
          <interface name="org.freedesktop.NetworkManager.Device.Wireless">
            <method name="GetAccessPoints"><arg name="access_points" type="ao" direction="out"/></method>
            <method name="GetAllAccessPoints"><arg name="access_points" type="ao" direction="out"/></method>
            <method name="RequestScan"><arg name="options" type="a{sv}" direction="in"/></method>
            <signal name="AccessPointAdded"><arg name="access_point" type="o"/></signal>
            <signal name="AccessPointRemoved"><arg name="access_point" type="o"/></signal>
            <property name="HwAddress" type="s" access="read"/>
            <property name="PermHwAddress" type="s" access="read"/>
            <property name="Mode" type="u" access="read"/>
            <property name="AccessPoints" type="ao" access="read"/>
            <property name="ActiveAccessPoint" type="o" access="read"/>
            <property name="WirelessCapabilities" type="u" access="read"/>
            <property name="LastScan" type="x" access="read"/>
          </interface>
          <interface name="org.freedesktop.NetworkManager.AccessPoint">
            <property name="Flags" type="u" access="read"/>
            <property name="WpaFlags" type="u" access="read"/>
            <property name="RsnFlags" type="u" access="read"/>
            <property name="Ssid" type="ay" access="read"/>
            <property name="Frequency" type="u" access="read"/>
            <property name="HwAddress" type="s" access="read"/>
            <property name="Mode" type="u" access="read"/>
            <property name="MaxBitrate" type="u" access="read"/>
            <property name="Strength" type="y" access="read"/>
            <property name="LastSeen" type="i" access="read"/>
          </interface>
          <interface name="org.freedesktop.NetworkManager.Connection.Active">
            <signal name="StateChanged"><arg name="state" type="u"/><arg name="reason" type="u"/></signal>
            <property name="Connection" type="o" access="read"/>
            <property name="SpecificObject" type="o" access="read"/>
            <property name="Id" type="s" access="read"/>
            <property name="Uuid" type="s" access="read"/>
            <property name="Type" type="s" access="read"/>
            <property name="Devices" type="ao" access="read"/>
            <property name="State" type="u" access="read"/>
          </interface>
        </node>
        """
}

/// NMDeviceState.
enum DeviceState: UInt32 {
    case unavailable = 20
    case disconnected = 30
    case prepare = 40
    case config = 50
    case needAuth = 60
    case ipConfig = 70
    case ipCheck = 80
    case secondaries = 90
    case activated = 100
    case deactivating = 110
    case failed = 120

    var isActivating: Bool { (40...90).contains(rawValue) }
}

/// NMDeviceStateReason, as far as it is played.
enum DeviceReason: UInt32 {
    case none = 0
    case nowManaged = 2
    case addressUnavailable = 5
    case noSecrets = 7
    case supplicantDisconnect = 8
    case supplicantTimeout = 11
    case removed = 36
    case connectionRemoved = 38
    case userRequested = 39
    case supplicantAvailable = 42
    case ssidNotFound = 53
    case newActivation = 60
}

/// NMActiveConnectionState.
enum ActiveState: UInt32 {
    case unknown, activating, activated, deactivating, deactivated
}

enum ManagerError {
    static func manager(_ name: String, _ text: String) -> BusError {
        BusError(name: "\(NetworkManagerXML.root).\(name)", message: text)
    }
    static func device(_ name: String, _ text: String) -> BusError {
        BusError(name: "\(NetworkManagerXML.device).\(name)", message: text)
    }
    static func profile(_ name: String, _ text: String) -> BusError {
        BusError(name: "\(NetworkManagerXML.connection).\(name)", message: text)
    }
}
