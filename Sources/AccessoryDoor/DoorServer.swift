// SPDX-License-Identifier: Apache-2.0
// The listening sockets and the clients: who is let in, how many, and from where. A stranger who fills the places
// without a handshake keeps out strangers, not clients that are in.

internal import AccessoryModel
public import DBusKit
internal import InternetAddresses
internal import CSystem
internal import ESPHomeAPI
internal import Glibc
public import Logging

/// The door.
public final class DoorServer {
    /// Places for clients.
    private enum Limits {
        static let clients = 64
        static let clientsOfOneKey = 16
        static let greeting = 32
        static let greetingFromOneAddress = 4
        /// Lines of the log about refused clients, a minute.
        static let refusals = 20
    }

    let loop: MainLoop
    let log: Logger
    let gateway: ProxySession.Gateway
    let apps: RemoteApps
    private var sockets: [FileDescriptor] = []
    private var sources: [LoopSource] = []
    private var clients: [DoorClient] = []
    /// Links of clients that are gone, which the daemon has not taken back yet.
    var linksToGiveBack = 0
    private var refusals = (minute: Int64(0), count: 0)

    /// - Parameter directory: of apps' own sockets, as `ID/bus`.
    public init(_ settings: DoorSettings, sockets directory: String, loop: MainLoop, log: Logger) {
        self.loop = loop
        self.log = log
        gateway = ProxySession.Gateway(
            info: .init(name: settings.name, address: GatewayIdentity.address, version: Version.current), maxLinks: settings.links)
        apps = RemoteApps(directory: directory, loop, log)
    }

    /// Listens on each address.
    ///
    /// - Throws: `DoorError` for an address that cannot be used.
    public func start(_ settings: DoorSettings) throws(DoorError) {
        for address in settings.listen {
            let socket: FileDescriptor
            do throws(DoorError) {
                socket = try Self.listen(address, settings.port)
            } catch {
                // On a kernel without IPv6 `::` stands for no address.
                guard error.isOfAbsentFamily, address.bytes.allSatisfy({ $0 == 0 }), settings.listen.count > 1 else { throw error }
                log.info("nothing to listen on", metadata: ["address": "\(address)"])
                continue
            }
            sockets.append(socket)
            sources.append(
                loop.onReadable(socket.rawValue) { [weak self] in
                    self?.accept(socket)
                    return self != nil
                })
        }
        apps.start()
        log.notice("listening", metadata: ["port": "\(settings.port)", "name": "\(gateway.info.name)"])
    }

    /// Ends all clients, and gives their links back as far as the daemon answers soon.
    public func end() {
        for source in sources { source.cancel() }
        for client in clients { client.end("the door closes") }
        apps.end()
        _ = loop.run(until: { linksToGiveBack == 0 }, timeout: .seconds(2))
    }

    // MARK: Sockets

    private static func listen(_ address: InternetAddress, _ port: UInt16) throws(DoorError) -> FileDescriptor {
        let isNew = address.bytes.count == 16
        let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        let descriptor = socket(isNew ? AF_INET6 : AF_INET, kind, 0)
        guard descriptor >= 0 else { throw DoorError(address, port) }
        let socket = FileDescriptor(owning: descriptor)
        set(socket, Int32(SOL_SOCKET), SO_REUSEADDR, 1)
        let isBound: Bool
        if isNew {
            // IPv4 has a socket of its own.
            set(socket, Int32(IPPROTO_IPV6), IPV6_V6ONLY, 1)
            var place = sockaddr_in6()
            place.sin6_family = sa_family_t(AF_INET6)
            place.sin6_port = port.bigEndian
            withUnsafeMutableBytes(of: &place.sin6_addr) { $0.copyBytes(from: address.bytes) }
            isBound = bind(socket, to: place)
        } else {
            var place = sockaddr_in()
            place.sin_family = sa_family_t(AF_INET)
            place.sin_port = port.bigEndian
            withUnsafeMutableBytes(of: &place.sin_addr) { $0.copyBytes(from: address.bytes) }
            isBound = bind(socket, to: place)
        }
        guard isBound, Glibc.listen(descriptor, 64) == 0 else { throw DoorError(address, port) }
        return socket
    }

