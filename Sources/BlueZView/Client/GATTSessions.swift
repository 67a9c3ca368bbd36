// SPDX-License-Identifier: Apache-2.0
// A client's sessions on characteristics, which must end with the link or the grant: notifications, and the
// descriptors of AcquireWrite and AcquireNotify. (BlueZ, org.bluez.GattCharacteristic(5))

internal import BlueZInterfaces
internal import DBusKit

/// A client's notifications and descriptors.
final class GATTSessions {
    private struct Acquisition {
        let characteristic: ObjectPath
        let relay: DescriptorRelay
    }

    private let loop: MainLoop
    private let clearance: Clearance
    private let share: Share
    private var notifying: Set<ObjectPath> = []
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
        switch member {
        case "StartNotify": notifying.insert(characteristic)
        case "StopNotify": notifying.remove(characteristic)
        case "AcquireWrite", "AcquireNotify": return try relay(reply, to: call, characteristic, device)
        default: break
        }
        return reply
    }

    /// Keeps the descriptor, and makes another for the app.
    private func relay(
        _ reply: Message, to call: Message, _ characteristic: ObjectPath, _ device: ObjectPath
    ) throws(BusError) -> Message {
        guard let arguments = try? reply.arguments(), arguments.count == 2, let descriptor = arguments[0].fileDescriptorValue,
            let mtu = arguments[1].integerValue.flatMap({ UInt16(exactly: $0) })
        else { throw .failed("org.bluez did not answer with a descriptor") }
        try share.reserve(.descriptors)
        guard let (relay, outer) = DescriptorRelay.make(for: descriptor, loop: loop) else {
            share.release(.descriptors)
            throw .bluez(.notSupported, "descriptors of this kind cannot be relayed")
        }
        keep(relay, of: characteristic, device)
        return try call.reply([.fileDescriptor(outer), .uint16(mtu)])
    }

    private func keep(_ relay: DescriptorRelay, of characteristic: ObjectPath, _ device: ObjectPath) {
        relay.mayPass = { [clearance] side in
            side == .service ? clearance.allows(.value(device)) : clearance.accepts(packetsFor: device)
        }
        relay.whenClosed { [weak self, weak relay] in self?.drop { $0.relay === relay } }
        acquisitions.append(Acquisition(characteristic: characteristic, relay: relay))
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
                "Characteristic": .objectPath(acquisition.characteristic), "Service": baggage.pack(service),
                "App": baggage.pack(app),
            ]
        }
        return ["Notifying": .objectPaths(notifying.sorted()), "Acquired": .states(left)]
    }

    func resume(_ state: LeftState, _ baggage: Baggage) {
        notifying = Set(state.paths("Notifying"))
        for left in state.states("Acquired") {
            guard let characteristic = left.path("Characteristic"), let device = clearance.scope.device(of: characteristic)
            else { continue }
            let (service, app) = (baggage.unpack(left["Service"]), baggage.unpack(left["App"]))
            if let service, let app {
                share.resume(.descriptors, 1)
                keep(DescriptorRelay(resuming: service, app, loop: loop), of: characteristic, device)
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
        for acquisition in acquisitions where acquisition.characteristic.isBelow(device) { acquisition.relay.close() }
        drop { $0.characteristic.isBelow(device) }
        let stopped = notifying.filter { $0.isBelow(device) }
        notifying.subtract(stopped)
        return stopped.sorted()
    }

    /// The radio service has dropped the notifications, with the connection they were counted for.
    func clearNotifications() {
        notifying = []
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
