// SPDX-License-Identifier: Apache-2.0
// The bytes that a feed has yet to send.

internal import Glibc

final class Outbox {
    private let socket: FileDescriptor
    private let loop: MainLoop
    private let onFailure: (String) -> Void
    private var bytes: [UInt8] = []
    private var source: LoopSource?

    /// - Parameter onFailure: called from the loop.
    init(_ socket: FileDescriptor, on loop: MainLoop, onFailure: @escaping (String) -> Void) {
        self.socket = socket
        self.loop = loop
        self.onFailure = onFailure
    }

    deinit {
        close()
    }

    /// Sends these bytes, or as soon as the socket takes them.
    func send(_ more: [UInt8]) {
        bytes += more
        if source == nil { flush() }
    }

    func close() {
        bytes = []
        source?.cancel()
        source = nil
    }

    private func flush() {
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Glibc.send(socket.rawValue, $0.baseAddress!, $0.count, Int32(MSG_NOSIGNAL)) }
            if count > 0 {
                bytes.removeFirst(count)
            } else if errno == EAGAIN {
                if source == nil {
                    source = loop.onWritable(socket.rawValue) { [weak self] in
                        self?.flush()
                        return self?.source != nil
                    }
                }
                return
            } else if errno != EINTR {
                let reason = String(cString: strerror(errno))
                bytes = []
                // Not from inside a call of the feed's owner.
                loop.soon { [onFailure] in onFailure(reason) }
            }
        }
        source?.cancel()
        source = nil
    }
}
