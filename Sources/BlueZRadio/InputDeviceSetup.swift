// SPDX-License-Identifier: Apache-2.0
// The use of a paired accessory as an input device: trusted, so that it may come back by itself; connected; and there
// for the kernel, which is when a key press arrives.

internal import AccessoryEngine
internal import AccessoryModel
internal import BlueZInterfaces
internal import CallsOut
internal import DBusKit

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#endif

final class InputDeviceSetup {
    let device: ObjectPath
    private let address: BluetoothAddress
    private let connection: Connection
    private let directory: String
    private let completion: (RadioFailure?) -> Void
    private var poll: LoopSource?
    private var isOver = false

    /// bluetoothd resolves the services first, then makes the device through uhid. sysfs tells nobody, so it is looked
    /// at meanwhile.
    private static let turns = 40
    private static let interval = Duration.milliseconds(250)

    /// - Parameter directory: where the kernel lists input devices, `/sys/class/input`.
    init(
        _ device: ObjectPath, address: BluetoothAddress, directory: String, on connection: Connection,
        completion: @escaping (RadioFailure?) -> Void
    ) {
        self.device = device
        self.address = address
        self.directory = directory
        self.connection = connection
        self.completion = completion
    }

    func begin() {
        connection.trust(device) { [self] failure in
            if let failure { return end(failure) }
            connect()
        }
    }

    private func connect() {
        guard !isOver else { return }
        connection.call(.inputConnect, at: device) { [self] result in
            guard !isOver else { return }
            if case .failure(let error) = result, error.bluez != .alreadyConnected {
                return end(RadioFailure(.connection, "the input device does not connect: \(error.message)"))
            }
            var turns = 0
            poll = connection.loop.every(Self.interval) { [self] in
                guard !isOver else { return false }
                if isPresent {
                    end(nil)
                    return false
                }
                turns += 1
                guard turns < Self.turns else {
                    end(RadioFailure(.other, "the kernel has no input device of the accessory"))
                    return false
                }
                return true
            }
        }
    }

    /// Whether an input device says that it is this accessory: `uniq` is its address, in lower case.
    private var isPresent: Bool {
        guard let listing = opendir(directory) else { return false }
        defer { closedir(listing) }
        let wanted = address.description.lowercased()
        while let entry = readdir(listing) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            guard name.hasPrefix("input"), let file = fopen("\(directory)/\(name)/uniq", "r") else { continue }
            defer { fclose(file) }
            var line = [CChar](repeating: 0, count: 64)
            guard fgets(&line, Int32(line.count), file) != nil else { continue }
            let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            if text.filter({ !$0.isWhitespace }).lowercased() == wanted { return true }
        }
        return false
    }

    func abort(_ failure: RadioFailure) { end(failure) }

    private func end(_ failure: RadioFailure?) {
        guard !isOver else { return }
        isOver = true
        poll?.cancel()
        completion(failure)
    }
}