    private static func bind<Place>(_ socket: FileDescriptor, to place: Place) -> Bool {
        (withUnsafePointer(to: place) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.bind(socket.rawValue, $0, socklen_t(MemoryLayout<Place>.size))
            }
        }) == 0
    }

    private static func set(_ socket: FileDescriptor, _ level: Int32, _ option: Int32, _ value: Int32) {
        var value = value
        setsockopt(socket.rawValue, level, option, &value, socklen_t(MemoryLayout<Int32>.size))
    }

    /// The kernel finds clients that are gone without a word: a probe each minute, three without an answer.
    private static func watchForLoss(_ socket: FileDescriptor) {
        set(socket, Int32(SOL_SOCKET), SO_KEEPALIVE, 1)
        let tcp = Int32(IPPROTO_TCP)
        for (option, value) in [(TCP_NODELAY, 1), (TCP_KEEPIDLE, 60), (TCP_KEEPINTVL, 20), (TCP_KEEPCNT, 3)] as [(Int32, Int32)] {
            set(socket, tcp, option, value)
        }
        // Milliseconds that sent data may stay without an answer.
        set(socket, tcp, TCP_USER_TIMEOUT, 60_000)
    }

    private static func peer(of socket: FileDescriptor) -> InternetAddress? {
        var storage = sockaddr_storage()
        var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let status = withUnsafeMutablePointer(to: &storage) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getpeername(socket.rawValue, $0, &size) }
        }
        guard status == 0 else { return nil }
        // The address follows family and port, in IPv6 also four bytes of flow.
        let place = Int32(storage.ss_family) == AF_INET6 ? 8..<24 : 4..<8
        return withUnsafeBytes(of: storage) { bytes in
            return InternetAddress(bytes: Array(bytes[place]))
        }
    }

    // MARK: Clients

    private func accept(_ listening: FileDescriptor) {
        let descriptor = csystem_accept(listening.rawValue)
        guard descriptor >= 0 else { return }
        let socket = FileDescriptor(owning: descriptor)
        guard let address = Self.peer(of: socket) else { return }
        let greeting = clients.filter { !$0.isProxied }
        guard clients.count < Limits.clients, greeting.count < Limits.greeting,
            greeting.filter({ $0.address == address }).count < Limits.greetingFromOneAddress
        else { return logRefusal(address, "too many connections") }
        Self.watchForLoss(socket)
        clients.append(DoorClient(socket, address, self))
    }

    /// Whether another client with this key has a place.
    func admits(_ app: RemoteApp) -> Bool { app.clients.count < Limits.clientsOfOneKey }

    func ended(_ client: DoorClient, _ key: KeyID?, _ reason: String?) {
        clients.removeAll { $0 === client }
        // It may be in the middle of its own bytes.
        loop.soon { withExtendedLifetime(client) {} }
        guard let key else { return logRefusal(client.address, reason ?? "it closed the connection") }
        apps[key.app]?.clients.removeAll { $0 === client }
        log.notice(
            "client disconnected",
            metadata: [
                "app": "\(key.app)", "key": "\(key.fingerprint)", "address": "\(client.address)",
                "reason": "\(reason ?? "it closed the connection")",
            ])
    }

    /// Strangers must not fill the journal.
    private func logRefusal(_ address: InternetAddress, _ reason: String) {
        let minute = loop.now / 60_000_000
        if minute != refusals.minute { refusals = (minute, 0) }
        refusals.count += 1
        guard refusals.count <= Limits.refusals else { return }
        log.warning("client refused", metadata: ["address": "\(address)", "reason": "\(reason)"])
    }
}

/// An address that cannot be listened on.
public struct DoorError: Error, CustomStringConvertible {
    public let description: String
    /// Whether another attempt may work: the address may belong to an interface that comes later.
    public let isTemporary: Bool
    /// Whether this machine has no addresses of this kind.
    let isOfAbsentFamily: Bool

    init(_ address: InternetAddress, _ port: UInt16) {
        isTemporary = errno != EACCES
        isOfAbsentFamily = errno == EAFNOSUPPORT
        description = "cannot listen on \(address) port \(port): \(String(cString: strerror(errno)))"
    }
}
