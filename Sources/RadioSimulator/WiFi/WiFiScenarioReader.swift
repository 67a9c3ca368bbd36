// SPDX-License-Identifier: Apache-2.0
// Reads the Wi-Fi half of a scenario, as strictly as the rest.

internal import AccessoryModel

extension Scenario {
    private static let firstBSSID: UInt64 = 0x0200_0000_0100

    mutating func readWiFi(_ top: JSONObject) throws {
        let isThere = top.has("wifi") || top.has("accessPoints")
        wifi = try top.object("wifi", Self.wifi) ?? WiFi()
        if isThere, wifi.services.isEmpty, !wifi.namesServices { wifi.services = [.wpaSupplicant] }
        accessPoints = try top.objects("accessPoints", Self.accessPoint)?.flatMap { $0 } ?? []
        for (index, interface) in wifi.interfaces.enumerated() {
            guard let uplink = interface.uplink, !accessPoints.contains(where: { $0.ssid == Array(uplink.utf8) }) else { continue }
            // The scenario does not describe it: a common one.
            var point = AccessPoint(id: "uplink-\(index)", ssid: Array(uplink.utf8))
            point.security = .wpa2
            point.passphrase = "uplink-passphrase"
            accessPoints.append(point)
        }
        for index in accessPoints.indices where accessPoints[index].bssid == 0 {
            accessPoints[index].bssid = Self.firstBSSID + UInt64(index)
        }
        awareServices = try top.objects("awareServices", Self.awareService) ?? []
    }

    private static func wifi(_ json: JSONObject) throws -> WiFi {
        var wifi = WiFi()
        if let words = try json.strings("services") {
            wifi.namesServices = true
            for word in words {
                guard let service = WiFi.Service(rawValue: word) else {
                    throw json.problem(
                        "services", "\(word): must be one of \(WiFi.Service.allCases.map(\.rawValue).joined(separator: ", "))")
                }
                guard !wifi.services.contains(service) else { throw json.problem("services", "duplicate \(word)") }
                wifi.services.append(service)
            }
        }
        if let list = try json.objects("interfaces", interface) { wifi.interfaces = list }
        guard Set(wifi.interfaces.map(\.name)).count == wifi.interfaces.count else {
            throw json.problem("interfaces", "duplicate name")
        }
        wifi.scanTime = try json.number("scanTime", 0...60) ?? wifi.scanTime
        wifi.rateLimit = try json.number("rateLimit", 0...3600) ?? wifi.rateLimit
        wifi.joinTimeout = try json.number("joinTimeout", 0...3600) ?? wifi.joinTimeout
        wifi.isAware = try json.boolean("aware") ?? false
        wifi.iwdConfigures = try json.boolean("iwdConfigures") ?? false
        return wifi
    }

    private static func interface(_ json: JSONObject) throws -> WiFi.Interface {
        var interface = WiFi.Interface()
        interface.name = try json.string("name") ?? interface.name
        guard (1...15).contains(interface.name.utf8.count), !interface.name.contains("/") else {
            throw json.problem("name", "\(interface.name): not an interface's name")
        }
        interface.uplink = try json.string("uplink")
        if let uplink = interface.uplink, !(1...32).contains(uplink.utf8.count) {
            throw json.problem("uplink", "must have 1 to 32 bytes")
        }
        return interface
    }

    /// One entry makes `count` access points.
    private static func accessPoint(_ json: JSONObject) throws -> [AccessPoint] {
        guard let id = try json.string("id") else { throw json.problem("id", "is required") }
        try json.checkID(id)
        let text = try json.string("ssid")
        let hex = try json.string("ssidHex").map { try json.hex("ssidHex", $0) }
        guard (text == nil) != (hex == nil) else { throw json.problem("ssid", "needs exactly one of ssid and ssidHex") }
        var point = AccessPoint(id: id, ssid: hex ?? Array((text ?? "").utf8))
        if let text = try json.string("bssid") { point.bssid = try json.address("bssid", text, .public).value }
        point.security = try json.word("security", AccessPoint.Security.self) ?? .open
        point.passphrase = try json.string("passphrase")
        guard (point.passphrase != nil) == point.security.takesPassphrase else {
            throw json.problem(
                "passphrase", point.passphrase == nil ? "is required" : "does not go with \(point.security.rawValue)")
        }
        if let passphrase = point.passphrase, !(8...63).contains(passphrase.utf8.count) {
            throw json.problem("passphrase", "must have 8 to 63 characters")
        }
        point.isHidden = try json.boolean("hidden") ?? false
        point.frequency = Int(try json.number("frequency", 2412...7125) ?? 2412)
        point.rssi = Int(try json.number("rssi", -127...20) ?? -50)
        point.presence = try presence(json)
        point.fault = try json.word("fault", AccessPoint.Fault.self)
        point.delay = try json.number("delay", 0...120) ?? 2
        point.faultCount = try json.number("faultCount", 0...1000).map { Int($0) }
        let count = Int(try json.number("count", 1...1000) ?? 1)
        let points = count == 1 ? [point] : (0..<count).map { Self.copy(point, $0, text) }
        guard points.allSatisfy({ $0.ssid.count <= 32 }) else {
            throw json.problem(text == nil ? "ssidHex" : "ssid", "must have at most 32 bytes")
        }
        return points
    }

    private static func copy(_ point: AccessPoint, _ number: Int, _ text: String?) -> AccessPoint {
        var copy = point
        copy.id = "\(point.id)-\(number)"
        if let text { copy.ssid = Array(numbered(text, number).utf8) }
        if point.bssid != 0 { copy.bssid = point.bssid + UInt64(number) }
        return copy
    }

    private static func awareService(_ json: JSONObject) throws -> AwareService {
        guard let id = try json.string("id"), let service = try json.string("service"), let address = try json.string("address")
        else { throw json.problem("id", "id, service and address are required") }
        try json.checkID(id)
        var aware = AwareService(id: id, service: service, address: try json.address("address", address, .public).value)
        aware.role = try json.word("role", AwareService.Role.self) ?? .publisher
        aware.model = try json.string("model")
        aware.vendor = try json.string("vendor")
        aware.rssi = Int(try json.number("rssi", -127...20) ?? -50)
        aware.presence = try presence(json)
        return aware
    }
}
