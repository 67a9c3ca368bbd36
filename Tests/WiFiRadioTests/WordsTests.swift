// SPDX-License-Identifier: Apache-2.0
// The words of the Wi-Fi services and their meaning: protection, strength, bands, routes, and how an attempt to join
// has ended.

import AccessoryEngine
import AccessoryModel
import DBusKit
import Foundation
import TestSupport
import Testing

@testable import WiFiRadio

@Suite struct WordsTests {
    /// A message with the given arguments.
    private func message(_ arguments: [DBusValue]) throws -> Message {
        try Message.signal(path: "/x", interface: "a.b", member: "C", arguments)
    }

    /// The result of `read` for a message's first argument.
    private func reading<Value>(_ argument: DBusValue, _ read: (inout ValueCursor) -> Value?) throws -> Value? {
        var value: Value?
        try message([argument]).withArguments { value = read(&$0) }
        return value
    }

    /// An `a{sv}` whose keys may come twice.
    private func entries(_ values: [(String, DBusValue)]) -> DBusValue {
        .dictionary(key: "s", value: "v", values.map { DBusValue.Entry(.string($0.0), .variant($0.1)) })
    }

    private func bss(rsn: [String]? = nil, wpa: [String]? = nil, privacy: Bool = false) -> [String: DBusValue] {
        var values: [String: DBusValue] = ["SSID": .bytes(Array("Dice".utf8)), "Signal": .int16(-47), "Frequency": .uint16(5180)]
        values["RSN"] = .vardict(rsn.map { ["KeyMgmt": .strings($0)] } ?? [:])
        values["WPA"] = .vardict(wpa.map { ["KeyMgmt": .strings($0)] } ?? [:])
        values["Privacy"] = .boolean(privacy)
        return values
    }

