// SPDX-License-Identifier: Apache-2.0
// Writes without response: packets on the descriptor of AcquireWrite, as fast as bluetoothd takes them, and a window
// that tells an app when to wait. (BlueZ, org.bluez.GattCharacteristic(5), AcquireWrite)

internal import DBusKit
internal import Synchronization

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#endif

/// A descriptor that takes values.
final class CommandChannel {
    private let descriptor: FileDescriptor
    private let loop: MainLoop
    private let onIdle: () -> Void
    private var writable: LoopSource?
    private var idle: LoopSource?
    private var lastUse: Int64 = 0
    private var isOpen = true

    /// While it is out nobody else, also of another app, can write to the characteristic: it is given back when it is
    /// not used.
    private static let longestIdle: Int64 = 1_000_000

    init(_ descriptor: FileDescriptor, _ loop: MainLoop, onIdle: @escaping () -> Void) {
        self.descriptor = descriptor
        self.loop = loop
        self.onIdle = onIdle
        watchIdle()
    }

    private func watchIdle() {
        idle = loop.after(.milliseconds(Self.longestIdle / 1000)) { [weak self] in
            guard let self, self.isOpen else { return }
            guard self.writable != nil || self.loop.now - self.lastUse < Self.longestIdle else {
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
        switch trySend(value) {
        case .some(let isSent): completion(isSent)
        case nil:
            writable = loop.onWritable(descriptor.rawValue) { [weak self] in
                guard let self, self.isOpen else { return false }
                guard let isSent = self.trySend(value) else { return true }
                self.lastUse = self.loop.now
                self.writable = nil
                completion(isSent)
                return false
            }
        }
    }

    /// Nil when there is no room.
    private func trySend(_ value: [UInt8]) -> Bool? {
        #if canImport(Glibc)
            let count = Glibc.send(descriptor.rawValue, value, value.count, Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL))
        #else
            let count = Musl.send(descriptor.rawValue, value, value.count, Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL))
        #endif
        if count >= 0 { return true }
        return errno == EAGAIN || errno == ENOBUFS || errno == EINTR ? nil : false
    }

    /// Gives the descriptor back.
    func close() {
        isOpen = false
        writable?.cancel()
        writable = nil
        idle?.cancel()
        // The other end sees the end at once, whoever still holds this object.
        shutdown(descriptor.rawValue, Int32(SHUT_RDWR))
    }
}

/// How many values without response may be on their way, for one peripheral.
final class CommandWindow: Sendable {
    private struct State {
        var onTheWay = 0
        /// The app has filled the window, or looked at it full, and waits to be told.
        var isAwaited = false
    }

    /// From so many on the app is asked to wait.
    private static let limit = 32
    /// So many are kept of an app that does not.
    private static let most = 512

    private let state = Mutex(State())

    /// Whether another may be sent now.
    var hasRoom: Bool {
        state.withLock { state in
            let hasRoom = state.onTheWay < Self.limit
            if !hasRoom { state.isAwaited = true }
            return hasRoom
        }
    }

    /// Takes a place; false when there is none at all.
    func take() -> Bool {
        state.withLock { state in
            guard state.onTheWay < Self.most else { return false }
            state.onTheWay += 1
            if state.onTheWay >= Self.limit { state.isAwaited = true }
            return true
        }
    }

    /// Gives a place back.
    ///
    /// - Returns: whether the app is to be told that there is room.
    func give() -> Bool {
        state.withLock { state in
            state.onTheWay -= 1
            guard state.isAwaited, state.onTheWay <= Self.limit / 2 else { return false }
            state.isAwaited = false
            return true
        }
    }
}
