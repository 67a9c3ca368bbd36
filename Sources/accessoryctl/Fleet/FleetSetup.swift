// SPDX-License-Identifier: Apache-2.0
// Making a fleet: keys, certificates by openssl, the configuration of mosquitto with its list of permissions, and the
// files of each gateway.

internal import ArgumentParser
internal import CSystem
internal import FleetProtocol
internal import Glibc
internal import MQTTClient
internal import ProgramSupport
internal import SystemFiles

/// The fleet that a command is about.
struct FleetOptions: ParsableArguments {
    @Option(
        name: .customLong("fleet"),
        help: "The fleet's directory (default: $ACCESSORY_FLEET, else ~/.config/accessory-fleet).", completion: .directory)
    var path = OperatorDirectory.standardPath

    func open() throws -> OperatorDirectory { try OperatorDirectory(path) }
}

extension Fleet {
    struct Init: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Makes a fleet: the operator's key, an authority for certificates, and the broker's configuration.",
            discussion: """
                Gateways connect to the broker's port, operators to the next one. The files for the broker are in the directory “broker”; the \
                operator's key signs everything that gateways obey, and must be on no gateway and no broker.
                """)
        @OptionGroup var options: FleetOptions
        @Option(help: "The broker, as gateways reach it: mqtts://HOST or mqtts://HOST:PORT.") var broker: String
        @Argument(help: "The fleet's name: lower-case letters, digits and hyphens.") var name: String

        func run() throws {
            try Ending.guarding {
                let fleet = try OperatorDirectory.make(options.path, fleet: name, broker: broker)
                try Certificates(fleet).makeAuthority()
                try BrokerFiles(fleet).write()
                StandardOutput.line("fleet \(fleet.fleet): \(fleet.path)")
                StandardOutput.line("operator's public key: \(fleet.key.publicKey.base64)")
                StandardOutput.line("next: mosquitto -c \(fleet.path)/broker/mosquitto.conf, and accessoryctl fleet add GATEWAY")
            }
        }
    }

    struct Add: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Adds a gateway: makes its certificate, its key and its fleet.conf.",
            discussion:
                "Copy the files to /etc/accessory-setup on the gateway, and reload the broker, which must permit the gateway's topics."
        )
        @OptionGroup var options: FleetOptions
        @Option(name: .customLong("label"), help: "A label, by which documents can select the gateway; repeatable.") var labels:
            [String] = []
        @Option(help: "Where the files will be on the gateway.") var directory = "/etc/accessory-setup"
        @Argument(help: "The gateway's name: lower-case letters, digits and hyphens.") var gateway: String

        func run() throws {
            try Ending.guarding {
                let fleet = try options.open()
                _ = try fleet.topics(of: gateway)
                if let label = labels.first(where: { !FleetTopics.isName($0) }) {
                    throw OperatorDirectory.Problem("\(StandardOutput.printable(label)): \(FleetTopics.nameRule)")
                }
                let path = fleet.path(of: gateway)
                guard !SystemFile.exists("\(path)/fleet.conf") else {
                    throw OperatorDirectory.Problem(
                        "\(gateway) is in the fleet already: accessoryctl fleet remove-gateway removes it")
                }
                try SystemFile.makeDirectory(path, mode: 0o700)
                let key = PrivateKey.random()
                func write(_ name: String, _ text: String) throws {
                    try SystemFile.replace("\(path)/\(name)", with: Array(text.utf8), mode: 0o600)
                }
                try write("gateway.pub", key.publicKey.base64 + "\n")
                try write("fleet-gateway.key", key.base64 + "\n")
                var settings = "[Fleet]\nName=\(fleet.fleet)\nGateway=\(gateway)\n"
                if !labels.isEmpty { settings += "Labels=\(labels.joined(separator: ";"));\n" }
                settings += "Broker=\(fleet.broker)\n"
                if try fleet.address.isEncrypted {
                    try Certificates(fleet).make(gateway, for: .client, at: "\(path)/fleet-tls")
                    try write("fleet-ca.crt", try SystemFile.text("\(fleet.path)/ca.crt"))
                    settings +=
                        "CA=\(directory)/fleet-ca.crt\nCertificate=\(directory)/fleet-tls.crt\nKey=\(directory)/fleet-tls.key\n"
                }
                settings += "GatewayKey=\(directory)/fleet-gateway.key\nOperatorKeys=\(fleet.key.publicKey.base64)\n"
                // Last: the gateway is in the fleet with it.
                try write("fleet.conf", settings)
                try BrokerFiles(fleet).write()
                StandardOutput.line("added \(gateway): copy \(path)/fleet* to \(directory) on the gateway, and reload the broker")
            }
        }
    }

    struct Remove: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "remove-gateway",
            abstract: "Removes a gateway from the fleet: the broker no longer permits its topics.",
            discussion: "Reload the broker after that. The gateway keeps its accessories and the documents that it has.")
        @OptionGroup var options: FleetOptions
        @Argument(help: "The gateway's name.") var gateway: String

        func run() throws {
            try Ending.guarding {
                let fleet = try options.open()
                let path = fleet.path(of: try fleet.gateway(gateway).name)
                for name in try SystemFile.names(in: path) { try SystemFile.remove("\(path)/\(name)") }
                try SystemFile.remove(path)
                try BrokerFiles(fleet).write()
                StandardOutput.line("removed \(gateway): reload the broker")
            }
        }
    }
}

