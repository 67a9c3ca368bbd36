// SPDX-License-Identifier: Apache-2.0
// A bus that the fuzzer plays: connections that the product makes end here, and their messages are read, answered and
// contradicted at the word of the input. A client that connects is greeted by a thread, because a connection waits for
// that; everything else happens on the fuzzer's own thread, one step after the other, so that an input is the same
// every time.

import CDBus
import Foundation
import Synchronization

@testable import DBusKit

final class PlayedBus {
    /// A connection of the product's.
    final class Line {
        fileprivate let socket: Int32
        fileprivate var received: [UInt8] = []
        /// The bytes before the first message are authentication.
        fileprivate var hasBegun = false
        fileprivate(set) var isOpen = true
        /// The number of the last message that was said here.
        fileprivate(set) var lastSerial: UInt32 = 1

        fileprivate init(_ socket: Int32) { self.socket = socket }
    }

    /// nonisolated(unsafe): the fuzzer's thread has it, no other.
    nonisolated(unsafe) static let shared = PlayedBus()

    let address: Connection.Address
    private(set) var lines: [Line] = []
    private let accepted: Accepted

    /// Sockets on their way from the thread that greets.
    private final class Accepted: Sendable {
        let sockets = Mutex<[Int32]>([])
    }

    private init() {
        let path = scratch + "/bus"
        address = .server("unix:path=\(path)")
        let listening = listen(at: path)
        let accepted = Accepted()
        self.accepted = accepted
        let words = Self.greeting()
        Thread.detachNewThread {
            while true {
                let socket = accept(listening, nil, nil)
                guard socket >= 0 else { continue }
                // Before who connects can go on.
                accepted.sockets.withLock { $0.append(socket) }
                _ = words.withUnsafeBytes { send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            }
        }
    }

    /// All that a client waits for: authentication, and the answer to its first message.
    private static func greeting() -> [UInt8] {
        let name = ":1.1"
        guard let hello = try? Message.call(to: Bus.name, path: Bus.path, interface: Bus.name, member: "Hello"),
            hello.wireFormat != nil, let reply = try? hello.reply([.string(name)])
        else { found("no greeting") }
        reply.setSender(Bus.name)
        reply.setDestination(name)
        return Array("OK 0123456789abcdef0123456789abcdef\r\nAGREE_UNIX_FD\r\n".utf8) + (reply.wireFormat ?? [])
    }

    // MARK: Hearing

    /// Complete messages that have come since the last time.
    func hear() -> [(line: Line, message: Message)] {
        lines += accepted.sockets.withLock { sockets in
            defer { sockets = [] }
            return sockets.map { Line($0) }
        }
        return lines.flatMap { line in Self.read(line).map { (line, $0) } }
    }

    private static func read(_ line: Line) -> [Message] {
        line.received += receiveAll(line.socket, &line.isOpen)
        if !line.hasBegun {
            let begin = Array("BEGIN\r\n".utf8)
            guard let end = line.received.indices.first(where: { line.received[$0...].starts(with: begin) }) else { return [] }
            line.received.removeSubrange(..<(end + begin.count))
            line.hasBegun = true
        }
        return messages(in: &line.received).filter { $0.member != "Hello" }
    }

    // MARK: Saying

    /// Says a message; one with descriptors cannot travel here, and is not said.
    @discardableResult
    func say(_ message: Message, on line: Line) -> UInt32 {
        guard line.isOpen, !message.signature.utf8.contains(UInt8(ascii: "h")) else { return 0 }
        line.lastSerial += 1
        guard let bytes = message.wireFormat(serial: line.lastSerial) else { return 0 }
        // A variant may hold a descriptor too.
        guard Message.demarshal(bytes) != nil else { return 0 }
        say(bytes, on: line)
        return line.lastSerial
    }

    func say(_ bytes: [UInt8], on line: Line) {
        guard line.isOpen else { return }
        let sent = bytes.withUnsafeBytes {
            send(line.socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
        }
        if sent != bytes.count { hangUp(line) }
    }

    func hangUp(_ line: Line) {
        shutdown(line.socket, Int32(SHUT_RDWR))
        line.isOpen = false
    }

    /// Ends all connections, for the next input.
    ///
    /// - Parameter loop: the loop of the connections; it learns of the end, and releases calls that still waited for
    ///   answers, or for their time to be over.
    func reset(_ loop: MainLoop? = nil) {
        _ = hear()
        for line in lines { close(line.socket) }
        lines = []
        guard let loop else { return }
        for _ in 0..<8 {
            loop.pass(.seconds(600))
            loop.iterate(mayBlock: false)
        }
    }

    /// Waits until a thread of the product's has taken everything that was said on a line: libdbus itself answers the
    /// last word. The messages before that answer are returned.
    func waitForAll(on line: Line) -> [Message] {
        guard line.isOpen,
            let ping = try? Message.call(to: ":1.1", path: "/fuzz", interface: Bus.peer, member: "Ping")
        else { return [] }
        ping.setSender(":1.99")
        let serial = say(ping, on: line)
        var heard: [Message] = []
        while line.isOpen {
            let new = Self.read(line)
            heard += new.filter { $0.destination != ":1.99" }
            if new.contains(where: { $0.replySerial == serial }) { return heard }
            var entry = pollfd(fd: line.socket, events: Int16(POLLIN), revents: 0)
            if line.isOpen, poll(&entry, 1, 240_000) == 0 { found("a connection is not read any more") }
        }
        return heard
    }
}

extension Message {
    /// The number of the message that this one answers.
    var replySerial: UInt32 { dbus_message_get_reply_serial(raw) }
}

/// Listens on a Unix socket.
private func listen(at path: String) -> Int32 {
    let listening = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    let bound = withAddress(path) { bind(listening, $0, $1) }
    guard bound == 0, listen(listening, 64) == 0 else { found("no socket at \(path): errno \(errno)") }
    return listening
}

/// Connects to a Unix socket.
func connect(to path: String) -> Int32 {
    let socket = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard withAddress(path, { connect(socket, $0, $1) }) == 0 else { found("no connection to \(path): errno \(errno)") }
    return socket
}

private func withAddress<Result>(_ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    return withUnsafePointer(to: address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<sockaddr_un>.size)) }
    }
}

