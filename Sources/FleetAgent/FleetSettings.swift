// SPDX-License-Identifier: Apache-2.0
// The settings of fleet.conf, which `accessoryctl fleet add` writes for each gateway.

internal import CSystem
internal import FleetProtocol
internal import Glibc
public import KeyFiles
public import MQTTClient
internal import SystemFiles

/// The agent's settings.
public struct FleetSettings: Sendable {
    /// The fleet, the gateway, and the operators' keys.
    public let gateway: GatewayIdentity
    /// The broker.
    public let broker: MQTTSettings

    /// Where the file is.
    public static let standardPath = "/etc/accessory-setup/fleet.conf"
    private static let group = "Fleet"
    /// Seconds after which the broker takes a silent gateway for lost; the agent wakes up once in a minute.
    private static let keepAlive = 150
    /// Seconds for which the broker keeps commands for a gateway that is away.
    private static let sessionExpiry: UInt32 = 60

    /// - Parameter version: of the program.
    /// - Throws: the first problem, with file, line and key.
    public init(path: String, version: String) throws(KeyFileProblem) {
        let file = try KeyFile(path: path)
        let keys: Set = ["Name", "Gateway", "Labels", "Broker", "CA", "Certificate", "Key", "OperatorKeys", "GatewayKey"]
        if let problem = file.unknown(besides: [Self.group: keys]).first { throw problem }
        func required(_ key: String) throws(KeyFileProblem) -> String {
            guard let value = try file.string(Self.group, key), !value.isEmpty else {
                throw file.problem(Self.group, key, "is missing")
            }
            return value
        }
        let (name, gateway) = (try required("Name"), try required("Gateway"))
        for (key, value) in [("Name", name), ("Gateway", gateway)] where !FleetTopics.isName(value) {
            throw file.problem(Self.group, key, "\(value): \(FleetTopics.nameRule)")
        }
        guard let topics = FleetTopics(fleet: name, gateway: gateway) else {
            throw file.problem(Self.group, "Name", FleetTopics.nameRule)
        }
        let labels = try file.list(Self.group, "Labels")
        if let label = labels.first(where: { !FleetTopics.isName($0) }) {
            throw file.problem(Self.group, "Labels", "\(label): \(FleetTopics.nameRule)")
        }
        let operators = try file.list(Self.group, "OperatorKeys").map { text throws(KeyFileProblem) in
            guard let key = PublicKey(base64: text) else {
                throw file.problem(Self.group, "OperatorKeys", "\(text): not a public key in base64")
            }
            return key
        }
        guard (1...8).contains(operators.count) else {
            throw file.problem(Self.group, "OperatorKeys", "must have 1 to 8 keys, not \(operators.count)")
        }
        var key: PrivateKey?
        if let keyFile = try file.string(Self.group, "GatewayKey") {
            do throws(SystemFileError) {
                key = PrivateKey(file: try SystemFile.text(keyFile, limit: 4096))
            } catch {
                throw file.problem(Self.group, "GatewayKey", "\(error)")
            }
            if key == nil { throw file.problem(Self.group, "GatewayKey", "\(keyFile): not 32 bytes in base64") }
        }
        self.gateway = GatewayIdentity(topics, labels: Set(labels), operators: operators, key: key, version: version)
        let text = try required("Broker")
        let address: BrokerAddress
        do throws(BrokerAddress.Mistake) {
            address = try BrokerAddress(text)
        } catch {
            throw file.problem(Self.group, "Broker", "\(text): \(error)")
        }
        let tls =
            address.isEncrypted
            ? MQTTSettings.TLS(authority: try required("CA"), certificate: try required("Certificate"), key: try required("Key"))
            : nil
        var broker = address.settings(clientID: gateway, tls: tls)
        broker.sessionExpiry = Self.sessionExpiry
        broker.keepAlive = Self.keepAlive
        self.broker = broker
    }
}
