// SPDX-License-Identifier: Apache-2.0
// The interfaces of org.bluez that the simulator serves, as introspection XML (from BlueZ' doc/org.bluez.*.rst, 5.66;
// `PreferredBearer` and `Disconnected` of 5.83).

internal import DBusKit

enum Interfaces {
    static func load(_ xml: String = xml) throws(BusError) -> [String: InterfaceDescription] {
        var result: [String: InterfaceDescription] = [:]
        for description in try InterfaceDescription.parse(xml: xml) { result[description.name] = description }
        return result
    }

    static let adapter = "org.bluez.Adapter1"
    static let device = "org.bluez.Device1"
    static let battery = "org.bluez.Battery1"
    static let agentManager = "org.bluez.AgentManager1"
    static let service = "org.bluez.GattService1"
    static let characteristic = "org.bluez.GattCharacteristic1"
    static let descriptor = "org.bluez.GattDescriptor1"
    static let simulator = "org.accessorysetup.Simulator1"

    private static let xml = """
        <node>
          <interface name="org.bluez.AgentManager1">
            <method name="RegisterAgent"><arg name="agent" type="o" direction="in"/><arg name="capability" type="s" direction="in"/></method>
            <method name="UnregisterAgent"><arg name="agent" type="o" direction="in"/></method>
            <method name="RequestDefaultAgent"><arg name="agent" type="o" direction="in"/></method>
          </interface>
          <interface name="org.bluez.Adapter1">
            <method name="StartDiscovery"/>
            <method name="StopDiscovery"/>
            <method name="SetDiscoveryFilter"><arg name="properties" type="a{sv}" direction="in"/></method>
            <method name="GetDiscoveryFilters"><arg name="filters" type="as" direction="out"/></method>
            <method name="RemoveDevice"><arg name="device" type="o" direction="in"/></method>
            <property name="Address" type="s" access="read"/>
            <property name="AddressType" type="s" access="read"/>
            <property name="Name" type="s" access="read"/>
            <property name="Alias" type="s" access="readwrite"/>
            <property name="Powered" type="b" access="readwrite"/>
            <property name="Pairable" type="b" access="readwrite"/>
            <property name="Discoverable" type="b" access="readwrite"/>
            <property name="Discovering" type="b" access="read"/>
            <property name="UUIDs" type="as" access="read"/>
            <property name="Roles" type="as" access="read"/>
          </interface>
          <interface name="org.bluez.Device1">
            <method name="Connect"/>
            <method name="Disconnect"/>
            <method name="Pair"/>
            <method name="CancelPairing"/>
            <signal name="Disconnected"><arg name="reason" type="s"/><arg name="message" type="s"/></signal>
            <property name="Address" type="s" access="read"/>
            <property name="AddressType" type="s" access="read"/>
            <property name="Name" type="s" access="read"/>
            <property name="Alias" type="s" access="readwrite"/>
            <property name="Paired" type="b" access="read"/>
            <property name="Bonded" type="b" access="read"/>
            <property name="Trusted" type="b" access="readwrite"/>
            <property name="Blocked" type="b" access="readwrite"/>
            <property name="LegacyPairing" type="b" access="read"/>
            <property name="Connected" type="b" access="read"/>
            <property name="ServicesResolved" type="b" access="read"/>
            <property name="UUIDs" type="as" access="read"/>
            <property name="Adapter" type="o" access="read"/>
            <property name="RSSI" type="n" access="read"/>
            <property name="TxPower" type="n" access="read"/>
            <property name="ManufacturerData" type="a{qv}" access="read"/>
            <property name="ServiceData" type="a{sv}" access="read"/>
            <property name="PreferredBearer" type="s" access="readwrite"/>
          </interface>
          <interface name="org.bluez.Battery1">
            <property name="Percentage" type="y" access="read"/>
          </interface>
          <interface name="org.bluez.GattService1">
            <property name="UUID" type="s" access="read"/>
            <property name="Device" type="o" access="read"/>
            <property name="Primary" type="b" access="read"/>
            <property name="Includes" type="ao" access="read"/>
          </interface>
          <interface name="org.bluez.GattDescriptor1">
            <method name="ReadValue"><arg name="options" type="a{sv}" direction="in"/><arg name="value" type="ay" direction="out"/></method>
            <method name="WriteValue"><arg name="value" type="ay" direction="in"/><arg name="options" type="a{sv}" direction="in"/></method>
            <property name="UUID" type="s" access="read"/>
            <property name="Characteristic" type="o" access="read"/>
            <property name="Value" type="ay" access="read"/>
          </interface>
          <interface name="org.bluez.GattCharacteristic1">
            <method name="ReadValue"><arg name="options" type="a{sv}" direction="in"/><arg name="value" type="ay" direction="out"/></method>
            <method name="WriteValue"><arg name="value" type="ay" direction="in"/><arg name="options" type="a{sv}" direction="in"/></method>
            <method name="StartNotify"/>
            <method name="StopNotify"/>
            <method name="AcquireWrite">
              <arg name="options" type="a{sv}" direction="in"/><arg name="fd" type="h" direction="out"/><arg name="mtu" type="q" direction="out"/>
            </method>
            <method name="AcquireNotify">
              <arg name="options" type="a{sv}" direction="in"/><arg name="fd" type="h" direction="out"/><arg name="mtu" type="q" direction="out"/>
            </method>
            <property name="WriteAcquired" type="b" access="read"/>
            <property name="NotifyAcquired" type="b" access="read"/>
            <property name="UUID" type="s" access="read"/>
            <property name="Service" type="o" access="read"/>
            <property name="Value" type="ay" access="read"/>
            <property name="Notifying" type="b" access="read"/>
            <property name="Flags" type="as" access="read"/>
            <property name="MTU" type="q" access="read"/>
          </interface>
          <interface name="org.accessorysetup.Simulator1">
            <!-- Plays one action of the scenario language now; the target is the name of an adapter, an interface or a Wi-Fi service, or the id of an accessory or an access point. -->
            <method name="Do"><arg name="action" type="s" direction="in"/><arg name="target" type="s" direction="in"/></method>
            <!-- Accessories that hold a bond, by id. -->
            <method name="Bonds"><arg name="accessories" type="as" direction="out"/></method>
            <!-- Accessories that are connected, by id. -->
            <method name="Connections"><arg name="accessories" type="as" direction="out"/></method>
            <!-- Wi-Fi scans that really ran since the start, whoever asked. -->
            <method name="Adverts"><arg name="count" type="t" direction="out"/></method>
            <method name="Scans"><arg name="count" type="u" direction="out"/></method>
            <!-- What each interface is connected to: its name, and the network's SSID as text. -->
            <method name="Joined"><arg name="networks" type="a{ss}" direction="out"/></method>
            <!-- SSIDs of all profiles that the Wi-Fi services hold, uplinks too. -->
            <method name="KnownNetworks"><arg name="networks" type="as" direction="out"/></method>
            <!-- How many profiles, uplinks apart, hold a passphrase. -->
            <method name="Secrets"><arg name="count" type="u" direction="out"/></method>
          </interface>
        </node>
        """
}
