// SPDX-License-Identifier: Apache-2.0
// What a manager has in common with its client on the module's thread: the queue on which everything is told, in order,
// and the way from one to the other. Both halves keep their own state; only Sendable values and closures pass here.

internal import DBusKit
internal import Dispatch
internal import Foundation
internal import Synchronization

/// The middle between a manager and its client.
final class CentralCore: Sendable {
    let address: Connection.Address
    /// The name under which state is restored; nil for none.
    let restoreIdentifier: String?
    /// Guards what public objects hold: apps call them from other threads than their queue, too.
    let lock = NSLock()
    /// Serial, and aimed at the app's: order is kept even if that one is concurrent.
    private let queue: DispatchQueue
    private let manager = ManagerReference()
    private let waiting = Mutex(Waiting())

    /// What waits for the app's queue, in order.
    private struct Waiting {
        enum Item {
            case body(@Sendable (CBCentralManager) -> Void)
            /// Values of one characteristic that came one after the other.
            case values(UUID, ObjectPath, [[UInt8]])
        }

        var items: [Item] = []
        /// Bodies and values.
        var count = 0

        mutating func append(_ body: @escaping @Sendable (CBCentralManager) -> Void) {
            count += 1
            items.append(.body(body))
        }

        mutating func append(_ value: [UInt8], of path: ObjectPath, _ identifier: UUID) {
            count += 1
            if case .values(identifier, path, var values) = items.last {
                // Only one of the two may hold the values while one is added.
                items.removeLast()
                values.append(value)
                items.append(.values(identifier, path, values))
            } else {
                items.append(.values(identifier, path, [value]))
            }
        }
    }

    /// So much may wait for the app's queue. What comes beyond is dropped and logged: an app that stands still must
    /// not fill the memory.
    private static let mostWaiting = 65_536

    init(_ address: Connection.Address, _ queue: DispatchQueue?, restoreIdentifier: String?) {
        self.address = address
        self.restoreIdentifier = restoreIdentifier
        self.queue = DispatchQueue(label: "org.accessorysetup1.central", target: queue ?? .main)
    }

    /// Before anything is told.
    func begin(_ manager: CBCentralManager) {
        self.manager.value = manager
    }

    // MARK: To the app

    /// Does something on the app's queue, after all that was told before; nothing when the app has let go of the
    /// manager.
    ///
    /// - Parameter mayBeDropped: whether it can be left out when the app is behind.
    func tell(mayBeDropped: Bool = false, _ body: @escaping @Sendable (CBCentralManager) -> Void) {
        // One block does all that waits by then.
        if put(mayBeDropped, { $0.append(body) }) == 1 { wakeQueue() }
    }

    /// Does something with a peripheral on the app's queue.
    func tell(
        _ identifier: UUID, mayBeDropped: Bool = false,
        _ body: @escaping @Sendable (CBCentralManager, CBPeripheral) -> Void
    ) {
        tell(mayBeDropped: mayBeDropped) { manager in body(manager, manager.peripheral(identifier)) }
    }

    /// Tells a characteristic's value. More may follow in the same turn of the thread's loop: the queue is woken at its
    /// end.
    func tell(_ value: [UInt8], of path: ObjectPath, _ identifier: UUID, endOfTurn loop: MainLoop) {
        if put(true, { $0.append(value, of: path, identifier) }) == 1 { loop.atEndOfTurn { [self] in wakeQueue() } }
    }

    /// - Returns: how much waits then; nil when it was dropped.
    private func put(_ mayBeDropped: Bool, _ append: (inout Waiting) -> Void) -> Int? {
        let count = waiting.withLock { waiting -> Int? in
            guard !mayBeDropped || waiting.count < Self.mostWaiting else { return nil }
            append(&waiting)
            return waiting.count
        }
        if count == nil { Misuse.log("\(Self.mostWaiting) callbacks wait for the app's queue: more are dropped") }
        return count
    }

    private func wakeQueue() {
        queue.async { [self] in tellAll() }
    }

    private func tellAll() {
        let items = waiting.withLock { waiting in
            defer { waiting = Waiting() }
            return waiting.items
        }
        for item in items {
            // The app may let go of it in a callback.
            guard let manager = manager.value else { return }
            switch item {
            case .body(let body): body(manager)
            case .values(let identifier, let path, let values): tellAll(values, of: path, manager.peripheral(identifier))
            }
        }
    }

    private func tellAll(_ values: [[UInt8]], of path: ObjectPath, _ peripheral: CBPeripheral) {
        guard let characteristic = peripheral.characteristic(path) else { return }
        for value in values where manager.value != nil {
            characteristic.apply(value: Data(value))
            peripheral.delegate?.peripheral(peripheral, didUpdateValueFor: characteristic, error: nil)
        }
    }

    // MARK: To the client

    /// Does something on the module's thread, after all that was asked before.
    func perform(_ body: @escaping @Sendable (CentralClient) -> Void) {
        guard case .success(let thread) = Hub.thread else { return }
        thread.perform { [self] hub in
            if let client = hub.client(of: self) { body(client) }
        }
    }

    /// Asks the client and waits for its answer. The client's thread waits for nobody, so this is short; a question
    /// that the daemon has to answer ends with `fallback` when that takes too long.
    func ask<Answer: Sendable>(
        _ fallback: Answer,
        _ question: @escaping @Sendable (CentralClient, @escaping @Sendable (Answer) -> Void) -> Void
    ) -> Answer {
        let answer = Reply<Answer>()
        perform { client in question(client) { answer.give($0) } }
        return answer.wait() ?? fallback
    }
}

/// An answer that somebody waits for.
private final class Reply<Answer: Sendable>: Sendable {
    private let value = Mutex<Answer?>(nil)
    private let isThere = DispatchSemaphore(value: 0)
    private static var longest: DispatchTimeInterval { .seconds(5) }

    func give(_ answer: Answer) {
        value.withLock { $0 = answer }
        isThere.signal()
    }

    func wait() -> Answer? {
        _ = isThere.wait(timeout: .now() + Self.longest)
        return value.withLock { $0 }
    }
}

/// A manager on its way to the app's queue.
///
/// @unchecked, as managers are not Sendable (Apple's are not either). It is safe because the reference is set once,
/// before the core is given to another thread, and is then read on the core's serial queue only, which is the app's:
/// what belongs to the app's queue is touched there and nowhere else. Reading a weak reference while the object goes is
/// safe by itself.
private final class ManagerReference: @unchecked Sendable {
    weak var value: CBCentralManager?
}
