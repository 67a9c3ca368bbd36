// SPDX-License-Identifier: Apache-2.0
// The engine's view of a Bluetooth radio. BlueZRadio adapts BlueZ to it; tests have a manual one.

public import AccessoryCore
public import AccessoryModel

/// Whether a radio can be used.
public enum RadioState: String, Hashable, Sendable {
    /// It can be used now.
    case ready
    /// There is an adapter, without power.
    case off
    /// No adapter, or no service.
    case absent
}

/// A Bluetooth adapter of the machine.
public struct RadioAdapter: Hashable, Sendable {
    /// The identity: the name can change at a restart.
    public let address: BluetoothAddress
    /// Such as `hci0`.
    public let name: String
    /// Whether it has power.
    public let isPowered: Bool
    /// Whether the configuration lets it be used to find and pair accessories.
    public let isAllowed: Bool

    /// Stores its arguments.
    public init(address: BluetoothAddress, name: String, isPowered: Bool, isAllowed: Bool) {
        self.address = address
        self.name = name
        self.isPowered = isPowered
        self.isAllowed = isAllowed
    }
}

/// A Bluetooth radio, of one or more adapters, used on the engine's thread only.
public protocol Radio: AnyObject {
    /// Of the adapters that may be used together: `ready` when one is.
    var state: RadioState { get }
    /// All adapters of the machine, by their names.
    var adapters: [RadioAdapter] { get }
    /// Receives events; set once, before `start()`.
    var observer: (any RadioObserver)? { get set }

    /// Begins to follow the service.
    func start()

    /// Discovery runs as long as at least one token lives.
    func discover() -> DiscoveryToken

    /// Adverts that other programs' searches bring are reported as long as a token lives. A device that was reported
    /// before is reported again.
    func listen() -> DiscoveryToken

    /// Pairs a device that was heard. Answered by exactly one `pairingEnded`, within three minutes, whatever happens.
    ///
    /// - Parameter support: further sides of the accessory: its classic side, its use as an input device. Their failure
    ///   is a failure of the pairing.
    func pair(_ device: RadioDeviceID, support: SupportOptions)
    /// Answers the prompt that `pairingPrompted` brought.
    func answer(_ answer: PromptAnswer)
    /// Cancels pairing (or bridging), which still ends once, by `pairingEnded` (or the completion of `bridge`), with
    /// any result.
    func cancelPairing()
    /// Pairs the classic side of an accessory that is paired already, and trusts it.
    ///
    /// - Parameter classic: its classic address; nil where that is the same as the other.
    func bridge(
        _ peer: BluetoothPeer, classic: BluetoothAddress?,
        completion: @escaping (Result<BluetoothAddress, RadioFailure>) -> Void)

    /// Has the radio call an accessory by this name too, if it knows it now.
    func setAlias(_ peer: BluetoothPeer, _ name: String)

    /// Removes the bond and everything else that an adapter knows of a device. Success when there was nothing;
    /// `unavailable` without the adapter.
    ///
    /// - Parameters:
    ///   - device: the object it had, for an address that is private and may have changed since.
    ///   - wasPairing: a daemon that has died may have been pairing it: a link that comes up still is ended, too.
    func removeBond(
        _ peer: BluetoothPeer, device: RadioDeviceID?, wasPairing: Bool,
        completion: @escaping (Result<Void, RadioFailure>) -> Void)

    /// All devices that the radio is bonded with, by whomever; as it was at the last `refresh`, or during discovery.
    var bonds: [RadioBond] { get }
    /// Reads all devices anew: an idle radio does not follow other programs' devices. Completed once, soon.
    func refresh(_ completion: @escaping () -> Void)

    /// The radio's object for an identity, if there is an object now. Without an adapter in `peer`, the adapter that
    /// has a bond counts.
    func device(for peer: BluetoothPeer) -> RadioDeviceID?
    /// The link with an identity, as of the last `refresh`, or during discovery.
    func link(with peer: BluetoothPeer) -> RadioLink

    /// Follows these devices in place of earlier ones, without discovery: the observer hears of their links
    /// (`deviceChanged`), and of adverts that other programs' searches bring. Earlier links show at the next `refresh`.
    func follow(_ peers: [BluetoothPeer])

    /// Has controllers compare adverts with these patterns by themselves, in place of earlier ones, and report the
    /// devices that match one; none ends it.
    func monitor(_ patterns: [AdvertPattern])
    /// Whether a controller does.
    var isMonitoring: Bool { get }
    /// Whether a controller hears this device, and will report its end. Each change is observed.
    func isMonitored(_ address: BluetoothAddress) -> Bool
}

extension Radio {
    /// The bond with an identity; with one of another kind of address, too, where only its value counts.
    func bond(with peer: BluetoothPeer, byValue: Bool = false) -> RadioBond? { bonds.bond(with: peer, byValue: byValue) }
}

