// SPDX-License-Identifier: Apache-2.0
// Wi-Fi Aware by wpa_supplicant's unsynchronized service discovery (USD), where it was built with it (after 2.11,
// CONFIG_NAN_USD). The methods are looked for on the interface's object; whichever service manages the interface,
// wpa_supplicant's object is asked. Who publishes is found by subscribing, who subscribes by publishing, for as long as
// somebody looks.

internal import AccessoryModel
internal import CallsOut
internal import DBusKit
internal import Logging

final class AwareSearch {
    /// All services that were heard since the search for them began.
    var onServices: (([AwareService]) -> Void)?
    /// What interfaces can do is known now.
    var onChange: (() -> Void)?

    private let supplicant: Supplicant
    private let log: Logger
    /// Interfaces that were asked, and whether they can.
    private var abilities: [String: Bool] = [:]
    private var asking: Set<String> = []
    private var interface: String?
    private var wanted: Set<Wanted> = []
    private var running: [Wanted: UInt32] = [:]
    private var subscriptions: [Subscription] = []
    private var found: [String: AwareService] = [:]
    /// Counted up with every beginning: what an older search is answered does not count.
    private var round = 0
    private var another: LoopSource?

    private struct Wanted: Hashable {
        let name: String
        /// The accessory's.
        let role: WiFiAware.Role
    }

    /// Seconds that wpa_supplicant goes on by itself; it is asked again while somebody looks, and forgets it if we die.
    private static let lifetime: UInt16 = 300
    /// Before what has failed is tried again.
    private static let pause = Duration.seconds(5)

    init(_ supplicant: Supplicant, log: Logger) {
        self.supplicant = supplicant
        self.log = log
        supplicant.onPaths = { [weak self] in self?.pathsChanged() }
    }

    var isSettled: Bool { supplicant.isSettled && asking.isEmpty }

    func obstacle(on interface: String?) -> String? {
        guard let interface, supplicant.paths[interface] != nil else {
            return "Wi-Fi Aware needs wpa_supplicant, which does not serve this machine's Wi-Fi interface"
        }
        return abilities[interface] == true
            ? nil : "this machine's wpa_supplicant does not offer Wi-Fi Aware: it has no NANSubscribe (CONFIG_NAN_USD, after 2.11)"
    }

    // MARK: Who can

    private func pathsChanged() {
        abilities = abilities.filter { supplicant.paths[$0.key] != nil }
        for (name, path) in supplicant.paths where abilities[name] == nil && !asking.contains(name) {
            asking.insert(name)
            supplicant.link.call(.supplicantAbilities, at: path) { [weak self] result in
                guard let self else { return }
                self.asking.remove(name)
                if let values = result.value(orElse: { _ in self.pathsChangedLater() }), self.supplicant.paths[name] == path {
                    let text = values.first?.stringValue ?? ""
                    let description = (try? InterfaceDescription.parse(xml: text))?.first { $0.name == Supplicant.interface }
                    self.abilities[name] = description?.methods.contains { $0.name == "NANSubscribe" } == true
                }
                self.onChange?()
            }
        }
        if let interface, supplicant.paths[interface] == nil { stop() }
        onChange?()
    }

    /// Who was asked and did not say is asked again.
    private func pathsChangedLater() {
        guard another?.isActive != true else { return }
        another = supplicant.loop.after(Self.pause) { [weak self] in self?.pathsChanged() }
    }

    // MARK: Looking

    /// The interface to look with.
    func use(_ interface: String?) {
        guard interface != self.interface || running.isEmpty else { return }
        if interface != self.interface { stop() }
        self.interface = interface
        advance()
    }

    /// What is looked for from now on; nothing ends the search.
    func look(for services: [WiFiAware]) {
        let new = Set(
            services.compactMap { aware in aware.serviceName.map { Wanted(name: $0, role: aware.serviceRole ?? .subscriber) } })
        guard new != wanted else { return }
        wanted = new
        for (each, number) in running where !new.contains(each) { cancel(each, number) }
        advance()
    }

    private func stop() {
        round += 1
        for subscription in subscriptions { subscription.cancel() }
        subscriptions = []
        for (each, number) in running { cancel(each, number) }
        running = [:]
        found = [:]
    }

