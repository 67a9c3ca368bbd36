// SPDX-License-Identifier: Apache-2.0
// The air of a scenario: which accessories are in range, their current adverts, and their bonds. It outlives
// the simulated service, as real accessories outlive bluetoothd.

internal import AccessoryModel
internal import DBusKit
internal import Logging

/// One accessory on the air.
final class AirAccessory {
    let scenario: Scenario.Accessory
    /// Out of range, by a fault or by `vanish`.
    var isAway = false
    var isInRange = false
    var appearedAt = 0.0
    /// Adapters (by address) that hold a bond with it.
    var bonds: Set<BluetoothAddress> = []
    /// Bonds whose keys the accessory has forgotten.
    var forgottenBonds: Set<BluetoothAddress> = []
    /// Adapters that hold a bond with the classic side of a dual-mode accessory.
    var classicBonds: Set<BluetoothAddress> = []
    /// How many pairings have failed on purpose.
    var faultsPlayed = 0
    /// Who is connected to it: an adapter's name.
    var connectedTo: String?
    var characteristicValues: [String: [UInt8]] = [:]
    /// The name that the service stores with a bond.
    var storedName: String?

    init(_ scenario: Scenario.Accessory) {
        self.scenario = scenario
    }

    /// How often its address has changed.
    private var rotations: UInt64 = 0

    /// The address on the air: for a private accessory one whose top bits say "resolvable".
    var airAddress: BluetoothAddress {
        guard scenario.airAddress.type == .rpa else { return scenario.address }
        let mixed = scenario.address.value ^ 0x5A5A_5A5A ^ rotations &* 0x9E37_79B9_7F4A
        return BluetoothAddress(value: mixed & 0x3FFF_FFFF_FFFF | 0x4000_0000_0000, kind: .random)
    }

    /// Another private address; not over a link, which keeps its own.
    func rotate() {
        if connectedTo == nil { rotations += 1 }
    }

    /// A connected accessory with one advertising set stops advertising.
    var isAdvertising: Bool { isInRange && !isAway && connectedTo == nil }

    /// The fault that the next pairing plays.
    func consumeFault() -> Scenario.Pairing.Fault? {
        guard let fault = scenario.pairing.fault else { return nil }
        if let count = scenario.pairing.faultCount, faultsPlayed >= count { return nil }
        faultsPlayed += 1
        return fault
    }
}

/// All accessories, played over time.
final class Air {
    let input: InputDirectory
    let accessories: [AirAccessory]
    private let loop: MainLoop
    private var listeners: [ObjectIdentifier: (AirAccessory, Scenario.Advert) -> Void] = [:]
    /// Those that search, which takes the radio's time.
    private var searching: Set<ObjectIdentifier> = []
    /// In microseconds of the loop.
    private let start: Int64
    private var isPlaying = false
    /// Adverts that were sent during a discovery.
    private(set) var sent: UInt64 = 0
    /// Seconds of all discoveries that have ended, and the time at which the present one began.
    private var searches = (ended: 0.0, begin: 0.0)

    init(_ scenario: Scenario, input: InputDirectory, loop: MainLoop) {
        self.input = input
        self.loop = loop
        accessories = scenario.accessories.map(AirAccessory.init)
        start = loop.now
    }

    /// Seconds since the start.
    var now: Double {
        Double(loop.now - start) / 1e6
    }

    func play() {
        guard !isPlaying else { return }
        isPlaying = true
        for accessory in accessories {
            schedule(accessory.scenario.presence.appearsAt) { [self] in appear(accessory) }
            if let leaves = accessory.scenario.presence.leavesAt { schedule(leaves) { accessory.isInRange = false } }
        }
    }

    func accessory(_ id: String) -> AirAccessory? { accessories.first { $0.scenario.id == id } }

    /// Receives every advert. Adverts are sent only while there is a listener.
    ///
    /// - Parameter isSearch: false for a controller that compares adverts by itself.
    func listen(_ owner: AnyObject, isSearch: Bool = true, _ hear: @escaping (AirAccessory, Scenario.Advert) -> Void) {
        if isSearch {
            if searching.isEmpty { searches.begin = now }
            searching.insert(ObjectIdentifier(owner))
        }
        listeners[ObjectIdentifier(owner)] = hear
    }

    func stopListening(_ owner: AnyObject) {
        listeners[ObjectIdentifier(owner)] = nil
        guard searching.remove(ObjectIdentifier(owner)) != nil, searching.isEmpty else { return }
        searches.ended += now - searches.begin
    }

    /// Seconds for which at least one adapter has searched.
    var searchTime: Double { searches.ended + (searching.isEmpty ? 0 : now - searches.begin) }

    private func schedule(_ at: Double, _ body: @escaping () -> Void) {
        if at <= now { body() } else { loop.after(.seconds(at - now), body) }
    }

    private func appear(_ accessory: AirAccessory) {
        accessory.isInRange = true
        accessory.appearedAt = now
        if let rotates = accessory.scenario.airAddress.rotates {
            loop.every(.seconds(rotates)) { [weak self] in
                guard self != nil, accessory.isInRange else { return false }
                accessory.rotate()
                return true
            }
        }
        for advert in accessory.scenario.adverts {
            loop.after(.seconds(advert.from)) { [self] in
                send(advert, of: accessory)
                loop.every(.seconds(advert.interval)) { [weak self] in
                    guard let self, accessory.isInRange else { return false }
                    if let until = advert.until, self.now - accessory.appearedAt >= until { return false }
                    self.send(advert, of: accessory)
                    return true
                }
            }
        }
    }

    /// Sends the first advert of each accessory over and over, as fast as `drain` takes them: for load.
    func flood(_ drain: @escaping () -> Void) {
        loop.every(.milliseconds(0)) { [weak self] in
            guard let self else { return false }
            // Without a listener: wait without spinning.
            guard !self.listeners.isEmpty else {
                self.loop.after(.milliseconds(20)) { [weak self] in self?.flood(drain) }
                return false
            }
            for accessory in self.accessories {
                if let advert = accessory.scenario.adverts.first { self.send(advert, of: accessory) }
            }
            drain()
            return true
        }
    }

    private func send(_ advert: Scenario.Advert, of accessory: AirAccessory) {
        guard accessory.isAdvertising, !listeners.isEmpty else { return }
        sent += 1
        for hear in listeners.values { hear(accessory, advert) }
    }
}
