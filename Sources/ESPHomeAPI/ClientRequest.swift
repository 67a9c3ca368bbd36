// SPDX-License-Identifier: Apache-2.0
// Messages of a client of ESPHome's native API, as far as they concern a Bluetooth proxy. Numbers and fields are those
// of api.proto (github.com/esphome/aioesphomeapi); the tests compare them.

/// A message of a client.
public enum ClientRequest: Equatable, Sendable {
    case hello(clientInfo: String)
    /// Of clients before passwords were abolished.
    case authentication
    case disconnect
    case disconnected
    case ping
    case pong
    case deviceInfo
    case listEntities
    /// - Parameter isRaw: whether the client takes adverts as they were on the air.
    case subscribeAdvertisements(isRaw: Bool)
    case unsubscribeAdvertisements
    case device(address: UInt64, DeviceAction)
    case getServices(address: UInt64)
    case read(address: UInt64, handle: UInt32)
    case write(address: UInt64, handle: UInt32, needsResponse: Bool, [UInt8])
    case readDescriptor(address: UInt64, handle: UInt32)
    case writeDescriptor(address: UInt64, handle: UInt32, [UInt8])
    case notify(address: UInt64, handle: UInt32, isEnabled: Bool)
    case subscribeFreeConnections
    case setScannerMode(ScannerMode)
    case setConnectionParameters(address: UInt64)
    case setEncryptionKey
    /// A message that is none of a Bluetooth proxy's.
    case other(type: UInt16)

    /// `BluetoothDeviceRequestType`.
    public enum DeviceAction: Equatable, Sendable {
        case connect
        case disconnect
        case pair
        case unpair
        case clearCache
        case other(UInt64)

        init(_ number: UInt64) {
            switch number {
            // With a cache, without, and from the time before the difference.
            case 0, 4, 5: self = .connect
            case 1: self = .disconnect
            case 2: self = .pair
            case 3: self = .unpair
            case 6: self = .clearCache
            default: self = .other(number)
            }
        }
    }

    /// - Returns: nil for a message whose bytes are malformed; the connection should end then.
    public init?(type: UInt16, _ body: ArraySlice<UInt8>) {
        guard let fields = try? ProtobufReader(body) else { return nil }
        let address = fields.number(1)
        let handle = fields.number32(2)
        switch type {
        case 1: self = .hello(clientInfo: fields.text(1))
        case 3: self = .authentication
        case 5: self = .disconnect
        case 6: self = .disconnected
        case 7: self = .ping
        case 8: self = .pong
        case 9: self = .deviceInfo
        case 11: self = .listEntities
        case 66: self = .subscribeAdvertisements(isRaw: fields.number(1) & 1 != 0)
        case 68: self = .device(address: address, DeviceAction(fields.number(2)))
        case 70: self = .getServices(address: address)
        case 73: self = .read(address: address, handle: handle)
        case 75: self = .write(address: address, handle: handle, needsResponse: fields.flag(3), fields.bytes(4))
        case 76: self = .readDescriptor(address: address, handle: handle)
        case 77: self = .writeDescriptor(address: address, handle: handle, fields.bytes(3))
        case 78: self = .notify(address: address, handle: handle, isEnabled: fields.flag(3))
        case 80: self = .subscribeFreeConnections
        case 87: self = .unsubscribeAdvertisements
        case 124: self = .setEncryptionKey
        case 127: self = .setScannerMode(fields.number(1) == 1 ? .active : .passive)
        case 145: self = .setConnectionParameters(address: address)
        default: self = .other(type: type)
        }
    }
}

/// `BluetoothScannerMode`.
public enum ScannerMode: UInt64, Sendable {
    case passive = 0
    case active = 1
}

/// `BluetoothScannerState`.
public enum ScannerState: UInt64, Sendable {
    case idle = 0
    case starting = 1
    case running = 2
    case failed = 3
    case stopping = 4
    case stopped = 5
}
