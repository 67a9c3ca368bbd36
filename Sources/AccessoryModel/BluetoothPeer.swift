// SPDX-License-Identifier: Apache-2.0
// A Bluetooth device as one adapter of the machine knows it: BlueZ has objects, keys and links for each adapter.

/// A device, and the adapter that it is reached by.
public struct BluetoothPeer: Hashable, Sendable, CustomStringConvertible {
    /// The device's address.
    public var address: BluetoothAddress
    /// The adapter's address, since its name (`hci0`) can change at a restart; nil where it is not known: then the
    /// adapter that has the bond counts.
    public var adapter: BluetoothAddress?

    /// Stores its arguments.
    public init(_ address: BluetoothAddress, adapter: BluetoothAddress?) {
        self.address = address
        self.adapter = adapter
    }

    /// Both addresses.
    public var description: String { adapter.map { "\(address) on \($0)" } ?? "\(address)" }

    /// Whether both can be on one adapter.
    public func shares(_ other: BluetoothAddress?) -> Bool { adapter == nil || other == nil || adapter == other }
}
