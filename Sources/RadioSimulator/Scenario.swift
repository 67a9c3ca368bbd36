// SPDX-License-Identifier: Apache-2.0
// A scenario: accessories and access points on the air, with their faults. Docs/Scenarios.md is its reference; the lab
// reads the same files.

public import AccessoryModel

/// A scenario file's contents. Where a type or member has a default, it is that of the file's key
/// (Docs/Scenarios.md).
public struct Scenario: Hashable, Sendable {
    /// The Bluetooth adapters; empty for a machine without any.
    public var adapters: [Adapter] = [Adapter()]
    /// The accessories, each of an entry with `count` by itself; their `id`s differ.
    public var accessories: [Accessory] = []
    /// This machine's Wi-Fi.
    public var wifi = WiFi()
    /// The access points, including those of uplinks without a description; their `id`s and the accessories' differ.
    public var accessPoints: [AccessPoint] = []
    /// The services that other devices announce over Wi-Fi Aware, while `wifi.isAware`.
    public var awareServices: [AwareService] = []
    /// The events, in the order of the file.
    public var events: [Event] = []

    /// One adapter with power, and nothing on the air.
    public init() {}

    /// A Bluetooth adapter.
    public struct Adapter: Hashable, Sendable {
        /// The kernel's name, the last element of its object path.
        public var name = "hci0"
        /// Its public address.
        public var address = BluetoothAddress("00:AA:01:00:00:42", kind: .public)!
        /// Whether it has power at the start.
        public var isPowered = true
        /// dB, −100…100: how much more strongly it hears than the adverts say.
        public var gain = 0
        /// Where adverts are compared with the patterns of advertisement monitors.
        public var monitors = Monitors.none
        /// `hci0`, with power.
        public init() {}
    }

    /// Where adverts are compared with patterns: nowhere, as bluetoothd has no experimental interfaces; by bluetoothd;
    /// or by the controller.
    public enum Monitors: String, Hashable, Sendable, CaseIterable {
        case none, bluetoothd, controller
    }

    /// An accessory with Bluetooth.
    public struct Accessory: Hashable, Sendable {
        /// The kind of its address on the air: `public`, `random` (static), or `rpa`, a resolvable private one.
        public enum AddressType: String, Hashable, Sendable, CaseIterable {
            case `public`, random, rpa
        }

        /// How it can be heard and paired: dual-mode accessories are heard over low energy, and pair over both.
        public enum Transport: String, Hashable, Sendable, CaseIterable {
            case le, bredr, dual
        }

        /// `[a-z0-9-]+`; events and logs name it so.
        public var id: String
        /// The identity address; on the air it is another one with `rpa`.
        public var address: BluetoothAddress
        /// Its address on the air.
        public var airAddress = AirAddress()
        /// When it is in range.
        public var presence = Presence()
        /// Whether it accepts connections.
        public var isConnectable = true
        /// How it can be heard and paired.
        public var transport = Transport.le
        /// Whether pairing over low energy makes the keys of the classic side too.
        public var crossesTransports = false
        /// Whether the kernel makes an input device for it.
        public var isInput = false
        /// The battery level that it reports while connected, in percent; nil for none.
        public var battery: UInt8?
        /// Its adverts, each on its own schedule; none while it is connected.
        public var adverts: [Advert] = []
        /// How it pairs.
        public var pairing = Pairing()
        /// Its GATT server.
        public var gatt = GATTServer()
    }

    /// The address of an accessory on the air.
    public struct AirAddress: Hashable, Sendable {
        /// Its kind.
        public var type = Accessory.AddressType.random
        /// Seconds that a private address is kept, 1–86,400; nil for always.
        public var rotates: Double?
    }

    /// When something is in range.
    public struct Presence: Hashable, Sendable {
        /// Seconds after the start at which it comes into range, 0–86,400.
        public var appearsAt = 0.0
        /// Seconds after the start at which it goes away, 0–86,400; nil for never.
        public var leavesAt: Double?
    }

