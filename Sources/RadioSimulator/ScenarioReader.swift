// SPDX-License-Identifier: Apache-2.0
// Reads a scenario from JSON: strict, so that a typing mistake is an error with its place and not a fault that never
// happens.

internal import AccessoryModel
internal import JSONText
internal import SystemFiles

/// A problem of a scenario, with its place: `accessories[2].pairing.mode: …`.
public struct ScenarioProblem: Error, Hashable, Sendable, CustomStringConvertible {
    /// Where it is in the file, as a path of keys and indices; the file's own path when that cannot be read. Empty
    /// for the
    /// file as a whole.
    public let place: String
    /// The problem.
    public let reason: String
    /// Place and reason.
    public var description: String { place.isEmpty ? reason : "\(place): \(reason)" }
}

extension Scenario {
    /// - Throws: `ScenarioProblem`.
    public init(file: String) throws {
        let text: [UInt8]
        do throws(SystemFileError) { text = try SystemFile.contents(file, orWaits: true) } catch {
            throw ScenarioProblem(place: file, reason: "cannot be read: \(error.reason)")
        }
        try self.init(json: text)
    }

    /// - Throws: `ScenarioProblem`.
    public init(json: [UInt8]) throws {
        self.init()
        try JSONObject.read(JSON(parsing: json), "") { top in
            if let list = try top.objects("adapters", Self.adapter) { adapters = list }
            accessories = try top.objects("accessories", Self.accessory)?.flatMap { $0 } ?? []
            try readWiFi(top)
            events = try top.objects("events", Self.event) ?? []
        }
        var seen: Set<String> = []
        for accessory in accessories where !seen.insert(accessory.id).inserted {
            throw ScenarioProblem(place: "accessories", reason: "duplicate id \(accessory.id)")
        }
        for point in accessPoints where !seen.insert(point.id).inserted {
            throw ScenarioProblem(place: "accessPoints", reason: "duplicate id \(point.id)")
        }
        for event in events { try check(event, seen) }
        for aware in awareServices where !seen.insert(aware.id).inserted {
            throw ScenarioProblem(place: "awareServices", reason: "duplicate id \(aware.id)")
        }
    }

    private func check(_ event: Event, _ ids: Set<String>) throws {
        var names: [String] = []
        if case .pairingStarted(let id, _) = event.trigger { names.append(id) }
        switch event.action {
        case .vanish(let id), .return(let id), .servicesChanged(let id), .keysForgotten(let id): names.append(id)
        case .interfaceAdded(let name), .interfaceRemoved(let name):
            guard wifi.interfaces.contains(where: { $0.name == name }) else {
                throw ScenarioProblem(place: "events", reason: "no interface \(name)")
            }
        case .adapterAdded(let name), .adapterRemoved(let name), .adapterPowerOn(let name), .adapterPowerOff(let name),
            .monitorsReleased(let name):
            guard adapters.contains(where: { $0.name == name }) else {
                throw ScenarioProblem(place: "events", reason: "no adapter \(name)")
            }
        default: break
        }
        if let unknown = names.first(where: { !ids.contains($0) }) {
            throw ScenarioProblem(place: "events", reason: "no accessory \(unknown)")
        }
    }

    private static func adapter(_ json: JSONObject) throws -> Adapter {
        var adapter = Adapter()
        adapter.name = try json.string("name") ?? adapter.name
        if let text = try json.string("address") { adapter.address = try json.address("address", text, .public) }
        adapter.isPowered = try json.boolean("powered") ?? true
        adapter.gain = Int(try json.number("gain", -100...100) ?? 0)
        adapter.monitors = try json.word("monitors", Monitors.self) ?? .none
        return adapter
    }

