// SPDX-License-Identifier: Apache-2.0
// What a central manager tells its app. Apple's optional methods have default implementations here.

public import Foundation

/// Seconds since the beginning of 2001, which Foundation on Linux has no name for.
public typealias CFAbsoluteTime = Double

/// A number of seconds.
public typealias CFTimeInterval = Double

/// Now, to compare with the time of a disconnection. Foundation on Linux does not have it.
public func CFAbsoluteTimeGetCurrent() -> CFAbsoluteTime { Date().timeIntervalSinceReferenceDate }

/// Is told what a central manager finds and connects.
public protocol CBCentralManagerDelegate: NSObjectProtocol {
    /// Whether Bluetooth can be used has changed. Below ``CBManagerState/poweredOn`` the scan has stopped, and all
    /// links are down: each was told before this.
    func centralManagerDidUpdateState(_ central: CBCentralManager)

    /// Links of the app's that an earlier process of it has left standing are this manager's now. Comes before the
    /// first state, to a manager with ``CBCentralManagerOptionRestoreIdentifierKey``, and only when there is such a
    /// link: the view keeps links for 30 s after the process has gone. Nothing starts an app again for this.
    func centralManager(_ central: CBCentralManager, willRestoreState dict: [String: Any])

    /// An accessory of the app's was heard.
    ///
    /// - Parameter RSSI: dBm; 127 when it is not known.
    func centralManager(
        _ central: CBCentralManager, didDiscover peripheral: CBPeripheral, advertisementData: [String: Any],
        rssi RSSI: NSNumber)

    /// The link is up. Services are known only after they are asked for.
    func centralManager(_ central: CBCentralManager, didConnect peripheral: CBPeripheral)

    /// The link cannot be made, and is not tried any more.
    func centralManager(_ central: CBCentralManager, didFailToConnect peripheral: CBPeripheral, error: (any Error)?)

    /// The link is down.
    ///
    /// - Parameter error: nil when the app wanted it.
    func centralManager(
        _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, error: (any Error)?)

    /// The link is down. Who implements this is not told by ``centralManager(_:didDisconnectPeripheral:error:)``.
    ///
    /// - Parameters:
    ///   - timestamp: when it was lost.
    ///   - isReconnecting: whether it is made again without the app (``CBConnectPeripheralOptionEnableAutoReconnect``).
    ///   - error: nil when the app wanted it.
    func centralManager(
        _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, timestamp: CFAbsoluteTime,
        isReconnecting: Bool, error: (any Error)?)

    /// A link of the app's has come or gone, whoever made it: see
    /// ``CBCentralManager/registerForConnectionEvents(options:)``.
    func centralManager(
        _ central: CBCentralManager, connectionEventDidOccur event: CBConnectionEvent, for peripheral: CBPeripheral)

    /// Never called: there is no ANCS on Linux.
    func centralManager(_ central: CBCentralManager, didUpdateANCSAuthorizationFor peripheral: CBPeripheral)
}

/// Apple's optional methods: by default they do nothing.
extension CBCentralManagerDelegate {
    public func centralManager(_ central: CBCentralManager, willRestoreState dict: [String: Any]) {}
    public func centralManager(
        _ central: CBCentralManager, didDiscover peripheral: CBPeripheral, advertisementData: [String: Any],
        rssi RSSI: NSNumber
    ) {}
    public func centralManager(_ central: CBCentralManager, didConnect peripheral: CBPeripheral) {}
    public func centralManager(
        _ central: CBCentralManager, didFailToConnect peripheral: CBPeripheral, error: (any Error)?
    ) {}
    public func centralManager(
        _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, error: (any Error)?
    ) {}

    /// Calls the form without the time.
    public func centralManager(
        _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, timestamp: CFAbsoluteTime,
        isReconnecting: Bool, error: (any Error)?
    ) {
        centralManager(central, didDisconnectPeripheral: peripheral, error: error)
    }

    public func centralManager(
        _ central: CBCentralManager, connectionEventDidOccur event: CBConnectionEvent, for peripheral: CBPeripheral
    ) {}
    public func centralManager(_ central: CBCentralManager, didUpdateANCSAuthorizationFor peripheral: CBPeripheral) {}
}
