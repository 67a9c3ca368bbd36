// SPDX-License-Identifier: Apache-2.0
// The operator's files for one fleet: the keys, the certificates, the broker's configuration, and a directory for each
// gateway, with the files that go there. Everything that the operator's commands know is here or at the broker.

internal import FleetProtocol
internal import Glibc
internal import KeyFiles
internal import MQTTClient
internal import ProgramSupport
internal import SystemFiles

/// A fleet's directory.
struct OperatorDirectory {
    /// A problem, for people.
    struct Problem: Error, CustomStringConvertible {
        let description: String

        init(_ description: String) { self.description = description }
    }

    /// A gateway of the fleet.
    struct Gateway {
        let name: String
        let labels: Set<String>
        /// For secrets.
        let key: PublicKey?
    }

    let path: String
    let fleet: String
    /// As it was given.
    let broker: String
    let key: PrivateKey

    static var standardPath: String {
        if let given = getenv("ACCESSORY_FLEET") { return String(cString: given) }
        return (getenv("HOME").map { String(cString: $0) } ?? "") + "/.config/accessory-fleet"
    }

    private static let group = "Fleet"
    static let settingsName = "operator.conf"
    private static let keyName = "operator.key"

    /// Reads the directory.
    init(_ path: String) throws {
        self.path = path
        guard SystemFile.exists("\(path)/\(Self.settingsName)") else {
            throw Problem("\(path): no fleet is here; accessoryctl fleet init makes one")
        }
        let file = try KeyFile(path: "\(path)/\(Self.settingsName)")
        guard let fleet = try file.string(Self.group, "Name"), FleetTopics.isName(fleet) else {
            throw file.problem(Self.group, "Name", FleetTopics.nameRule)
        }
        self.fleet = fleet
        broker = try file.string(Self.group, "Broker") ?? ""
        _ = try BrokerAddress(broker)
        guard let key = PrivateKey(file: try SystemFile.text("\(path)/\(Self.keyName)", limit: 4096)) else {
            throw Problem("\(path)/\(Self.keyName): not 32 bytes in base64")
        }
        self.key = key
    }

    /// Makes a directory, with a new key.
    static func make(_ path: String, fleet: String, broker: String) throws -> OperatorDirectory {
        guard FleetTopics.isName(fleet) else { throw Problem("\(fleet): \(FleetTopics.nameRule)") }
        _ = try BrokerAddress(broker)
        guard !SystemFile.exists("\(path)/\(settingsName)") else {
            throw Problem("\(path): a fleet is here already; its key must not be lost")
        }
        try SystemFile.makeDirectory(path, mode: 0o700)
        guard let absolute = realpath(path, nil) else { throw SystemFileError(path) }
        defer { free(absolute) }
        let path = String(cString: absolute)
        try SystemFile.replace("\(path)/\(keyName)", with: Array((PrivateKey.random().base64 + "\n").utf8), mode: 0o600)
        let settings = "[\(group)]\nName=\(fleet)\nBroker=\(broker)\n"
        try SystemFile.replace("\(path)/\(settingsName)", with: Array(settings.utf8), mode: 0o600)
        return try OperatorDirectory(path)
    }

    var address: BrokerAddress { get throws { try BrokerAddress(broker) } }

    /// The connection of an operator's program.
    func settings(clientID: String) throws -> MQTTSettings {
        let tls = MQTTSettings.TLS(
            authority: "\(path)/ca.crt", certificate: "\(path)/operator-tls.crt", key: "\(path)/operator-tls.key")
        let address = try address
        var settings = address.settings(clientID: clientID, tls: tls)
        // Gateways come in by a port of their own.
        if address.isEncrypted { settings.port = address.port + 1 }
        return settings
    }

    // MARK: Gateways

    private var gatewaysPath: String { path + "/gateways" }

    func path(of gateway: String) -> String { "\(gatewaysPath)/\(gateway)" }

    func gateways() throws -> [Gateway] {
        guard SystemFile.exists(gatewaysPath) else { return [] }
        return try SystemFile.names(in: gatewaysPath).filter(FleetTopics.isName).map { name in
            let file = try KeyFile(path: "\(gatewaysPath)/\(name)/fleet.conf")
            let key = try? SystemFile.text("\(gatewaysPath)/\(name)/gateway.pub", limit: 4096)
            return Gateway(
                name: name, labels: Set(try file.list(Self.group, "Labels")), key: key.flatMap { PublicKey(file: $0) })
        }
    }

    /// The gateway of a name.
    func gateway(_ name: String) throws -> Gateway {
        guard let gateway = try gateways().first(where: { $0.name == name }) else {
            throw Problem("no gateway “\(StandardOutput.printable(name))” in this fleet: accessoryctl fleet list shows them")
        }
        return gateway
    }

    /// The topics of a gateway.
    func topics(of gateway: String) throws -> FleetTopics {
        guard let topics = FleetTopics(fleet: fleet, gateway: gateway) else { throw Problem("\(gateway): \(FleetTopics.nameRule)") }
        return topics
    }
}
