// SPDX-License-Identifier: Apache-2.0
// A scenario: what is on the air, and what goes wrong. Docs/Scenarios.md is its reference; the lab reads the same files.

public import AccessoryModel

public struct Scenario: Hashable, Sendable {
    public var adapters: [Adapter] = [Adapter()]
    public var accessories: [Accessory] = []
    public var wifi = WiFi()
    public var accessPoints: [AccessPoint] = []
    public var awareServices: [AwareService] = []
    public var events: [Event] = []

    public init() {}

    public struct Adapter: Hashable, Sendable {
        public var name = "hci0"
        public var address = BluetoothAddress("00:AA:01:00:00:42", kind: .public)!
        public var isPowered = true
        public init() {}
    }

    public struct Accessory: Hashable, Sendable {
        public enum AddressType: String, Hashable, Sendable, CaseIterable {
            case `public`, random, rpa
        }

        /// How it can be heard and paired: dual-mode accessories are heard over low energy, and pair over both.
        public enum Transport: String, Hashable, Sendable, CaseIterable {
            case le, bredr, dual
        }

        public var id: String
        public var address: BluetoothAddress
        public var addressType: AddressType = .random
        public var appearsAt = 0.0
        public var leavesAt: Double?
        public var isConnectable = true
        public var transport = Transport.le
        /// Whether pairing over low energy makes the keys of the classic side too.
        public var crossesTransports = false
        /// Whether the kernel makes an input device of it.
        public var isInput = false
        public var adverts: [Advert] = []
        public var pairing = Pairing()
        public var services: [Service] = []
    }

    public struct Advert: Hashable, Sendable {
        public var from = 0.0
        public var until: Double?
        public var interval = 0.1
        /// Nil for a radio that does not say.
        public var rssi: Int? = -50
        public var payload = Payload()
        public var scanResponse: Payload?
    }

    public struct Payload: Hashable, Sendable {
        public var name: String?
        public var serviceUUIDs: [BluetoothUUID] = []
        public var serviceData: [BluetoothUUID: [UInt8]] = [:]
        public var manufacturerData: [CompanyIdentifier: [UInt8]] = [:]
        public var txPower: Int?
    }

    public struct Pairing: Hashable, Sendable {
        public enum Mode: String, Hashable, Sendable, CaseIterable {
            case justWorks, displayPasskey, enterPasskey, numericComparison, pin, none
        }

        public enum Fault: String, Hashable, Sendable, CaseIterable {
            case refuse, vanish, drop, silent, slow, wrongKey, unreachable
        }

        public var mode = Mode.justWorks
        public var passkey: UInt32 = 123_456
        public var pin = "0000"
        public var isLegacy = false
        public var confirms = true
        public var fault: Fault?
        public var delay = 2.0
        /// Nil: every time.
        public var faultCount: Int?
    }

    public struct Service: Hashable, Sendable {
        public var uuid: BluetoothUUID
        public var characteristics: [Characteristic] = []
    }

    public struct Characteristic: Hashable, Sendable {
        public var uuid: BluetoothUUID
        public var flags: [String] = ["read"]
        public var value: [UInt8] = []
        public var notify: Notify?
    }

    public struct Notify: Hashable, Sendable {
        public var interval = 1.0
        public var values: [[UInt8]] = []
    }

    public struct Event: Hashable, Sendable {
        public enum Trigger: Hashable, Sendable {
            case at(Double)
            case discoveryStarted(after: Double)
            case pairingStarted(accessory: String, after: Double)
            case scanStarted(after: Double)
        }

        public var trigger: Trigger
        public var action: Action
    }

    public enum Action: Hashable, Sendable {
        case adapterRemoved(String)
        case adapterAdded(String)
        case adapterPowerOff(String)
        case adapterPowerOn(String)
        case serviceStopped
        case serviceStarted
        case vanish(String)
        case `return`(String)
        case wifiStopped(WiFi.Service)
        case wifiStarted(WiFi.Service)
        case interfaceRemoved(String)
        case interfaceAdded(String)
        case wifiOff
        case wifiOn

        /// The action behind a word of the scenario language; nil when there is none.
        public init?(_ word: String, target: String) {
            switch word {
            case "adapterRemoved": self = .adapterRemoved(target)
            case "adapterAdded": self = .adapterAdded(target)
            case "adapterPowerOff": self = .adapterPowerOff(target)
            case "adapterPowerOn": self = .adapterPowerOn(target)
            case "serviceStopped": self = .serviceStopped
            case "serviceStarted": self = .serviceStarted
            case "vanish": self = .vanish(target)
            case "return": self = .return(target)
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
