// SPDX-License-Identifier: Apache-2.0
// Where an app's values without response enter, on whatever thread it writes: the short way straight to bluetoothd's
// descriptor while nothing that was asked for earlier is still on its way there, else the long way over the module's
// thread, with a window that tells the app when to wait.

internal import DBusKit
internal import Foundation
internal import Synchronization

/// One peripheral's gate for values without response.
final class CommandGate: Sendable {
    private struct State {
        /// Values on the long way.
        var onTheWay = 0
        /// The app has filled the window, or looked at it full, and waits to be told.
        var isAwaited = false
        /// What the app has asked of the thread, and what of it has arrived there.
        var asked: UInt64 = 0
        var arrived: UInt64 = 0
        /// The short way; nil while it is closed.
        var short: (path: ObjectPath, descriptor: FileDescriptor)?
        var wasShortUsed = false
        /// The short way had no room for a value; it is the last one until that has gone.
        var isShortFull = false
    }

    /// From so many on the long way on the app is asked to wait.
    private static let limit = 32
    /// So many are kept of an app that does not.
    private static let most = 512

    private let state = Mutex(State())

    // MARK: The app's side

    /// Whether another value may be written now.
    var hasRoom: Bool {
        state.withLock { state in
            let hasRoom = state.onTheWay < Self.limit && !state.isShortFull
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

    /// The app asks the thread for something: what it writes from now on comes after that, and goes the long way.
    func ask() {
        state.withLock { state in
            state.asked &+= 1
            state.short = nil
        }
    }

    /// Takes a place on the long way; false when there is none at all.
    func take() -> Bool {
        state.withLock { state in
            guard state.onTheWay < Self.most else { return false }
            state.onTheWay += 1
            if state.onTheWay >= Self.limit { state.isAwaited = true }
            return true
        }
    }

    // MARK: The thread's side

    /// Something that the app has asked for has arrived.
    func arrive() {
        state.withLock { $0.arrived &+= 1 }
    }

    /// Gives a place back.
    ///
    /// - Returns: whether the app is to be told that there is room.
    func give() -> Bool {
        state.withLock { state in
            state.onTheWay -= 1
            if state.onTheWay == 0 { state.isShortFull = false }
            guard state.isAwaited, !state.isShortFull, state.onTheWay <= Self.limit / 2 else { return false }
            state.isAwaited = false
            return true
        }
    }

    /// Opens the short way when everything that has arrived is done, unless more is coming.
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

    /// Whether something went the short way since this was asked last.
    func takeUse() -> Bool {
        state.withLock { state in
            defer { state.wasShortUsed = false }
            return state.wasShortUsed
        }
    }
}
