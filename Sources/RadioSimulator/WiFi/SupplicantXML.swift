// SPDX-License-Identifier: Apache-2.0
// The interfaces of wpa_supplicant that the simulator serves, as introspection XML (from its dbus_new.c).

internal import DBusKit

enum SupplicantXML {
    static let root = "fi.w1.wpa_supplicant1"
    static let interface = "fi.w1.wpa_supplicant1.Interface"
    static let bss = "fi.w1.wpa_supplicant1.BSS"
    static let network = "fi.w1.wpa_supplicant1.Network"

    /// Members of `interface` that only a build with Wi-Fi Aware (CONFIG_NAN_USD) has.
    private static let aware = """
        <method name="NANPublish"><arg name="args" type="a{sv}" direction="in"/><arg name="publish_id" type="u" direction="out"/></method>
        <method name="NANCancelPublish"><arg name="publish_id" type="u" direction="in"/></method>
        <method name="NANSubscribe"><arg name="args" type="a{sv}" direction="in"/><arg name="subscribe_id" type="u" direction="out"/></method>
        <method name="NANCancelSubscribe"><arg name="subscribe_id" type="u" direction="in"/></method>
        <signal name="NANDiscoveryResult"><arg name="args" type="a{sv}"/></signal>
        <signal name="NANReplied"><arg name="args" type="a{sv}"/></signal>
        <signal name="NANPublishTerminated"><arg name="publish_id" type="u"/><arg name="reason" type="s"/></signal>
        <signal name="NANSubscribeTerminated"><arg name="subscribe_id" type="u"/><arg name="reason" type="s"/></signal>
        """

    static func text(isAware: Bool) -> String {
        """
        <node>
          <interface name="fi.w1.wpa_supplicant1">
            <method name="GetInterface"><arg name="ifname" type="s" direction="in"/><arg name="path" type="o" direction="out"/></method>
            <signal name="InterfaceAdded"><arg name="path" type="o"/><arg name="properties" type="a{sv}"/></signal>
            <signal name="InterfaceRemoved"><arg name="path" type="o"/></signal>
            <signal name="PropertiesChanged"><arg name="properties" type="a{sv}"/></signal>
            <property name="Interfaces" type="ao" access="read"/>
            <property name="Capabilities" type="as" access="read"/>
          </interface>
          <interface name="fi.w1.wpa_supplicant1.Interface">
            <method name="Scan"><arg name="args" type="a{sv}" direction="in"/></method>
            <method name="Disconnect"/>
            <method name="AddNetwork"><arg name="args" type="a{sv}" direction="in"/><arg name="path" type="o" direction="out"/></method>
            <method name="Reassociate"/>
            <method name="Reconnect"/>
            <method name="RemoveNetwork"><arg name="path" type="o" direction="in"/></method>
            <method name="RemoveAllNetworks"/>
            <method name="SelectNetwork"><arg name="path" type="o" direction="in"/></method>
            <signal name="ScanDone"><arg name="success" type="b"/></signal>
            <signal name="BSSAdded"><arg name="path" type="o"/><arg name="properties" type="a{sv}"/></signal>
            <signal name="BSSRemoved"><arg name="path" type="o"/></signal>
            <signal name="NetworkAdded"><arg name="path" type="o"/><arg name="properties" type="a{sv}"/></signal>
            <signal name="NetworkRemoved"><arg name="path" type="o"/></signal>
            <signal name="NetworkSelected"><arg name="path" type="o"/></signal>
            <signal name="PropertiesChanged"><arg name="properties" type="a{sv}"/></signal>
            \(isAware ? aware : "")
            <property name="Capabilities" type="a{sv}" access="read"/>
            <property name="State" type="s" access="read"/>
            <property name="Scanning" type="b" access="read"/>
            <property name="ApScan" type="u" access="read"/>
            <property name="Ifname" type="s" access="read"/>
            <property name="Driver" type="s" access="read"/>
            <property name="CurrentBSS" type="o" access="read"/>
            <property name="CurrentNetwork" type="o" access="read"/>
            <property name="BSSs" type="ao" access="read"/>
            <property name="Networks" type="ao" access="read"/>
            <property name="DisconnectReason" type="i" access="read"/>
            <property name="AuthStatusCode" type="i" access="read"/>
            <property name="AssocStatusCode" type="i" access="read"/>
          </interface>
          <interface name="fi.w1.wpa_supplicant1.BSS">
            <signal name="PropertiesChanged"><arg name="properties" type="a{sv}"/></signal>
            <property name="SSID" type="ay" access="read"/>
            <property name="BSSID" type="ay" access="read"/>
            <property name="Privacy" type="b" access="read"/>
            <property name="Mode" type="s" access="read"/>
            <property name="Signal" type="n" access="read"/>
            <property name="Frequency" type="q" access="read"/>
            <property name="Rates" type="au" access="read"/>
            <property name="WPA" type="a{sv}" access="read"/>
            <property name="RSN" type="a{sv}" access="read"/>
            <property name="IEs" type="ay" access="read"/>
            <property name="Age" type="u" access="read"/>
          </interface>
          <interface name="fi.w1.wpa_supplicant1.Network">
            <signal name="PropertiesChanged"><arg name="properties" type="a{sv}"/></signal>
            <property name="Properties" type="a{sv}" access="readwrite"/>
            <property name="Enabled" type="b" access="readwrite"/>
          </interface>
        </node>
        """
    }
}

enum SupplicantError {
    /// The text is the real one's; what was wrong follows as a second argument there, and in the text here.
    static func invalidArguments(_ what: String) -> BusError {
        named("InvalidArgs", "Did not receive correct message arguments. (\(what))")
    }
    static var unknownNetwork: BusError { named("NetworkUnknown", "There is no such a network in this interface.") }
    static func scan(_ text: String = "Scan request rejected") -> BusError { named("Interface.ScanError", text) }

    static func named(_ name: String, _ message: String) -> BusError {
        BusError(name: "fi.w1.wpa_supplicant1.\(name)", message: message)
    }
}
