// SPDX-License-Identifier: Apache-2.0
// The door's messages to a client of ESPHome's native API. Numbers and fields are those of api.proto
// (github.com/esphome/aioesphomeapi); the tests compare them.

/// A message to a client.
public enum ServerMessage: Equatable, Sendable {
    case hello(name: String, serverInfo: String)
    case authenticated
    case disconnect
    case disconnected
    case ping
    case pong
    case deviceInfo(DeviceInfo)
    case entitiesDone
    case rawAdvertisements([RawAdvertisement])
    case advertisement(ParsedAdvertisement)
    /// - Parameter error: of the Bluetooth controller or of the ESP32; 0 for none.
    case connection(address: UInt64, isConnected: Bool, mtu: Int, error: GATTError)
    case services(address: UInt64, [Service])
    case servicesDone(address: UInt64)
    case read(address: UInt64, handle: UInt32, [UInt8])
    case notified(address: UInt64, handle: UInt32, [UInt8])
    case failed(address: UInt64, handle: UInt32, GATTError)
    case wrote(address: UInt64, handle: UInt32)
    case notify(address: UInt64, handle: UInt32)
    case freeConnections(free: Int, limit: Int, allocated: [UInt64])
    case paired(address: UInt64, isPaired: Bool, GATTError)
    case unpaired(address: UInt64, hasWorked: Bool, GATTError)
    case clearedCache(address: UInt64, hasWorked: Bool, GATTError)
    case scanner(ScannerState, mode: ScannerMode)
    case connectionParameters(address: UInt64, GATTError)
    case encryptionKeySet(hasWorked: Bool)

    /// The longest body: a frame's, without its header and the bytes of encryption.
    public static let maxBytes = 65_515

    /// The version of the API that is served.
    static let version: (major: UInt64, minor: UInt64) = (1, 12)

    /// The gateway, as a device.
    public struct DeviceInfo: Equatable, Sendable {
        /// The name of the host.
        public var name: String
        /// `AA:BB:CC:DD:EE:FF`: clients identify the gateway by it.
        public var address: String
        /// The version of this software.
        public var version: String

        public init(name: String, address: String, version: String) {
            self.name = name
            self.address = address
            self.version = version
        }
    }

    /// An advert as it was on the air.
    public struct RawAdvertisement: Equatable, Sendable {
        public var address: UInt64
        /// dBm.
        public var rssi: Int
        public var isRandom: Bool
        /// Structures of length, type and data (Core Specification 5.4, Vol 3, Part C, 11).
        public var data: [UInt8]

        public init(address: UInt64, rssi: Int, isRandom: Bool, data: [UInt8]) {
            self.address = address
            self.rssi = rssi
            self.isRandom = isRandom
            self.data = data
        }
    }

    /// An advert by its parts, for clients that do not take raw ones.
    public struct ParsedAdvertisement: Equatable, Sendable {
        public var address: UInt64
        public var name: String
        public var rssi: Int
        public var isRandom: Bool
        public var services: [String]
        /// By UUID.
        public var serviceData: [Payload]
        /// By company, as `0x004C`.
        public var manufacturerData: [Payload]

        /// Data of a service or a company.
        public struct Payload: Equatable, Sendable {
            public var key: String
            public var data: [UInt8]

            public init(key: String, data: [UInt8]) {
                self.key = key
                self.data = data
            }
        }

        public init(address: UInt64, name: String, rssi: Int, isRandom: Bool) {
            self.address = address
            self.name = name
            self.rssi = rssi
            self.isRandom = isRandom
            services = []
            serviceData = []
            manufacturerData = []
        }
    }

    /// A service of an accessory.
    public struct Service: Equatable, Sendable {
        public var uuid: UUID128
        public var handle: UInt32
        public var characteristics: [Characteristic]

        public init(uuid: UUID128, handle: UInt32, characteristics: [Characteristic]) {
            self.uuid = uuid
            self.handle = handle
            self.characteristics = characteristics
        }
    }

