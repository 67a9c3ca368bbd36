// SPDX-License-Identifier: Apache-2.0
// Devices that are still to be removed, and whether a bond found on one may be removed with it.

import DBusKit
import Testing

@testable import BlueZRadio

@Suite struct LeftoversTests {
    private let pink: ObjectPath = "/org/bluez/hci0/dev_C0_FF_EE_00_00_01"
    private let blue: ObjectPath = "/org/bluez/hci0/dev_C0_FF_EE_00_00_02"
    private var leftovers = Leftovers()

    @Test mutating func nothingIsLeftAtFirst() {
        #expect(!leftovers.contains(pink))
        #expect(leftovers.drain().isEmpty)
    }

    @Test mutating func drainedDevicesAreNoLongerLeft() {
        leftovers.add(pink, isOurs: true)
        leftovers.add(blue, isOurs: false)
        #expect(leftovers.contains(pink) && leftovers.contains(blue))
        #expect(leftovers.drain() == [pink: true, blue: false])
        #expect(!leftovers.contains(pink) && !leftovers.contains(blue))
        #expect(leftovers.drain().isEmpty)
    }

    /// A bond of ours stays ours after another failure, in either order.
    @Test(arguments: [[true, false], [false, true], [true, true]])
    func aBondOfOursStaysOurs(_ order: [Bool]) {
        var leftovers = Leftovers()
        for isOurs in order { leftovers.add(pink, isOurs: isOurs) }
        #expect(leftovers.drain() == [pink: true])
    }

    /// It is not kept beyond the removal: the next pairing of the same device is a matter of its own.
    @Test mutating func aDeviceThatIsAddedAgainBeginsAnew() {
        leftovers.add(pink, isOurs: true)
        _ = leftovers.drain()
        leftovers.add(pink, isOurs: false)
        #expect(leftovers.drain() == [pink: false])
    }
}
