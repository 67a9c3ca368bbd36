// SPDX-License-Identifier: Apache-2.0
// The peripheral role: an app that uses it compiles, and learns from the state that the role is unsupported. A grant
// opens accessories to an app, not the radio.

public import Dispatch
public import Foundation

/// A channel's number.
public typealias CBL2CAPPSM = UInt16

/// A channel to a peer. There is none on Linux: a descriptor from the daemon would be a way past the view.
///
/// Source: Apple's documentation of `CBL2CAPChannel`.
open class CBL2CAPChannel: NSObject {
    init(_ psm: CBL2CAPPSM) {
        storedPSM = psm
    }

    private let storedPSM: CBL2CAPPSM
    /// The other end.
    open var peer: CBPeer! { nil }
    /// Always nil: a stream of received data.
    open var inputStream: InputStream! { nil }
    /// Always nil: a stream of data to send.
    open var outputStream: OutputStream! { nil }
    /// The channel's number.
    open var psm: CBL2CAPPSM { storedPSM }
}

/// A central that uses the app's services. There is none on Linux.
///
/// Source: Apple's documentation of `CBCentral`.
open class CBCentral: CBPeer {
    /// Bytes of one notification.
    open var maximumUpdateValueLength: Int { 20 }
}

/// A request of a central's. There is none on Linux.
///
/// Source: Apple's documentation of `CBATTRequest`.
open class CBATTRequest: NSObject {
    init(_ central: CBCentral, _ characteristic: CBCharacteristic) {
        storedCentral = central
        storedCharacteristic = characteristic
    }

    private let storedCentral: CBCentral
    private let storedCharacteristic: CBCharacteristic
    /// Who asks.
    open var central: CBCentral { storedCentral }
    /// The requested characteristic.
    open var characteristic: CBCharacteristic { storedCharacteristic }
    /// From which byte on.
    open var offset: Int { 0 }
    /// The value to write, or the answer.
    open var value: Data?
}

/// How fast a central is served.
public enum CBPeripheralManagerConnectionLatency: Int, Sendable {
    /// Fast.
    case low = 0
    /// Between.
    case medium = 1
    /// Sparing.
    case high = 2
}

/// Whether an app may share data while it is not in front. Apple's earlier name for ``CBManagerAuthorization``.
///
/// Source: Apple's documentation of `CBPeripheralManagerAuthorizationStatus`; the raw values are Apple's.
@available(*, deprecated, message: "Use CBManagerAuthorization instead")
public enum CBPeripheralManagerAuthorizationStatus: Int, Sendable {
    /// Not used on Linux.
    case notDetermined = 0
    /// Not used on Linux.
    case restricted = 1
    /// The daemon takes the program for no app.
    case denied = 2
    /// The value that the daemon reports for an app. Of no use here, because there is no peripheral role.
    case authorized = 3
}

/// The options of a peripheral manager. Accepted and ignored.
public let CBPeripheralManagerOptionShowPowerAlertKey = "kCBInitOptionShowPowerAlert"
/// Accepted and ignored.
public let CBPeripheralManagerOptionRestoreIdentifierKey = "kCBInitOptionRestoreIdentifier"
/// Never there.
public let CBPeripheralManagerRestoredStateServicesKey = "kCBRestoredServices"
/// Never there.
public let CBPeripheralManagerRestoredStateAdvertisementDataKey = "kCBRestoredAdvertisement"

/// Publishes the app's own services. On Linux its state is always ``CBManagerState/unsupported``.
///
/// Source: Apple's documentation of `CBPeripheralManager`.
open class CBPeripheralManager: CBManager {
    private let queue: DispatchQueue
    private let reference = PeripheralManagerReference()
    private let lock = NSLock()
    private weak var storedDelegate: (any CBPeripheralManagerDelegate)?
    private var storedState = CBManagerState.unknown

    /// A manager without a delegate, on the main queue.
    public convenience init() {
        self.init(delegate: nil, queue: nil, options: nil)
    }

    /// A manager.
    ///
    /// Source: Apple's documentation of `init(delegate:queue:)`.
    public convenience init(delegate: (any CBPeripheralManagerDelegate)?, queue: DispatchQueue?) {
        self.init(delegate: delegate, queue: queue, options: nil)
    }

