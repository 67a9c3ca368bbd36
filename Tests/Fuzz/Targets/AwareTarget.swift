// SPDX-License-Identifier: Apache-2.0
// Reports of Wi-Fi services about the networks that they hear: the service information of Wi-Fi Aware, which is bytes
// from strangers, and the properties of networks and of attempts to join them, of any type.

import AccessoryEngine
import AccessoryModel
import DBusKit

@testable import WiFiRadio

/// The properties that Wi-Fi services have.
let networkWords = Vocabulary(
    texts: [
        "Dice", "wlan0", "wpa-psk", "sae", "owe", "wpa-eap", "none", "completed", "4way_handshake", "disconnected", "scanning",
        "interface_disabled", "\"Dice\"", "44696365", "_dice._tcp", "02:00:00:00:00:01", "open", "psk", "8021x", "hotspot",
        "station", "connected", "disconnected", "connecting", "infrastructure",
    ],
    paths: [
        "/", "/fi/w1/wpa_supplicant1", "/fi/w1/wpa_supplicant1/Interfaces/0", "/fi/w1/wpa_supplicant1/Interfaces/0/BSSs/1",
        "/fi/w1/wpa_supplicant1/Interfaces/0/Networks/1", "/org/freedesktop/NetworkManager",
        "/org/freedesktop/NetworkManager/Devices/3", "/org/freedesktop/NetworkManager/AccessPoint/7",
        "/org/freedesktop/NetworkManager/ActiveConnection/2", "/net/connman/iwd", "/net/connman/iwd/0/4",
        "/net/connman/iwd/0/4/44696365_psk", "/net/connman/iwd/44696365_psk",
    ],
    keys: [
        ("SSID", "ay"), ("Signal", "n"), ("Frequency", "q"), ("Age", "u"), ("RSN", "a{sv}"), ("WPA", "a{sv}"), ("Privacy", "b"),
        ("KeyMgmt", "as"), ("Ssid", "ay"), ("Strength", "y"), ("LastSeen", "i"), ("RsnFlags", "u"), ("WpaFlags", "u"),
        ("Flags", "u"), ("CurrentNetwork", "o"), ("State", "s"), ("DisconnectReason", "i"), ("AuthStatusCode", "i"),
        ("AssocStatusCode", "i"), ("Properties", "a{sv}"), ("ssid", "s"), ("Capabilities", "a{sv}"), ("subscribe_id", "u"),
        ("publish_id", "u"), ("peer_addr", "s"), ("ssi", "ay"), ("Ifname", "s"), ("Interfaces", "ao"), ("BSSs", "ao"),
        ("Networks", "ao"), ("DeviceType", "u"), ("Interface", "s"), ("AccessPoints", "ao"), ("ActiveConnection", "o"),
        ("Name", "s"), ("Type", "s"), ("Powered", "b"), ("Device", "o"), ("ConnectedNetwork", "o"), ("KnownNetwork", "o"),
        ("Mode", "s"), ("Scanning", "b"), ("StateReason", "(uu)"), ("LastScan", "x"), ("Managed", "b"), ("WirelessEnabled", "b"),
    ])

func hearAware(_ bytes: UnsafeRawBufferPointer) {
    var input = Input(bytes)
    switch input.byte() % 4 {
    case 0, 1:
        for (key, value) in AwareSearch.traits(input.everything()) {
            expect(!key.contains("=") && !value.contains("\n"), "a trait of two lines: \(key)=\(value)")
            expect(ShownName.marked(value) == value, "a trait that is not marked: \(value.debugDescription)")
        }
    case 2:
        let value = input.value("a{sv}", networkWords)
        guard let message = try? Message.signal(path: "/x", interface: "a.b", member: "C", [value]) else { return }
        message.withArguments { if let (network, _) = ManagedNetwork.scanResult(&$0) { check(network) } }
        message.withArguments {
            if let (network, age) = SupplicantNetwork.scanResult(&$0) {
                check(network)
                expect(age >= 0, "heard in \(-age) s")
            }
        }
        let values = value.vardictValue ?? [:]
        _ = SupplicantNetwork.knowsSAE(values)
        _ = SupplicantNetwork.isNamed(values, hex: "44696365")
    default:
        let attempt = SupplicantAttempt()
        for _ in 0..<8 {
            attempt.isSelected = input.oneIn(2)
            _ = attempt.verdict(
                on: input.value("a{sv}", networkWords).vardictValue ?? [:],
                network: "/fi/w1/wpa_supplicant1/Interfaces/0/Networks/1")
            _ = attempt.isToBeAsked
        }
    }
}

private func check(_ network: WiFiNetwork) {
    expect(!network.ssid.bytes.isEmpty && network.ssid.bytes.count <= 32, "a name of \(network.ssid.bytes.count) bytes")
}