    /// The GATT server of an accessory.
    public struct GATTServer: Hashable, Sendable {
        /// Its services.
        public var services: [Service] = []
        /// Seconds between `ServicesResolved` and the objects of the services; nil for none.
        public var lateServices: Double?
        /// The longest ATT packet that it takes, in bytes, 23–517: bluetoothd asks for 517.
        public var mtu: UInt16 = 517
    }

    /// An advert, sent again and again for a time.
    public struct Advert: Hashable, Sendable {
        /// Seconds after the accessory appeared at which it is sent first, 0–86,400.
        public var from = 0.0
        /// Seconds after the accessory appeared from which on it is not sent any more; nil for never.
        public var until: Double?
        /// Seconds between two transmissions, 0.02–10.
        public var interval = 0.1
        /// In dBm; nil for a radio that does not report it.
        public var rssi: Int? = -50
        /// Its contents.
        public var payload = Payload()
        /// The answer to an active scan; nil for none.
        public var scanResponse: Payload?
    }

    /// The contents of one part of an advert.
    public struct Payload: Hashable, Sendable {
        /// The complete Local Name; nil for none.
        public var name: String?
        /// The list of services.
        public var serviceUUIDs: [BluetoothUUID] = []
        /// Payloads by service.
        public var serviceData: [BluetoothUUID: [UInt8]] = [:]
        /// Payloads by company, without the two bytes of the identifier.
        public var manufacturerData: [CompanyIdentifier: [UInt8]] = [:]
        /// dBm, −127 to 20; nil for none.
        public var txPower: Int?
    }

    /// How an accessory pairs.
    public struct Pairing: Hashable, Sendable {
        /// The kind of pairing: `displayPasskey` shows the passkey at the accessory, `enterPasskey` at this machine;
        /// `pin` is classic legacy pairing; with `none` every pairing fails.
        public enum Mode: String, Hashable, Sendable, CaseIterable {
            case justWorks, displayPasskey, enterPasskey, numericComparison, pin, none
        }

        /// The fault: `refuse` (it refuses), `vanish` (the link drops, and it is out of range), `drop` (the link
        /// drops), `silent` (it never answers), `slow` (it answers after `delay`), `wrongKey` (it has another key),
        /// `unreachable` (no link).
        public enum Fault: String, Hashable, Sendable, CaseIterable {
            case refuse, vanish, drop, silent, slow, wrongKey, unreachable
        }

        /// The kind of pairing.
        public var mode = Mode.justWorks
        /// The passkey that the accessory shows with `displayPasskey`, 0–999,999.
        public var passkey: UInt32 = 123_456
        /// Seconds for each digit that is entered at the accessory with `enterPasskey`.
        public var typing = 0.03
        /// The PIN that the accessory expects with `pin`.
        public var pin = "0000"
        /// Legacy pairing, not secure connections. The simulator only says so (`LegacyPairing`, org.bluez.Device).
        public var isLegacy = false
        /// Whether the accessory keeps the keys: without, it is paired as long as the link lasts.
        public var keepsKeys = true
        /// Whether the accessory's side says yes with `numericComparison`.
        public var confirms = true
        /// The fault; nil for none.
        public var fault: Fault?
        /// Seconds until the answer with `slow`, 0–120.
        public var delay = 2.0
        /// Nil: every time.
        public var faultCount: Int?
    }

    /// A GATT service.
    public struct Service: Hashable, Sendable {
        /// Its UUID.
        public var uuid: BluetoothUUID
        /// Its characteristics.
        public var characteristics: [Characteristic] = []
        /// The services of the same accessory that it includes.
        public var includes: [BluetoothUUID] = []
    }

    /// A GATT characteristic.
    public struct Characteristic: Hashable, Sendable {
        /// Its UUID.
        public var uuid: BluetoothUUID
        /// Its operations in BlueZ's words (`Flags`, org.bluez.GattCharacteristic).
        public var flags: [String] = ["read"]
        /// Its initial value; a written value replaces it.
        public var value: [UInt8] = []
        /// Its notifications; nil for none.
        public var notify: Notify?
        /// Its descriptors, without that of notifications.
        public var descriptors: [Descriptor] = []
    }

