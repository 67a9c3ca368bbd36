// SPDX-License-Identifier: Apache-2.0
// Offers, prompts and answers.

/// One accessory in range that the person may pick.
public struct Offer: Hashable, Sendable {
    /// Opaque, valid within one picker.
    public let id: String
    /// Its Bluetooth side; empty for one with Wi-Fi only.
    public let bluetooth: Bluetooth
    /// The index of the item that it matched.
    public let item: Int
    /// The app's name for it, or the stored one when it is shared.
    public let name: String
    /// Its own name: its Local Name, its network's name, or the vendor and model of a Wi-Fi Aware service. Empty
    /// without one; in any case a stranger's text.
    public let advertisedName: String
    /// Smoothed, dBm; nil when unknown.
    public var rssi: Int?
    /// Set up by another app already: picking shares it.
    public let shared: AccessoryID?
    /// The identifier that the accessory will have once it is set up.
    public let identifier: AccessoryID
    /// The picker's steps around the set-up.
    public let setup: SetupOptions
    /// Its Wi-Fi side; empty for one with Bluetooth only.
    public let wifi: WiFi
    /// How the app's extension knows it; nil for one that the radios alone have found.
    public var reported: ReportedIdentity?
    /// Of an offer that stands for a kind of devices, which has no sides of its own.
    public var kind: Kind?

    /// A kind of devices, and those in range.
    public struct Kind: Hashable, Sendable {
        /// Devices that the app may hear at a time.
        public let maxDevices: Int
        /// Devices in range.
        public let count: Int
        /// Names of some devices in range, each once; strangers' texts.
        public let names: [String]

        /// Stores its arguments.
        public init(maxDevices: Int, count: Int, names: [String]) {
            self.maxDevices = maxDevices
            self.count = count
            self.names = names
        }
    }

    /// The Bluetooth side of an offer.
    public struct Bluetooth: Hashable, Sendable {
        /// The radio's object; nil when Bluetooth did not find it.
        public let device: RadioDeviceID?
        /// Nil for an accessory with Wi-Fi only.
        public let address: BluetoothAddress?
        /// The adapter to use; nil when it is not known.
        public let adapter: BluetoothAddress?
        /// Whether a pick pairs it.
        public let needsPairing: Bool
        /// Whether the machine is bonded with it, by any program.
        public let isBonded: Bool
        /// Further sides to pair.
        public let support: SupportOptions
    }

    /// The Wi-Fi side of an offer.
    public struct WiFi: Hashable, Sendable {
        /// Its network, in range or known by name.
        public let network: WiFiNetwork?
        /// The Wi-Fi Aware service that it offers.
        public let aware: AwareService?
    }

    /// Stores its arguments.
    public init(
        id: String, device: RadioDeviceID?, address: BluetoothAddress?, adapter: BluetoothAddress? = nil, item: Int, name: String,
        advertisedName: String,
        rssi: Int?, shared: AccessoryID?, needsPairing: Bool, isBonded: Bool = false, identifier: AccessoryID,
        setup: SetupOptions = [], support: SupportOptions = [], network: WiFiNetwork? = nil, aware: AwareService? = nil,
        reported: ReportedIdentity? = nil
    ) {
        self.id = id
        bluetooth = Bluetooth(
            device: device, address: address, adapter: adapter, needsPairing: needsPairing, isBonded: isBonded, support: support)
        self.item = item
        self.name = name
        self.advertisedName = advertisedName
        self.rssi = rssi
        self.shared = shared
        self.identifier = identifier
        self.setup = setup
        wifi = WiFi(network: network, aware: aware)
        self.reported = reported
    }
}

extension Offer {
    /// See `Bluetooth`.
    public var device: RadioDeviceID? { bluetooth.device }
    /// See `Bluetooth`.
    public var address: BluetoothAddress? { bluetooth.address }
    /// See `Bluetooth`.
    public var adapter: BluetoothAddress? { bluetooth.adapter }
    /// See `Bluetooth`.
    public var needsPairing: Bool { bluetooth.needsPairing }
    /// See `Bluetooth`.
    public var isBonded: Bool { bluetooth.isBonded }
    /// See `Bluetooth`.
    public var support: SupportOptions { bluetooth.support }
    /// See `WiFi`.
    public var network: WiFiNetwork? { wifi.network }
    /// See `WiFi`.
    public var aware: AwareService? { wifi.aware }
    /// The Bluetooth address and its adapter; nil for an accessory with Wi-Fi only.
    public var peer: BluetoothPeer? { address.map { BluetoothPeer($0, adapter: adapter) } }

    /// The app's name for it, with the names by which a person knows it: the device's own, and its network's.
    public var title: String {
        // Where evidence is missing, the name has it already.
        let isNamed = name == advertisedName || name.split(separator: "“").dropFirst().contains { $0.hasPrefix(advertisedName) }
        var own = advertisedName.isEmpty || isNamed ? [] : ["“\(advertisedName)”"]
        if let network, network.ssid.description != advertisedName || device != nil { own.append("network “\(network.ssid)”") }
        if let endpoint = reported?.endpoint { own.append(endpoint.description) }
        return own.isEmpty ? name : "\(name) (\(own.joined(separator: ", ")))"
    }
}

/// A question of pairing, or a text to show.
public enum PairingPrompt: Hashable, Sendable {
    /// Does the accessory show the same number?
    case confirmPasskey(UInt32)
    /// Which number does the accessory show?
    case enterPasskey
    /// Enter this number on the accessory; `entered` digits are in.
    case displayPasskey(UInt32, entered: UInt16)
    /// Which PIN does the accessory have? 1–16 bytes.
    case enterPIN
    /// Enter this PIN on the accessory.
    case displayPIN(String)
    /// The accessory asks for access.
    case consent
    /// The app names a network that no picker has shown.
    case network(SSID)

    /// The name on the bus.
    public var kind: String {
        switch self {
        case .confirmPasskey: "confirm-passkey"
        case .enterPasskey: "enter-passkey"
        case .displayPasskey: "display-passkey"
        case .enterPIN: "enter-pin"
        case .displayPIN: "display-pin"
        case .consent, .network: "consent"
        }
    }

    /// Whether pairing waits for the person.
    public var needsAnswer: Bool {
        switch self {
        case .confirmPasskey, .enterPasskey, .enterPIN, .consent, .network: true
        case .displayPasskey, .displayPIN: false
        }
    }

    /// Whether an answer is one to this prompt; "no" is one to all.
    public func fits(_ answer: PromptAnswer) -> Bool {
        switch (self, answer) {
        case (_, .reject), (.confirmPasskey, .accept), (.consent, .accept), (.network, .accept), (.enterPasskey, .passkey),
            (.enterPIN, .pin):
            true
        default: false
        }
    }
}

/// The person's answer to a prompt.
public enum PromptAnswer: Hashable, Sendable {
    /// Yes: the numbers are the same, or access is given.
    case accept
    /// No, whatever was asked.
    case reject
    /// The number that the accessory shows, 0–999,999.
    case passkey(UInt32)
    /// The PIN, 1–16 bytes.
    case pin(String)
}
