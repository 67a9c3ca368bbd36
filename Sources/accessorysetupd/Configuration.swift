// SPDX-License-Identifier: Apache-2.0
// The settings of accessorysetupd.conf. Each has a default; a mistake is an error at the start.

internal import AccessoryModel
internal import BlueZRadio
internal import KeyFiles

struct Configuration {
    /// `[Bluetooth] Adapter=`: adapters by name (`hci1`) or address; empty for all.
    var adapters: [String] = []
    /// `[Bluetooth] ImmediateRSSI=`: the threshold of `immediate`, dBm, −100…0.
    var immediateRSSI = -55
    /// `[View] Linger=`: seconds that an app's links outlive its last connection to the scoped view, 0…3600.
    var linger = 30

    /// `[Presence] Duty=`: how much of the time observed accessories may be searched for, percent, 0…100.
    var presenceDuty = 2
    /// `[Presence] Monitors=`: the use of advertisement monitors.
    var monitors = MonitorUse.offloaded

    /// `[Identity] BusIdentity=pidfd-only`: callers on a bus without process descriptors are refused.
    var needsProcessDescriptor = false

    /// `[WiFi] Interface=`: the interface (`wlan1`); nil for the only one, else the first without the default route.
    var wifiInterface: String?

    static let standardPath = "/etc/accessory-setup/accessorysetupd.conf"
    private static let bluetooth = "Bluetooth"
    private static let view = "View"
    private static let wifi = "WiFi"
    private static let identity = "Identity"
    private static let presence = "Presence"

    init() {}

    /// - Throws: the first problem, with file, line and key.
    init(path: String) throws(KeyFileProblem) {
        let file = try KeyFile(path: path)
        let schema: [String: Set<String>] = [
            Self.bluetooth: ["Adapter", "ImmediateRSSI"], Self.view: ["Linger"], Self.wifi: ["Interface"],
            Self.identity: ["BusIdentity"], Self.presence: ["Duty", "Monitors"],
        ]
        if let problem = file.unknown(besides: schema).first { throw problem }
        if let value = try file.integer(Self.view, "Linger") {
            guard (0...3600).contains(value) else { throw file.problem(Self.view, "Linger", "\(value): must be 0 to 3600") }
            linger = value
        }
        if let value = try file.integer(Self.presence, "Duty") {
            guard (0...100).contains(value) else { throw file.problem(Self.presence, "Duty", "\(value): must be 0 to 100") }
            presenceDuty = value
        }
        if let word = try file.string(Self.presence, "Monitors") {
            guard let value = MonitorUse(rawValue: word) else {
                let words = MonitorUse.allCases.map(\.rawValue).joined(separator: ", ")
                throw file.problem(Self.presence, "Monitors", "\(word): must be one of \(words)")
            }
            monitors = value
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
            throw file.problem(Self.wifi, "Interface", "\(wifiInterface): not the name of an interface")
        }
        adapters = try file.list(Self.bluetooth, "Adapter").map { text throws(KeyFileProblem) in
            if let address = BluetoothAddress(text.uppercased(), kind: .public) { return address.description }
            guard text.hasPrefix("hci"), Int(text.dropFirst(3)) != nil else {
                throw file.problem(Self.bluetooth, "Adapter", "\(text): neither an adapter's name, such as hci0, nor its address")
            }
            return text
        }
        if let value = try file.integer(Self.bluetooth, "ImmediateRSSI") {
            guard (-100...0).contains(value) else {
                throw file.problem(Self.bluetooth, "ImmediateRSSI", "\(value): must be −100 to 0")
            }
            immediateRSSI = value
        }
    }
}
