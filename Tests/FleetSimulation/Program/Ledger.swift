// SPDX-License-Identifier: Apache-2.0
// All commands that were signed, with their fate: how often daemons have performed each, and the answers.

import FleetProtocol

/// The commands by their identifiers.
final class Ledger {
    private struct Entry {
        let gateway: String
        var performed = 0
        var isAnswered = false
        var outcomes: Set<CommandAnswer.Outcome> = []
    }

    private var entries: [String: Entry] = [:]
    private(set) var answered = 0
    private(set) var performed = 0
    private(set) var repeated = 0
    var issued: Int { entries.count }
    /// Commands without an answer.
    var open: Int { entries.count - answered }

    func issue(_ id: String, to gateway: String) { entries[id] = Entry(gateway: gateway) }

    func repeats() { repeated += 1 }

    func performed(_ id: String, by gateway: String, _ world: World) {
        guard var entry = entries[id] else { return world.violate("\(gateway): command \(id) was never signed") }
        entry.performed += 1
        performed += 1
        if entry.performed > 1 { world.violate("\(gateway): command \(id) was performed \(entry.performed) times") }
        if entry.gateway != gateway { world.violate("\(gateway): command \(id) was for \(entry.gateway)") }
        entries[id] = entry
    }

    func answer(_ answer: CommandAnswer, from gateway: String, _ world: World) {
        guard var entry = entries[answer.id] else { return }
        if !entry.isAnswered { answered += 1 }
        entry.isAnswered = true
        entry.outcomes.insert(answer.outcome)
        entries[answer.id] = entry
        world.count("answers: \(answer.outcome)")
        let text = "\(gateway): command \(answer.id), performed \(entry.performed) times, was answered with \(answer.outcome)"
        switch answer.outcome {
        case .done: if entry.performed != 1 { world.violate(text) }
        case .failed: if entry.performed != 0 { world.violate(text) }
        // Of a forgotten command no more is known than that it is old.
        case .refused: if entry.performed != 0, !answer.reason.contains("forgotten") { world.violate(text) }
        case .unknown: break
        }
    }
}