/// Certificates of the fleet's own authority, by openssl.
struct Certificates {
    enum Use {
        case server(host: String)
        case client
    }

    private let fleet: OperatorDirectory

    init(_ fleet: OperatorDirectory) { self.fleet = fleet }

    private var authority: String { "\(fleet.path)/ca" }
    private static let days = "3650"

    /// Makes the authority, the broker's certificate, and the operator's, which is its own authority.
    func makeAuthority() throws {
        guard try fleet.address.isEncrypted else { return }
        try request(
            "\(fleet.fleet) fleet authority", ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign"],
            at: authority,
            by: nil)
        try SystemFile.makeDirectory("\(fleet.path)/broker", mode: 0o755)
        try make("broker", for: .server(host: try fleet.address.host), at: "\(fleet.path)/broker/broker")
        // The broker runs as a user of its own.
        try SystemFile.setMode("\(fleet.path)/broker/broker.key", 0o640)
        // The operators' port permits this certificate alone: one of a gateway must not connect there.
        try request(
            FleetTopics.operators, ["basicConstraints=critical,CA:FALSE", "extendedKeyUsage=clientAuth"],
            at: "\(fleet.path)/operator-tls",
            by: nil)
        try SystemFile.replace(
            "\(fleet.path)/broker/operators.crt", with: try SystemFile.contents("\(fleet.path)/operator-tls.crt"), mode: 0o644)
    }

    /// Makes a key and a certificate, `PATH.key` and `PATH.crt`.
    func make(_ name: String, for use: Use, at path: String) throws {
        var extensions = ["basicConstraints=critical,CA:FALSE", "keyUsage=critical,digitalSignature"]
        switch use {
        case .client: extensions.append("extendedKeyUsage=clientAuth")
        case .server(let host):
            let isNumber = host.contains(":") || host.utf8.allSatisfy { (0x30...0x39).contains($0) || $0 == UInt8(ascii: ".") }
            extensions += ["extendedKeyUsage=serverAuth", "subjectAltName=\(isNumber ? "IP" : "DNS"):\(host)"]
        }
        try request(name, extensions, at: path, by: authority)
    }

    private func request(_ name: String, _ extensions: [String], at path: String, by authority: String?) throws {
        // The machine's own configuration of openssl would add extensions of its own.
        let configuration = "\(fleet.path)/openssl.cnf"
        let text = "[req]\ndistinguished_name=dn\n[dn]\n[ext]\n" + extensions.joined(separator: "\n") + "\n"
        try SystemFile.replace(configuration, with: Array(text.utf8), mode: 0o600)
        defer { try? SystemFile.remove(configuration) }
        let key = path + ".key"
        var arguments = [
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-sha256", "-days", Self.days,
            "-subj",
            "/CN=\(name)", "-config", configuration, "-extensions", "ext", "-keyout", key, "-out", path + ".crt",
        ]
        if let authority { arguments += ["-CA", authority + ".crt", "-CAkey", authority + ".key"] }
        try Self.run("/usr/bin/openssl", arguments)
        try SystemFile.setMode(key, 0o600)
    }

