// SPDX-License-Identifier: Apache-2.0
// Wi-Fi Aware as wpa_supplicant has it (unsynchronized service discovery): subscriptions hear publishers, publications
// hear subscribers.

internal import DBusKit

final class SupplicantAware {
    private unowned let owner: SupplicantInterface
    private let loop: MainLoop
    private var subscriptions: [UInt32: String] = [:]
    private var publications: [UInt32: String] = [:]
    /// One counter for both, as in the real one.
    private var nextHandle: UInt32 = 1

    private static let common: Set<String> = ["srv_name", "srv_proto_type", "ttl", "freq", "freq_list", "ssi", "p2p"]
    private static let ofSubscriptions = common.union(["active", "query_period"])
    private static let ofPublications = common.union([
        "solicited", "unsolicited", "solicited_multicast", "disable_events", "fsd", "fsd_gas", "announcement_period",
    ])

    init(_ owner: SupplicantInterface, loop: MainLoop) {
        self.owner = owner
        self.loop = loop
    }

    func describe(_ description: inout ExportedInterface) {
        description.method("NANSubscribe") { [unowned self] call throws(BusError) in
            let name = try Self.name(call, Self.ofSubscriptions)
            let handle = newHandle()
            subscriptions[handle] = name
            call.reply(.uint32(handle))
            end(handle, after: call) { $0.cancelSubscription(handle, "timeout") }
            hearAll()
        }
        description.method("NANCancelSubscribe") { [unowned self] call throws(BusError) in
            call.reply()
            cancelSubscription(UInt32(clamping: call.arguments[0].integerValue ?? 0), "user-request")
        }
        description.method("NANPublish") { [unowned self] call throws(BusError) in
            let name = try Self.name(call, Self.ofPublications)
            let handle = newHandle()
            publications[handle] = name
            call.reply(.uint32(handle))
            end(handle, after: call) { $0.cancelPublication(handle, "timeout") }
            hearAll()
        }
        description.method("NANCancelPublish") { [unowned self] call throws(BusError) in
            call.reply()
            cancelPublication(UInt32(clamping: call.arguments[0].integerValue ?? 0), "user-request")
        }
    }

    private static func name(_ call: MethodCall, _ known: Set<String>) throws(BusError) -> String {
        let values = call.arguments[0].vardictValue ?? [:]
        if let unknown = values.keys.sorted().first(where: { !known.contains($0) }) {
            throw SupplicantError.invalidArguments(unknown)
        }
        guard let name = values["srv_name"]?.stringValue else {
            throw SupplicantError.invalidArguments("failed to parse \(call.member)")
        }
        return name
    }

    private func newHandle() -> UInt32 {
        defer { nextHandle += 1 }
        return nextHandle
    }

    private func end(_ handle: UInt32, after call: MethodCall, _ body: @escaping (SupplicantAware) -> Void) {
        guard let seconds = call.arguments[0].vardictValue?["ttl"]?.integerValue, seconds > 0 else { return }
        loop.after(.seconds(seconds)) { [weak self] in if let self { body(self) } }
    }

    private func cancelSubscription(_ handle: UInt32, _ reason: String) {
        guard subscriptions.removeValue(forKey: handle) != nil else { return }
        owner.emit("NANSubscribeTerminated", .uint32(handle), .string(reason))
    }

    private func cancelPublication(_ handle: UInt32, _ reason: String) {
        guard publications.removeValue(forKey: handle) != nil else { return }
        owner.emit("NANPublishTerminated", .uint32(handle), .string(reason))
    }

    private func hearAll() {
        loop.soon { [weak self] in
            guard let self else { return }
            let air = self.owner.radio.air
            for service in air.awareServices where air.aware.contains(service.id) { self.hear(service) }
        }
    }

    private var heard: Set<String> = []

    /// A service came into range.
    func appeared(_ service: Scenario.AwareService) {
        hear(service)
    }

    private func hear(_ service: Scenario.AwareService) {
        guard owner.radio.isUsable else { return }
        let peer = UInt32(1 + (owner.radio.air.awareServices.firstIndex { $0.id == service.id } ?? 0))
        let lines = [service.model.map { "model=\($0)" }, service.vendor.map { "vendor=\($0)" }].compactMap { $0 }
        let waiting = service.role == .publisher ? subscriptions : publications
        for (handle, name) in waiting.sorted(by: { $0.key < $1.key }) where name == service.service {
            guard heard.insert("\(handle) \(service.id)").inserted else { continue }
            var arguments: [String: DBusValue] = [
                "peer_addr": .string(MACAddress.text(service.address)), "srv_proto_type": .uint32(0),
                "ssi": .bytes(Array(lines.joined(separator: "\n").utf8)),
            ]
            if service.role == .publisher {
                arguments["subscribe_id"] = .uint32(handle)
                arguments["publish_id"] = .uint32(peer)
                arguments["fsd"] = .boolean(true)
                arguments["fsd_gas"] = .boolean(false)
                owner.emit("NANDiscoveryResult", .vardict(arguments))
            } else {
                arguments["publish_id"] = .uint32(handle)
                arguments["subscribe_id"] = .uint32(peer)
                owner.emit("NANReplied", .vardict(arguments))
            }
        }
    }
}
