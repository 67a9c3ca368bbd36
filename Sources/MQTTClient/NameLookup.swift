// SPDX-License-Identifier: Apache-2.0
// The look-up of the broker's name, on a thread of its own: the system's resolver waits for name servers that do not
// answer, half a minute and longer, and a loop has other work. (getaddrinfo(3), resolv.conf(5))

internal import DBusKit
internal import Glibc

/// One look-up. Its outcome only shows whether the library can look the name up, too, which it does while it connects:
/// it verifies the certificate by the name, and takes no address for it.
final class NameLookup {
    private var source: LoopSource?

    /// Begins.
    ///
    /// - Parameter done: called from the loop, with the problem; nil when the name has an address.
    /// - Throws: `Failed` when the system has no more threads or descriptors.
    init(_ host: String, loop: MainLoop, done: @escaping (String?) -> Void) throws(BusError) {
        guard let (outcome, report) = FileDescriptor.packetPair() else { throw .failed("no descriptors for the resolver") }
        // The thread ends after its only job.
        try LoopThread<Void>(name: "resolver") { _ in }.perform { _ in
            var code = Self.find(host)
            _ = withUnsafeBytes(of: &code) { report.sendPacket($0) }
        }
        source = loop.onReadable(outcome.rawValue) {
            var code: Int32 = EAI_FAIL
            _ = read(outcome.rawValue, &code, MemoryLayout.size(ofValue: code))
            done(code == 0 ? nil : "the name “\(host)” cannot be looked up: \(String(cString: gai_strerror(code)))")
            return false
        }
    }

    deinit {
        source?.cancel()
    }

    private static func find(_ host: String) -> Int32 {
        var found: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(host, nil, nil, &found)
        if let found { freeaddrinfo(found) }
        return code
    }
}