    /// A characteristic.
    public struct Characteristic: Equatable, Sendable {
        public var uuid: UUID128
        /// Of the value.
        public var handle: UInt32
        /// Bits (Core Specification 5.4, Vol 3, Part G, 3.3.1.1).
        public var properties: UInt8
        public var descriptors: [Descriptor]

        public init(uuid: UUID128, handle: UInt32, properties: UInt8, descriptors: [Descriptor]) {
            self.uuid = uuid
            self.handle = handle
            self.properties = properties
            self.descriptors = descriptors
        }
    }

    /// A descriptor.
    public struct Descriptor: Equatable, Sendable {
        public var uuid: UUID128
        public var handle: UInt32

        public init(uuid: UUID128, handle: UInt32) {
            self.uuid = uuid
            self.handle = handle
        }
    }

    /// A UUID as the API writes it: two numbers.
    public struct UUID128: Hashable, Sendable {
        public var high: UInt64
        public var low: UInt64

        public init(high: UInt64, low: UInt64) {
            self.high = high
            self.low = low
        }
    }

    /// The message's number in the API.
    public var type: UInt16 {
        switch self {
        case .hello: 2
        case .authenticated: 4
        case .disconnect: 5
        case .disconnected: 6
        case .ping: 7
        case .pong: 8
        case .deviceInfo: 10
        case .entitiesDone: 19
        case .advertisement: 67
        case .connection: 69
        case .services: 71
        case .servicesDone: 72
        case .read: 74
        case .notified: 79
        case .freeConnections: 81
        case .failed: 82
        case .wrote: 83
        case .notify: 84
        case .paired: 85
        case .unpaired: 86
        case .clearedCache: 88
        case .rawAdvertisements: 93
        case .encryptionKeySet: 125
        case .scanner: 126
        case .connectionParameters: 146
        }
    }

    /// The message's bytes.
    public var body: [UInt8] {
        var writer = ProtobufWriter()
        write(to: &writer)
        return writer.bytes
    }

    private func write(to writer: inout ProtobufWriter) {
        switch self {
        case .authenticated, .disconnect, .disconnected, .ping, .pong, .entitiesDone: break
        case .hello(let name, let serverInfo):
            writer.number(1, Self.version.major)
            writer.number(2, Self.version.minor)
            writer.text(3, serverInfo)
            writer.text(4, name)
        case .deviceInfo(let info): info.write(to: &writer)
        case .rawAdvertisements(let adverts):
            for advert in adverts { writer.message(1, advert.write) }
        case .advertisement(let advert): advert.write(to: &writer)
        case .connection(let address, let isConnected, let mtu, let error):
            writer.number(1, address)
            writer.flag(2, isConnected)
            writer.signed(3, mtu)
            writer.signed(4, error.rawValue)
        case .services(let address, let services):
            writer.number(1, address)
            for service in services { writer.message(2, service.write) }
        case .servicesDone(let address): writer.number(1, address)
        case .read(let address, let handle, let value), .notified(let address, let handle, let value):
            writer.number(1, address)
            writer.number(2, UInt64(handle))
            writer.bytes(3, value)
        case .failed(let address, let handle, let error):
            writer.number(1, address)
            writer.number(2, UInt64(handle))
            writer.signed(3, error.rawValue)
        case .wrote(let address, let handle), .notify(let address, let handle):
            writer.number(1, address)
            writer.number(2, UInt64(handle))
        case .freeConnections(let free, let limit, let allocated):
            writer.signed(1, free)
            writer.signed(2, limit)
            writer.numbers(3, allocated)
        case .paired(let address, let hasWorked, let error), .unpaired(let address, let hasWorked, let error),
            .clearedCache(let address, let hasWorked, let error):
            writer.number(1, address)
            writer.flag(2, hasWorked)
            writer.signed(3, error.rawValue)
        case .scanner(let state, let mode):
            writer.number(1, state.rawValue)
            writer.number(2, mode.rawValue)
            writer.number(3, mode.rawValue)
        case .connectionParameters(let address, let error):
            writer.number(1, address)
            writer.signed(2, error.rawValue)
        case .encryptionKeySet(let hasWorked): writer.flag(1, hasWorked)
        }
    }
}

