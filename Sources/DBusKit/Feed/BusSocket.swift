// SPDX-License-Identifier: Apache-2.0
// The socket behind a bus' address: libdbus reads the address, the kernel connects.

internal import CDBus
internal import Glibc

enum BusSocket {
    /// A socket that does not block, connected.
    ///
    /// - Throws: for a bus that is reached in another way than by a Unix socket, or not at all.
    static func connect(_ address: Connection.Address) throws(BusError) -> FileDescriptor {
        var failure = CDBus.DBusError()
        dbus_error_init(&failure)
        var entries: UnsafeMutablePointer<OpaquePointer?>?
        var count: Int32 = 0
        guard dbus_parse_address(address.text, &entries, &count, &failure) != 0, let entries else {
            throw BusError(taking: &failure)
        }
        defer { dbus_address_entries_free(entries) }
        var last = BusError.failed("\(address): no Unix socket")
        for index in 0..<Int(count) {
            guard let entry = entries[index], String(cString: dbus_address_entry_get_method(entry)) == "unix" else { continue }
            do throws(BusError) {
                if let path = dbus_address_entry_get_value(entry, "path") {
                    return try connect(path: String(cString: path), isAbstract: false)
                }
                if let name = dbus_address_entry_get_value(entry, "abstract") {
                    return try connect(path: String(cString: name), isAbstract: true)
                }
            } catch {
                last = error
            }
        }
        throw last
    }

    private static func connect(path: String, isAbstract: Bool) throws(BusError) -> FileDescriptor {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = (isAbstract ? [0] : []) + Array(path.utf8)
        guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else { throw .failed("\(path): too long for a socket") }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        let descriptor = socket(AF_UNIX, type, 0)
        guard descriptor >= 0 else { throw .failed(String(cString: strerror(errno))) }
        let owner = FileDescriptor(owning: descriptor)
        let length = socklen_t(MemoryLayout<sa_family_t>.size + bytes.count + (isAbstract ? 0 : 1))
        let status = withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { Glibc.connect(descriptor, $0, length) }
        }
        guard status == 0 else { throw .failed("\(path): \(String(cString: strerror(errno)))") }
        return owner
    }
}
