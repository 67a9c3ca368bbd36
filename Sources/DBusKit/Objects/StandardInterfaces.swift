// SPDX-License-Identifier: Apache-2.0
// The interfaces that every object has (D-Bus specification, "Standard Interfaces"), as introspection shows them.

/// Introspection XML of the standard interfaces.
public enum StandardInterfaces {
    /// Introspectable, Peer and Properties.
    public static let everywhere = """
          <interface name="org.freedesktop.DBus.Introspectable">
            <method name="Introspect"><arg type="s" name="xml" direction="out"/></method>
          </interface>
          <interface name="org.freedesktop.DBus.Peer">
            <method name="Ping"/>
            <method name="GetMachineId"><arg type="s" name="id" direction="out"/></method>
          </interface>
          <interface name="org.freedesktop.DBus.Properties">
            <method name="Get">
              <arg type="s" name="interface" direction="in"/><arg type="s" name="name" direction="in"/><arg type="v" name="value" direction="out"/>
            </method>
            <method name="GetAll"><arg type="s" name="interface" direction="in"/><arg type="a{sv}" name="values" direction="out"/></method>
            <method name="Set">
              <arg type="s" name="interface" direction="in"/><arg type="s" name="name" direction="in"/><arg type="v" name="value" direction="in"/>
            </method>
            <signal name="PropertiesChanged">
              <arg type="s" name="interface"/><arg type="a{sv}" name="changed"/><arg type="as" name="invalidated"/>
            </signal>
          </interface>

        """

    /// ObjectManager, which only the root has.
    public static let objectManager = """
          <interface name="org.freedesktop.DBus.ObjectManager">
            <method name="GetManagedObjects"><arg type="a{oa{sa{sv}}}" name="objects" direction="out"/></method>
            <signal name="InterfacesAdded"><arg type="o" name="object"/><arg type="a{sa{sv}}" name="interfaces"/></signal>
            <signal name="InterfacesRemoved"><arg type="o" name="object"/><arg type="as" name="interfaces"/></signal>
          </interface>

        """
}