extension [RadioBond] {
    /// The same among bonds that were read before.
    func bond(with peer: BluetoothPeer, byValue: Bool) -> RadioBond? {
        first {
            peer.shares($0.adapter) && (byValue ? $0.address.value == peer.address.value : $0.address == peer.address)
        }
    }
}

/// The link between the radio and a device, as far as it is known.
public struct RadioLink: Hashable, Sendable {
    /// Whether it is up.
    public var isConnected = false
    /// The device's battery level, percent; nil when unknown, and without a link.
    public var battery: Int?
    /// The name that the device gives itself; nil when unknown.
    public var name: String?

    /// No link.
    public init() {}
}

/// A bond that the radio holds.
public struct RadioBond: Hashable, Sendable {
    /// The identity address, once the radio knows it.
    public let address: BluetoothAddress
    /// The adapter that has its keys; nil when it is not known.
    public let adapter: BluetoothAddress?
    /// The radio's object for it.
    public let device: RadioDeviceID
    /// Its adverts, and the services that it was found to have.
    public let advertisement: Advertisement
    /// Its own name; empty when unknown.
    public var name: String { advertisement.localName ?? "" }

    /// - Parameter advertisement: of the device itself; its address is the bond's.
    public init(_ advertisement: Advertisement) {
        address = advertisement.address
        adapter = advertisement.adapter
        device = advertisement.device
        self.advertisement = advertisement
    }
}

/// Keeps discovery, or the reports of adverts, running; the end of its life is the end of the need.
public struct DiscoveryToken: ~Copyable {
    private let release: () -> Void

    /// - Parameter release: called once, at the end of the token's life.
    public init(release: @escaping () -> Void) {
        self.release = release
    }

    deinit {
        release()
    }
}

/// Why the radio could not do something: a word for programs, a text for people.
public struct RadioFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// Why, for programs.
    public enum Reason: Hashable, Sendable {
        /// The radio is gone, off, or its service is.
        case unavailable
        /// The accessory refused, or keys did not fit.
        case refused
        /// The link broke or the accessory is gone.
        case connection
        /// No answer in time.
        case timeout
        /// It was called off here.
        case cancelled
        /// Another program pairs it: this attempt made nothing, and any bond is that program's.
        case busy
        /// Anything else; the message says it.
        case other
    }

    /// Why, for programs.
    public let reason: Reason
    /// Why, for people.
    public let message: String

    /// Stores its arguments.
    public init(_ reason: Reason, _ message: String) {
        self.reason = reason
        self.message = message
    }

    /// The message.
    public var description: String { message }
}

/// Receives events of a radio.
public protocol RadioObserver: AnyObject {
    /// The radio's state has changed, and why, in words for people.
    func radioChanged(_ state: RadioState, reason: String)
    /// An adapter has come or gone, or has other properties.
    func adaptersChanged()
    /// Discovery is needed and cannot be had; it will not come by itself.
    func discoveryFailed(_ failure: RadioFailure)
    /// Devices heard since the last call, each once: with its content where that has changed, else with its strength. A
    /// device that has replaced a payload meanwhile comes twice, the older content first.
    func heard(_ changes: [HeardDevice])
    /// No adapter has the device any more.
    func lost(_ address: BluetoothAddress)
    /// `isMonitoring` has changed.
    func monitoringChanged()
    /// `isMonitored` has changed for a device. Not observed where it ends with Bluetooth, with `isMonitoring`, or for a
    /// device that is `lost`.
    func monitorChanged(_ address: BluetoothAddress)
    /// The controller that has heard a device compares no adverts for now.
    func monitorEnded(_ address: BluetoothAddress)
    /// The pairing asks the person something, or shows it.
    func pairingPrompted(_ prompt: PairingPrompt)
    /// The classic side of the accessory is being paired.
    func bridgingStarted()
    /// The pairing has ended: with who the accessory is, or why not.
    func pairingEnded(_ result: Result<PairedIdentity, RadioFailure>)
    /// The radio's object for an identity (`device(for:)`) has come, gone or changed; all objects when `address` is
    /// nil.
    func deviceChanged(_ address: BluetoothAddress?)
}

/// A device that was heard. Mostly only its strength changes, thousands of times, and its content is nil.
public struct HeardDevice: Hashable, Sendable {
    /// The address that it uses now, whichever adapters hear it.
    public let address: BluetoothAddress
    /// dBm, averaged since the last time; nil when unknown.
    public let rssi: Int?
    /// Its content, when more than the strength changed, and at least every few seconds.
    public let content: Advertisement?

    /// - Parameters:
    ///   - rssi: dBm; nil when unknown.
    ///   - content: nil when only the strength changed.
    public init(address: BluetoothAddress, rssi: Int?, content: Advertisement?) {
        self.address = address
        self.rssi = rssi
        self.content = content
    }
}
