// SPDX-License-Identifier: Apache-2.0
// The calls of all clients on their way to org.bluez. It answers one after another, and of one link it reads one
// attribute after another; so few are under way at a time, and the waiting ones are served by turns of users.
// (Docs/Decisions/0031)

internal import AccessoryModel
internal import DBusKit

/// Calls that wait for org.bluez.
final class ServiceQueue {
    /// Calls that stand behind each other there.
    enum Lane: Hashable, Sendable {
        /// Calls that it answers at once.
        case service
        /// All objects: a long answer.
        case objects
        /// Calls over a device's link.
        case link(ObjectPath)

        /// Calls that are under way at a time: with more, others would wait for all.
        var width: Int { self == .service ? 2 : 1 }
        /// With more than so many in line, waiting calls are begun after pauses: a program that asks without end would
        /// keep org.bluez, the bus and this process busy, and users who ask now and then would find them so.
        var crowd: Int { self == .objects ? 0 : 32 }
    }

    private struct Waiting {
        let owner: ObjectIdentifier
        /// Whether it is under way until `leave`.
        let start: () -> Bool
        /// Called all the same when its owner withdraws.
        var onWithdrawal: () -> Void = {}
    }

    private struct Calls {
        var underWay = 0
        var waiting = Turns<Waiting>()
        /// Waiting calls are not begun now.
        var isPausing = false
    }

    private var lanes: [Lane: Calls] = [:]
    private let pause: (@escaping () -> Void) -> Void

    /// - Parameter pause: does something after the pause of a crowd.
    init(pause: @escaping (@escaping () -> Void) -> Void = { $0() }) {
        self.pause = pause
    }

    /// Begins a call when it is its party's turn, at once where there is room and nothing of the party's waits.
    ///
    /// - Parameters:
    ///   - owner: may withdraw it before.
    ///   - start: begins it, and returns whether it is under way: then `leave` follows when it is over.
    func enter(_ lane: Lane, of party: Party, owner: AnyObject, start: @escaping () -> Bool) {
        let call = Waiting(owner: ObjectIdentifier(owner), start: start)
        let calls = lanes[lane, default: Calls()]
        guard calls.underWay < lane.width, calls.waiting.elements(of: party).isEmpty else { return add(call, to: lane, of: party) }
        lanes[lane] = calls
        begin(call, lane)
        goOn(lane)
    }

    private func add(_ waiting: Waiting, to lane: Lane, of party: Party) {
        lanes[lane, default: Calls()].waiting.add(waiting, of: party)
        goOn(lane)
    }

    /// Calls `body` after an owner's waiting calls in a lane have begun or were withdrawn, at once without such calls.
    func afterWaiting(_ lane: Lane, of party: Party, owner: AnyObject, _ body: @escaping () -> Void) {
        let id = ObjectIdentifier(owner)
        guard lanes[lane]?.waiting.elements(of: party).contains(where: { $0.owner == id }) == true else { return body() }
        let start = {
            body()
            return false
        }
        add(Waiting(owner: id, start: start, onWithdrawal: body), to: lane, of: party)
    }

    /// A call that was under way is over.
    func leave(_ lane: Lane) {
        lanes[lane]?.underWay -= 1
        guard let calls = lanes[lane], !calls.isPausing, calls.waiting.count > lane.crowd else { return goOn(lane) }
        lanes[lane]?.isPausing = true
        pause { [weak self] in
            self?.lanes[lane]?.isPausing = false
            self?.goOn(lane)
        }
    }

    /// An owner's waiting calls are not begun any more.
    func withdrawAll(of owner: AnyObject, _ party: Party) {
        let id = ObjectIdentifier(owner)
        for lane in lanes.keys {
            let dropped = lanes[lane]?.waiting.removeAll(of: party) { $0.owner == id } ?? []
            goOn(lane)
            for each in dropped { each.onWithdrawal() }
        }
    }

    private func goOn(_ lane: Lane) {
        while let calls = lanes[lane], !calls.isPausing, calls.underWay < lane.width {
            guard let next = lanes[lane]?.waiting.next() else {
                if calls.underWay == 0 { lanes[lane] = nil }
                return
            }
            begin(next, lane)
        }
    }

    private func begin(_ call: Waiting, _ lane: Lane) {
        // It may end others.
        lanes[lane]?.underWay += 1
        if !call.start() { lanes[lane]?.underWay -= 1 }
    }
}