/// The bytes that wait at a socket, without waiting for more.
func receiveAll(_ socket: Int32, _ isOpen: inout Bool) -> [UInt8] {
    var all: [UInt8] = []
    while isOpen {
        let count = withUnsafeTemporaryAllocation(byteCount: 65_536, alignment: 16) { buffer in
            let count = recv(socket, buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT))
            if count > 0 { all += buffer[..<count] }
            return count
        }
        if count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR) { isOpen = false }
        if count < 0, errno == EAGAIN { break }
    }
    return all
}

/// Takes the complete messages from the beginning of the received bytes. The product sends no message that is not
/// valid, and none that is larger than a bus passes on.
func messages(in received: inout [UInt8]) -> [Message] {
    var messages: [Message] = []
    while received.count >= 16 {
        guard let length = try? received.withUnsafeBytes({ try WireMessage.length(of: $0) }) else {
            found("the product says what is no message: \(received.prefix(32))")
        }
        guard length <= received.count else { break }
        expect(length <= 128 << 20, "a message of \(length) bytes")
        // With descriptors it cannot be read here.
        if let message = Message.demarshal(Array(received[..<length])) { messages.append(message) }
        received.removeSubrange(..<length)
    }
    return messages
}

/// Errors that a service may answer.
let errors = [
    "org.freedesktop.DBus.Error.Failed", "org.freedesktop.DBus.Error.NoReply", "org.freedesktop.DBus.Error.UnknownMethod",
    "org.freedesktop.DBus.Error.UnknownObject", "org.freedesktop.DBus.Error.AccessDenied",
    "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.InvalidArgs", "org.bluez.Error.Failed",
    "org.bluez.Error.InProgress", "org.bluez.Error.NotReady", "org.bluez.Error.AlreadyExists", "org.bluez.Error.DoesNotExist",
    "org.bluez.Error.AuthenticationFailed", "org.bluez.Error.AuthenticationCanceled", "org.bluez.Error.NotConnected",
    "org.bluez.Error.NotPermitted", "org.accessorysetup1.Error.InvalidRequest", "org.accessorysetup1.Error.Invalidated",
    "org.accessorysetup1.Error.UserCancelled", "fi.w1.wpa_supplicant1.Interface.ScanError", "net.connman.iwd.Busy",
    "net.connman.iwd.Failed",
]

/// A service on the played bus, in the words of one place of the system: it sends signals and answers calls as the
/// input says.
struct PlayedService {
    let words: Vocabulary
    /// Well-known names, and who has them.
    var owners: [String: String]
    /// The types of answers, by member.
    var types: [String: String] = [:]
    /// The answer of a good service; nil for none.
    var usual: (Message) -> [DBusValue]? = { _ in [] }
    /// Calls that wait for their answers.
    private(set) var calls: [(line: PlayedBus.Line, message: Message)] = []

    init(_ words: Vocabulary, owners: [String: String]) {
        self.words = words
        self.owners = owners
    }

