// SPDX-License-Identifier: Apache-2.0
// Adverts that wait for their client. A device's newer strength replaces the waiting one; new contents wait beside the
// former, so that a device that says several things in turn is heard with all. Past the limit the oldest go.

internal import BlueZInterfaces
internal import DBusKit

/// The adverts that one client has not been sent.
struct AdvertQueue {
    /// A burst of ten thousand devices must not fill the memory; a client that reads gets the queue many times a
    /// second.
    static let limit = 512
    /// So many are sent at once: a burst comes within the time that a few wait.
    static let batch = 128

    private struct Entry {
        let path: ObjectPath
        let data: [UInt8]
        var properties: Properties<Device1>
    }

    private var waiting: [Entry] = []
    /// The position of each device's latest.
    private var latest: [ObjectPath: Int] = [:]

    var isEmpty: Bool { waiting.isEmpty }
    /// Whether another batch is complete.
    var hasBatch: Bool { !waiting.isEmpty && waiting.count % Self.batch == 0 }

    mutating func add(_ properties: Properties<Device1>, of path: ObjectPath) {
        let data = properties.advertisingData
        if let index = latest[path], waiting[index].data == data {
            waiting[index].properties = properties
            return
        }
        // A quarter at once, so that positions are counted anew seldom.
        if waiting.count >= Self.limit { keep(Array(waiting.dropFirst(Self.limit / 4))) }
        latest[path] = waiting.count
        waiting.append(Entry(path: path, data: data, properties: properties))
    }

    /// A device may not be shown any more.
    mutating func remove(_ path: ObjectPath) {
        if latest[path] != nil { keep(waiting.filter { $0.path != path }) }
    }

    private mutating func keep(_ entries: [Entry]) {
        waiting = entries
        latest = Dictionary(entries.enumerated().map { ($1.path, $0) }, uniquingKeysWith: { $1 })
    }

    /// All that wait, in order; none waits then.
    mutating func takeAll() -> [Properties<Device1>] {
        defer { keep([]) }
        return waiting.map(\.properties)
    }
}
