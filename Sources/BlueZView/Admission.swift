// SPDX-License-Identifier: Apache-2.0
// Admission of clients to the view, as a value: each user has a share of the places, and where all are taken a client
// is disconnected for a user who has fewer. No user can keep others out by connecting often. The same holds for memory:
// who may send long messages, and who goes when too much waits to be read.

internal import AccessoryModel

/// The places that there are for clients, and who has them.
struct Admission: Hashable, Sendable {
    /// The verdict on a new client.
    enum Verdict: Hashable, Sendable {
        /// A place was free, or this other client has to go for it.
        case admitted(insteadOf: String?)
        case refused(why: String)
    }

    private struct Place: Hashable, Sendable {
        let party: Party
        /// Counted up: who came later has the higher one.
        let number: Int
        /// It has not called Hello.
        var isStranger = true
        var sendsLongMessages = false
    }

    private let limits: ViewLimits.Places
    private var places: [String: Place] = [:]
    private var admitted = 0

    init(_ limits: ViewLimits.Places) {
        self.limits = limits
    }

    /// A client connects. Another one that is disconnected for it loses its place at once.
    ///
    /// - Parameters:
    ///   - name: the client's unique name in the view.
    ///   - party: whose share it takes.
    mutating func admit(_ name: String, of party: Party) -> Verdict {
        guard places.values.count(where: { $0.party == party }) < limits.clientsPerUser else {
            return .refused(why: "\(party) already has \(limits.clientsPerUser) connections")
        }
        let strangers = places.values.filter(\.isStranger)
        guard strangers.count(where: { $0.party == party }) < limits.strangersPerUser else {
            return .refused(why: "\(party) has \(limits.strangersPerUser) connections that have not called Hello")
        }
        var victim: String?
        if strangers.count >= limits.strangers || places.count >= limits.clients {
            victim = self.victim(for: party)
            guard let victim else { return .refused(why: "\(limits.clients) clients are already connected") }
            places[victim] = nil
        }
        admitted += 1
        places[name] = Place(party: party, number: admitted)
        return .admitted(insteadOf: victim)
    }

    /// A client has said hello.
    mutating func greeted(_ name: String) {
        places[name]?.isStranger = false
    }

    /// A client of an app asks to send long messages.
    ///
    /// - Returns: whether it may from now on.
    mutating func allowLongMessages(_ name: String) -> Bool {
        guard let place = places[name], !place.sendsLongMessages else { return false }
        let granted = places.values.filter(\.sendsLongMessages)
        guard granted.count < limits.longMessageClients,
            granted.count(where: { $0.party == place.party }) < limits.longMessageClientsPerUser
        else { return false }
        places[name]?.sendsLongMessages = true
        return true
    }

    /// A client is of no app any more.
    ///
    /// - Returns: whether it could send long messages until now.
    mutating func revokeLongMessages(_ name: String) -> Bool {
        guard places[name]?.sendsLongMessages == true else { return false }
        places[name]?.sendsLongMessages = false
        return true
    }

    /// Who has to go because too much waits to be read; nil while it is not too much.
    ///
    /// - Parameter unread: the bytes that wait for each client.
    func slowestReader(_ unread: [String: Int]) -> String? {
        let admitted = unread.filter { places[$0.key] != nil }
        guard admitted.values.reduce(0, +) > limits.unreadBytes else { return nil }
        let byUser = Dictionary(grouping: admitted) { places[$0.key]?.party }
        let most = byUser.values.max { total($0) < total($1) }
        return most?.max { ($0.value, places[$0.key]?.number ?? 0) < ($1.value, places[$1.key]?.number ?? 0) }?.key
    }

    private func total(_ unread: [(key: String, value: Int)]) -> Int { unread.reduce(0) { $0 + $1.value } }

    /// A client has gone.
    mutating func left(_ name: String) {
        places[name] = nil
    }

    /// First who has not called Hello, then the latest connection of the user who has most, if that is more than this
    /// one's would be.
    private func victim(for party: Party) -> String? {
        let counts = Dictionary(grouping: places.values, by: \.party).mapValues(\.count)
        let strangers = places.filter(\.value.isStranger)
        if let stranger = strangers.max(by: {
            (counts[$0.value.party] ?? 0, $0.value.number) < (counts[$1.value.party] ?? 0, $1.value.number)
        }) {
            return stranger.key
        }
        guard let most = counts.max(by: { ($0.value, $1.key) < ($1.value, $0.key) }), most.value > counts[party, default: 0] + 1
        else { return nil }
        return places.filter { $0.value.party == most.key }.max { $0.value.number < $1.value.number }?.key
    }
}
