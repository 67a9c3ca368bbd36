// SPDX-License-Identifier: Apache-2.0
// Wi-Fi Aware by wpa_supplicant's unsynchronized service discovery (after 2.11, with CONFIG_NAN_USD): the only place
// here that deals with it. Whichever service manages the interface, wpa_supplicant's object is asked whether it has the
// methods. A publisher is found by subscribing and a subscriber by publishing, as long as a picker needs it.

internal import AccessoryModel
internal import CallsOut
internal import DBusKit
internal import Logging

final class AwareSearch {
    /// All services heard since the search for them began.
    var onServices: (([AwareService]) -> Void)?

    private let supplicant: Supplicant
    private let log: Logger
    /// Whether an interface has the methods; nil while that is being read.
    private var abilities: [String: Bool?] = [:]
    private var interface: String?
    private var needs: [Int: [WiFiAware]] = [:]
    private var lastNeed = 0
    /// The handles of running searches; 0 while one begins.
    private var searches: [Search: UInt32] = [:]
    private var subscriptions: [Subscription] = []
    private var found: [String: AwareService] = [:]
    /// Incremented when all searches end: answers to earlier calls do not count.
    private var round = 0
    private var rereading: LoopSource?

    private struct Search: Hashable {
        let name: String
        /// The accessory's.
        let role: WiFiAware.Role
    }

    /// In seconds. wpa_supplicant ends a search then; it is begun again while needed. After a crash it ends by itself.
    private static let lifetime: UInt16 = 300
    private static let pause = Duration.seconds(5)

    init(_ supplicant: Supplicant, log: Logger) {
        self.supplicant = supplicant
        self.log = log
    }

    var isSettled: Bool { supplicant.isSettled && abilities.values.allSatisfy { $0 != nil } }

    func obstacle(on interface: String?) -> String? {
        guard let interface, supplicant.interfaces[interface] != nil else {
            return "Wi-Fi Aware needs wpa_supplicant, which does not serve this machine's Wi-Fi interface"
        }
        return abilities[interface] == true
            ? nil : "this machine's wpa_supplicant does not offer Wi-Fi Aware: it has no NANSubscribe (CONFIG_NAN_USD, after 2.11)"
    }

    // MARK: Abilities

    /// wpa_supplicant's interfaces may have changed.
    func interfacesChanged() {
        abilities = abilities.filter { supplicant.interfaces[$0.key] != nil }
        for (name, served) in supplicant.interfaces where abilities.index(forKey: name) == nil {
            abilities.updateValue(nil, forKey: name)
            supplicant.link.call(.supplicantAbilities, at: served.path) { [weak self] result in
                guard let self, self.supplicant.interfaces[name]?.path == served.path else { return }
                self.abilities[name] = nil
                guard let values = result.value(orElse: { _ in self.rereadLater() }) else { return }
                let description = (try? InterfaceDescription.parse(xml: values.first?.stringValue ?? ""))?
                    .first { $0.name == Supplicant.interface }
                self.abilities.updateValue(description?.methods.contains { $0.name == "NANSubscribe" } == true, forKey: name)
                self.advance()
            }
        }
        if let interface, supplicant.interfaces[interface] == nil { stop() }
    }

    private func rereadLater() {
        guard rereading?.isActive != true else { return }
        rereading = supplicant.loop.after(Self.pause) { [weak self] in self?.interfacesChanged() }
    }

    // MARK: Searching

    /// Selects the interface to search on.
    func use(_ interface: String?) {
        if interface != self.interface { stop() }
        self.interface = interface
        advance()
    }

    /// Searches for services until the returned closure is called.
    func need(_ services: [WiFiAware]) -> () -> Void {
        lastNeed += 1
        let number = lastNeed
        needs[number] = services
        advance()
        return { [weak self] in
            self?.needs[number] = nil
            self?.advance()
        }
    }

    private var wanted: Set<Search> {
        Set(
            needs.values.joined().compactMap { aware in
                aware.serviceName.map { Search(name: $0, role: aware.serviceRole ?? .subscriber) }
            })
    }

    private func stop() {
        round += 1
        for subscription in subscriptions { subscription.cancel() }
        subscriptions = []
        for (search, handle) in searches { cancel(search, handle) }
        searches = [:]
        found = [:]
    }

