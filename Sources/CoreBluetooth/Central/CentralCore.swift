// SPDX-License-Identifier: Apache-2.0
// Between a manager and its client on the runtime's thread: the queue of all callbacks, in order, and jobs in the other
// direction. Both halves keep their own state; only Sendable values and closures pass.

internal import DBusKit
internal import Dispatch
internal import Foundation
internal import Synchronization

/// The middle between a manager and its client.
final class CentralCore: Sendable {
    let address: Connection.Address
    /// The name under which state is restored; nil for none.
    let restoreIdentifier: String?
    /// Guards the state of public objects: apps may call them from any thread.
    let lock = NSLock()
    let streams = StreamObservers()
    /// Serial, with the app's queue as its target, which may be concurrent.
    private let queue: DispatchQueue
    private let manager = ManagerReference()
    private let pending = Mutex(Pending())

    /// Callbacks for the app's queue, in order.
    private struct Pending {
        enum Item {
            case body(@Sendable (CBCentralManager) -> Void)
            /// Successive values of one characteristic.
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
                // The list must not hold a second reference during the append, which would copy all values.
                items.removeLast()
                values.append(value)
                items.append(.values(identifier, path, values))
            } else {
                items.append(.values(identifier, path, [value]))
            }
        }
    }

    /// Values and advertisements beyond so many callbacks are dropped and logged: a blocked app must not fill the
    /// memory.
    private static let maxPendingCallbacks = 65_536

    init(_ address: Connection.Address, _ queue: DispatchQueue?, restoreIdentifier: String?) {
        self.address = address
        self.restoreIdentifier = restoreIdentifier
        self.queue = DispatchQueue(label: "org.accessorysetup1.central", target: queue ?? .main)
    }

    /// Called before the first callback.
    func begin(_ manager: CBCentralManager) {
        self.manager.value = manager
    }

    /// Whether the app has released the manager.
    var isReleased: Bool { manager.value == nil }

    // MARK: To the app

    /// Runs `body` on the app's queue, after all callbacks before it, unless the app has released the manager.
    ///
    /// - Parameter mayBeDropped: whether an app that is behind can do without it.
    func publish(mayBeDropped: Bool = false, _ body: @escaping @Sendable (CBCentralManager) -> Void) {
        // One block runs all that are pending by then.
        if add(mayBeDropped, { $0.append(body) }) == 1 { wakeQueue() }
    }

    /// As above, with a peripheral that the app keeps.
    func publish(_ identifier: UUID, _ body: @escaping @Sendable (CBCentralManager, CBPeripheral) -> Void) {
        publish { manager in
            if let peripheral = manager.retained(identifier) { body(manager, peripheral) }
        }
    }

    /// Publishes a characteristic's value. The queue is woken at the end of the loop's turn, since more may follow.
    func publish(_ value: [UInt8], of path: ObjectPath, _ identifier: UUID, endOfTurn loop: MainLoop) {
        if add(true, { $0.append(value, of: path, identifier) }) == 1 { loop.atEndOfTurn { [self] in wakeQueue() } }
    }

    /// A link cannot be made.
    func publishFailure(_ identifier: UUID, _ error: any Error & Sendable) {
        publish(identifier) { manager, peripheral in
            peripheral.apply(state: .disconnected)
            manager.delegate?.centralManager(manager, didFailToConnect: peripheral, error: error)
        }
    }

    /// - Returns: the number of pending callbacks; nil when this one was dropped.
    private func add(_ mayBeDropped: Bool, _ append: (inout Pending) -> Void) -> Int? {
        let count = pending.withLock { pending -> Int? in
            guard !mayBeDropped || pending.count < Self.maxPendingCallbacks else { return nil }
            append(&pending)
            return pending.count
        }
        if count == nil {
            Misuse.log("\(Self.maxPendingCallbacks) callbacks are pending on the app's queue: dropping further ones")
        }
        return count
    }

    private func wakeQueue() {
        queue.async { [self] in runPending() }
    }

    private func runPending() {
        let items = pending.withLock { pending in
            defer { pending = Pending() }
            return pending.items
        }
        for item in items {
            // The app may release it in a callback.
            guard let manager = manager.value else { return }
            switch item {
            case .body(let body): body(manager)
            case .values(let identifier, let path, let values):
                if let peripheral = manager.retained(identifier) { deliver(values, of: path, peripheral) }
            }
        }
    }

    private func deliver(_ values: [[UInt8]], of path: ObjectPath, _ peripheral: CBPeripheral) {
        guard let characteristic: CBCharacteristic = peripheral.attribute(path) else { return }
        for value in values where manager.value != nil {
            let value = Data(value)
            characteristic.apply(value: value)
            streams.send(.value(value), to: .characteristic(peripheral.identifier, path))
            peripheral.delegate?.peripheral(peripheral, didUpdateValueFor: characteristic, error: nil)
        }
    }

    // MARK: To the client

    /// Runs `body` on the runtime's thread, after all that was asked before.
    func perform(_ body: @escaping @Sendable (CentralClient) -> Void) {
        try? CentralRegistry.perform { [self] registry in
            if let client = registry.client(of: self) { body(client) }
        }
    }

    /// Asks the client and waits for its answer, `fallback` after 5 s. The client's thread never blocks, so this is
    /// short but for questions that the daemon must answer.
    func ask<Answer: Sendable>(
        _ fallback: Answer,
        _ question: @escaping @Sendable (CentralClient, @escaping @Sendable (Answer) -> Void) -> Void
    ) -> Answer {
        let answer = Reply<Answer>()
        perform { client in question(client) { answer.give($0) } }
        return answer.wait() ?? fallback
    }
}

private final class Reply<Answer: Sendable>: Sendable {
    private let value = Mutex<Answer?>(nil)
    private let arrived = DispatchSemaphore(value: 0)
    private static var timeout: DispatchTimeInterval { .seconds(5) }

    func give(_ answer: Answer) {
        value.withLock { $0 = answer }
        arrived.signal()
    }

    func wait() -> Answer? {
        _ = arrived.wait(timeout: .now() + Self.timeout)
        return value.withLock { $0 }
    }
}

/// A manager on its way to the app's queue.
///
/// @unchecked, as managers are not Sendable (Apple's are not either). It is safe because the reference is set once,
/// before the core is given to another thread, and the manager is then used on the core's serial queue only, which is
/// the app's. Reading a weak reference while the object is released is safe by itself.
private final class ManagerReference: @unchecked Sendable {
    weak var value: CBCentralManager?
}