    private func cancel(_ each: Wanted, _ number: UInt32) {
        running[each] = nil
        guard number != 0, let interface, let path = supplicant.paths[interface] else { return }
        supplicant.link.call(Self.end(each), at: path, [.uint32(number)]) { _ in }
    }

    private static func end(_ each: Wanted) -> CallOut { each.role == .publisher ? .awareSubscribeEnd : .awarePublishEnd }

    private func advance() {
        guard !wanted.isEmpty else { return stop() }
        guard let interface, abilities[interface] == true, let path = supplicant.paths[interface] else { return }
        if subscriptions.isEmpty {
            let interface = Supplicant.interface
            subscriptions = [
                supplicant.link.onSignal(interface, "NANDiscoveryResult", of: path) { [weak self] _, values in
                    self?.begun(values.first, role: .publisher, key: "subscribe_id")
                },
                supplicant.link.onSignal(interface, "NANReplied", of: path) { [weak self] _, values in
                    self?.begun(values.first, role: .subscriber, key: "publish_id")
                },
                supplicant.link.onSignal(interface, "NANSubscribeTerminated", of: path) { [weak self] _, values in
                    self?.ended(values.first?.integerValue, .publisher)
                },
                supplicant.link.onSignal(interface, "NANPublishTerminated", of: path) { [weak self] _, values in
                    self?.ended(values.first?.integerValue, .subscriber)
                },
            ].compactMap(\.self)
        }
        for each in wanted where running[each] == nil { begin(each, path) }
    }

    private func begin(_ each: Wanted, _ path: ObjectPath) {
        running[each] = 0
        let round = round
        var arguments: [String: DBusValue] = ["srv_name": .string(each.name), "ttl": .uint16(Self.lifetime)]
        if each.role == .publisher { arguments["active"] = .boolean(true) }
        supplicant.link.call(each.role == .publisher ? .awareSubscribe : .awarePublish, at: path, [.vardict(arguments)]) {
            [weak self] result in
            guard let self else { return }
            guard self.round == round else {
                // It has begun after all, and nobody looks any more.
                if let number = (try? result.get())?.first?.integerValue {
                    self.supplicant.link.call(Self.end(each), at: path, [.uint32(UInt32(clamping: number))]) { _ in }
                }
                return
            }
            switch result {
            case .success(let values):
                let number = UInt32(clamping: values.first?.integerValue ?? 0)
                self.running[each] = number
                // Nobody looks for it any more.
                if !self.wanted.contains(each) { self.cancel(each, number) }
            case .failure(let error):
                self.log.warning("Wi-Fi Aware service not looked for", metadata: ["service": "\(each.name)", "error": "\(error)"])
                self.supplicant.loop.after(Self.pause) { [weak self] in
                    guard let self, self.round == round, self.running[each] == 0 else { return }
                    self.running[each] = nil
                    self.advance()
                }
            }
        }
    }

    /// Its time is over: again, while it is wanted.
    private func ended(_ number: Int?, _ role: WiFiAware.Role) {
        guard let each = running.first(where: { $0.key.role == role && Int($0.value) == number })?.key else { return }
        running[each] = nil
        advance()
    }

    private func begun(_ value: DBusValue?, role: WiFiAware.Role, key: String) {
        guard let values = value?.vardictValue, let number = values[key]?.integerValue, number != 0,
            let each = running.first(where: { $0.key.role == role && Int($0.value) == number })?.key,
            let address = values["peer_addr"]?.stringValue
        else { return }
        let traits = Self.traits(values["ssi"]?.bytesValue ?? [])
        let service = AwareService(
            peer: "\(address) \(each.name)", serviceName: each.name, role: role, modelName: traits["model"] ?? "",
            vendorName: traits["vendor"] ?? "")
        guard found[service.peer] != nil || found.count < Limits.trackedDevices, found[service.peer] != service else { return }
        found[service.peer] = service
        onServices?(found.values.sorted { $0.peer < $1.peer })
    }

    /// The service's own information as lines of `key=value` in UTF-8: `model` and `vendor` are what descriptors match
    /// (Docs/Decisions/0014). Another form has neither.
    static func traits(_ bytes: [UInt8]) -> [String: String] {
        guard let text = String(validating: bytes, as: UTF8.self) else { return [:] }
        var traits: [String: String] = [:]
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            if parts.count == 2 { traits[String(parts[0])] = ShownName.marked(String(parts[1])) }
        }
        return traits
    }
}