    /// No route, no name server, and a connection that is this user's alone, as Docs/WiFi.md promises.
    @Test func whatNetworkManagerIsAskedFor() throws {
        let join = NetworkJoin(ssid: try #require(SSID("Dice")), passphrase: nil, isHidden: false)
        func groups(_ user: String?) -> [String: [String: DBusValue]] {
            let settings = ManagedNetwork.settings(join, security: .open, interface: "wlan0", user: user)
            return Dictionary(
                uniqueKeysWithValues: (settings.entries ?? []).map { ($0.key.stringValue ?? "", $0.value.vardictValue ?? [:]) })
        }
        let asked = groups("accessory-setup")
        for (group, keys) in [
            ("ipv4", ["never-default", "ignore-auto-routes", "ignore-auto-dns"]), ("ipv6", ["never-default"]),
        ] {
            for key in keys { #expect(asked[group]?[key]?.booleanValue == true, "\(group).\(key)") }
        }
        #expect(asked["ipv4"]?["method"] == .string("auto") && asked["ipv6"]?["method"] == .string("link-local"))
        #expect(asked["connection"]?["permissions"] == .strings(["user:accessory-setup:"]))
        #expect(groups(nil)["connection"]?["permissions"] == nil)
    }

    @Test func whatWpaSupplicantSays() throws {
        for (values, security) in [
            (bss(), NetworkSecurity.open), (bss(privacy: true), .wep), (bss(wpa: ["wpa-psk"], privacy: true), .wpa),
            (bss(rsn: ["wpa-psk"], privacy: true), .wpa2), (bss(rsn: ["wpa-psk-sha256"], wpa: ["wpa-psk"], privacy: true), .wpa2),
            (bss(rsn: ["sae"], privacy: true), .wpa3), (bss(rsn: ["wpa-psk", "sae"], privacy: true), .wpa2wpa3),
            (bss(rsn: ["owe"], privacy: true), .owe), (bss(rsn: ["wpa-eap"], privacy: true), .enterprise),
            (bss(rsn: ["wpa-eap-suite-b-192"]), .enterprise),
        ] {
            let network = try reading(.vardict(values), SupplicantNetwork.scanResult)?.network
            #expect(network?.security == security)
            #expect(network?.rssi == -47 && network?.band == .ghz5)
        }
        var hidden = bss()
        for name in [[], [0, 0, 0, 0]] as [[UInt8]] {
            hidden["SSID"] = .bytes(name)
            #expect(try reading(.vardict(hidden), SupplicantNetwork.scanResult) == nil)
        }
        var old = bss()
        #expect(try reading(.vardict(old), SupplicantNetwork.scanResult)?.age == 0)
        old["Age"] = .uint32(7)
        #expect(try reading(.vardict(old), SupplicantNetwork.scanResult)?.age == 7)
    }

    @Test func oddTypesOfWpaSupplicant() throws {
        // Numbers of any width, variants in variants.
        var values = bss(rsn: ["sae"])
        values["Signal"] = .variant(.int64(-47))
        values["Frequency"] = .int32(5180)
        values["RSN"] = values["RSN"].map { .variant($0) }
        let network = WiFiNetwork(ssid: SSID("Dice")!, rssi: -47, security: .wpa3, band: .ghz5)
        #expect(try reading(.vardict(values), SupplicantNetwork.scanResult)?.network == network)
        // A value of another type is none, and the network is there all the same; not without its name.
        for (name, value) in [
            ("Signal", DBusValue.string("-47")), ("Frequency", .bytes([1])), ("Age", .string("9")), ("RSN", .string("sae")),
            ("RSN", .vardict(["KeyMgmt": .string("sae")])), ("RSN", .vardict(["KeyMgmt": .bytes(Array("sae".utf8))])),
            ("WPA", .array(of: "s", [.string("KeyMgmt")])), ("Privacy", .uint32(1)),
        ] {
            var odd = bss()
            odd[name] = value
            let read = try reading(.vardict(odd), SupplicantNetwork.scanResult)
            #expect(read?.network.ssid == network.ssid && read?.network.security == .open && read?.age == 0, "\(name): \(value)")
            #expect((read?.network.rssi == nil) == (name == "Signal") && (read?.network.band == nil) == (name == "Frequency"))
        }
        for value in [DBusValue.string("Dice"), .array(of: "q", [.uint16(1)]), .uint32(1)] {
            #expect(try reading(.vardict(["SSID": value]), SupplicantNetwork.scanResult) == nil)
        }
        // Of a repeated key, the last value counts.
        let name = DBusValue.bytes(Array("Dice".utf8))
        let keys = DBusValue.vardict(["KeyMgmt": .strings(["sae"])])
        let twice = [("SSID", DBusValue.bytes([1])), ("RSN", keys), ("Signal", .int16(-1)), ("SSID", name), ("RSN", .vardict([:]))]
        let read = try reading(entries(twice + [("Signal", .string(""))]), SupplicantNetwork.scanResult)?.network
        #expect(read == WiFiNetwork(ssid: network.ssid, rssi: nil, security: .open, band: nil))
        #expect(try reading(entries([("SSID", name), ("SSID", .string(""))]), SupplicantNetwork.scanResult) == nil)
        // No dictionary of properties at all.
        for value in [
            DBusValue.string("SSID"), .vardict([:]), .dictionary(key: "q", value: "v", [.init(.uint16(1), .variant(name))]),
        ] {
            #expect(try reading(value, SupplicantNetwork.scanResult) == nil)
            #expect(try reading(value, ManagedNetwork.scanResult) == nil)
        }
    }

    @Test func whatHasChanged() throws {
        let values = DBusValue.vardict(["State": .string("completed"), "Scanning": .boolean(true), "BSSs": .objectPaths(["/1"])])
        let names: [StaticString] = ["State", "CurrentNetwork", "Scanning"]
        func changed(_ arguments: DBusValue...) throws -> [String: DBusValue]? {
            try message([.string("a.b")] + arguments).changedProperties(among: names)
        }
        #expect(try changed(values, .strings([])) == ["State": .string("completed"), "Scanning": .boolean(true)])
        // Gone: an empty text.
        #expect(
            try changed(.vardict(["State": .variant(.int32(1))]), .strings(["CurrentNetwork", "BSSs"]))
                == ["State": .int32(1), "CurrentNetwork": .string("")])
        #expect(try changed(.vardict(["Mode": .byte(1)]), .strings([])) == [:])
        #expect(try changed(values, .uint32(1)) == ["State": .string("completed"), "Scanning": .boolean(true)])
        // Others than the signal's types.
        #expect(try changed(values) == nil)
        #expect(try changed(values, .strings([]), .byte(1)) == nil)
        #expect(try changed(.strings(["State"]), .strings([])) == nil)
        #expect(try message([]).changedProperties(among: names) == nil)
    }

    @Test func whatNetworkManagerSays() throws {
        func point(_ rsn: UInt32, _ wpa: UInt32 = 0, _ flags: UInt32 = 1) -> [String: DBusValue] {
            [
                "Ssid": .bytes(Array("Dice".utf8)), "Strength": .byte(50), "Frequency": .uint32(2412), "RsnFlags": .uint32(rsn),
                "WpaFlags": .uint32(wpa), "Flags": .uint32(flags),
            ]
        }
        for (values, security) in [
            (point(0, 0, 0), NetworkSecurity.open), (point(0), .wep), (point(0, 0x100), .wpa), (point(0x188), .wpa2),
            (point(0x488), .wpa3),
            (point(0x588), .wpa2wpa3), (point(0x888), .owe), (point(0x288), .enterprise),
        ] {
            #expect(try reading(.vardict(values), ManagedNetwork.scanResult)?.network.security == security)
        }
        var point = point(0x188)
        let network = WiFiNetwork(ssid: SSID("Dice")!, rssi: -70, security: .wpa2, band: .ghz2)
        // Never heard, unless it says when.
        for (lastSeen, expected) in [(nil, -1), (.string("7"), -1), (.int32(7), 7), (.int64(7), 7)] as [(DBusValue?, Int)] {
            point["LastSeen"] = lastSeen
            let read = try reading(.vardict(point), ManagedNetwork.scanResult)
            #expect(read?.network == network && read?.lastSeen == expected)
        }
        point["RsnFlags"] = .string("392")
        #expect(try reading(.vardict(point), ManagedNetwork.scanResult)?.network.security == .wep)
        point["Ssid"] = .string("Dice")
        #expect(try reading(.vardict(point), ManagedNetwork.scanResult) == nil)
        // NetworkManager's own: 0 % at −100 dBm, 100 % at −40.
        #expect([0, 50, 100, 255].map(ManagedNetwork.rssi) == [-100, -70, -40, -40])
    }

    @Test func accessPointsOfOneNameAreOneNetwork() {
        func point(_ name: String, _ rssi: Int?, _ band: NetworkBand) -> WiFiNetwork {
            WiFiNetwork(ssid: SSID(name)!, rssi: rssi, security: .wpa2, band: band)
        }
        let merged = WiFiNetwork.merged([
            point("b", -60, .ghz2), point("a", nil, .ghz5), point("b", -50, .ghz5), point("b", -70, .ghz6), point("a", -90, .ghz2),
        ])
        #expect(merged == [point("a", -90, .ghz2), point("b", -50, .ghz5)])
    }

    @Test func bandsByFrequency() {
        for (frequency, band) in [
            (2412, NetworkBand.ghz2), (2484, .ghz2), (5180, .ghz5), (5885, .ghz5), (5955, .ghz6), (7115, .ghz6),
        ] {
            #expect(NetworkBand(frequency: frequency) == band)
        }
        #expect(NetworkBand(frequency: 868) == nil && NetworkBand(frequency: 60480) == nil)
    }

    @Test func namesForPeople() {
        #expect(SSID([0x44, 0xFF])?.description == "D\u{FFFD}" && SSID([0x44, 0xFF])?.text == nil)
        #expect(SSID("Würfel")?.text == "Würfel")
        // Nothing of a name reaches the terminal as an order.
        #expect(SSID("\u{1B}[2Jx")?.description == "\u{FFFD}[2Jx")
        #expect(SSID([]) == nil && SSID([0, 0]) == nil && SSID([UInt8](repeating: 1, count: 33)) == nil)
        #expect(SSID([0, 1]) != nil)
    }

    // MARK: Joining

    @Test func whatIsAskedOfWpaSupplicant() {
        let name = SSID([0x44, 0xFF])!
        let open = SupplicantNetwork.arguments(NetworkJoin(ssid: name, isHidden: true), knowsSAE: true)
        #expect(open == ["ssid": .bytes([0x44, 0xFF]), "scan_ssid": .int32(1), "key_mgmt": .string("NONE")])
        let passphrase = NetworkJoin.Passphrase("sixsided1")
        let both = SupplicantNetwork.arguments(NetworkJoin(ssid: name, passphrase: passphrase), knowsSAE: true)
        #expect(both["psk"] == .string("sixsided1") && both["key_mgmt"]?.stringValue?.contains("SAE") == true)
        let old = SupplicantNetwork.arguments(NetworkJoin(ssid: name, passphrase: passphrase), knowsSAE: false)
        #expect(old["key_mgmt"]?.stringValue?.contains("SAE") == false)
        let key = NetworkJoin.Passphrase(String(repeating: "0f", count: 32))
        let raw = SupplicantNetwork.arguments(NetworkJoin(ssid: name, passphrase: key), knowsSAE: true)
        #expect(raw["psk"] == .bytes([UInt8](repeating: 0x0F, count: 32)) && raw["key_mgmt"] == .string("WPA-PSK"))
        for (text, hex) in [("\"Dice\"", "44696365"), ("44ff", "44ff"), ("44FF", "44ff")] {
            #expect(SupplicantNetwork.isNamed(["Properties": .vardict(["ssid": .string(text)])], hex: hex))
        }
        #expect(!SupplicantNetwork.isNamed(["Properties": .vardict(["ssid": .string("\"Home\"")])], hex: "44696365"))
    }

    @Test func howAnAttemptEnds() {
        let ours: ObjectPath = "/net/1"
        func state(_ name: String) -> [String: DBusValue] { ["State": .string(name)] }
        func attempt(_ changes: [[String: DBusValue]]) -> Result<Void, RadioFailure>? {
            let attempt = SupplicantAttempt()
            attempt.isSelected = true
            for change in changes {
                if let verdict = attempt.verdict(on: change, network: ours) { return verdict }
            }
            return nil
        }
        let current: [String: DBusValue] = ["CurrentNetwork": .objectPath(ours)]
        #expect((try? attempt([state("associating"), current, state("4way_handshake"), state("completed")])?.get()) != nil)
        #expect(attempt([state("completed")]) == nil)
        for (changes, reason) in [
            ([current, state("4way_handshake"), state("disconnected")], "the passphrase is wrong"),
            ([current, ["DisconnectReason": .int32(15)]], "the passphrase is wrong"),
            ([current, ["AuthStatusCode": .int32(15)]], "the passphrase is wrong"),
            ([current, ["AssocStatusCode": .int32(17)]], "refused"),
        ] {
            guard case .failure(let failure)? = attempt(changes) else {
                Issue.record("no failure of \(changes)")
                continue
            }
            #expect(failure.message.contains(reason))
        }
        // A number that no reason has.
        #expect(attempt([current, ["DisconnectReason": .int64(.min)]]) == nil)
    }

    /// Its addresses may take long, and the way there may not.
    @Test func whenAnAttemptOfNetworkManagersIsConnected() {
        var attempt = ManagedAttempt(isOverIWD: true)
        for state in [40, 50, 60] { attempt.deviceChanged([state, state - 10, 0]) }
        #expect(!attempt.isConnected)
        attempt.deviceChanged([70, 60, 0])
        #expect(attempt.isConnected)
        attempt.deviceChanged([40, 70, 0])
        #expect(!attempt.isConnected)
    }

    @Test func howAnAttemptOfNetworkManagersEnds() {
        let (disconnected, prepare, config, failed, deactivating) = (30, 40, 50, 120, 110)
        let (activating, activated, deactivated) = (1, 2, 4)
        enum Said { case device(Int, Int), connection(Int) }
        /// Its failures; nil for success.
        func verdicts(_ said: [Said], overIWD: Bool = true) -> [RadioFailure?] {
            var attempt = ManagedAttempt(isOverIWD: overIWD)
            var verdicts: [RadioFailure?] = []
            var before = disconnected
            for each in said {
                switch each {
                case .device(let state, let reason):
                    attempt.deviceChanged([state, before, reason])
                    before = state
                case .connection(let state):
                    switch attempt.verdict(on: state) {
                    case .success: verdicts.append(nil)
                    case .failure(let failure): verdicts.append(failure)
                    case nil: break
                    }
                }
            }
            return verdicts
        }
        #expect(verdicts([.connection(activating), .connection(activated)]) == [nil])
        #expect(
            verdicts([.device(prepare, 0), .device(failed, 7), .connection(deactivated)])
                == [.wrongPassphrase])
        #expect(
            verdicts([.connection(activating), .device(failed, 10), .connection(deactivated)]) == [.refusedOrPassphrase])
        // The way home is ended for it, and says so; then it begins.
        #expect(
            verdicts([.device(deactivating, 60), .device(failed, 8), .device(prepare, 0), .connection(deactivated)])
                == [ManagedNetwork.failure(nil)])
        // As 1.42 over iwd was seen to: the way home is ended, and begun anew before it.
        #expect(
            verdicts([.device(deactivating, 60), .device(failed, 8), .device(deactivating, 60), .connection(deactivated)])
                == [.displaced])
        // The same, a little later: it has begun when the way home is.
        let replaced: [Said] = [.device(prepare, 0), .device(config, 0), .device(deactivating, 60), .device(disconnected, 8)]
        #expect(verdicts(replaced + [.connection(deactivated)]) == [.displaced])
        #expect(
            verdicts([.device(prepare, 0), .device(config, 0), .device(disconnected, 8), .connection(deactivated)])
                == [.displaced])
        let wrong: [Said] = [.device(prepare, 0), .device(config, 0), .device(failed, 8), .connection(deactivated)]
        for overIWD in [true, false] { #expect(verdicts(wrong, overIWD: overIWD) == [.refusedOrPassphrase]) }
        // On the air it was, here.
        #expect(
            verdicts([.device(prepare, 0), .device(config, 0), .device(70, 0), .device(failed, 8), .connection(deactivated)])
                == [.refusedOrPassphrase])
        // That was the way home, which began before it: its turn comes, and it fails by itself.
        #expect(
            verdicts(replaced + [.device(prepare, 0), .device(failed, 7), .connection(deactivated)]) == [.wrongPassphrase])
        // Without iwd: another network was chosen.
        #expect(verdicts(replaced + [.connection(deactivated)], overIWD: false) == [ManagedNetwork.failure(60)])
        // Ended from outside, without another in its place.
        let ended: [Said] = [.device(prepare, 0), .device(config, 0), .device(deactivating, 39), .device(disconnected, 39)]
        #expect(verdicts(ended + [.connection(deactivated)]) == [ManagedNetwork.failure(nil)])
    }

    // MARK: Routes and services

    @Test func whoHasTheDefaultRoute() throws {
        let directory = try TemporaryDirectory()
        #expect(DefaultRoute.interfaces(in: directory.path) == [])
        try directory.write(
            "route",
            """
            Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
            eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
            wlan0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
            """)
        try directory.write(
            "ipv6_route",
            """
            00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003    wlan1
            00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo
            """)
        #expect(DefaultRoute.interfaces(in: directory.path) == ["eth0", "wlan1"])
    }

    @Test func whatAServiceSaysOfItself() {
        let traits = AwareSearch.traits(Array("model=Model D6\nvendor=Example = Co\nnonsense\n".utf8))
        #expect(traits == ["model": "Model D6", "vendor": "Example = Co"])
        #expect(AwareSearch.traits([0xFF, 0xFE]).isEmpty && AwareSearch.traits([]).isEmpty)
    }
}
