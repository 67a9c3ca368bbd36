// SPDX-License-Identifier: Apache-2.0
// A file that imports CoreBluetooth alone, as managers of a link do: the model is observable, and the words of Apple's
// earlier systems are there.

import CoreBluetooth

@Observable public final class LinkModel: NSObject, CBCentralManagerDelegate {
    public private(set) var state = CBManagerState.unknown
    /// The service that the link is for; empty until a view sets it.
    public var service = CBUUID()

    /// How long ago the link broke.
    public private(set) var age: CFTimeInterval?

    public func centralManagerDidUpdateState(_ central: CBCentralManager) { state = central.state }

    public func centralManager(
        _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, timestamp: CFAbsoluteTime,
        isReconnecting: Bool, error: (any Error)?
    ) {
        age = Self.age(of: timestamp)
    }

    public static func age(of timestamp: CFAbsoluteTime) -> CFTimeInterval { CFAbsoluteTimeGetCurrent() - timestamp }
}

public func mayAdvertise() -> CBPeripheralManagerAuthorizationStatus { CBPeripheralManager.authorizationStatus() }
