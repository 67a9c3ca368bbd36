// SPDX-License-Identifier: Apache-2.0
// The audit trail: each action with app, accessory, requester and reason; in the journal at once, in the store in
// batches, so that a busy picker does not wait for the disk at every offer.

internal import AccessoryModel
internal import Logging

final class AuditWriter {
    private let trail: (any AuditTrail)?
    private let publisher: EventPublisher
    private let clock: any EngineClock
    private let log: Logger
    private var unwritten: [AuditEntry] = []
    /// Lines that had to go because the disk took none.
    private var lost = 0
    private var timer: (any EngineTimer)?
    private let writing: Retry
    private var refusals = (minute: 0, count: 0)

    /// Seconds that lines may wait for the disk. A change of access is written with its lines.
    private static let longestWait = 1.0
    /// Seconds until lines are written again that the disk did not take.
    private static let pauses = 1.0...60
    /// Lines that wait for a disk that takes none.
    private static let mostUnwritten = 1000
    /// Refusals recorded a minute; the rest is counted.
    private static let refusalsPerMinute = 60

    init(_ trail: (any AuditTrail)?, _ publisher: EventPublisher, _ clock: any EngineClock, _ log: Logger) {
        self.trail = trail
        self.publisher = publisher
        self.clock = clock
        self.log = log
        writing = Retry(Self.pauses, clock.once)
    }

    /// A line before it has a time and a requester.
    struct Line {
        let event: AuditEntry.Event
        let app: AppID?
        let accessory: AccessoryID?
        let why: String

        init(_ event: AuditEntry.Event, app: AppID? = nil, accessory: AccessoryID? = nil, why: String) {
            self.event = event
            self.app = app
            self.accessory = accessory
            self.why = why
        }
    }

    /// Writes lines together with the change that they record, after lines that wait.
    ///
    /// - Parameter commit: writes both, and gives the lines' numbers.
    /// - Returns: the lines to publish.
    /// - Throws: `Unknown` when `commit` fails; nothing was recorded then.
    func write(
        _ lines: [Line], by requester: Requester, commit: ([AuditEntry]) throws -> [Int64]
    ) throws(SetupError) -> [AuditEntry] {
        let new = lines.map { entry($0, by: requester) }
        // Without a trail, lines are in the journal only.
        var all = trail == nil ? [] : unwritten + new
        let numbers = try storing(log) { try commit(all) }
        for (index, number) in numbers.enumerated() { all[index].id = number }
        for entry in new { writeToJournal(entry) }
        if trail != nil { written() }
        return all
    }

    private func entry(_ line: Line, by requester: Requester) -> AuditEntry {
        AuditEntry(
            time: clock.now, event: line.event, app: line.app, accessory: line.accessory, who: "\(requester)", why: line.why)
    }

    private func writeToJournal(_ entry: AuditEntry) {
        log.notice(
            "audit",
            metadata: [
                "event": "\(entry.event.rawValue)", "app": "\(entry.app.map { "\($0)" } ?? "-")",
                "accessory": "\(entry.accessory.map { "\($0)" } ?? "-")", "who": "\(entry.who)", "why": "\(entry.why)",
            ])
    }

    /// Nothing waits any more.
    private func written() {
        timer?.cancel()
        timer = nil
        writing.finish()
        unwritten = []
        if lost > 0 {
            log.error(
                "the audit trail is writable again; the lines that it lacks are only in the journal", metadata: ["lines": "\(lost)"]
            )
            lost = 0
        }
    }

    /// Records something that changes no access.
    func record(_ event: AuditEntry.Event, app: AppID? = nil, accessory: AccessoryID? = nil, by requester: Requester, why: String) {
        var why = why
        if event == .refused {
            guard let added = admitRefusal() else { return }
            why += added
        }
        let entry = entry(Line(event, app: app, accessory: accessory, why: why), by: requester)
        writeToJournal(entry)
        guard trail != nil else { return }
        unwritten.append(entry)
        if unwritten.count > Self.mostUnwritten {
            unwritten.removeFirst()
            lost += 1
        }
        guard timer == nil else { return }
        timer = clock.after(Self.longestWait) { [weak self] in self?.flush() }
    }

    /// Writes and publishes the lines that wait. Lines that the disk refuses continue to wait.
    func flush() {
        timer?.cancel()
        timer = nil
        var entries = unwritten
        guard let trail, !entries.isEmpty else { return }
        do {
            for (index, number) in try trail.append(entries).enumerated() { entries[index].id = number }
            written()
            publisher.publish(.audited(entries))
        } catch {
            log.error("the audit trail could not be written", metadata: ["error": "\(error)", "lines": "\(entries.count)"])
            writing.schedule { [weak self] in self?.flush() }
        }
    }

    func pages(_ query: AuditQuery, of count: Int) throws -> AuditPages {
        flush()
        return try AuditPages(of: trail, query, of: count)
    }

    /// The last line about joining or leaving a network; nil without one. Reads the whole trail.
    ///
    /// - Throws: the store's error.
    func lastOfNetworks() throws -> AuditEntry? {
        var query = AuditQuery()
        query.limit = .max
        var last: AuditEntry?
        var pages = try pages(query, of: 100)
        while let entries = try pages.next() {
            last = entries.last { $0.event == .joined || $0.event == .left } ?? last
        }
        return last
    }

    /// Nil past the limit; else the text about lines that were left out before.
    private func admitRefusal() -> String? {
        let minute = Int(clock.uptime / 60)
        if minute != refusals.minute {
            let left = refusals.count - Self.refusalsPerMinute
            refusals = (minute, 1)
            return left > 0 ? " (and \(left) more before)" : ""
        }
        refusals.count += 1
        return refusals.count <= Self.refusalsPerMinute ? "" : nil
    }
}
