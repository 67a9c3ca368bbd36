// SPDX-License-Identifier: Apache-2.0
// The descriptors that a main loop waits for. The kernel keeps the list (epoll): a turn of the loop costs what is
// ready, not what is waited for, and a daemon waits for many.

internal import CSystem

/// Descriptors, and who is called when one is ready.
final class DescriptorSet {
    /// Whoever waits for a descriptor.
    final class Watch {
        let descriptor: Int32
        let events: UInt32
        private weak var set: DescriptorSet?
        /// Gets the events; false to be called no more. Nil once it is cancelled.
        fileprivate(set) var body: ((UInt32) -> Bool)?

        fileprivate init(_ descriptor: Int32, _ events: UInt32, _ set: DescriptorSet, _ body: @escaping (UInt32) -> Bool) {
            self.descriptor = descriptor
            self.events = events
            self.set = set
            self.body = body
        }

        /// Ends it; before the descriptor is closed.
        func cancel() {
            guard body != nil else { return }
            body = nil
            set?.remove(self)
        }
    }

    /// All who wait for one descriptor; the kernel takes each once.
    private struct Entry {
        /// Tells it from an earlier one of the same number, whose events may have been fetched already.
        let generation: UInt32
        var watches: [Watch] = []

        var events: UInt32 { watches.reduce(0) { $0 | $1.events } }
    }

    /// To be waited for by poll(2), where other descriptors are waited for too.
    let raw: Int32
    private let bell: UInt64
    private var entries: [Int32: Entry] = [:]
    private var generations: UInt32 = 0

    /// ERR and HUP come unasked.
    private static let always: UInt32 = 8 | 16
    /// As many as the shim fetches at once.
    private static let batch = 32

    /// - Parameter bell: a descriptor that only wakes up.
    init(bell: Int32) {
        raw = csystem_epoll()
        self.bell = Self.key(bell, 0)
        _ = csystem_epoll_set(raw, bell, 1, self.bell)
    }

    deinit {
        for entry in entries.values {
            for watch in entry.watches { watch.body = nil }
        }
        if raw >= 0 { _ = FileDescriptor(owning: raw) }
    }

    /// Calls `body` while one of `events` (poll's bits) is there.
    ///
    /// - Returns: nil for what cannot be waited for so: a file, which is always ready.
    func add(_ descriptor: Int32, _ events: UInt32, _ body: @escaping (UInt32) -> Bool) -> Watch? {
        var entry: Entry
        if let known = entries[descriptor] {
            entry = known
        } else {
            generations &+= 1
            entry = Entry(generation: generations)
        }
        let watch = Watch(descriptor, events, self, body)
        entry.watches.append(watch)
        guard csystem_epoll_set(raw, descriptor, entry.events, Self.key(descriptor, entry.generation)) == 0 else { return nil }
        entries[descriptor] = entry
        return watch
    }

    private func remove(_ watch: Watch) {
        guard var entry = entries[watch.descriptor] else { return }
        let before = entry.events
        entry.watches.removeAll { $0 === watch }
        guard !entry.watches.isEmpty else {
            entries[watch.descriptor] = nil
            return csystem_epoll_remove(raw, watch.descriptor)
        }
        entries[watch.descriptor] = entry
        guard entry.events != before else { return }
        _ = csystem_epoll_set(raw, watch.descriptor, entry.events, Self.key(watch.descriptor, entry.generation))
    }

    private static func key(_ descriptor: Int32, _ generation: UInt32) -> UInt64 {
        UInt64(generation) << 32 | UInt64(UInt32(bitPattern: descriptor))
    }

    /// Waits until some are ready, and calls who waits for them.
    ///
    /// - Parameters:
    ///   - milliseconds: the longest wait; negative for no end.
    ///   - begin: called before the others, with whether the bell has rung.
    func wait(_ milliseconds: Int32, then begin: (Bool) -> Void) {
        withUnsafeTemporaryAllocation(of: csystem_ready.self, capacity: Self.batch) { ready in
            let count = Int(csystem_epoll_wait(raw, ready.baseAddress!, milliseconds))
            begin(ready[..<count].contains { $0.key == bell })
            for index in 0..<count { serve(ready[index].key, ready[index].events) }
        }
    }

    private func serve(_ key: UInt64, _ events: UInt32) {
        let descriptor = Int32(bitPattern: UInt32(truncatingIfNeeded: key))
        guard let entry = entries[descriptor], entry.generation == UInt32(key >> 32) else { return }
        for watch in entry.watches {
            let meant = events & (watch.events | Self.always)
            // One may cancel another.
            guard meant != 0, let body = watch.body else { continue }
            if !body(meant) { watch.cancel() }
        }
    }
}