    /// Creates a manager, which reports at once that the role is not supported.
    ///
    /// Source: Apple's documentation of `init(delegate:queue:options:)`.
    public init(delegate: (any CBPeripheralManagerDelegate)?, queue: DispatchQueue?, options: [String: Any]? = nil) {
        storedDelegate = delegate
        self.queue = DispatchQueue(label: "org.accessorysetup1.peripheral", target: queue ?? .main)
        super.init(ofRole: .peripheral)
        reference.value = self
        notify { manager in
            manager.lock.withLock { manager.storedState = .unsupported }
            manager.delegate?.peripheralManagerDidUpdateState(manager)
        }
    }

    /// Receives all callbacks. Not retained.
    ///
    /// Source: Apple's documentation of `CBPeripheralManager.delegate`.
    open weak var delegate: (any CBPeripheralManagerDelegate)? {
        get { lock.withLock { storedDelegate } }
        set { lock.withLock { storedDelegate = newValue } }
    }

    /// Whether the app may use Bluetooth, in the words of Apple's earlier systems.
    ///
    /// Source: Apple's documentation of `CBPeripheralManager.authorizationStatus()`.
    @available(*, deprecated, message: "Use CBManager.authorization instead")
    open class func authorizationStatus() -> CBPeripheralManagerAuthorizationStatus {
        authorization == .allowedAlways ? .authorized : .denied
    }

    /// ``CBManagerState/unsupported``, from the first callback on.
    open override var state: CBManagerState { lock.withLock { storedState } }
    /// Never.
    open var isAdvertising: Bool { false }

    /// The delegate gets ``CBError/Code/operationNotSupported``.
    ///
    /// Source: Apple's documentation of `startAdvertising(_:)`.
    open func startAdvertising(_ advertisementData: [String: Any]?) {
        notify { $0.delegate?.peripheralManagerDidStartAdvertising($0, error: Self.unsupported) }
    }

    /// Nothing to stop.
    open func stopAdvertising() {}

    /// The delegate gets ``CBError/Code/operationNotSupported``.
    ///
    /// Source: Apple's documentation of `add(_:)`.
    open func add(_ service: CBMutableService) {
        let service = OwnService(service)
        notify { $0.delegate?.peripheralManager($0, didAdd: service.value, error: Self.unsupported) }
    }

    /// Nothing to remove.
    open func remove(_ service: CBMutableService) {}
    /// Nothing to remove.
    open func removeAllServices() {}

    /// Ignored, with a log line.
    open func setDesiredConnectionLatency(_ latency: CBPeripheralManagerConnectionLatency, for central: CBCentral) {
        Misuse.log("setDesiredConnectionLatency: the peripheral role is not supported")
    }

    /// Ignored, with a log line.
    open func respond(to request: CBATTRequest, withResult result: CBATTError.Code) {
        Misuse.log("respond: the peripheral role is not supported")
    }

    /// Always false.
    open func updateValue(
        _ value: Data, for characteristic: CBMutableCharacteristic, onSubscribedCentrals centrals: [CBCentral]?
    ) -> Bool {
        Misuse.log("updateValue: the peripheral role is not supported")
        return false
    }

    /// The delegate gets ``CBError/Code/operationNotSupported``.
    ///
    /// Source: Apple's documentation of `publishL2CAPChannel(withEncryption:)`.
    open func publishL2CAPChannel(withEncryption encryptionRequired: Bool) {
        notify { $0.delegate?.peripheralManager($0, didPublishL2CAPChannel: 0, error: Self.unsupported) }
    }

    /// The delegate gets ``CBError/Code/operationNotSupported``.
    ///
    /// Source: Apple's documentation of `unpublishL2CAPChannel(_:)`.
    open func unpublishL2CAPChannel(_ PSM: CBL2CAPPSM) {
        notify { $0.delegate?.peripheralManager($0, didUnpublishL2CAPChannel: PSM, error: Self.unsupported) }
    }

    private static var unsupported: CBError {
        CBError(.operationNotSupported, "the peripheral role is not supported on Linux")
    }

    private func notify(_ body: @escaping @Sendable (CBPeripheralManager) -> Void) {
        queue.async { [reference] in
            if let manager = reference.value { body(manager) }
        }
    }
}

