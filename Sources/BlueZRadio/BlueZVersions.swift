// SPDX-License-Identifier: Apache-2.0
// Where versions of bluetoothd differ in what the radio does, in one place: what each was seen to do, and what that
// means for us. Nothing asks for a version: what is new is used where it is there, and what works around an old one
// does no harm to others. Seen on 5.66 (Debian 12), 5.82 (Debian 13) and 5.87 (testing);
// Tests/Lab/checks/bluez_versions.py holds each of them to it. Besides what stands below, always:
// - After a connection the filter of the scan is set again (`Discovery.renewFilter`): 5.66 loses it (bluez#763).
// - A device whose pairing failed is removed (`FailedPairings.forgetUnpaired`): 5.66 empties its `UUIDs` for good.
// - A known accessory is found by the service it was set up by (`Ledger.recalling`): once its services are known, 5.66
//   does not tell any more which ones it only advertises.
// - The view answers `Connect` itself for what is connected and has a random address (`BlueZSide.connect`): up to 5.87
//   bluetoothd pages the classic side then if the advert's flags do not say that there is none, and ends the link.

internal import BlueZInterfaces
internal import DBusKit

enum BlueZVersions {
    /// What discovery asks for, and nothing else: `UUIDs` in the filter misses accessories with service data only (all
    /// versions) and crashes 5.87 (bluez#2282); the RSSI threshold is not reliable (all).
    static let discoveryFilter = DBusValue.vardict(["Transport": .string("le"), "DuplicateData": .boolean(true)])

    /// Whether a device's keys are kept. `Paired` is also true while a link lasts whose keys are not kept: such a
    /// device is to be paired again. `Bonded` tells them apart; bluetoothd has it since 5.65.
    static func isBonded(paired: Bool, bonded: Bool?) -> Bool { bonded ?? paired }

    /// Whether a device that is paired already has no classic side to pair. Asked to pair that, 5.66 never answers;
    /// 5.82 and 5.87 answer `AlreadyExists`, as for one with keys for both. Then its advert tells: “BR/EDR Not
    /// Supported”, bit 2 of the flags (Core Specification Supplement, Part A, 1.3), which 5.66 keeps to itself.
    static func hasNoClassicSide(_ device: Properties<Device1>) -> Bool {
        device.advertisingFlags.map { $0 & 4 != 0 } == true
    }

    /// How long the classic side's `Pair()` may take without a person: 5.66 never answers for a transport that the
    /// adapter or the accessory has not. A page takes 5 s, pairing little more.
    static let classicPairingTimeout = Duration.seconds(20)

    /// Whether a device lets us say which side a connection is made to first. Of one with two sides, `Connect` takes
    /// the one that was used last, and an app that wants attributes would get a link without them. Since 5.80, where
    /// bluetoothd runs with its experimental interfaces.
    static func choosesBearer(_ device: Properties<Device1>) -> Bool { device.preferredBearer != nil }
}
