// SPDX-License-Identifier: Apache-2.0
// The daemon's connections to this extension, on a thread of their own; the extension's methods run on the main one.

internal import AccessoryBus
internal import DBusKit
internal import Dispatch
internal import Synchronization

/// The extension's program, on the main thread.
@MainActor
final class Discovery {
    static var current: Discovery?

    private let start: (DDDiscoverySession) -> Void
    private let stop: (DDDiscoverySession) -> Void

    init(start: @escaping (DDDiscoverySession) -> Void, stop: @escaping (DDDiscoverySession) -> Void) {
        self.start = start
        self.stop = stop
    }

    nonisolated static func start(_ session: DDDiscoverySession) { DispatchQueue.main.async { current?.start(session) } }
    nonisolated static func stop(_ session: DDDiscoverySession) { DispatchQueue.main.async { current?.stop(session) } }
}

/// Lives on its thread only.
final class ExtensionServer {
    /// The one of this program: sessions are reported to from any thread.
    private static let thread = Mutex<LoopThread<ExtensionServer>?>(nil)

    private let loop: MainLoop
    private var server: BusServer?
    private var links: [Int: Link] = [:]
    private var count = 0

    /// A connection of the daemon; an earlier one may be about to close.
    private struct Link {
        let connection: Connection
        var session: DDDiscoverySession?
    }

    /// - Throws: `Failed` when the system has no more threads or descriptors.
    static func start(on socket: FileDescriptor) throws(BusError) {
        let started = try LoopThread(name: "discovery") { ExtensionServer(socket, $0) }
        thread.withLock { $0 = started }
    }

    private static func perform(_ job: @escaping @Sendable (ExtensionServer) -> Void) {
        thread.withLock { $0 }?.perform(job)
    }

    private init(_ socket: FileDescriptor, _ loop: MainLoop) {
        self.loop = loop
        // It only watches the socket.
        server = try? BusServer(.listening([socket]), loop: loop) { "" }
        server?.onConnection = { [weak self] in self?.take($0) }
    }

    private func take(_ connection: Connection) {
        count += 1
        let number = count
        links[number] = Link(connection: connection)
        connection.onCall = { [weak self] call in
            self?.answer(call, number)
            return true
        }
        connection.onDisconnect = { [weak self] in
            self?.endDiscovery(number)
            // The connection is in the middle of the message that led here.
            self?.loop.soon { self?.links[number] = nil }
        }
    }

    private func answer(_ call: Message, _ number: Int) {
        guard let connection = links[number]?.connection else { return }
        let isOurs = call.hasInterface(AccessoryBus.discoveryExtension)
        let answer: Message?
        if isOurs, call.hasMember("StartDiscovery") {
            beginDiscovery(number)
            answer = try? call.reply()
        } else if isOurs, call.hasMember("StopDiscovery") {
            endDiscovery(number)
            answer = try? call.reply()
        } else if call.hasMember("Introspect") {
            answer = try? call.reply([.string(AccessoryBus.extensionXML)])
        } else {
            answer = call.errorReply(.standard("UnknownMethod", "no such method"))
        }
        if let answer { connection.send(answer) }
    }

    private func beginDiscovery(_ number: Int) {
        guard links[number]?.session == nil else { return }
        let session = DDDiscoverySession { member, value in
            Self.perform { $0.report(member, value, number) }
        }
        links[number]?.session = session
        Discovery.start(session)
    }

    private func endDiscovery(_ number: Int) {
        guard let session = links[number]?.session else { return }
        links[number]?.session = nil
        Discovery.stop(session)
    }

    private func report(_ member: String, _ value: DBusValue, _ number: Int) {
        guard let link = links[number], link.session != nil,
            let signal = try? Message.signal(
                path: AccessoryBus.extensionPath, interface: AccessoryBus.discoveryExtension, member: member, [value])
        else { return }
        link.connection.send(signal)
    }
}
