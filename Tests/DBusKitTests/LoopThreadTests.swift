// SPDX-License-Identifier: Apache-2.0
// A thread with a loop of its own: jobs in order, on that thread, none lost when the handle goes.

import DBusKit
import Foundation
import Synchronization
import Testing

@Suite struct LoopThreadTests {
    /// Lives on the loop's thread; says when it ends.
    private final class Resident {
        let loop: MainLoop
        let thread = pthread_self()
        var numbers: [Int] = []
        let onEnd: @Sendable () -> Void

        init(_ loop: MainLoop, onEnd: @escaping @Sendable () -> Void) {
            self.loop = loop
            self.onEnd = onEnd
        }

        deinit { onEnd() }
    }

    @Test func jobsRunInOrderOnTheThread() async throws {
        let thread = try LoopThread(name: "test-loop") { Resident($0) {} }
        let (numbers, isThere) = await withCheckedContinuation { (continuation: CheckedContinuation<([Int], Bool), Never>) in
            for number in 0..<1000 { thread.perform { $0.numbers.append(number) } }
            thread.perform { resident in
                // The loop's own sources fire there too.
                resident.loop.soon {
                    continuation.resume(returning: (resident.numbers, pthread_equal(resident.thread, pthread_self()) != 0))
                }
            }
        }
        #expect(numbers == Array(0..<1000) && isThere)
    }

    @Test func manyThreadsMayHandOver() async throws {
        let thread = try LoopThread(name: "test-loop") { Resident($0) {} }
        await withTaskGroup(of: Void.self) { group in
            for start in 0..<8 {
                group.addTask { for number in 0..<500 { thread.perform { $0.numbers.append(start * 500 + number) } } }
            }
        }
        let numbers = await withCheckedContinuation { continuation in
            thread.perform { continuation.resume(returning: $0.numbers) }
        }
        #expect(numbers.sorted() == Array(0..<4000))
        for start in 0..<8 { #expect(numbers.filter { $0 / 500 == start } == Array(start * 500..<start * 500 + 500)) }
    }

    @Test func whatWasHandedOverIsDoneBeforeTheEnd() async throws {
        let done = Mutex(0)
        await withCheckedContinuation { (ended: CheckedContinuation<Void, Never>) in
            do {
                let thread = try LoopThread(name: "test-loop") { Resident($0) { ended.resume() } }
                for _ in 0..<100 { thread.perform { _ in done.withLock { $0 += 1 } } }
            } catch {
                Issue.record(error)
                ended.resume()
            }
        }
        #expect(done.withLock { $0 } == 100)
    }
}