/// A manager on its way to the app's queue.
///
/// @unchecked, as managers are not Sendable. It is safe because the reference is set once, before it is given to the
/// queue, and is then read on that serial queue only, which is the app's.
private final class PeripheralManagerReference: @unchecked Sendable {
    weak var value: CBPeripheralManager?
}

/// A service on its way back to the app that has handed it over.
///
/// @unchecked, as services are not Sendable. It is safe because no code looks into the service on the way: it is given
/// back on the app's queue, and its contents are behind its lock.
private final class OwnService: @unchecked Sendable {
    let value: CBMutableService
    init(_ value: CBMutableService) { self.value = value }
}

/// Receives the callbacks of a peripheral manager.
///
/// Source: Apple's documentation of `CBPeripheralManagerDelegate`.
public protocol CBPeripheralManagerDelegate: NSObjectProtocol {
    /// Called on the app's queue when the manager has found that the role is not supported.
    func peripheralManagerDidUpdateState(_ peripheral: CBPeripheralManager)
    /// Never called.
    func peripheralManager(_ peripheral: CBPeripheralManager, willRestoreState dict: [String: Any])
    /// Called on the app's queue, always with an error.
    func peripheralManagerDidStartAdvertising(_ peripheral: CBPeripheralManager, error: (any Error)?)
    /// Called on the app's queue, always with an error.
    func peripheralManager(_ peripheral: CBPeripheralManager, didAdd service: CBService, error: (any Error)?)
    /// Never called.
    func peripheralManager(
        _ peripheral: CBPeripheralManager, central: CBCentral, didSubscribeTo characteristic: CBCharacteristic)
    /// Never called.
    func peripheralManager(
        _ peripheral: CBPeripheralManager, central: CBCentral, didUnsubscribeFrom characteristic: CBCharacteristic)
    /// Never called.
    func peripheralManager(_ peripheral: CBPeripheralManager, didReceiveRead request: CBATTRequest)
    /// Never called.
    func peripheralManager(_ peripheral: CBPeripheralManager, didReceiveWrite requests: [CBATTRequest])
    /// Never called.
    func peripheralManagerIsReady(toUpdateSubscribers peripheral: CBPeripheralManager)
    /// Called on the app's queue, always with an error.
    func peripheralManager(
        _ peripheral: CBPeripheralManager, didPublishL2CAPChannel PSM: CBL2CAPPSM, error: (any Error)?)
    /// Called on the app's queue, always with an error.
    func peripheralManager(
        _ peripheral: CBPeripheralManager, didUnpublishL2CAPChannel PSM: CBL2CAPPSM, error: (any Error)?)
    /// Never called.
    func peripheralManager(_ peripheral: CBPeripheralManager, didOpen channel: CBL2CAPChannel?, error: (any Error)?)
}

/// Apple's optional methods: by default they do nothing.
extension CBPeripheralManagerDelegate {
    public func peripheralManager(_ peripheral: CBPeripheralManager, willRestoreState dict: [String: Any]) {}
    public func peripheralManagerDidStartAdvertising(_ peripheral: CBPeripheralManager, error: (any Error)?) {}
    public func peripheralManager(_ peripheral: CBPeripheralManager, didAdd service: CBService, error: (any Error)?) {}
    public func peripheralManager(
        _ peripheral: CBPeripheralManager, central: CBCentral, didSubscribeTo characteristic: CBCharacteristic
    ) {}
    public func peripheralManager(
        _ peripheral: CBPeripheralManager, central: CBCentral, didUnsubscribeFrom characteristic: CBCharacteristic
    ) {}
    public func peripheralManager(_ peripheral: CBPeripheralManager, didReceiveRead request: CBATTRequest) {}
    public func peripheralManager(_ peripheral: CBPeripheralManager, didReceiveWrite requests: [CBATTRequest]) {}
    public func peripheralManagerIsReady(toUpdateSubscribers peripheral: CBPeripheralManager) {}
    public func peripheralManager(
        _ peripheral: CBPeripheralManager, didPublishL2CAPChannel PSM: CBL2CAPPSM, error: (any Error)?
    ) {}
    public func peripheralManager(
        _ peripheral: CBPeripheralManager, didUnpublishL2CAPChannel PSM: CBL2CAPPSM, error: (any Error)?
    ) {}
    public func peripheralManager(
        _ peripheral: CBPeripheralManager, didOpen channel: CBL2CAPChannel?, error: (any Error)?
    ) {}
}
