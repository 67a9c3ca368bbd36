// SPDX-License-Identifier: Apache-2.0
// The pairing as a value: every event in every state, the failures that they end in, and that it ends once.

import AccessoryCore
import AccessoryEngine
import AccessoryModel
import BlueZInterfaces
import DBusKit
import Testing

@testable import BlueZRadio

@Suite struct PairingMachineTests {
    private typealias Machine = PairingMachine

    private static let none = Machine.Progress()
    private static let linked = Machine.Progress(isConnected: true)
    private static let noReply = BusError.standard("NoReply", "")
    private static let refused = BusError.bluez(.authenticationFailed, "")
    private static let unavailable = RadioFailure(.unavailable, "the adapter is off")

    private static func properties(_ more: [String: DBusValue] = [:]) -> Properties<Device1> {
        Properties(
            ["Address": .string("C0:00:00:00:00:01"), "AddressType": .string("random"), "Paired": .boolean(true)]
                .merging(more) { $1 })
    }

    /// Events with which each state is reached.
    private static let paths: [String: [Machine.Event]] = [
        "new": [],
        "registering": [.begin(isPaired: false)],
        "registering, cancelled": [.begin(isPaired: false), .cancel],
        "pairing": [.begin(isPaired: false), .registered(nil)],
        "cancelling by the person": [.begin(isPaired: false), .registered(nil), .cancel],
        "cancelling without a link": [.begin(isPaired: false), .registered(nil), .expired(.link, none)],
        "cancelling without an answer": [.begin(isPaired: false), .registered(nil), .expired(.answer, none)],
        "cancelling without an object": [.begin(isPaired: false), .registered(nil), .objectRemoved],
        "retrying": [.begin(isPaired: false), .registered(nil), .pairEnded(.bluez(.connectionAttemptFailed, ""))],
        "reading": [.begin(isPaired: false), .registered(nil), .pairEnded(nil)],
        "reading after a cancellation": [.begin(isPaired: false), .registered(nil), .cancel, .pairEnded(nil)],
        "ended": [.begin(isPaired: false), .abort(unavailable)],
    ]

    private static func machine(_ state: String) throws -> Machine {
        var machine = Machine(RadioDeviceID("/d"))
        for event in try #require(paths[state]) { _ = machine.handle(event) }
        return machine
    }

    private static func end(_ effects: [Machine.Effect]) -> Result<Machine.Outcome, RadioFailure>? {
        for case .end(let result) in effects { return result }
        return nil
    }

    struct Row: Sendable, CustomTestStringConvertible {
        let state: String
        let event: String
        /// The reason of the failure that it ends with, `success`, or the effects.
        let expected: String
        var testDescription: String { "\(state) × \(event)" }
    }

    private static let events: [String: Machine.Event] = [
        "registered": .registered(nil), "registration fails": .registered(.failed("")),
        "paired": .pairEnded(nil), "refused": .pairEnded(refused), "no reply": .pairEnded(noReply),
        "no connection": .pairEnded(.bluez(.connectionAttemptFailed, "")), "exists": .pairEnded(.bluez(.alreadyExists, "")),
        "read": .read(.success(properties())), "read unpaired": .read(.success(properties(["Paired": .boolean(false)]))),
        "read nothing": .read(.failure(.standard("UnknownObject", ""))), "read not answered": .read(.failure(noReply)),
        "answered": .answered, "cancel": .cancel, "abort": .abort(unavailable), "removed": .objectRemoved,
        "no link": .expired(.link, none), "link": .expired(.link, linked),
        "no answer": .expired(.answer, none), "person": .expired(.answer, Machine.Progress(awaitsPerson: true)),
        "unconfirmed": .expired(.cancellation, none), "down": .expired(.retry, none), "up": .expired(.retry, linked),
    ]

