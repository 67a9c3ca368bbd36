// SPDX-License-Identifier: Apache-2.0
// The differences between versions of bluetoothd that the radio depends on. No version is queried: new features are
// used where they are present, and workarounds for old versions do no harm on new ones. Observed on 5.66 (Debian 12),
// 5.82 (Debian 13) and 5.87 (testing), and checked on each by Tests/Lab/checks/bluez_versions.py. Independent of any
// value below:
// - After a connection the filter of the scan is set again (`Discovery.renewFilter`): 5.66 loses it (bluez#763).
// - A device whose pairing failed is removed (`FailedPairings.removeUnpaired`): 5.66 empties its `UUIDs` for good.
// - An accessory is recognized by the service that it was set up by (`Ledger.recalling`): once its services are
//   resolved, 5.66 no longer distinguishes those that are only advertised.
// - The view answers `Connect` itself for connected devices with a random address (`BlueZProxy.connect`): up to 5.87
//   bluetoothd then pages the classic side, unless the advert's flags exclude one, and ends the link.

internal import BlueZInterfaces
internal import DBusKit

enum BlueZVersions {
    /// The filter of discovery. `UUIDs` would miss accessories with service data only (all versions) and crash 5.87
    /// (bluez#2282); the RSSI threshold is not reliable (all).
    static let discoveryFilter = DBusValue.vardict(["Transport": .string("le"), "DuplicateData": .boolean(true)])

    /// Whether a device's keys are kept. `Paired` is also true during a link whose keys are not kept, and such a device
    /// must be paired again. `Bonded`, since 5.65, distinguishes the two.
    static func isBonded(paired: Bool, bonded: Bool?) -> Bool { bonded ?? paired }

    /// Whether a paired device has no classic side to pair. To `Pair()` for that, 5.66 never answers, and 5.82 and 5.87
    /// answer `AlreadyExists`, as for a device with keys for both sides. Then the advert decides: “BR/EDR Not
    /// Supported”, bit 2 of the flags (Core Specification Supplement, Part A, 1.3), which 5.66 does not export.
    static func hasNoClassicSide(_ device: Properties<Device1>) -> Bool {
        device.advertisingFlags.map { $0 & 4 != 0 } == true
    }

    /// How long the classic side's `Pair()` may take without a person: 5.66 never answers for a transport that the
    /// adapter or the accessory lacks. A page takes 5 s, pairing little more.
    static let classicPairingTimeout = Duration.seconds(20)

    /// Whether bluetoothd lets the side be chosen that a connection is made to. `Connect` takes the side that was used
    /// last, and an app that needs attributes would get a link without them. Since 5.80, with experimental interfaces.
    static func choosesBearer(_ device: Properties<Device1>) -> Bool { device.preferredBearer != nil }
}