    /// One entry makes `count` accessories.
    private static func accessory(_ json: JSONObject) throws -> [Accessory] {
        guard let id = try json.string("id"), let address = try json.string("address") else {
            throw json.problem("id", "id and address are required")
        }
        try json.checkID(id)
        let type = try json.word("addressType", Accessory.AddressType.self) ?? .random
        var accessory = Accessory(
            id: id, address: try json.address("address", address, type == .public ? .public : .random))
        accessory.airAddress = AirAddress(type: type, rotates: try json.number("rotates", 1...86_400))
        if accessory.airAddress.rotates != nil, type != .rpa { throw json.problem("rotates", "only addresses of type rpa rotate") }
        accessory.presence = try presence(json)
        accessory.isConnectable = try json.boolean("connectable") ?? true
        accessory.transport = try json.word("transport", Accessory.Transport.self) ?? .le
        accessory.crossesTransports = try json.boolean("crossTransportKeys") ?? false
        accessory.battery = try json.number("battery", 0...100).map { UInt8($0) }
        accessory.isInput = try json.boolean("input") ?? false
        accessory.adverts = try json.objects("adverts", advert) ?? []
        accessory.pairing = try json.object("pairing", pairing) ?? Pairing()
        accessory.gatt = GATTServer(
            services: try json.objects("gatt", service) ?? [], lateServices: try json.number("lateServices", 0...60),
            mtu: UInt16(try json.number("mtu", 23...517) ?? 517))
        let count = Int(try json.number("count", 1...1000) ?? 1)
        guard count > 1 else { return [accessory] }
        return (0..<count).map { number in
            var copy = accessory
            copy.id = "\(id)-\(number)"
            copy.address = BluetoothAddress(value: accessory.address.value + UInt64(number), kind: accessory.address.kind)
            copy.adverts = accessory.adverts.map { advert in
                var advert = advert
                advert.payload.name = advert.payload.name.map { numbered($0, number) }
                if let name = advert.scanResponse?.name { advert.scanResponse?.name = numbered(name, number) }
                return advert
            }
            return copy
        }
    }

    static func presence(_ json: JSONObject) throws -> Presence {
        Presence(
            appearsAt: try json.number("appearsAt", 0...86_400) ?? 0, leavesAt: try json.number("leavesAt", 0...86_400))
    }

    private static func advert(_ json: JSONObject) throws -> Advert {
        var advert = Advert()
        advert.from = try json.number("from", 0...86_400) ?? 0
        advert.until = try json.number("until", 0...86_400)
        advert.interval = try json.number("interval", 0.02...10) ?? 0.1
        if json.isNull("rssi") { advert.rssi = nil } else { advert.rssi = Int(try json.number("rssi", -127...20) ?? -50) }
        advert.payload = try payload(json)
        advert.scanResponse = try json.object("scanResponse", payload)
        return advert
    }

    private static func payload(_ json: JSONObject) throws -> Payload {
        var payload = Payload()
        payload.name = try json.string("name")
        payload.serviceUUIDs = try (json.strings("serviceUUIDs") ?? []).map { try json.uuid("serviceUUIDs", $0) }
        for (key, hex) in try json.texts("serviceData") ?? [:] {
            payload.serviceData[try json.uuid("serviceData", key)] = try json.hex("serviceData.\(key)", hex)
        }
        for (key, hex) in try json.texts("manufacturerData") ?? [:] {
            guard let company = CompanyIdentifier(hexadecimal: key) else {
                throw json.problem("manufacturerData", "\(key): not a company identifier")
            }
            payload.manufacturerData[company] = try json.hex("manufacturerData.\(key)", hex)
        }
        payload.txPower = try json.number("txPower", -127...20).map { Int($0) }
        return payload
    }

