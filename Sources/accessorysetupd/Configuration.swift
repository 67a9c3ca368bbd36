// SPDX-License-Identifier: Apache-2.0
// What an admin sets in accessorysetupd.conf; everything has a default, and a mistake is an error at start, not a
// guess.

internal import AccessoryModel
internal import KeyFiles

struct Configuration {
    /// `[Bluetooth] Adapter=`: the adapters to use, by name (`hci1`) or address; none means all.
    var adapters: [String] = []
    /// `[Bluetooth] ImmediateRSSI=`: what `immediate` means, dBm, −100…0.
    var immediateRSSI = -55
    /// `[View] Linger=`: seconds that an app's links outlive its last connection to the scoped view, 0…3600.
    var linger = 30

    /// `[Identity] BusIdentity=`: `any`, or `pidfd-only`: who comes over a bus that hands out no process descriptors is
    /// nobody.
    var needsProcessDescriptor = false

    /// `[WiFi] Interface=`: the interface to use (`wlan1`); none means the only one, else the first without the default
    /// route.
    var wifiInterface: String?

    static let standardPath = "/etc/accessory-setup/accessorysetupd.conf"
    private static let group = "Bluetooth"
    private static let view = "View"
    private static let wifi = "WiFi"
    private static let identity = "Identity"

    init() {}

    /// - Throws: the first problem, with file, line and key.
    init(path: String) throws(KeyFileProblem) {
        let file = try KeyFile(path: path)
        let known: [String: Set<String>] = [
            Self.group: ["Adapter", "ImmediateRSSI"], Self.view: ["Linger"], Self.wifi: ["Interface"],
            Self.identity: ["BusIdentity"],
        ]
        if let problem = file.unknown(besides: known).first { throw problem }
        if let value = try file.integer(Self.view, "Linger") {
            guard (0...3600).contains(value) else { throw file.problem(Self.view, "Linger", "\(value): must be 0 to 3600") }
            linger = value
        }
        switch try file.string(Self.identity, "BusIdentity") {
        case nil, "any": break
        case "pidfd-only": needsProcessDescriptor = true
        case let other?: throw file.problem(Self.identity, "BusIdentity", "\(other): must be any or pidfd-only")
        }
        wifiInterface = try file.string(Self.wifi, "Interface")
        if let wifiInterface,
            !(1...15).contains(wifiInterface.utf8.count) || wifiInterface.contains(where: { $0 == "/" || $0.isWhitespace })
        {
            throw file.problem(Self.wifi, "Interface", "\(wifiInterface): is not the name of an interface")
        }
        adapters = try file.list(Self.group, "Adapter").map { text throws(KeyFileProblem) in
            if let address = BluetoothAddress(text.uppercased(), kind: .public) { return address.description }
            guard text.hasPrefix("hci"), Int(text.dropFirst(3)) != nil else {
                throw file.problem(Self.group, "Adapter", "\(text): is neither an adapter's name, such as hci0, nor its address")
            }
            return text
        }
        if let value = try file.integer(Self.group, "ImmediateRSSI") {
            guard (-100...0).contains(value) else { throw file.problem(Self.group, "ImmediateRSSI", "\(value): must be −100 to 0") }
            immediateRSSI = value
        }
    }
}