    /// A GATT descriptor, which can be read and written.
    public struct Descriptor: Hashable, Sendable {
        /// Its UUID.
        public var uuid: BluetoothUUID
        /// Its initial value; a written value replaces it.
        public var value: [UInt8] = []
    }

    /// The notifications of a characteristic while a client is subscribed.
    public struct Notify: Hashable, Sendable {
        /// Seconds between two values, 0.001–3,600.
        public var interval = 1.0
        /// The values, in turn and from the first again.
        public var values: [[UInt8]] = []
    }

    /// Something that happens once.
    public struct Event: Hashable, Sendable {
        /// When an event happens; all times are seconds, 0–86,400.
        public enum Trigger: Hashable, Sendable {
            /// So long after the start.
            case at(Double)
            /// So long after the next discovery of Bluetooth has begun.
            case discoveryStarted(after: Double)
            /// So long after a pairing with this accessory has begun.
            case pairingStarted(accessory: String, after: Double)
            /// So long after the next scan for networks has begun.
            case scanStarted(after: Double)
        }

        /// When it happens.
        public var trigger: Trigger
        /// The action.
        public var action: Action
    }

    /// An action and its target. Names of adapters and interfaces are the kernel's, others are `id`s.
    public enum Action: Hashable, Sendable {
        /// The adapter is unplugged.
        case adapterRemoved(String)
        /// The adapter is plugged in.
        case adapterAdded(String)
        /// The adapter loses its power.
        case adapterPowerOff(String)
        /// The adapter gets power.
        case adapterPowerOn(String)
        /// The first two adapters swap their names, as they may when a machine starts; only while bluetoothd is
        /// stopped.
        case adaptersSwapped
        /// The adapter's controller drops all advertisement monitors.
        case monitorsReleased(String)
        /// bluetoothd leaves the bus; bonds are kept.
        case serviceStopped
        /// bluetoothd comes back.
        case serviceStarted
        /// The accessory or access point goes out of range.
        case vanish(String)
        /// The accessory or access point comes back.
        case `return`(String)
        /// The accessory has other services while it is connected: the same ones as new objects.
        case servicesChanged(String)
        /// The accessory forgets its keys, as after a reset; bluetoothd keeps its own.
        case keysForgotten(String)
        /// The Wi-Fi service leaves the bus.
        case wifiStopped(WiFi.Service)
        /// The Wi-Fi service comes back, without the state that the real one loses.
        case wifiStarted(WiFi.Service)
        /// The Wi-Fi interface is unplugged.
        case interfaceRemoved(String)
        /// The Wi-Fi interface is plugged in.
        case interfaceAdded(String)
        /// All Wi-Fi radios are blocked.
        case wifiOff
        /// All Wi-Fi radios are unblocked.
        case wifiOn

        /// The action behind a word of the scenario language; nil when there is none.
        public init?(_ word: String, target: String) {
            switch word {
            case "adapterRemoved": self = .adapterRemoved(target)
            case "adapterAdded": self = .adapterAdded(target)
            case "adapterPowerOff": self = .adapterPowerOff(target)
            case "adapterPowerOn": self = .adapterPowerOn(target)
            case "monitorsReleased": self = .monitorsReleased(target)
            case "adaptersSwapped": self = .adaptersSwapped
            case "serviceStopped": self = .serviceStopped
            case "serviceStarted": self = .serviceStarted
            case "vanish": self = .vanish(target)
            case "return": self = .return(target)
            case "servicesChanged": self = .servicesChanged(target)
            case "keysForgotten": self = .keysForgotten(target)
            case "wifiStopped", "wifiStarted":
                guard let service = WiFi.Service(rawValue: target) else { return nil }
                self = word == "wifiStopped" ? .wifiStopped(service) : .wifiStarted(service)
            case "interfaceRemoved": self = .interfaceRemoved(target)
            case "interfaceAdded": self = .interfaceAdded(target)
            case "wifiOff": self = .wifiOff
            case "wifiOn": self = .wifiOn
            default: return nil
            }
        }
    }
}