    private static func pairing(_ json: JSONObject) throws -> Pairing {
        var pairing = Pairing()
        pairing.mode = try json.word("mode", Pairing.Mode.self) ?? .justWorks
        pairing.passkey = UInt32(try json.number("passkey", 0...999_999) ?? 123_456)
        pairing.typing = try json.number("typing", 0...60) ?? 0.03
        pairing.pin = try json.string("pin") ?? "0000"
        pairing.isLegacy = try json.boolean("legacy") ?? false
        pairing.keepsKeys = try json.boolean("bonding") ?? true
        pairing.confirms = try json.boolean("confirms") ?? true
        pairing.fault = try json.word("fault", Pairing.Fault.self)
        pairing.delay = try json.number("delay", 0...120) ?? 2
        pairing.faultCount = try json.number("faultCount", 0...1000).map { Int($0) }
        return pairing
    }

    private static func service(_ json: JSONObject) throws -> Service {
        guard let uuid = try json.string("uuid") else { throw json.problem("uuid", "is required") }
        return Service(
            uuid: try json.uuid("uuid", uuid), characteristics: try json.objects("characteristics", characteristic) ?? [],
            includes: try (json.strings("includes") ?? []).map { try json.uuid("includes", $0) })
    }

    private static func descriptor(_ json: JSONObject) throws -> Descriptor {
        guard let uuid = try json.string("uuid") else { throw json.problem("uuid", "is required") }
        var descriptor = Descriptor(uuid: try json.uuid("uuid", uuid))
        if let hex = try json.string("value") { descriptor.value = try json.hex("value", hex) }
        return descriptor
    }
    private static func characteristic(_ json: JSONObject) throws -> Characteristic {
        guard let uuid = try json.string("uuid") else { throw json.problem("uuid", "is required") }
        var characteristic = Characteristic(uuid: try json.uuid("uuid", uuid))
        characteristic.flags = try json.strings("flags") ?? ["read"]
        if let hex = try json.string("value") { characteristic.value = try json.hex("value", hex) }
        characteristic.notify = try json.object("notify") { json in
            Notify(
                interval: try json.number("interval", 0.001...3600) ?? 1,
                values: try (json.strings("values") ?? []).map { try json.hex("values", $0) })
        }
        characteristic.descriptors = try json.objects("descriptors", descriptor) ?? []
        return characteristic
    }

    private static func event(_ json: JSONObject) throws -> Event {
        let at = try json.number("at", 0...86_400)
        let after = try json.number("after", 0...86_400) ?? 0
        let on = try json.string("on")
        let accessory = try json.string("accessory") ?? ""
        let adapter = try json.string("adapter") ?? "hci0"
        let interface = try json.string("interface") ?? "wlan0"
        let service = try json.word("service", WiFi.Service.self)
        let word = try json.string("do") ?? ""
        let target: String
        switch word {
        case "interfaceRemoved", "interfaceAdded": target = interface
        case "wifiStopped", "wifiStarted":
            guard let service else { throw json.problem("service", "is required") }
            target = service.rawValue
        default: target = accessory.isEmpty ? adapter : accessory
        }
        guard let action = Action(word, target: target) else { throw json.problem("do", "\(word): unknown") }
        switch (at, on) {
        case (let at?, nil): return Event(trigger: .at(at), action: action)
        case (nil, "scanStarted"): return Event(trigger: .scanStarted(after: after), action: action)
        case (nil, "discoveryStarted"): return Event(trigger: .discoveryStarted(after: after), action: action)
        case (nil, "pairingStarted"): return Event(trigger: .pairingStarted(accessory: accessory, after: after), action: action)
        case (nil, let on?): throw json.problem("on", "\(on): unknown")
        default: throw json.problem("at", "needs exactly one of at and on")
        }
    }
}

/// With the number for each `%d` in it.
func numbered(_ text: String, _ number: Int) -> String {
    var result = ""
    var rest = text[...]
    while let sign = rest.firstIndex(of: "%") {
        result += rest[..<sign]
        rest = rest[sign...]
        let isPlace = rest.hasPrefix("%d")
        result += isPlace ? "\(number)" : "%"
        rest = rest.dropFirst(isPlace ? 2 : 1)
    }
    return result + rest
}