    private func cancel(_ search: Search, _ handle: UInt32) {
        searches[search] = nil
        guard handle != 0, let interface, let path = supplicant.interfaces[interface]?.path else { return }
        cancel(search, handle, path)
    }

    private func cancel(_ search: Search, _ handle: UInt32, _ path: ObjectPath) {
        let call: CallOut = search.role == .publisher ? .awareSubscribeEnd : .awarePublishEnd
        supplicant.link.call(call, at: path, [.uint32(handle)]) { _ in }
    }

    private func advance() {
        let wanted = wanted
        guard !wanted.isEmpty else { return searches.isEmpty ? () : stop() }
        for (search, handle) in searches where !wanted.contains(search) { cancel(search, handle) }
        guard let interface, abilities[interface] == true, let path = supplicant.interfaces[interface]?.path else { return }
        if subscriptions.isEmpty {
            subscriptions = [
                onSignal("NANDiscoveryResult", path) { $0.heard($1.first, role: .publisher, key: "subscribe_id") },
                onSignal("NANReplied", path) { $0.heard($1.first, role: .subscriber, key: "publish_id") },
                onSignal("NANSubscribeTerminated", path) { $0.ended($1.first?.integerValue, .publisher) },
                onSignal("NANPublishTerminated", path) { $0.ended($1.first?.integerValue, .subscriber) },
            ].compactMap(\.self)
        }
        for search in wanted where searches[search] == nil { begin(search, path) }
    }

    private func onSignal(_ name: String, _ path: ObjectPath, _ body: @escaping (AwareSearch, [DBusValue]) -> Void) -> Subscription?
    {
        supplicant.link.onSignal(Supplicant.interface, name, of: path) { [weak self] _, values in
            if let self { body(self, values) }
        }
    }

    private func begin(_ search: Search, _ path: ObjectPath) {
        searches[search] = 0
        let round = round
        var arguments: [String: DBusValue] = ["srv_name": .string(search.name), "ttl": .uint16(Self.lifetime)]
        if search.role == .publisher { arguments["active"] = .boolean(true) }
        supplicant.link.call(search.role == .publisher ? .awareSubscribe : .awarePublish, at: path, [.vardict(arguments)]) {
            [weak self] result in
            guard let self else { return }
            switch result {
            case .success(let values):
                let handle = UInt32(clamping: values.first?.integerValue ?? 0)
                // No longer needed, or begun again meanwhile.
                guard self.round == round, self.wanted.contains(search) else {
                    if self.round == round { self.searches[search] = nil }
                    return self.cancel(search, handle, path)
                }
                self.searches[search] = handle
            case .failure(let error):
                guard self.round == round else { return }
                self.log.warning(
                    "the search for a Wi-Fi Aware service failed", metadata: ["service": "\(search.name)", "error": "\(error)"])
                self.supplicant.loop.after(Self.pause) { [weak self] in
                    guard let self, self.round == round, self.searches[search] == 0 else { return }
                    self.searches[search] = nil
                    self.advance()
                }
            }
        }
    }

    private func search(_ handle: Int?, _ role: WiFiAware.Role) -> Search? {
        searches.first { $0.key.role == role && Int($0.value) == handle }?.key
    }

    /// The lifetime of a search is over.
    private func ended(_ handle: Int?, _ role: WiFiAware.Role) {
        guard let search = search(handle, role) else { return }
        searches[search] = nil
        advance()
    }

    private func heard(_ value: DBusValue?, role: WiFiAware.Role, key: String) {
        guard let values = value?.vardictValue, let handle = values[key]?.integerValue, handle != 0,
            let search = search(handle, role), let address = values["peer_addr"]?.stringValue
        else { return }
        let traits = Self.traits(values["ssi"]?.bytesValue ?? [])
        let service = AwareService(
            peer: "\(address) \(search.name)", serviceName: search.name, role: role, modelName: traits["model"] ?? "",
            vendorName: traits["vendor"] ?? "")
        guard found[service.peer] != nil || found.count < Limits.trackedDevices, found[service.peer] != service else { return }
        found[service.peer] = service
        onServices?(found.values.sorted { $0.peer < $1.peer })
    }

    /// Decodes the service information: lines `key=value` in UTF-8, of which `model` and `vendor` are matched
    /// (Docs/Decisions/0014). Any other form has neither.
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
