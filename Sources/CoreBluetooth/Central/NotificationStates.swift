// SPDX-License-Identifier: Apache-2.0
// Which characteristics notify, and which of their values the app must receive, as a value: BlueZ signals values before
// it answers `StartNotify`, and signals the value that is read before it answers `ReadValue`.

internal import DBusKit

/// The notifications of one link.
struct NotificationStates {
    private enum State {
        /// `StartNotify` is in flight; the app receives these values after its answer.
        case starting([[UInt8]])
        case on
    }

    private var states: [ObjectPath: State] = [:]
    /// Those that streams have turned on, and not the app itself.
    private(set) var ofStreams: Set<ObjectPath> = []
    /// The last value signalled of the notifying characteristic that is being read.
    private var echo: (path: ObjectPath, value: [UInt8]?)?

    /// Values that may come before the answer to `StartNotify`.
    private static let maxHeldValues = 4096

    var paths: [ObjectPath] { Array(states.keys) }

    func isOn(_ path: ObjectPath) -> Bool { states[path] != nil }

    mutating func starting(_ path: ObjectPath, forStream: Bool = false) {
        states[path] = .starting([])
        if forStream { ofStreams.insert(path) }
    }

    /// The app itself asks for notifications, which then outlive the streams.
    mutating func wanted(_ path: ObjectPath) { ofStreams.remove(path) }

    /// - Returns: the values that have come meanwhile.
    mutating func started(_ path: ObjectPath) -> [[UInt8]] {
        guard case .starting(let values) = states[path] else { return [] }
        states[path] = .on
        return values
    }

    mutating func stopped(_ path: ObjectPath) {
        states[path] = nil
        ofStreams.remove(path)
    }

    /// - Returns: whether the app receives the value now.
    mutating func received(_ value: [UInt8], of path: ObjectPath) -> Bool {
        switch states[path] {
        case .starting(var values):
            guard values.count < Self.maxHeldValues else { return false }
            values.append(value)
            states[path] = .starting(values)
            return false
        case .on:
            if echo?.path == path { echo?.value = value }
            return true
        case nil: return false
        }
    }

    mutating func beginRead(_ path: ObjectPath) { echo = isOn(path) ? (path, nil) : nil }

    /// - Returns: the value that the app has received as a signal since `beginRead`.
    mutating func endRead() -> [UInt8]? {
        defer { echo = nil }
        return echo?.value
    }
}
