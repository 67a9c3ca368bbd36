// SPDX-License-Identifier: Apache-2.0
// A gateway's daemon, as far as the agent sees it: objects, an audit trail whose numbers grow, commands, and files in
// force. It is a value without a clock and without a bus.

import FleetAgent
import FleetProtocol
import JSONText

/// A line of the trail, as it is compared: the store that had it, counted from 1, and its number in that store.
struct TrailLine: Hashable, Comparable {
    let store: Int32
    let id: Int32

    static func < (a: TrailLine, b: TrailLine) -> Bool { a.store != b.store ? a.store < b.store : a.id < b.id }
}

/// A daemon.
struct FakeDaemon {
    private(set) var isRunning = true
    /// Counts the starts: calls of an earlier one have no answer.
    private(set) var run = 0
    private(set) var store: Int32 = 1
    /// Of each line of the present store: seconds since 1970.
    private var times: [Int] = []
    private(set) var objects: [String: JSON] = [:]
    /// The version of the files in force, by kind. They are not in the store.
    private(set) var inForce: [DesiredDocument.Kind: Int] = [:]
    private var grants = 0

    init(now: Int) { beginStore(now: now) }

    private mutating func beginStore(now: Int) {
        times = []
        grants = 0
        let inForce = inForce
        objects = ["manager": ["Version": "0.1.0", "Bluetooth": "on", "PickerAvailable": JSON(true)]]
        for kind in DesiredDocument.Kind.allCases { describe(kind, version: inForce[kind] ?? 0) }
        for _ in 0..<2 { _ = addGrant(now: now) }
    }

    private mutating func describe(_ kind: DesiredDocument.Kind, version: Int) {
        objects[kind.rawValue] =
            kind == .policy
            ? ["rules": JSON(["rule \(version)"]), "problems": JSON([])] : ["apps": JSON(["app \(version)"])]
    }

    // MARK: The trail

    /// The number of the last line.
    var lastLine: TrailLine { TrailLine(store: store, id: Int32(times.count)) }

    private mutating func audit(now: Int) {
        // A line of a later store is later, as with a daemon that does not lose its store within a second.
        times.append(now + Int(store))
    }

    /// Lines from a number on, oldest first.
    func lines(from number: Int, limit: Int) -> [AuditedLine] {
        let first = max(1, number)
        guard first <= times.count else { return [] }
        return (first...min(times.count, first + limit - 1)).map { id in
            AuditedLine(
                id: id, time: times[id - 1],
                json: [
                    "id": JSON(id), "time": JSON(times[id - 1]), "event": "grant-changed", "app": "com.example.dice",
                    "store": JSON(Int(store)),
                ])
        }
    }

    // MARK: Changes

    /// - Returns: the object's end.
    private mutating func addGrant(now: Int) -> String {
        grants += 1
        let end = "grant/\(grants)"
        objects[end] = grant(grants, isEnabled: true)
        audit(now: now)
        return end
    }

    private func grant(_ number: Int, isEnabled: Bool) -> JSON {
        [
            "App": "com.example.dice", "Accessory": JSON("/org/accessorysetup1/accessory/\(number)"), "Enabled": JSON(isEnabled),
            "Name": "Pink Dice", "State": "connected",
        ]
    }

    /// Something happens at the gateway.
    ///
    /// - Returns: the end of an object that has changed.
    mutating func live(_ random: inout SplitMix, now: Int) -> String {
        let present = objects.keys.filter { $0.hasPrefix("grant/") }.sorted()
        guard present.count > 1, let end = present.randomElement(using: &random) else { return addGrant(now: now) }
        audit(now: now)
        if present.count > 3 {
            objects[end] = nil
        } else if Bool.random(using: &random) {
            return addGrant(now: now)
        } else {
            var members = objects[end]?.members ?? [:]
            members["Name"] = JSON("Dice \(times.count)")
            objects[end] = .object(members)
        }
        return end
    }

    /// Performs a command.
    ///
    /// - Returns: the end of the object that has changed; nil when nothing has.
    mutating func perform(_ action: FleetCommand.Action, now: Int) -> String? {
        switch action {
        case .enable(let grant), .disable(let grant):
            let end = "grant/\(grant.number)"
            guard isRunning, var members = objects[end]?.members else { return nil }
            members["Enabled"] = JSON(action.verb == "enable")
            objects[end] = .object(members)
            audit(now: now)
            return end
        default: return nil
        }
    }

    /// Takes files into force.
    mutating func use(_ document: DesiredDocument) {
        inForce[document.kind] = document.version
        describe(document.kind, version: document.version)
    }

    mutating func stop() { isRunning = false }

    mutating func start() {
        run += 1
        isRunning = true
    }

    /// The store is lost, and with it the objects and the trail.
    mutating func loseStore(now: Int) {
        store += 1
        beginStore(now: now)
    }
}
