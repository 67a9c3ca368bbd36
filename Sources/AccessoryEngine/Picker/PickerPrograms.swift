// SPDX-License-Identifier: Apache-2.0
// The programs that have registered to show pickers; the first of them shows the next one.

internal import AccessoryModel

/// A program that shows pickers.
public struct PickerProgram: Hashable, Sendable {
    /// Its connection.
    public let client: ClientID
    /// What it calls itself for people; empty when it gave none.
    public internal(set) var label: String
    /// Its user's account name, or the number of one without a name, as it was when the program registered.
    public let user: String
    /// When it registered, seconds since 1970.
    public let since: Int64
    /// No person sees it: it answers with what it was started with, as a script does.
    public internal(set) var isUnattended = false
}

struct PickerPrograms {
    private(set) var all: [PickerProgram] = []
    /// Registrations that end unless they are renewed.
    private var leases: [ClientID: Lease] = [:]

    private struct Lease {
        let seconds: Double
        /// Monotonic seconds.
        let end: Double
    }

    var first: ClientID? { all.first?.client }

    /// - Parameters:
    ///   - label: what the program calls itself; nil leaves what it has said before.
    ///   - user: asked for of a program that is new.
    ///   - lease: seconds after which the registration ends; nil leaves what the program has said before.
    ///   - isUnattended: whether no person sees it; nil leaves what the program has said before.
    ///   - now: seconds since 1970.
    ///   - uptime: monotonic seconds.
    /// - Returns: whether it is new.
    /// - Throws: `InvalidRequest` past `Limits.pickers`.
    mutating func register(
        _ client: ClientID, label: String?, lease: Double?, isUnattended: Bool?, user: @autoclosure () -> String, now: Int64,
        uptime: Double
    ) throws(SetupError) -> Bool {
        if let index = index(of: client) {
            if let label { all[index].label = label }
            if let isUnattended { all[index].isUnattended = isUnattended }
            renew(client, lease, uptime)
            return false
        }
        guard all.count < Limits.pickers else {
            throw .invalid("RegisterPicker", client, "\(Limits.pickers) pickers are registered already")
        }
        all.append(
            PickerProgram(client: client, label: label ?? "", user: user(), since: now, isUnattended: isUnattended ?? false))
        renew(client, lease, uptime)
        return true
    }

    private mutating func renew(_ client: ClientID, _ lease: Double?, _ uptime: Double) {
        guard let seconds = lease ?? leases[client]?.seconds else { return }
        leases[client] = Lease(seconds: seconds, end: uptime + seconds)
    }

    /// When the next registration ends, in monotonic seconds; nil while none does.
    var nextEnd: Double? { leases.values.map(\.end).min() }

    /// The programs whose registration has ended.
    func ended(at uptime: Double) -> [ClientID] { all.map(\.client).filter { leases[$0].map { $0.end <= uptime } ?? false } }

    /// - Returns: whether it was registered.
    mutating func unregister(_ client: ClientID) -> Bool {
        guard let index = index(of: client) else { return false }
        all.remove(at: index)
        leases[client] = nil
        return true
    }

    private func index(of client: ClientID) -> Int? { all.firstIndex { $0.client == client } }
}
