// SPDX-License-Identifier: Apache-2.0
// Descriptors of the main loop: several waiters for one, numbers that are used again, and descriptors that cannot be
// waited for.

import DBusKit
import Glibc
import TestSupport
import Testing

@Suite struct DescriptorSetTests {
    private let loop = MainLoop()

    private func pipe() throws -> (FileDescriptor, FileDescriptor) {
        var ends: [Int32] = [-1, -1]
        try #require(Glibc.pipe(&ends) == 0)
        return (FileDescriptor(owning: ends[0]), FileDescriptor(owning: ends[1]))
    }

    private func fill(_ end: FileDescriptor) { _ = write(end.rawValue, "x", 1) }

    @Test func severalWaitForOneDescriptor() throws {
        let (ours, theirs) = try #require(FileDescriptor.packetPair())
        var called: [String] = []
        let reader = loop.onReadable(ours.rawValue) {
            called.append("read")
            return true
        }
        let writer = loop.onWritable(ours.rawValue) {
            called.append("write")
            return false
        }
        loop.iterate()
        #expect(called == ["write"] && !writer.isActive && reader.isActive)
        fill(theirs)
        loop.iterate()
        #expect(called == ["write", "read"])
        reader.cancel()
        loop.iterate(mayBlock: false)
        #expect(called == ["write", "read"])
    }

    @Test func oneWhoIsCancelledByAnotherIsNotCalled() throws {
        let (first, firstEnd) = try pipe()
        let (second, secondEnd) = try pipe()
        var sources: [LoopSource] = []
        var calls = 0
        for descriptor in [first, second] {
            sources.append(
                loop.onReadable(descriptor.rawValue) {
                    calls += 1
                    for source in sources { source.cancel() }
                    return true
                })
        }
        fill(firstEnd)
        fill(secondEnd)
        loop.iterate()
        loop.iterate(mayBlock: false)
        #expect(calls == 1)
    }

    @Test func aNumberThatIsUsedAgainIsAnother() throws {
        for isCancelledFirst in [true, false] {
            var calls = (old: 0, new: 0)
            let (first, firstRope) = try pipe()
            let number = first.rawValue
            fill(firstRope)
            let old = loop.onReadable(number) {
                calls.old += 1
                return true
            }
            loop.iterate()
            if isCancelledFirst { old.cancel() }
            let (end, rope) = try pipe()
            // At once, so that no other thread is given the number in between.
            #expect(dup2(end.rawValue, number) == number)
            let new = loop.onReadable(number) {
                calls.new += 1
                return true
            }
            old.cancel()
            loop.iterate(mayBlock: false)
            fill(rope)
            loop.iterate()
            #expect(calls == (1, 1))
            new.cancel()
            withExtendedLifetime((first, end)) {}
        }
    }

    @Test func aFileIsAlwaysReady() throws {
        let file = FileDescriptor(owning: open("/proc/self/exe", O_RDONLY | O_CLOEXEC))
        let (end, rope) = try pipe()
        var calls = (file: 0, pipe: 0)
        let source = loop.onReadable(file.rawValue) {
            calls.file += 1
            return true
        }
        let other = loop.onReadable(end.rawValue) {
            calls.pipe += 1
            return true
        }
        loop.iterate()
        #expect(calls == (1, 0))
        fill(rope)
        loop.iterate()
        #expect(calls == (2, 1))
        source.cancel()
        other.cancel()
    }

    @Test func theEndOfATurnComesAfterAllOfIt() throws {
        let pipes = try [pipe(), pipe()]
        var order: [String] = []
        let sources = pipes.map { end, rope in
            fill(rope)
            return loop.onReadable(end.rawValue) { [loop] in
                order.append("pipe")
                if order.count == 1 {
                    loop.atEndOfTurn {
                        order.append("end")
                        loop.atEndOfTurn { order.append("end of the end") }
                    }
                }
                return true
            }
        }
        loop.iterate()
        #expect(order == ["pipe", "pipe", "end", "end of the end"])
        for source in sources { source.cancel() }
    }

    @Test func timersAndWhatIsSoonHaveTheirTurn() throws {
        let (end, rope) = try pipe()
        fill(rope)
        var order: [String] = []
        let source = loop.onReadable(end.rawValue) {
            if order.count < 100 { order.append("pipe") }
            return true
        }
        loop.soon { order.append("soon") }
        loop.after(.milliseconds(1)) { order.append("timer") }
        #expect(loop.run(until: { order.contains("timer") && order.contains("soon") }, timeout: .hang))
        #expect(order.first == "pipe")
        source.cancel()
    }
}
