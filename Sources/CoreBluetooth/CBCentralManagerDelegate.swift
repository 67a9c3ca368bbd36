// SPDX-License-Identifier: Apache-2.0
// The callbacks from a central manager to its app. Apple's optional methods have default implementations here.

public import Foundation

/// Seconds since the beginning of 2001, which Foundation on Linux has no name for.
///
/// Source: Apple's documentation of `CFAbsoluteTime`.
public typealias CFAbsoluteTime = Double

/// A number of seconds.
///
/// Source: Apple's documentation of `CFTimeInterval`.
public typealias CFTimeInterval = Double

/// Now, to compare with the time of a disconnection. Foundation on Linux does not have it.
///
/// Source: Apple's documentation of `CFAbsoluteTimeGetCurrent()`.
public func CFAbsoluteTimeGetCurrent() -> CFAbsoluteTime { Date().timeIntervalSinceReferenceDate }

/// Receives the callbacks of a central manager.
///
/// Source: Apple's documentation of `CBCentralManagerDelegate`.
public protocol CBCentralManagerDelegate: NSObjectProtocol {
    /// Called on the app's queue when the availability of Bluetooth has changed. Below ``CBManagerState/poweredOn`` the
    /// scan has stopped and all links are down; the delegate has received each disconnection before this call.
    func centralManagerDidUpdateState(_ central: CBCentralManager)

    /// Called on the app's queue when the manager has taken over links that an earlier process of the app left
    /// standing. The call comes before the first state, only to a manager with
    /// ``CBCentralManagerOptionRestoreIdentifierKey``, and only when such a link exists: the view keeps links for 30 s
    /// after the process has gone. The system does not restart an app for this.
    func centralManager(_ central: CBCentralManager, willRestoreState dict: [String: Any])

    /// Called on the app's queue when one of the app's accessories was heard.
    ///
    /// - Parameters:
    ///   - central: the manager that scans.
    ///   - peripheral: the accessory. The app must keep it to connect it.
    ///   - advertisementData: the contents of the advertisement, under the keys that begin with `CBAdvertisementData`.
    ///   - RSSI: dBm; 127 when it is not known.
    func centralManager(
        _ central: CBCentralManager, didDiscover peripheral: CBPeripheral, advertisementData: [String: Any],
        rssi RSSI: NSNumber)

    /// Called on the app's queue when the link is up. Services are known only after the app has asked for them.
    func centralManager(_ central: CBCentralManager, didConnect peripheral: CBPeripheral)

    /// Called on the app's queue when the link cannot be made and the manager has stopped trying.
    func centralManager(_ central: CBCentralManager, didFailToConnect peripheral: CBPeripheral, error: (any Error)?)

    /// Called on the app's queue when the link is down.
    ///
    /// - Parameters:
    ///   - central: the manager.
    ///   - peripheral: the accessory.
    ///   - error: nil when the app wanted it.
    func centralManager(
        _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, error: (any Error)?)

    /// Called on the app's queue when the link is down. A delegate that implements this method receives no calls of
    /// ``centralManager(_:didDisconnectPeripheral:error:)``.
    ///
    /// - Parameters:
    ///   - central: the manager.
    ///   - peripheral: the accessory.
    ///   - timestamp: when it was lost, in seconds since the beginning of 2001.
    ///   - isReconnecting: whether it is made again without the app (``CBConnectPeripheralOptionEnableAutoReconnect``).
    ///   - error: nil when the app wanted it.
    func centralManager(
        _ central: CBCentralManager, didDisconnectPeripheral peripheral: CBPeripheral, timestamp: CFAbsoluteTime,
        isReconnecting: Bool, error: (any Error)?)

    /// Called on the app's queue when a link of the app has come or gone, whichever program made it; see
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