    /// Events that are not named leave the state and have no effect; `abort` ends every state but the last.
    private static let table: [String: [String: String]] = [
        "new": ["abort": "unavailable", "removed": ""],
        "registering": [
            "registered": "pair link answer", "registration fails": "other", "cancel": "", "removed": "connection",
            "abort": "unavailable",
        ],
        "registering, cancelled": [
            "registered": "cancelled", "registration fails": "other", "removed": "connection", "abort": "unavailable",
        ],
        "pairing": [
            "paired": "read", "exists": "read", "refused": "refused", "no reply": "cancelPairing timeout", "no connection": "retry",
            "answered": "answer", "cancel": "dropQuestion cancelPairing cancellation", "removed": "cancelPairing cancellation",
            "no link": "cancelPairing cancellation", "no answer": "cancelPairing cancellation", "abort": "unavailable",
        ],
        "cancelling by the person": [
            "paired": "read", "exists": "read", "refused": "cancelled", "no reply": "cancelled", "no connection": "cancelled",
            "unconfirmed": "cancelled", "abort": "unavailable",
        ],
        "cancelling without a link": [
            "paired": "read", "exists": "read", "refused": "connection", "no reply": "timeout", "no connection": "connection",
            "unconfirmed": "timeout", "cancel": "dropQuestion cancelPairing cancellation", "abort": "unavailable",
        ],
        "cancelling without an answer": [
            "paired": "read", "exists": "read", "refused": "refused", "no reply": "timeout", "no connection": "connection",
            "unconfirmed": "timeout", "cancel": "dropQuestion cancelPairing cancellation", "abort": "unavailable",
        ],
        // There may be a bond where bluetoothd did not confirm.
        "cancelling without an object": [
            "paired": "read", "exists": "read", "refused": "refused", "no reply": "timeout", "no connection": "connection",
            "unconfirmed": "other", "cancel": "dropQuestion cancelPairing cancellation", "abort": "unavailable",
        ],
        "retrying": [
            "down": "pair", "up": "retry", "cancel": "cancelled", "removed": "connection", "no link": "connection",
            "no answer": "timeout", "abort": "unavailable",
        ],
        "reading": [
            "read": "success", "read unpaired": "success", "read nothing": "other", "read not answered": "timeout",
            "removed": "other", "abort": "unavailable",
        ],
        "reading after a cancellation": [
            "read": "success", "read unpaired": "other", "read nothing": "other", "read not answered": "timeout",
            "removed": "other", "abort": "unavailable",
        ],
        "ended": [:],
    ]

    static var rows: [Row] {
        paths.keys.sorted().flatMap { state in
            events.keys.sorted().map { Row(state: state, event: $0, expected: table[state]?[$0] ?? "") }
        }
    }

    private static func word(_ effect: Machine.Effect) -> String {
        switch effect {
        case .register: "register"
        case .pair: "pair"
        case .cancelPairing: "cancelPairing"
        case .read: "read"
        case .start(let timer, _): "\(timer)"
        case .dropQuestion: "dropQuestion"
        case .end(.success): "success"
        case .end(.failure(let failure)): "\(failure.reason)"
        }
    }

    @Test(arguments: rows) func anEventInAState(row: Row) throws {
        var machine = try Self.machine(row.state)
        let former = machine.state
        let effects = machine.handle(try #require(Self.events[row.event]))
        #expect(effects.map(Self.word).joined(separator: " ") == row.expected)
        // An end is the last effect, and final.
        if Self.end(effects) != nil {
            #expect(machine.state == .ended)
            for event in Self.events.values { #expect(machine.handle(event).isEmpty) }
        } else if row.expected.isEmpty, row.event != "cancel" {
            #expect(machine.state == former)
        }
    }

    @Test func connectionsAreRetriedThreeTimes() throws {
        var machine = try Self.machine("pairing")
        for _ in 0..<2 {
            #expect(machine.handle(.pairEnded(.bluez(.connectionAttemptFailed, ""))).map(Self.word) == ["retry"])
            #expect(machine.handle(.expired(.retry, Self.none)) == [.pair])
        }
        #expect(Self.end(machine.handle(.pairEnded(.bluez(.connectionAttemptFailed, ""))))?.error?.reason == .connection)
    }

    /// A link that does not go down is not waited for longer than 5 s.
    @Test func aRetryDoesNotWaitForEver() throws {
        var machine = try Self.machine("retrying")
        var polls = 0
        while machine.handle(.expired(.retry, Self.linked)) != [.pair] { polls += 1 }
        #expect(polls == 19)
    }

    @Test func anOutcomeHasWhatIsReadOfTheDevice() throws {
        var machine = Machine(RadioDeviceID("/d"))
        #expect(machine.handle(.begin(isPaired: true)) == [.read])
        let properties = Self.properties([
            "AdvertisingFlags": .bytes([0x06]), "Bonded": .boolean(false), "PreferredBearer": .string("last-used"),
        ])
        let outcome = try #require(try Self.end(machine.handle(.read(.success(properties))))?.get())
        #expect(outcome.identity.address == BluetoothAddress("C0:00:00:00:00:01", kind: .random))
        #expect(outcome.identity.wasPairedBefore && outcome.isLowEnergyOnly && outcome.choosesBearer && !outcome.isBonded)
    }
}