// MARK: - Parts

extension ServerMessage.DeviceInfo {
    /// `BluetoothProxyFeature`: adverts, links, services that the client keeps, raw adverts, and the scanner's state.
    static let features: UInt64 = 1 | 2 | 4 | 32 | 64
    /// Home Assistant asks users to upgrade a proxy that names an older version.
    private static let compatibleVersion = "2025.11.0"

    fileprivate func write(to writer: inout ProtobufWriter) {
        writer.text(2, name)
        writer.text(3, address)
        writer.text(4, Self.compatibleVersion)
        writer.text(6, "accessory-door")
        writer.text(8, "accessorysetupd.accessory-door")
        writer.text(9, version)
        writer.text(12, "accessorysetupd")
        writer.text(13, name)
        writer.number(15, Self.features)
        writer.text(18, address)
        writer.flag(19, true)
    }
}

extension ServerMessage.RawAdvertisement {
    fileprivate func write(to writer: inout ProtobufWriter) {
        writer.number(1, address)
        writer.zigzag(2, rssi)
        writer.flag(3, isRandom)
        writer.bytes(4, data)
    }
}

extension ServerMessage.ParsedAdvertisement {
    fileprivate func write(to writer: inout ProtobufWriter) {
        writer.number(1, address)
        writer.text(2, name)
        writer.zigzag(3, rssi)
        for service in services { writer.element(4, Array(service.utf8)) }
        for (field, entries) in [(5, serviceData), (6, manufacturerData)] {
            for entry in entries {
                writer.message(field) { inner in
                    inner.text(1, entry.key)
                    inner.bytes(3, entry.data)
                }
            }
        }
        writer.flag(7, isRandom)
    }
}

extension ServerMessage.Service {
    fileprivate func write(to writer: inout ProtobufWriter) {
        writer.numbers(1, uuid.numbers)
        writer.number(2, UInt64(handle))
        for characteristic in characteristics { writer.message(3, characteristic.write) }
    }
}

extension ServerMessage.Characteristic {
    fileprivate func write(to writer: inout ProtobufWriter) {
        writer.numbers(1, uuid.numbers)
        writer.number(2, UInt64(handle))
        writer.number(3, UInt64(properties))
        for descriptor in descriptors {
            writer.message(4) { inner in
                inner.numbers(1, descriptor.uuid.numbers)
                inner.number(2, UInt64(descriptor.handle))
            }
        }
    }
}

extension ServerMessage.UUID128 {
    fileprivate var numbers: [UInt64] { [high, low] }
}

/// An error that a client knows: of GATT (Core Specification 5.4, Vol 3, Part F, 3.4.1.1), of the controller (Vol 1,
/// Part F), and of ESP-IDF (esp_gatt_status_t).
public struct GATTError: Error, Equatable, Sendable {
    /// The number in the API.
    public let rawValue: Int

    /// - Parameter rawValue: a code of the attribute protocol, for the errors without a name here.
    public init(rawValue: Int) { self.rawValue = rawValue }

    public static let none = GATTError(rawValue: 0)
    public static let invalidHandle = GATTError(rawValue: 0x01)
    public static let notSupported = GATTError(rawValue: 0x06)
    public static let terminatedByPeer = GATTError(rawValue: 0x13)
    public static let terminatedByHost = GATTError(rawValue: 0x16)
    public static let failedToEstablish = GATTError(rawValue: 0x3E)
    public static let noResources = GATTError(rawValue: 0x80)
    public static let busy = GATTError(rawValue: 0x84)
    public static let error = GATTError(rawValue: 0x85)
    public static let connectionCancelled = GATTError(rawValue: 0x100)
    /// ESPHome's, for a device without a link.
    public static let notConnected = GATTError(rawValue: -1)
}
