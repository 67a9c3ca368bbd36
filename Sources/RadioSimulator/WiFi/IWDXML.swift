// SPDX-License-Identifier: Apache-2.0
// The interfaces of iwd that the simulator serves, as introspection XML (from its doc/*-api.txt).

internal import DBusKit

enum IWDXML {
    static let agentManager = "net.connman.iwd.AgentManager"
    static let daemon = "net.connman.iwd.Daemon"
    static let adapter = "net.connman.iwd.Adapter"
    static let device = "net.connman.iwd.Device"
    static let station = "net.connman.iwd.Station"
    static let network = "net.connman.iwd.Network"
    static let knownNetwork = "net.connman.iwd.KnownNetwork"

    static let text = """
        <node>
          <interface name="net.connman.iwd.AgentManager">
            <method name="RegisterAgent"><arg name="path" type="o" direction="in"/></method>
            <method name="UnregisterAgent"><arg name="path" type="o" direction="in"/></method>
          </interface>
          <interface name="net.connman.iwd.Daemon">
            <method name="GetInfo"><arg name="info" type="a{sv}" direction="out"/></method>
          </interface>
          <interface name="net.connman.iwd.Adapter">
            <property name="Powered" type="b" access="readwrite"/>
            <property name="Name" type="s" access="read"/>
            <property name="SupportedModes" type="as" access="read"/>
          </interface>
          <interface name="net.connman.iwd.Device">
            <property name="Name" type="s" access="read"/>
            <property name="Address" type="s" access="read"/>
            <property name="Powered" type="b" access="readwrite"/>
            <property name="Adapter" type="o" access="read"/>
            <property name="Mode" type="s" access="read"/>
          </interface>
          <interface name="net.connman.iwd.Station">
            <method name="Scan"/>
            <method name="Disconnect"/>
            <method name="ConnectHiddenNetwork"><arg name="name" type="s" direction="in"/></method>
            <method name="GetOrderedNetworks"><arg name="networks" type="a(on)" direction="out"/></method>
            <property name="ConnectedNetwork" type="o" access="read"/>
            <property name="Scanning" type="b" access="read"/>
            <property name="State" type="s" access="read"/>
          </interface>
          <interface name="net.connman.iwd.Network">
            <method name="Connect"/>
            <property name="Name" type="s" access="read"/>
            <property name="Connected" type="b" access="read"/>
            <property name="Device" type="o" access="read"/>
            <property name="Type" type="s" access="read"/>
            <property name="KnownNetwork" type="o" access="read"/>
          </interface>
          <interface name="net.connman.iwd.KnownNetwork">
            <method name="Forget"/>
            <property name="Name" type="s" access="read"/>
            <property name="Type" type="s" access="read"/>
            <property name="Hidden" type="b" access="read"/>
            <property name="AutoConnect" type="b" access="readwrite"/>
            <property name="LastConnectedTime" type="s" access="read"/>
          </interface>
        </node>
        """
}

/// The errors of iwd's dbus.c, with its words.
enum IWDError: String {
    case aborted = "Operation aborted"
    case alreadyExists = "Object already exists"
    case alreadyProvisioned = "Already provisioned"
    case busy = "Operation already in progress"
    case failed = "Operation failed"
    case invalidArguments = "Argument type is wrong"
    case invalidFormat = "Argument format is invalid"
    case noAgent = "No Agent registered"
    case notConfigured = "Not configured"
    case notFound = "Object not found"
    case notHidden = "Not hidden"
    case notSupported = "Operation not supported"
    case serviceSetOverlap = "Service set overlap"

    var error: BusError {
        // Busy says InProgress: so does the real one's dbus_error_busy.
        let name = self == .busy ? "InProgress" : "\(self)".prefix(1).uppercased() + "\(self)".dropFirst()
        return BusError(name: "net.connman.iwd.\(name)", message: rawValue)
    }
}
