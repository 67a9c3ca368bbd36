// SPDX-License-Identifier: Apache-2.0
// One life of the simulated wpa_supplicant. (dbus_new.c and dbus_new_handlers.c.) Networks that were added over D-Bus
// end with it; the uplink returns with the next one, as from its configuration file.

internal import DBusKit

final class SimulatedSupplicant: SimulatedWiFiService {
    static let name = "fi.w1.wpa_supplicant1"
    static let interface = "fi.w1.wpa_supplicant1.Interface"
    static let bss = "fi.w1.wpa_supplicant1.BSS"
    static let network = "fi.w1.wpa_supplicant1.Network"
    static let path: ObjectPath = "/fi/w1/wpa_supplicant1"

    private var root: PlainObject?

    private static func table(isAware: Bool) -> String {
        """
        fi.w1.wpa_supplicant1
            GetInterface(s) -> o
            signal InterfaceAdded(o, a{sv})
            signal InterfaceRemoved(o)
            Interfaces: ao
        fi.w1.wpa_supplicant1.BSS
            SSID: ay
            Privacy: b
            Signal: n
            Frequency: q
            WPA: a{sv}
            RSN: a{sv}
            Age: u
        fi.w1.wpa_supplicant1.Network
            Properties: a{sv}
            Enabled: b rw
        fi.w1.wpa_supplicant1.Interface
            Scan(a{sv})
            AddNetwork(a{sv}) -> o
            RemoveNetwork(o)
            SelectNetwork(o)
            signal ScanDone(b)
            signal BSSRemoved(o)
            Capabilities: a{sv}
            State: s
            Scanning: b
            Ifname: s
            CurrentBSS: o
            CurrentNetwork: o
            BSSs: ao
            Networks: ao
            DisconnectReason: i
            AuthStatusCode: i
            AssocStatusCode: i

        """ + (isAware ? SupplicantAware.members : "")
    }

    init(_ air: WiFiAir, _ address: Connection.Address) throws(BusError) {
        // The real one has no object manager on any of its objects.
        try super.init(Self.name, root: "/fi/w1", Self.table(isAware: air.wifi.isAware), air, address)
    }

    override func exportRoot() {
        var description = bus.interface(
            Self.name, ["Interfaces": { [unowned self] in .objectPaths(stations.values.map(\.path).sorted()) }])
        description.method("GetInterface") { [unowned self] call throws(BusError) in
            guard let interface = stations[call.arguments[0].stringValue ?? ""] else {
                throw Self.error("InterfaceUnknown", "wpa_supplicant knows nothing about this interface.")
            }
            call.reply(.objectPath(interface.path))
        }
        let root = PlainObject(Self.path, [description])
        self.root = root
        bus.server.export(root)
    }

    override func makeStation(_ radio: Radio) -> Station { SupplicantInterface(radio, next("Interfaces"), bus) }

    override func stationsChanged(_ station: Station, isAdded: Bool) {
        if isAdded {
            bus.emit(Self.path, Self.name, "InterfaceAdded", .objectPath(station.path), .vardict([:]))
        } else {
            bus.emit(Self.path, Self.name, "InterfaceRemoved", .objectPath(station.path))
        }
        if let root { bus.changed(root, Self.name, "Interfaces") }
    }

    override var profiles: [StoredProfile] {
        stations.values.flatMap { ($0 as? SupplicantInterface)?.networks.map(\.profile) ?? [] }
    }

    static func error(_ name: String, _ message: String) -> BusError { BusError(name: "\(Self.name).\(name)", message: message) }

    /// The text is the real one's; the detail is a second argument there.
    static func invalidArguments(_ detail: String) -> BusError {
        error("InvalidArgs", "Did not receive correct message arguments. (\(detail))")
    }
}