    /// Answers calls to the bus itself, and keeps the rest.
    mutating func receive(_ heard: [(line: PlayedBus.Line, message: Message)]) {
        for (line, message) in heard where message.kind == .call {
            guard message.destination == Bus.name else {
                if calls.count < 256 { calls.append((line, message)) }
                continue
            }
            guard message.wantsReply else { continue }
            let name = message.firstText ?? ""
            switch message.member {
            case "GetNameOwner":
                if let owner = owners[name] {
                    answer(message, on: line, [.string(owner)], from: Bus.name)
                } else {
                    refuse(message, on: line, .standard("NameHasNoOwner", name), from: Bus.name)
                }
            case "GetConnectionCredentials", "GetConnectionUnixProcessID": calls.append((line, message))
            case "RequestName": answer(message, on: line, [.uint32(1)], from: Bus.name)
            default: answer(message, on: line, [], from: Bus.name)
            }
        }
    }

    private func owner(of message: Message) -> String {
        guard let destination = message.destination else { return ":1.2" }
        return owners[destination] ?? (destination.hasPrefix(":") || destination == Bus.name ? destination : ":1.2")
    }

    func answer(_ call: Message, on line: PlayedBus.Line, _ values: [DBusValue], from sender: String? = nil) {
        guard call.wantsReply, let reply = try? call.reply(values) else { return }
        reply.setSender(sender ?? owner(of: call))
        PlayedBus.shared.say(reply, on: line)
    }

    func refuse(_ call: Message, on line: PlayedBus.Line, _ error: BusError, from sender: String? = nil) {
        guard call.wantsReply, let reply = call.errorReply(error) else { return }
        reply.setSender(sender ?? owner(of: call))
        PlayedBus.shared.say(reply, on: line)
    }

    /// Answers everything as a good service does.
    mutating func answerAll() {
        let waiting = calls
        calls = []
        for (line, call) in waiting { if let values = usual(call) { answer(call, on: line, values) } }
    }

    /// Answers one of the calls that wait.
    mutating func answerOne(_ input: inout Input) {
        guard !calls.isEmpty else { return }
        let (line, call) = calls.remove(at: input.number(below: min(calls.count, 256)))
        switch input.byte() % 8 {
        case 0, 1, 2: if let values = usual(call) { answer(call, on: line, values) }
        case 3, 4: answer(call, on: line, input.arguments(types[call.member ?? ""] ?? "", words))
        case 5: refuse(call, on: line, BusError(name: input.pick(errors), message: input.text()))
        case 6: answer(call, on: line, [input.anyValue(words)])
        default:
            // Twice.
            guard let values = usual(call) else { return }
            answer(call, on: line, values)
            answer(call, on: line, values)
        }
    }

    /// Sends a signal, from the owner of one of the names, or from another sender.
    mutating func sendSignal(_ input: inout Input, on line: PlayedBus.Line) {
        let names = owners.keys.sorted()
        let sender = input.oneIn(16) || names.isEmpty ? ":1.66" : owners[input.pick(names)] ?? ":1.66"
        switch input.byte() % 8 {
        case 0:
            signal(
                input.path(words), Bus.properties, "PropertiesChanged",
                [.string(interface(&input)), input.value("a{sv}", words), input.value("as", words)], sender, line)
        case 1, 2:
            signal(
                input.pick(words.paths), Bus.properties, "PropertiesChanged",
                [.string(interface(&input)), input.value("a{sv}", words), .strings([])], sender, line)
        case 3:
            signal(
                "/", Bus.objectManager, "InterfacesAdded", [.objectPath(input.path(words)), input.value("a{sa{sv}}", words)],
                sender, line)
        case 4:
            let interfaces = (0..<input.number(below: 3)).map { _ in interface(&input) }
            signal(
                "/", Bus.objectManager, "InterfacesRemoved", [.objectPath(input.path(words)), .strings(interfaces)], sender, line)
        case 5:
            // The service comes, goes, or is another.
            guard !names.isEmpty else { return }
            let name = input.pick(names)
            let new = input.pick(["", ":1.2", ":1.3"])
            signal(
                Bus.path, Bus.name, "NameOwnerChanged", [.string(name), .string(owners[name] ?? ""), .string(new)], Bus.name, line)
            if !new.isEmpty { owners[name] = new }
        default:
            guard let (path, interface, member, types) = signals.isEmpty ? nil : input.pick(signals) else { return }
            signal(path, interface, member, input.arguments(types, words), sender, line)
        }
    }

    /// Signals of the service's own: path, interface, member and types.
    var signals: [(ObjectPath, String, String, String)] = []

    private func interface(_ input: inout Input) -> String {
        words.interfaces.isEmpty || input.oneIn(16) ? "a.b" : input.pick(words.interfaces)
    }

    private func signal(
        _ path: ObjectPath, _ interface: String, _ member: String, _ values: [DBusValue], _ sender: String, _ line: PlayedBus.Line
    ) {
        guard let message = try? Message.signal(path: path, interface: interface, member: member, values) else { return }
        message.setSender(sender)
        PlayedBus.shared.say(message, on: line)
    }
}
