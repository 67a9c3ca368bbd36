// SPDX-License-Identifier: Apache-2.0
// Entry of an app's values without response, on any thread: the short way straight to bluetoothd's descriptor while no
// earlier request is pending, else the long way over the runtime's thread, with a window that makes the app wait.

internal import DBusKit
internal import Foundation
internal import Synchronization

/// One peripheral's gate for values without response.
final class CommandGate: Sendable {
    private struct State {
        /// Values on the long way.
        var onTheWay = 0
        /// The app has found the window full, and waits for the callback.
        var isAwaited = false
        /// The app's requests to the thread, and those that have arrived there.
        var asked: UInt64 = 0
        var arrived: UInt64 = 0
        /// The short way; nil while it is closed.
        var short: (path: ObjectPath, descriptor: FileDescriptor)?
        var wasShortUsed = false
        /// The short way had no room for a value; it is the last one until that has gone.
        var isShortFull = false
    }

    /// Values on the long way from which the app must wait.
    private static let highWater = 32
    /// Values kept for an app that does not.
    private static let maxValues = 512

    private let state = Mutex(State())

    // MARK: The app's side

    /// Whether another value may be written now.
    var hasRoom: Bool {
        state.withLock { state in
            let hasRoom = state.onTheWay < Self.highWater && !state.isShortFull
            if !hasRoom { state.isAwaited = true }
            return hasRoom
        }
    }

    /// Sends a value the short way.
    ///
    /// - Returns: whether it was sent; when not, it goes the long way.
    func send(_ value: Data, to path: ObjectPath) -> Bool {
        state.withLock { state in
            // A packet of no bytes would read as the end.
            guard let short = state.short, short.path == path, !value.isEmpty else { return false }
            state.wasShortUsed = true
            let sending = value.withUnsafeBytes { short.descriptor.sendPacket($0) }
            if sending == .full { state.isShortFull = true }
            return sending == .sent
        }
    }

    /// The app makes another request: values written after it take the long way.
    func ask() {
        state.withLock { state in
            state.asked &+= 1
            state.short = nil
        }
    }

    /// Takes a place on the long way; false when all are taken.
    func reserve() -> Bool {
        state.withLock { state in
            guard state.onTheWay < Self.maxValues else { return false }
            state.onTheWay += 1
            if state.onTheWay >= Self.highWater { state.isAwaited = true }
            return true
        }
    }

    // MARK: The thread's side

    /// A request has arrived.
    func arrive() {
        state.withLock { $0.arrived &+= 1 }
    }

    /// Gives a place back.
    ///
    /// - Returns: whether the app must be called back for room.
    func giveBack() -> Bool {
        state.withLock { state in
            state.onTheWay -= 1
            if state.onTheWay == 0 { state.isShortFull = false }
            guard state.isAwaited, !state.isShortFull, state.onTheWay <= Self.highWater / 2 else { return false }
            state.isAwaited = false
            return true
        }
    }

    /// Opens the short way once all requests that have arrived are answered, unless more are under way.
    func open(_ path: ObjectPath, _ descriptor: FileDescriptor) {
        state.withLock { state in
            if state.asked == state.arrived { state.short = (path, descriptor) }
        }
    }

    /// Closes the short way: nothing is sent to this descriptor after this returns.
    func close(_ descriptor: FileDescriptor) {
        state.withLock { state in
            if state.short?.descriptor == descriptor { state.short = nil }
        }
    }

    /// Whether a value took the short way since the last call.
    func consumeUse() -> Bool {
        state.withLock { state in
            defer { state.wasShortUsed = false }
            return state.wasShortUsed
        }
    }
}
