// SPDX-License-Identifier: Apache-2.0
// The collector of the gateways' audit trails: each line is stored once, in order, before the gateway learns that it
// need not send it again.

internal import ArgumentParser
internal import DBusKit
internal import FleetProtocol
internal import Glibc
internal import JSONText
internal import MQTTClient
internal import ProgramSupport
internal import SystemFiles

extension Fleet {
    struct Audit: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Collects the gateways' audit trails, in files of the fleet's directory, and prints new lines.",
            discussion: """
                Each gateway's lines are in audit/GATEWAY.jsonl, each once and in order, from the last line that this directory has. Only one \
                collector may run for a fleet.
                """)
        @OptionGroup var options: FleetOptions
        @OptionGroup var output: JSONOption
        @Flag(name: .shortAndLong, help: "Continue until interrupted.") var follow = false
        @Option(help: "Without --follow: seconds without a new line, after which the command ends.") var quiet = 3

        func run() throws {
            try Ending.guarding {
                let fleet = try options.open()
                let collector = try AuditCollector(fleet) { gateway, line in
                    if output.json {
                        var members = line.members ?? [:]
                        members["gateway"] = JSON(gateway)
                        return StandardOutput.line(JSON.object(members).writtenInOneLine)
                    }
                    let words = ["event", "app", "accessory", "who", "why"].compactMap { line[$0]?.string }.filter { !$0.isEmpty }
                    let text = ([Output.time(line["time"]?.int ?? 0), gateway] + words).joined(separator: "  ")
                    StandardOutput.line(StandardOutput.printable(text))
                }
                try collector.run(quiet: follow ? nil : quiet)
            }
        }
    }
}

/// Receives the trails of all gateways.
final class AuditCollector {
    private struct Trail {
        var collected = CollectedTrail()
        /// Lines to be stored.
        var new: [JSON] = []
    }

    /// For a line that was asked for again.
    private static let patience = Duration.seconds(5)

    private let fleet: OperatorDirectory
    private let client: FleetClient
    private let show: (String, JSON) -> Void
    private var trails: [String: Trail] = [:]
    private var hasNews = false
    private var lastLine: Int64 = 0

    /// Reads the stored trails, and connects.
    init(_ fleet: OperatorDirectory, show: @escaping (String, JSON) -> Void) throws {
        self.fleet = fleet
        self.show = show
        try SystemFile.makeDirectory(fleet.path + "/audit", mode: 0o700)
        client = try FleetClient(fleet)
        for gateway in try fleet.gateways() { trails[gateway.name] = try stored(gateway.name) }
    }

    private func path(of gateway: String) -> String { "\(fleet.path)/audit/\(gateway).jsonl" }

    /// The last line of the file. A part of a line, which a power cut has left, is removed.
    private func stored(_ gateway: String) throws -> Trail {
        guard SystemFile.exists(path(of: gateway)) else { return Trail() }
        let text = try SystemFile.contents(path(of: gateway), limit: .max - 1)
        let end = text.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
        if end < text.count, truncate(path(of: gateway), off_t(end)) != 0 { throw SystemFileError(path(of: gateway)) }
        guard let line = text[..<end].split(separator: UInt8(ascii: "\n")).last else { return Trail() }
        guard let value = try? JSON(parsing: line), let collected = CollectedTrail(last: value) else {
            throw OperatorDirectory.Problem("\(path(of: gateway)): the last line is no line of a trail")
        }
        return Trail(collected: collected)
    }

    /// Collects.
    ///
    /// - Parameter quiet: ends after so many seconds without a line; nil for never.
    func run(quiet: Int?) throws {
        client.onMessage = { [weak self] gateway, end, message in
            if end == FleetTopics.audit { self?.receive(gateway, message.payload) }
        }
        var failure: String?
        client.onEnd = { failure = $0 }
        try begin()
        lastLine = client.loop.now
        while true {
            let patience =
                trails.values.contains(where: \.collected.hasAsked) ? Self.patience : quiet.map { .seconds($0) } ?? .seconds(3600)
            let isInTime = client.loop.run(until: { hasNews || failure != nil }, timeout: patience)
            try store()
            guard StandardOutput.hasReader else { break }
            if !isInTime { askAgain() }
            if let reason = failure {
                guard quiet == nil else { throw OperatorDirectory.Problem("the connection to the broker has ended: \(reason)") }
                reconnect(because: reason)
                // Attempts may have failed, too.
                failure = nil
            } else if let quiet, client.loop.now - lastLine >= Int64(quiet) * 1_000_000 {
                break
            }
        }
        client.end()
    }

    private func reconnect(because reason: String) {
        StandardOutput.errorLine("the connection to the broker has ended: \(reason); trying again")
        while true {
            _ = client.loop.run(until: { false }, timeout: .seconds(2))
            do {
                try client.connect()
                return try begin()
            } catch {
                continue
            }
        }
    }

    private func begin() throws {
        try client.subscribe([FleetTopics.audit], of: ["+"])
        for gateway in trails.keys {
            trails[gateway]?.collected.connect(request: Int.random(in: 1...(1 << 52)))
            ask(gateway)
        }
    }

    /// The line that was asked for may have been lost, too.
    private func askAgain() {
        for (gateway, trail) in trails where trail.collected.hasAsked {
            trails[gateway]?.collected.askAgain()
            ask(gateway)
        }
    }

    /// Says which lines are stored; the gateway sends those after them.
    private func ask(_ gateway: String) {
        guard let trail = trails[gateway], let topics = FleetTopics(fleet: fleet.fleet, gateway: gateway) else { return }
        let payload = Array(trail.collected.seen.writtenInOneLine.utf8)
        client.publish(MQTTMessage(topics.topic(FleetTopics.auditSeen), payload, isRetained: true))
    }

    private func receive(_ gateway: String, _ payload: [UInt8]) {
        // Gateways that were removed have no say.
        guard trails[gateway] != nil, let line = try? JSON(parsing: payload) else { return }
        switch trails[gateway]?.collected.receive(line) {
        case .next:
            trails[gateway]?.new.append(line)
            hasNews = true
        case .gap: ask(gateway)
        case .known, nil: break
        }
    }

    /// Stores new lines, on the disk, before the gateways get their confirmation.
    private func store() throws {
        guard hasNews else { return }
        hasNews = false
        lastLine = client.loop.now
        for (gateway, trail) in trails.sorted(by: { $0.key < $1.key }) where !trail.new.isEmpty {
            trails[gateway]?.new = []
            let bytes = trail.new.flatMap { Array(($0.writtenInOneLine + "\n").utf8) }
            let file = open(path(of: gateway), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
            guard file >= 0 else { throw SystemFileError(path(of: gateway)) }
            defer { close(file) }
            guard write(file, bytes, bytes.count) == bytes.count, fdatasync(file) == 0 else {
                throw SystemFileError(path(of: gateway))
            }
            for line in trail.new { show(gateway, line) }
            ask(gateway)
        }
    }
}