    private static func run(_ program: String, _ arguments: [String]) throws {
        var output: [Int32] = [-1, -1]
        guard pipe(&output) == 0 else { throw OperatorDirectory.Problem("\(program): \(String(cString: strerror(errno)))") }
        defer { close(output[0]) }
        var vector = ([program] + arguments).map { strdup($0) } + [nil]
        defer { for argument in vector { free(argument) } }
        let null = Glibc.open("/dev/null", O_RDWR | O_CLOEXEC)
        defer { close(null) }
        var process: Int32 = 0
        let code = csystem_spawn(program, &vector, [null, output[1], output[1]], 0, 0, &process)
        close(output[1])
        guard code == 0 else { throw OperatorDirectory.Problem("\(program): \(String(cString: strerror(code))); install openssl") }
        var text: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while case let count = read(output[0], &buffer, buffer.count), count > 0 { text += buffer[..<count] }
        var status: Int32 = 0
        waitpid(process, &status, 0)
        guard status == 0 else { throw OperatorDirectory.Problem("openssl failed:\n\(String(decoding: text, as: UTF8.self))") }
    }
}

/// The broker's files: mosquitto's configuration, and who may use which topics.
struct BrokerFiles {
    private let fleet: OperatorDirectory
    private var directory: String { "\(fleet.path)/broker" }

    init(_ fleet: OperatorDirectory) { self.fleet = fleet }

    /// Writes them anew; the configuration only once, since it may be adapted.
    func write() throws {
        try SystemFile.makeDirectory(directory, mode: 0o755)
        if try fleet.address.isEncrypted {
            try SystemFile.replace("\(directory)/ca.crt", with: try SystemFile.contents("\(fleet.path)/ca.crt"), mode: 0o644)
        }
        try SystemFile.replace("\(directory)/acl", with: Array(try permissions().utf8), mode: 0o640)
        guard !SystemFile.exists("\(directory)/mosquitto.conf") else { return }
        try SystemFile.replace("\(directory)/mosquitto.conf", with: Array(try configuration().utf8), mode: 0o644)
    }

    /// A gateway reads and writes its own topics alone, and does not write the operator's words.
    private func permissions() throws -> String {
        let all = FleetTopics.prefix(of: fleet.fleet)
        var lines = [
            "# Made by accessoryctl fleet: changes are lost.", "user \(FleetTopics.operators)", "topic read \(all)#",
            "topic write \(all)+/\(FleetTopics.desired)#", "topic write \(all)+/\(FleetTopics.command)#",
            "topic write \(all)+/\(FleetTopics.auditSeen)", "topic readwrite \(all)\(FleetTopics.operators)/#",
        ]
        for gateway in try fleet.gateways() {
            let own = "\(all)\(gateway.name)/"
            lines += ["", "user \(gateway.name)", "topic read \(own)#"]
            lines += [
                FleetTopics.reported + "#", FleetTopics.marker, FleetTopics.status, FleetTopics.audit, FleetTopics.answer + "#",
                FleetTopics.secret + "#",
            ].map { "topic write \(own)\($0)" }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private func configuration() throws -> String {
        let address = try fleet.address
        var lines = [
            "# Made by accessoryctl fleet init; may be adapted. After accessoryctl fleet add and remove-gateway: kill -HUP.",
            "per_listener_settings false", "allow_anonymous \(!address.isEncrypted)", "persistence true",
            "persistence_location \(directory)/data/", "message_size_limit 1048576", "max_inflight_messages 200",
            "max_queued_messages 10000",
        ]
        try SystemFile.makeDirectory("\(directory)/data", mode: 0o700)
        guard address.isEncrypted else {
            lines += ["listener \(address.port) \(address.host == "localhost" ? "127.0.0.1" : address.host)"]
            return lines.joined(separator: "\n") + "\n"
        }
        lines.append("acl_file \(directory)/acl")
        for (comment, port, isOperator) in [("Gateways", address.port, false), ("Operators", address.port + 1, true)] {
            lines += [
                "", "# \(comment)", "listener \(port)", "cafile \(directory)/\(isOperator ? "operators.crt" : "ca.crt")",
                "certfile \(directory)/broker.crt",
                "keyfile \(directory)/broker.key", "require_certificate true", "use_identity_as_username true",
            ]
            // A gateway must not end another's connection by taking its name.
            if !isOperator { lines.append("use_username_as_clientid true") }
        }
        return lines.joined(separator: "\n") + "\n"
    }
}
