// SPDX-License-Identifier: Apache-2.0
// The descriptors for writes without response of one link, and the order between them and calls: bluetoothd reads
// descriptors and calls independently, and signals `WriteAcquired` once it has read one to its end.

internal import DBusKit

/// One link's channels.
final class CommandChannels {
    /// Channels that were closed and that BlueZ still reads.
    private struct Release {
        var paths: Set<ObjectPath>
        let timer: LoopSource
        let then: () -> Void
    }

    private let loop: MainLoop
    private var channels: [ObjectPath: CommandChannel] = [:]
    private var release: Release?
    /// Characteristics without a descriptor.
    private var refused: Set<ObjectPath> = []
    /// The bytes of a packet, as BlueZ answered with a descriptor.
    private(set) var mtu: Int?

    private static let maxRelease = Duration.seconds(1)

    init(_ loop: MainLoop) {
        self.loop = loop
    }

    subscript(path: ObjectPath) -> CommandChannel? { channels[path] }

    func isRefused(_ path: ObjectPath) -> Bool { refused.contains(path) }

    /// Opens a channel with the answer to `AcquireWrite`; nil where that has no descriptor.
    func open(_ path: ObjectPath, _ answer: Result<[DBusValue], BusError>, _ gate: CommandGate) -> CommandChannel? {
        guard case .success(let values) = answer, values.count == 2, let descriptor = values[0].fileDescriptorValue else {
            refused.insert(path)
            return nil
        }
        mtu = values[1].integerValue
        let channel = CommandChannel(descriptor, gate, loop) { [weak self] in self?.channels[path] = nil }
        channels[path] = channel
        return channel
    }

    func close(_ path: ObjectPath) {
        channels.removeValue(forKey: path)?.close()
    }

    /// Closes all channels but one, and calls `body` once BlueZ has read them to their ends.
    func drain(except kept: ObjectPath?, then body: @escaping () -> Void) {
        let paths = Set(channels.keys.filter { $0 != kept })
        guard !paths.isEmpty else { return body() }
        for path in paths { close(path) }
        release = Release(
            paths: paths, timer: loop.after(Self.maxRelease) { [weak self] in self?.released(paths) }, then: body)
    }

    /// BlueZ has read these channels to their ends.
    func released(_ paths: Set<ObjectPath>) {
        release?.paths.subtract(paths)
        guard let release, release.paths.isEmpty else { return }
        self.release = nil
        release.timer.cancel()
        release.then()
    }

    func end() {
        release?.timer.cancel()
        release = nil
        for path in Array(channels.keys) { close(path) }
    }
}
