// SPDX-License-Identifier: Apache-2.0
// The descriptors that a main loop waits for. The kernel keeps the list (epoll): a turn of the loop costs as much as is
// ready, however many descriptors are waited for.

internal import CSystem

final class DescriptorSet {
    /// All sources of one descriptor; the kernel takes each descriptor once.
    private struct Entry {
        /// Distinguishes it from an earlier descriptor of the same number, whose events may have been fetched already.
        let generation: UInt32
        var sources: [LoopSource] = []

        var events: UInt32 {
            sources.reduce(0) { events, source in
                if case .descriptor(_, let wanted) = source.kind { events | wanted } else { events }
            }
        }
    }

    private let epoll: FileDescriptor
    private var entries: [Int32: Entry] = [:]
    private var generations: UInt32 = 0
    /// Sources that epoll refuses: files, which are always ready.
    private var files: [LoopSource] = []

    /// The events that poll(2) reports unasked: ERR and HUP.
    private static let unasked: UInt32 = 8 | 16
    /// As many as the shim fetches at once.
    private static let batch = 32

    init() {
        epoll = FileDescriptor(owning: csystem_epoll())
        precondition(epoll.rawValue >= 0, "no descriptor for the main loop")
    }

    func add(_ source: LoopSource, _ descriptor: Int32) {
        var entry: Entry
        if let present = entries[descriptor] {
            entry = present
        } else {
            generations &+= 1
            entry = Entry(generation: generations)
        }
        entry.sources.append(source)
        if csystem_epoll_set(epoll.rawValue, descriptor, entry.events, Self.key(descriptor, entry.generation)) == 0 {
            entries[descriptor] = entry
        } else {
            files.append(source)
        }
    }

    func remove(_ source: LoopSource, _ descriptor: Int32) {
        files.removeAll { $0 === source }
        guard var entry = entries[descriptor], entry.sources.contains(where: { $0 === source }) else { return }
        let before = entry.events
        entry.sources.removeAll { $0 === source }
        guard !entry.sources.isEmpty else {
            entries[descriptor] = nil
            return csystem_epoll_remove(epoll.rawValue, descriptor)
        }
        entries[descriptor] = entry
        guard entry.events != before else { return }
        _ = csystem_epoll_set(epoll.rawValue, descriptor, entry.events, Self.key(descriptor, entry.generation))
    }

    func removeAll() -> [LoopSource] {
        defer {
            entries = [:]
            files = []
        }
        return entries.values.flatMap(\.sources) + files
    }

    private static func key(_ descriptor: Int32, _ generation: UInt32) -> UInt64 {
        UInt64(generation) << 32 | UInt64(UInt32(bitPattern: descriptor))
    }

    /// Waits until descriptors are ready, and calls their sources.
    ///
    /// - Parameters:
    ///   - milliseconds: the longest wait; negative for no end.
    ///   - begin: called before the sources.
    func wait(_ milliseconds: Int32, then begin: () -> Void) {
        withUnsafeTemporaryAllocation(of: csystem_ready.self, capacity: Self.batch) { ready in
            let count = csystem_epoll_wait(epoll.rawValue, ready.baseAddress!, files.isEmpty ? milliseconds : 0)
            begin()
            for index in 0..<Int(count) { serve(ready[index].key, ready[index].events) }
        }
        for source in files { serve(source, ~Self.unasked) }
    }

    private func serve(_ key: UInt64, _ events: UInt32) {
        let descriptor = Int32(bitPattern: UInt32(truncatingIfNeeded: key))
        guard let entry = entries[descriptor], entry.generation == UInt32(key >> 32) else { return }
        for source in entry.sources { serve(source, events) }
    }

    private func serve(_ source: LoopSource, _ events: UInt32) {
        guard case .descriptor(_, let wanted) = source.kind, case let fitting = events & (wanted | Self.unasked), fitting != 0
        else { return }
        if source.isActive, !source.fire(fitting) { source.cancel() }
    }
}
