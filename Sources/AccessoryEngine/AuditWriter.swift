// SPDX-License-Identifier: Apache-2.0
// The audit trail: what was done, for which app and accessory, by whom and why; in the journal at once, in the store in
// batches, so that a busy picker does not wait for the disk at every offer.

internal import AccessoryModel
internal import Logging

final class AuditWriter {
    private let trail: (any AuditTrail)?
    private let news: News
    private let clock: any EngineClock
    private let log: Logger
    private var unwritten: [AuditEntry] = []
    private var timer: (any EngineTimer)?
    private var refusals = (minute: 0, count: 0)

    /// Seconds that lines may wait for the disk; what changes a grant does not wait.
    private static let longestWait = 1.0
    /// Refusals noted a minute; the rest is counted.
    private static let refusalsPerMinute = 60

    init(_ trail: (any AuditTrail)?, _ news: News, _ clock: any EngineClock, _ log: Logger) {
        self.trail = trail
        self.news = news
        self.clock = clock
        self.log = log
    }

    /// Notes a line.
    func note(_ event: AuditEntry.Event, app: AppID? = nil, accessory: AccessoryID? = nil, by requester: Requester, why: String) {
        var why = why
        if event == .refused {
            guard let added = admitRefusal() else { return }
            why += added
        }
        let entry = AuditEntry(time: clock.now, event: event, app: app, accessory: accessory, who: "\(requester)", why: why)
        log.notice(
            "audit",
            metadata: [
                "event": "\(event.rawValue)", "app": "\(app.map { "\($0)" } ?? "-")",
                "accessory": "\(accessory.map { "\($0)" } ?? "-")",
                "who": "\(requester)", "why": "\(why)",
            ])
        unwritten.append(entry)
        switch event {
        case .granted, .authorized, .updated, .revoked, .disabled, .enabled, .renamed: flush()
        default:
            guard timer == nil else { return }
            timer = clock.after(Self.longestWait) { [weak self] in self?.flush() }
        }
    }

    /// Writes what waits, and tells it.
    func flush() {
        timer?.cancel()
        timer = nil
        var entries = unwritten
        unwritten = []
        guard let trail, !entries.isEmpty else { return }
        do {
            for (index, number) in try trail.append(entries).enumerated() { entries[index].id = number }
            news.tell(.audited(entries))
        } catch {
            log.error("the audit trail could not be written", metadata: ["error": "\(error)", "lines": "\(entries.count)"])
        }
    }

    /// The trail's lines, in pages of `count`, 1 or more.
    ///
    /// - Throws: what the store throws.
    func pages(_ query: AuditQuery, of count: Int) throws -> AuditPages {
        flush()
        return try AuditPages(of: trail, query, of: count)
    }

    /// Nil when there were too many; else what is to be said of those that were left out.
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
