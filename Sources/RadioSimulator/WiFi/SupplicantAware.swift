// SPDX-License-Identifier: Apache-2.0
// Wi-Fi Aware as wpa_supplicant has it (unsynchronized service discovery): subscriptions hear publishers, publications
// hear subscribers.

internal import DBusKit

final class SupplicantAware {
    private unowned let owner: SupplicantInterface
    /// Names by handle.
    private var running: [Scenario.AwareService.Role: [UInt32: String]] = [.publisher: [:], .subscriber: [:]]
    /// One counter for both, as in the real one.
    private var lastHandle: UInt32 = 0
    private var heard: Set<String> = []

    static let members = """
            NANPublish(a{sv}) -> u
            NANCancelPublish(u)
            NANSubscribe(a{sv}) -> u
            NANCancelSubscribe(u)
            signal NANDiscoveryResult(a{sv})
            signal NANReplied(a{sv})
            signal NANPublishTerminated(u, s)
            signal NANSubscribeTerminated(u, s)
        """

    private static let keys: Set<String> = ["srv_name", "srv_proto_type", "ttl", "ssi", "active", "solicited", "unsolicited"]

    init(_ owner: SupplicantInterface) {
        self.owner = owner
    }

    func describe(_ description: inout ExportedInterface) {
        // Publishers are heard by subscribing, subscribers by publishing.
        for (verb, peers) in [("Subscribe", Scenario.AwareService.Role.publisher), ("Publish", .subscriber)] {
            description.method("NAN\(verb)") { [unowned self] call throws(BusError) in
                let values = call.arguments[0].vardictValue ?? [:]
                guard let name = values["srv_name"]?.stringValue, values.keys.allSatisfy(Self.keys.contains) else {
                    throw SimulatedSupplicant.invalidArguments("failed to parse \(call.member)")
                }
                lastHandle += 1
                let handle = lastHandle
                running[peers]?[handle] = name
                call.reply(.uint32(handle))
                if let seconds = values["ttl"]?.integerValue, seconds > 0 {
                    owner.air.loop.after(.seconds(seconds)) { [weak self] in self?.end(handle, peers, verb, "timeout") }
                }
                owner.air.loop.soon { [weak self] in
                    guard let self else { return }
                    let air = self.owner.air
                    for service in air.awareServices where air.aware.contains(service.id) { self.hear(service) }
                }
            }
            description.method("NANCancel\(verb)") { [unowned self] call throws(BusError) in
                call.reply()
                end(UInt32(clamping: call.arguments[0].integerValue ?? 0), peers, verb, "user-request")
            }
        }
    }

    private func end(_ handle: UInt32, _ peers: Scenario.AwareService.Role, _ verb: String, _ reason: String) {
        guard running[peers]?.removeValue(forKey: handle) != nil else { return }
        owner.emit("NAN\(verb)Terminated", .uint32(handle), .string(reason))
    }

    /// A service is in range.
    func hear(_ service: Scenario.AwareService) {
        guard owner.radio.isUsable else { return }
        let lines = [service.model.map { "model=\($0)" }, service.vendor.map { "vendor=\($0)" }].compactMap { $0 }
        let isPublisher = service.role == .publisher
        for (handle, name) in (running[service.role] ?? [:]).sorted(by: { $0.key < $1.key }) where name == service.service {
            guard heard.insert("\(handle) \(service.id)").inserted else { continue }
            owner.emit(
                isPublisher ? "NANDiscoveryResult" : "NANReplied",
                .vardict([
                    "peer_addr": .string(MACAddress.text(service.address)), "srv_proto_type": .uint32(0),
                    "ssi": .bytes(Array(lines.joined(separator: "\n").utf8)),
                    isPublisher ? "subscribe_id" : "publish_id": .uint32(handle),
                    isPublisher ? "publish_id" : "subscribe_id": .uint32(1),
                ]))
        }
    }
}
