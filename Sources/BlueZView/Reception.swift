// SPDX-License-Identifier: Apache-2.0
// Calls that were read from clients' sockets. The first of a user in a turn of the loop is served at once; calls that
// come with it waits, its connection is not read meanwhile, and users have their turns: a client that sends as fast as
// a socket takes it delays another user by a few calls.

internal import AccessoryModel
internal import DBusKit

/// Calls that are not served yet.
final class Reception {
    private struct Waiting {
        let client: ViewClient
        let call: Message
    }

    /// Waiting calls that are served in a turn of the loop.
    private static let callsInTurn = 2

    private let loop: MainLoop
    private var waiting = Turns<Waiting>()
    /// The turn in which a party was served last.
    private var served: [Party: Int] = [:]
    private var next: LoopSource?

    init(_ loop: MainLoop) {
        self.loop = loop
    }

    deinit {
        next?.cancel()
    }

    /// Takes a client's call.
    func enqueue(_ call: Message, from client: ViewClient) {
        let party = client.party
        guard served[party] == loop.turn || !waiting.elements(of: party).isEmpty else {
            served[party] = loop.turn
            return client.serve(call)
        }
        waiting.add(Waiting(client: client, call: call), of: party)
        client.holdReading()
        goOnLater()
    }

    /// A client is disconnected: its calls are dropped.
    func remove(_ client: ViewClient) {
        waiting.removeAll(of: client.party) { $0.client === client }
    }

    /// No client of a party is left.
    func remove(_ party: Party) {
        served[party] = nil
    }

    private func goOnLater() {
        guard next == nil, !waiting.isEmpty else { return }
        next = loop.soon { [weak self] in self?.goOn() }
    }

    private func goOn() {
        next = nil
        for _ in 0..<Self.callsInTurn {
            guard let now = waiting.next() else { break }
            served[now.client.party] = loop.turn
            now.client.serve(now.call)
            if !waiting.elements(of: now.client.party).contains(where: { $0.client === now.client }) { now.client.resumeReading() }
        }
        goOnLater()
    }
}
