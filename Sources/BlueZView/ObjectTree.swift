// SPDX-License-Identifier: Apache-2.0
// The objects of the view on D-Bus: the value of `GetManagedObjects`, and the introspection of the objects above
// the devices. (Theirs is the radio service's own; below a device there is nothing foreign.)

internal import BlueZInterfaces
internal import DBusKit

enum ObjectTree {
    /// `a{oa{sa{sv}}}`.
    static func value(_ objects: [ObjectPath: [String: DBusValue]]) -> DBusValue {
        .dictionary(
            key: "o", value: "a{sa{sv}}",
            objects.sorted { $0.key < $1.key }.map { .init(.objectPath($0.key), value($0.value)) })
    }

    /// `a{sa{sv}}`.
    static func value(_ interfaces: [String: DBusValue]) -> DBusValue {
        .dictionary(key: "s", value: "a{sv}", interfaces.sorted { $0.key < $1.key }.map { .init(.string($0.key), $0.value) })
    }

    /// `/`, `/org`, `/org/bluez` and the adapters.
    static func introspection(of path: ObjectPath, _ scope: Scope) -> String {
        var inside = ""
        var children: Set<Substring> = []
        if scope.adapters.contains(path) { inside = adapterInterface + StandardInterfaces.everywhere }
        if path.rawValue == "/" { inside = StandardInterfaces.objectManager }
        let prefix = path.rawValue == "/" ? "/" : path.rawValue + "/"
        if scope.hears(path) { inside = heardInterface + StandardInterfaces.everywhere }
        if path == BlueZ.manager { inside = agentManager + StandardInterfaces.everywhere }
        for other in Array(scope.devices.keys) + (scope.heard ?? []) + scope.adapters + [BlueZ.manager] where other.isBelow(path) {
            children.insert(other.rawValue.dropFirst(prefix.count).prefix { $0 != "/" })
        }
        let nodes = children.sorted().map { "  <node name=\"\($0)\"/>\n" }.joined()
        return """
            <!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN"
             "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">
            <node>
            \(inside)\(nodes)</node>

            """
    }

    private static let heardInterface = """
          <interface name="org.bluez.Device1">
            <property name="Adapter" type="o" access="read"/>
            <property name="Address" type="s" access="read"/>
            <property name="AddressType" type="s" access="read"/>
            <property name="Name" type="s" access="read"/>
            <property name="Alias" type="s" access="read"/>
            <property name="RSSI" type="n" access="read"/>
            <property name="TxPower" type="n" access="read"/>
            <property name="UUIDs" type="as" access="read"/>
            <property name="ManufacturerData" type="a{qv}" access="read"/>
            <property name="ServiceData" type="a{sv}" access="read"/>
            <property name="Connected" type="b" access="read"/>
            <property name="Paired" type="b" access="read"/>
          </interface>

        """

    private static let agentManager = """
          <interface name="org.bluez.AgentManager1">
            <method name="RegisterAgent">
              <arg name="agent" type="o" direction="in"/>
              <arg name="capability" type="s" direction="in"/>
            </method>
            <method name="RequestDefaultAgent"><arg name="agent" type="o" direction="in"/></method>
            <method name="UnregisterAgent"><arg name="agent" type="o" direction="in"/></method>
          </interface>

        """

    private static let adapterInterface = """
          <interface name="org.bluez.Adapter1">
            <method name="StartDiscovery"/>
            <method name="StopDiscovery"/>
            <method name="SetDiscoveryFilter"><arg name="properties" type="a{sv}" direction="in"/></method>
            <method name="GetDiscoveryFilters"><arg name="filters" type="as" direction="out"/></method>
            <property name="Address" type="s" access="read"/>
            <property name="AddressType" type="s" access="read"/>
            <property name="Name" type="s" access="read"/>
            <property name="Alias" type="s" access="read"/>
            <property name="Class" type="u" access="read"/>
            <property name="Powered" type="b" access="read"/>
            <property name="Discoverable" type="b" access="read"/>
            <property name="DiscoverableTimeout" type="u" access="read"/>
            <property name="Pairable" type="b" access="read"/>
            <property name="PairableTimeout" type="u" access="read"/>
            <property name="Discovering" type="b" access="read"/>
            <property name="UUIDs" type="as" access="read"/>
            <property name="Roles" type="as" access="read"/>
          </interface>

        """
}
