// SPDX-License-Identifier: Apache-2.0
// Writes without response: packets on the descriptor of AcquireWrite, as fast as bluetoothd takes them. (BlueZ,
// org.bluez.GattCharacteristic(5), AcquireWrite)

internal import DBusKit

/// A descriptor that takes values.
final class CommandChannel {
    private let descriptor: FileDescriptor
    private let gate: CommandGate
    private let loop: MainLoop
    private let onIdle: () -> Void
    private var writable: LoopSource?
    private var idle: LoopSource?
    private var lastUse: Int64 = 0
    private var isOpen = true

    /// The descriptor blocks all other writers, also of other apps: it is given back when it is not used.
    private static let maxIdle: Int64 = 1_000_000

    init(_ descriptor: FileDescriptor, _ gate: CommandGate, _ loop: MainLoop, onIdle: @escaping () -> Void) {
        self.descriptor = descriptor
        self.gate = gate
        self.loop = loop
        self.onIdle = onIdle
        watchIdle()
    }

    private func watchIdle() {
        idle = loop.after(.milliseconds(Self.maxIdle / 1000)) { [weak self] in
            guard let self, self.isOpen else { return }
            if self.gate.consumeUse() { self.lastUse = self.loop.now }
            guard self.writable != nil || self.loop.now - self.lastUse < Self.maxIdle else {
                self.onIdle()
                return self.close()
            }
            self.watchIdle()
        }
    }

    /// Sends a packet, now or when there is room.
    ///
    /// - Parameter completion: called once, unless the channel is closed before, with whether it was sent.
    func send(_ value: [UInt8], completion: @escaping (Bool) -> Void) {
        lastUse = loop.now
        let sending = value.withUnsafeBytes(descriptor.sendPacket)
        guard sending == .full else { return completion(sending == .sent) }
        writable = loop.onWritable(descriptor.rawValue) { [weak self] in
            guard let self, self.isOpen else { return false }
            let sending = value.withUnsafeBytes(self.descriptor.sendPacket)
            guard sending != .full else { return true }
            self.lastUse = self.loop.now
            self.writable = nil
            completion(sending == .sent)
            return false
        }
    }

    /// Opens the short way for the app.
    func openGate(to path: ObjectPath) {
        gate.open(path, descriptor)
    }

    /// Gives the descriptor back.
    func close() {
        isOpen = false
        gate.close(descriptor)
        writable?.cancel()
        writable = nil
        idle?.cancel()
        // The other end sees the end at once, even if another reference keeps this object alive.
        descriptor.endConnection()
    }
}
