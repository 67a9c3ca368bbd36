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
    private let waiting = Mutex<[@Sendable (CBCentralManager) -> Void]>([])

    /// Things to tell that may wait for the app's queue. What comes beyond is dropped and logged: an app that stands
    /// still must not fill the memory.
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
        let place = waiting.withLock { bodies -> Int? in
            guard !mayBeDropped || bodies.count < Self.mostWaiting else { return nil }
            bodies.append(body)
            return bodies.count
        }
        guard let place else {
            return Misuse.log("\(Self.mostWaiting) callbacks wait for the app's queue: more are dropped")
        }
        // One block does all that waits by then.
        if place == 1 { queue.async { [self] in tellAll() } }
    }

    private func tellAll() {
        let bodies = waiting.withLock { bodies in
            defer { bodies = [] }
            return bodies
        }
        for body in bodies {
            // The app may let go of it in a callback.
            guard let manager = manager.value else { return }
            body(manager)
        }
    }

    /// Does something with a peripheral on the app's queue.
    func tell(
        _ identifier: UUID, mayBeDropped: Bool = false,
        _ body: @escaping @Sendable (CBCentralManager, CBPeripheral) -> Void
    ) {
        tell(mayBeDropped: mayBeDropped) { manager in body(manager, manager.peripheral(identifier)) }
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
