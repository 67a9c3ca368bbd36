// SPDX-License-Identifier: Apache-2.0
// The use of a paired accessory as an input device: trusted, so that it may connect by itself; connected; and present
// in the kernel, from when on key presses arrive.

internal import AccessoryEngine
internal import AccessoryModel
internal import BlueZInterfaces
internal import CallsOut
internal import DBusKit
internal import Glibc

final class InputDeviceSetup: PairingStep {
    private enum State { case new, trusting, connecting, polling, ended }

    private let device: ObjectPath
    private let address: BluetoothAddress
    private let connection: Connection
    private let directory: String
    private let completion: (RadioFailure?) -> Void
    private let timer: Timers<Bool>
    private var state = State.new

    /// bluetoothd resolves the services first, then makes the device through uhid. sysfs has no notifications, so it is
    /// polled meanwhile.
    private static let maxPolls = 40

    /// - Parameters:
    ///   - directory: where the kernel lists input devices, `/sys/class/input`.
    ///   - completion: called exactly once.
    init(
        of device: ObjectPath, address: BluetoothAddress, directory: String, on connection: Connection,
        completion: @escaping (RadioFailure?) -> Void
    ) {
        self.device = device
        self.address = address
        self.directory = directory
        self.connection = connection
        self.completion = completion
        timer = Timers(on: connection.loop)
    }

    func begin() {
        state = .trusting
        connection.trust(device) { [weak self] failure in
            guard let self, case .trusting = state else { return }
            if let failure { end(failure) } else { connect() }
        }
    }

    private func connect() {
        state = .connecting
        connection.call(.inputConnect, at: device) { [weak self] result in
            guard let self, case .connecting = state else { return }
            if let error = result.error, error.bluez != .alreadyConnected {
                return end(RadioFailure(.connection, "could not connect the input device: \(error.message)"))
            }
            state = .polling
            timer.poll(true, times: Self.maxPolls) { [weak self] in
                guard let self, isPresent else { return false }
                end(nil)
                return true
            } onTimeout: { [weak self] in
                self?.end(RadioFailure(.other, "the kernel has no input device for the accessory"))
            }
        }
    }

    /// Whether the kernel has an input device of the accessory: its `uniq` is the address, in lower case.
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

    var adapter: ObjectPath { device.parent }
    var attempt: PairingAttempt? { nil }
    func cancel() { end(RadioFailure(.cancelled, "cancelled")) }
    func abort(_ failure: RadioFailure) { end(failure) }

    private func end(_ failure: RadioFailure?) {
        if case .ended = state { return }
        state = .ended
        timer.cancelAll()
        completion(failure)
    }
}
