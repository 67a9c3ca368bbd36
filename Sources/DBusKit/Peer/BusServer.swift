// SPDX-License-Identifier: Apache-2.0
// A socket of our own that D-Bus clients connect to. libdbus authenticates them (EXTERNAL: by what the kernel says) and
// reads their messages; who takes the connections decides what they get to see.

internal import CDBus

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Musl)
    internal import Musl
#endif

/// What one peer may send at once.
public struct PeerLimits: Hashable, Sendable {
    /// Bytes of one message, and of all that were received and not taken yet; `Connection.limitMessages` changes it.
    public var messageBytes = 64 << 10
    /// Descriptors of one message.
    public var messageDescriptors = 16

    /// 64 KiB and 16 descriptors.
    public init() {}
}

/// Listens for D-Bus clients, on the thread of its `MainLoop` only.
public final class BusServer {
    /// Where to listen.
    public enum Address: Hashable, Sendable {
        /// A socket at this path, which any local user may connect to. An old socket there is replaced.
        case path(String)
        /// The sockets that systemd handed to this process (`LISTEN_FDS`).
        case inherited
    }

    /// Takes a connection as soon as it is there: nothing was read yet.
    public var onConnection: ((Connection) -> Void)?

    private let raw: OpaquePointer
    private let loop: MainLoop
    private let limits: PeerLimits
    private let nameNext: () -> String
    private var watches: [OpaquePointer: LoopSource] = [:]
    /// Connections that were taken, to notice when one could not be.
    private var taken = 0
    /// Until somebody who could not be let in is tried again: no descriptor was free, and the socket stays readable.
    private static let pause = Duration.milliseconds(500)

    /// - Parameter naming: the unique name of the next connection.
    /// - Throws: when the socket cannot be made.
    public init(
        _ address: Address, loop: MainLoop, limits: PeerLimits = PeerLimits(), naming nameNext: @escaping () -> String
    ) throws(BusError) {
        self.loop = loop
        self.limits = limits
        self.nameNext = nameNext
        let text: String
        switch address {
        case .inherited: text = "systemd:"
        case .path(let path):
            guard let escaped = dbus_address_escape_value(path) else { throw .failed("out of memory") }
            defer { dbus_free(escaped) }
            text = "unix:path=\(String(cString: escaped))"
        }
        var failure = CDBus.DBusError()
        dbus_error_init(&failure)
        guard let raw = dbus_server_listen(text, &failure) else { throw BusError(taking: &failure) }
        self.raw = raw
        var mechanisms: [UnsafePointer<CChar>?] = []
        // Only what the kernel vouches for: no cookies, nobody anonymous. libdbus copies the list.
        "EXTERNAL".withCString { name in
            mechanisms = [name, nil]
            mechanisms.withUnsafeMutableBufferPointer { _ = dbus_server_set_auth_mechanisms(raw, $0.baseAddress) }
        }
        let me = Unmanaged.passUnretained(self).toOpaque()
        dbus_server_set_watch_functions(
            raw,
            { watch, data in
                Unmanaged<BusServer>.fromOpaque(data!).takeUnretainedValue().update(watch!)
                return 1
            },
            { watch, data in Unmanaged<BusServer>.fromOpaque(data!).takeUnretainedValue().remove(watch!) },
            { watch, data in Unmanaged<BusServer>.fromOpaque(data!).takeUnretainedValue().update(watch!) },
            me, nil)
        dbus_server_set_new_connection_function(
            raw,
            { _, connection, data in Unmanaged<BusServer>.fromOpaque(data!).takeUnretainedValue().accept(connection!) },
            me, nil)
    }

    deinit {
        for source in watches.values { source.cancel() }
        dbus_server_set_watch_functions(raw, nil, nil, nil, nil, nil)
        dbus_server_set_new_connection_function(raw, nil, nil, nil)
        dbus_server_disconnect(raw)
        dbus_server_unref(raw)
    }

    /// The server's own identifier, 32 hexadecimal digits.
    public var identifier: String {
        guard let text = dbus_server_get_id(raw) else { return "" }
        defer { dbus_free(text) }
        return String(cString: text)
    }

    private func accept(_ connection: OpaquePointer) {
        taken += 1
        guard let onConnection else { return }
        dbus_connection_ref(connection)
        onConnection(Connection(peer: connection, named: nameNext(), limits: limits, loop: loop))
    }

    private func update(_ watch: OpaquePointer) {
        remove(watch)
        guard dbus_watch_get_enabled(watch) != 0 else { return }
        watches[watch] = loop.onReadable(dbus_watch_get_unix_fd(watch)) { [weak self] in
            guard let self else { return false }
            let before = self.taken
            dbus_watch_handle(watch, DBUS_WATCH_READABLE.rawValue)
            guard self.taken == before, self.watches[watch] != nil else { return true }
            self.watches[watch] = self.loop.after(Self.pause) { [weak self] in self?.update(watch) }
            return false
        }
    }

    private func remove(_ watch: OpaquePointer) {
        watches.removeValue(forKey: watch)?.cancel()
    }
}
