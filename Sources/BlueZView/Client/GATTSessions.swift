// SPDX-License-Identifier: Apache-2.0
// A client's sessions on characteristics, which must end with the link or the grant: notifications, and the
// descriptors of AcquireWrite and AcquireNotify. (BlueZ, org.bluez.GattCharacteristic(5))

internal import AccessoryModel
internal import BlueZInterfaces
internal import DBusKit

/// A client's notifications and descriptors.
final class GATTSessions {
    private struct Acquisition {
        let use: AttributeUse
        let relay: DescriptorRelay
    }

    private let loop: MainLoop
    private let clearance: Clearance
    private let share: Share
    /// By the characteristic.
    private var notifying: [ObjectPath: AttributeUse] = [:]
    private var acquisitions: [Acquisition] = []

    init(_ share: Share, _ clearance: Clearance, loop: MainLoop) {
        self.share = share
        self.clearance = clearance
        self.loop = loop
    }

    /// Whether a call's answer, or a later message, carries an attribute's value.
    static func reveals(_ member: String) -> Bool {
        ["ReadValue", "StartNotify", "AcquireWrite", "AcquireNotify"].contains(member)
    }

    /// Records a session that the radio service has granted.
    ///
    /// - Returns: the answer for the client; a descriptor in it is one that can be taken away.
    /// - Throws: when the descriptor cannot be passed on.
    func answered(
        _ reply: Message, to call: Message, _ characteristic: ObjectPath, _ member: String, _ device: ObjectPath
    ) throws(BusError) -> Message {
        func use(_ uses: CharacteristicUses) -> AttributeUse {
            AttributeUse(device: device, characteristic: characteristic, uses: uses)
        }
        switch member {
        case "StartNotify": notifying[characteristic] = use(.listen)
        case "StopNotify": notifying[characteristic] = nil
        case "AcquireWrite": return try relay(reply, to: call, use(.write))
        case "AcquireNotify": return try relay(reply, to: call, use(.listen))
        default: break
        }
        return reply
    }

    /// Keeps the descriptor, and makes another for the app.
    private func relay(_ reply: Message, to call: Message, _ use: AttributeUse) throws(BusError) -> Message {
        guard let arguments = try? reply.arguments(), arguments.count == 2, let descriptor = arguments[0].fileDescriptorValue,
            let mtu = arguments[1].integerValue.flatMap({ UInt16(exactly: $0) })
        else { throw .failed("org.bluez did not answer with a descriptor") }
        try share.reserve(.descriptors)
        guard let (relay, outer) = DescriptorRelay.make(for: descriptor, loop: loop) else {
            share.release(.descriptors)
            throw .bluez(.notSupported, "descriptors of this kind cannot be relayed")
        }
        keep(relay, for: use)
        return try call.reply([.fileDescriptor(outer), .uint16(mtu)])
    }

    private func keep(_ relay: DescriptorRelay, for use: AttributeUse) {
        relay.mayPass = { [clearance] side in
            side == .service ? clearance.allows(.use(use)) : clearance.accepts(packetsFor: use)
        }
        relay.whenClosed { [weak self, weak relay] in self?.drop { $0.relay === relay } }
        acquisitions.append(Acquisition(use: use, relay: relay))
    }

    private func drop(_ isMeant: (Acquisition) -> Bool) {
        let count = acquisitions.count
        acquisitions.removeAll(where: isMeant)
        share.release(.descriptors, count - acquisitions.count)
    }

    /// Leaves all to the next run. A descriptor that cannot be left ends.
    func leave(_ baggage: inout Baggage) -> LeftState {
        let left = acquisitions.compactMap { acquisition -> LeftState? in
            guard let (service, app) = acquisition.relay.leave() else { return nil }
            return [
                "Characteristic": .objectPath(acquisition.use.characteristic), "Service": baggage.pack(service),
                "App": baggage.pack(app), "Uses": .strings(acquisition.use.uses.words),
            ]
        }
        return ["Notifying": .objectPaths(notifying.keys.sorted()), "Acquired": .states(left)]
    }

    func resume(_ state: LeftState, _ baggage: Baggage) {
        for characteristic in state.paths("Notifying") {
            guard let device = clearance.scope.device(of: characteristic) else { continue }
            notifying[characteristic] = AttributeUse(device: device, characteristic: characteristic, uses: .listen)
        }
        for left in state.states("Acquired") {
            guard let characteristic = left.path("Characteristic"), let device = clearance.scope.device(of: characteristic)
            else { continue }
            let (service, app) = (baggage.unpack(left["Service"]), baggage.unpack(left["App"]))
            let isForWriting = left["Uses"]?.stringsValue == CharacteristicUses.write.words
            let use = AttributeUse(device: device, characteristic: characteristic, uses: isForWriting ? .write : .listen)
            if let service, let app {
                share.resume(.descriptors, 1)
                keep(DescriptorRelay(resuming: service, app, loop: loop), for: use)
            } else {
                // One side has closed: the other sees that.
                for socket in [service, app] { socket?.endConnection() }
            }
        }
    }

    /// Ends all sessions of a device.
    ///
    /// - Returns: the characteristics whose notifications the radio service is to stop.
    func endAll(of device: ObjectPath) -> [ObjectPath] {
        end { $0.device == device }
    }

    /// Ends the sessions that the grants do not permit any more.
    ///
    /// - Returns: the characteristics whose notifications the radio service is to stop.
    func endForbidden() -> [ObjectPath] { end { clearance.narrowing(of: $0) != nil } }

    private func end(where isMeant: (AttributeUse) -> Bool) -> [ObjectPath] {
        for acquisition in acquisitions where isMeant(acquisition.use) { acquisition.relay.close() }
        drop { isMeant($0.use) }
        let stopped = notifying.filter { isMeant($0.value) }.keys
        for characteristic in stopped { notifying[characteristic] = nil }
        return stopped.sorted()
    }

    /// The radio service has dropped the notifications, with the connection they were counted for.
    func clearNotifications() {
        notifying = [:]
    }

    /// Passes on packets that the radio service has sent so far.
    func catchUp() {
        for acquisition in acquisitions { acquisition.relay.catchUp(.service) }
    }

    /// The client is disconnected; its writes are passed on.
    func closeDescriptors() {
        for acquisition in acquisitions {
            acquisition.relay.catchUp(.app)
            acquisition.relay.close()
        }
        drop { _ in true }
    }
}
