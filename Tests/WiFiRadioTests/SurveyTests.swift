// SPDX-License-Identifier: Apache-2.0
// A network is a name and a kind of protection: which scan rules a join out, and which network iwd may be answered for.

import AccessoryEngine
import AccessoryModel
import DBusKit
import Testing

@testable import WiFiRadio

@Suite struct SurveyTests {
    private let plug = SSID("Plug-1")!
    private let passphrase = NetworkJoin.Passphrase("sixsided1")
    private var protected: NetworkJoin { NetworkJoin(ssid: plug, passphrase: passphrase) }
    private var open: NetworkJoin { NetworkJoin(ssid: plug) }

    private func survey(_ kinds: NetworkSecurity...) -> Survey {
        Survey(of: kinds.map { WiFiNetwork(ssid: plug, rssi: -50, security: $0, band: nil) }, ended: 1_000_000)
    }

    @Test func aJoinIsMeantForOneKindOfProtection() {
        #expect(NetworkSecurity.allCases.filter(open.suits) == [.open, .owe])
        #expect(NetworkSecurity.allCases.filter(protected.suits) == [.wpa, .wpa2, .wpa2wpa3, .wpa3, .psk])
    }

    @Test func onlyWhatTheScanHeardIsRefused() {
        for (heard, join, message) in [
            (survey(.open), protected, "in the scan 2 s ago: Plug-1 is open, and a passphrase was given"),
            (survey(.wpa2), open, "in the scan 2 s ago: Plug-1 requires a passphrase (wpa2), and none was given"),
            (survey(.wep), protected, "in the scan 2 s ago: Plug-1 uses WEP, which is insecure and not supported"),
            (survey(.enterprise), open, "in the scan 2 s ago: Plug-1 uses enterprise authentication, which is not supported"),
            (survey(.open, .wpa2), protected, nil), (survey(.open, .wpa2), open, nil), (survey(), open, nil),
        ] {
            #expect(heard.obstacle(to: join, now: 3_500_000)?.message == message)
        }
    }

    @Test func aRecentScanIsBelieved() {
        #expect(survey(.open, .psk).hasTarget(of: protected, now: 10_900_000))
        #expect(!survey(.open, .psk).hasTarget(of: protected, now: 11_000_000))
        #expect(!survey(.open).hasTarget(of: protected, now: 1_000_000))
    }

    @Test func iwdIsAnsweredForTheNetworkOfTheJoin() throws {
        let station: ObjectPath = "/net/connman/iwd/0/4"
        let target = IWD.Target(protected, "Plug-1", on: station)
        for (path, isTarget) in [
            ("/net/connman/iwd/0/4/506c75672d31_psk", true), ("/net/connman/iwd/0/4/506c75672d31_open", false),
            ("/net/connman/iwd/0/5/506c75672d31_psk", false), ("/net/connman/iwd/0/4/506c75672d3131_psk", false),
            ("/net/connman/iwd/0/4", false),
        ] {
            #expect(target.isAt(try #require(ObjectPath(path))) == isTarget)
        }
        #expect(IWD.Target(open, "Plug-1", on: station).isAt("/net/connman/iwd/0/4/506c75672d31_open"))
    }
}
