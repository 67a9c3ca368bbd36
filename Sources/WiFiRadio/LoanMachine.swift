// SPDX-License-Identifier: Apache-2.0
// The interface while it is lent to an accessory's network, as a value. Every change is recorded on disk before it is
// made, and the record stays until the service has undone it.

internal import AccessoryEngine
internal import AccessoryModel

/// The interface on loan: events in, effects out.
struct LoanMachine: Hashable {
    /// A pending request; the caller chooses the number.
    typealias Ticket = Int

    enum State: Hashable {
        case free
        /// Nil before the first change.
        case joining(Ticket, JoinRecord?)
        case joined(JoinRecord)
        /// The service undoes the record.
        case restoring(JoinRecord)
        /// The record must be undone as soon as its service can: an earlier run has left it, or the service is gone, or
        /// failed to undo it and is asked again after a pause.
        case owed(JoinRecord, isPausing: Bool)
    }

    enum Event: Hashable {
        /// An earlier run's record.
        case found(JoinRecord)
        case join(Ticket)
        case recorded(JoinRecord)
        /// Nil for success.
        case joinEnded(RadioFailure?)
        case leave(Ticket)
        /// The joined network is gone.
        case lost(isServiceGone: Bool)
        /// The pause before another attempt to restore is over.
        case pauseOver
        /// The service of an owed record can undo it now.
        case canRestore
        case restored(Bool)
    }

    enum Effect: Hashable {
        case join(Ticket)
        case answer(Ticket, RadioFailure?)
        case restore(JoinRecord)
        /// The record is done with.
        case dropRecord
        case pause
        /// The network of an earlier run was left.
        case reportEarlier(SSID)
    }

    private enum Waiting: Hashable {
        case join(Ticket)
        case answer(Ticket, RadioFailure?)
    }

    private(set) var state = State.free
    /// Requests that continue once the interface is restored.
    private var waiting: [Waiting] = []
    /// The network of an earlier run, until it is left.
    private var earlier: SSID?

    private static let notRestored = RadioFailure(.other, "the Wi-Fi interface has not been restored yet")
    private static let inUse = RadioFailure(.other, "the Wi-Fi interface is already on an accessory's network")

    /// The changes that must be undone.
    var record: JoinRecord? {
        switch state {
        case .free: nil
        case .joining(_, let record): record
        case .joined(let record), .restoring(let record), .owed(let record, _): record
        }
    }

    /// The interface that a join uses, or has changed.
    var interface: String? {
        guard let record else { return nil }
        if case .joining = state { return record.interface }
        return record.joined == "" ? nil : record.interface
    }

    mutating func handle(_ event: Event) -> [Effect] {
        switch (state, event) {
        case (.free, .found(let record)):
            state = .owed(record, isPausing: false)
            earlier = record.ssid
        case (.free, .join(let ticket)):
            return join(ticket)
        // Its service is gone: nothing is left to undo.
        case (.owed(_, isPausing: false), .join(let ticket)):
            return join(ticket)
        case (.owed(let record, isPausing: true), .join(let ticket)):
            return restore(record, then: .join(ticket))
        case (.restoring, .join(let ticket)): waiting.append(.join(ticket))
        case (.joining, .join(let ticket)), (.joined, .join(let ticket)): return [.answer(ticket, Self.inUse)]
        case (.joining(let ticket, _), .recorded(let record)): state = .joining(ticket, record)
        case (.joining(let ticket, let record?), .joinEnded(nil)):
            state = .joined(record)
            return [.answer(ticket, nil)]
        case (.joining(let ticket, let record?), .joinEnded(let failure)):
            return restore(record, then: .answer(ticket, failure))
        case (.joining(let ticket, nil), .joinEnded(let failure)):
            state = .free
            return [.answer(ticket, failure)]
        case (.joined(let record), .leave(let ticket)), (.owed(let record, _), .leave(let ticket)),
            (.joining(_, let record?), .leave(let ticket)):
            return restore(record, then: .answer(ticket, nil))
        case (.restoring, .leave(let ticket)): waiting.append(.answer(ticket, nil))
        case (_, .leave(let ticket)): return [.answer(ticket, nil)]
        // The service is asked once it is back: iwd remembers the network.
        case (.joined(let record), .lost(isServiceGone: true)): state = .owed(record, isPausing: false)
        case (.joined(let record), .lost): return restore(record)
        case (.owed(let record, _), .pauseOver): state = .owed(record, isPausing: false)
        case (.owed(let record, isPausing: false), .canRestore): return restore(record)
        case (.restoring(let record), .restored(let isRestored)): return restored(record, isRestored)
        default: break
        }
        return []
    }

    private mutating func join(_ ticket: Ticket) -> [Effect] {
        state = .joining(ticket, nil)
        return [.join(ticket)]
    }

    private mutating func restore(_ record: JoinRecord, then next: Waiting? = nil) -> [Effect] {
        state = .restoring(record)
        if let next { waiting.append(next) }
        return [.restore(record)]
    }

    private mutating func restored(_ record: JoinRecord, _ isRestored: Bool) -> [Effect] {
        var effects: [Effect]
        if isRestored {
            effects = (earlier.map { [.reportEarlier($0)] } ?? []) + [.dropRecord]
            state = .free
            earlier = nil
        } else {
            effects = [.pause]
            state = .owed(record, isPausing: true)
        }
        let continuing = waiting
        waiting = []
        for each in continuing {
            switch each {
            case .answer(let ticket, let failure): effects.append(.answer(ticket, failure))
            case .join(let ticket): effects += isRestored ? handle(.join(ticket)) : [.answer(ticket, Self.notRestored)]
            }
        }
        return effects
    }
}
