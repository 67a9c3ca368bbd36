// SPDX-License-Identifier: Apache-2.0
// Rolls a set of files out: signs it once, hands it to the broker for each selected gateway, and waits until each has
// said whether it has applied it.

internal import AdminFiles
internal import ArgumentParser
internal import FleetProtocol
internal import Glibc
internal import JSONText
internal import MQTTClient
internal import ProgramSupport
internal import SystemFiles

extension Fleet {
    struct Apply: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Signs the policy files or manifests of a directory, and has gateways apply them.",
            discussion: """
                The files of the directory replace those of earlier documents of the kind; a directory without files removes all. A gateway checks them \
                as accessoryctl policy check does, and applies all or none. Gateways that are not connected apply the document when they return. Exit \
                status: 0 if all gateways have applied it, 1 otherwise.
                """)
        enum Kind: String, ExpressibleByArgument, CaseIterable {
            case policy
            case manifests
        }
        @OptionGroup var options: FleetOptions
        @OptionGroup var output: TableOptions
        @Option(
            name: .customLong("gateways"), parsing: .upToNextOption,
            help: "The gateways: names, with * for any characters, and labels after @ (default: all).")
        var selection: [String] = ["*"]
        // Every command has --version.
        @Option(
            name: .customLong("document-version"),
            help: "The document's version, larger than all earlier ones (default: seconds since 1970).")
        var version: Int?
        @Option(help: "Days for which gateways that were not connected may begin to use the document.") var days = 30
        @Option(help: "Seconds to wait for the gateways.") var wait = 30
        @Argument(help: "policy or manifests.") var kind: Kind
        @Argument(help: "The directory of the files.", completion: .directory) var directory: String

        func run() throws {
            try Ending.guarding {
                let fleet = try options.open()
                let documentKind: DesiredDocument.Kind = kind == .policy ? .policy : .manifests
                let selector = try GatewaySelector(selection)
                let gateways = try fleet.gateways().filter { selector.fits($0.name, labels: $0.labels) }.map(\.name)
                guard !gateways.isEmpty else { throw OperatorDirectory.Problem("no gateway is selected") }
                let now = time(nil)
                let text = try DesiredDocument.sign(
                    documentKind, fleet: fleet.fleet, version: version ?? now, validity: (now - 60)..<(now + days * 86_400),
                    gateways: selector,
                    files: try files(), with: fleet.key)
                let document = try DesiredDocument(text, kind: documentKind, keys: [fleet.key.publicKey])
                let client = try FleetClient(fleet)
                var state = FleetState()
                client.onMessage = { state.receive($0, $1, $2) }
                try client.subscribe([FleetTopics.status, FleetTopics.reported + documentKind.rawValue], of: gateways)
                for gateway in gateways {
                    let topic = try fleet.topics(of: gateway).topic(FleetTopics.desired + documentKind.rawValue)
                    client.publish(MQTTMessage(topic, text, isRetained: true))
                }
                let outcomes = { gateways.map { Self.outcome(state.gateways[$0], document) } }
                try? client.wait(until: { !outcomes().contains { $0.isPending } }, seconds: wait, "")
                client.end()
                try write(gateways, outcomes(), document)
                guard outcomes().allSatisfy({ $0.word == "applied" }) else { throw Ending.failed }
            }
        }

        /// The files as gateways will have them, checked as they will check them.
        private func files() throws -> [String: String] {
            var files: [String: String] = [:]
            for name in try SystemFile.names(in: directory) where name.hasSuffix(".conf") {
                files[name] = try SystemFile.text("\(directory)/\(name)", limit: SignedDocument.maxSize)
            }
            let problems =
                switch kind {
                case .policy: PolicyStore(directories: [directory], loop: nil, log: Policy.silence).problems
                case .manifests: ManifestReader.problems(in: files.keys.sorted().map { "\(directory)/\($0)" })
                }
            if let problem = problems.first { throw OperatorDirectory.Problem("\(problem)") }
            return files
        }

        private struct Outcome {
            let word: String
            let reason: String
            let isPending: Bool
        }

        private static func outcome(_ gateway: FleetState.Gateway?, _ document: DesiredDocument) -> Outcome {
            let report = gateway?.reported[document.kind.rawValue]
            let isConnected = gateway?.status?["state"]?.string == "online"
            if report?["desired"]?.int == document.version, let state = report?["state"]?.string,
                ["refused", "waiting"].contains(state)
            {
                return Outcome(word: state, reason: report?["reason"]?.string ?? "", isPending: state == "waiting" && isConnected)
            }
            if report?["documentHash"]?.string == document.hash { return Outcome(word: "applied", reason: "", isPending: false) }
            // It is retained for a gateway that is away.
            return Outcome(word: isConnected ? "no answer" : "not connected", reason: "", isPending: isConnected)
        }

        private func write(_ gateways: [String], _ outcomes: [Outcome], _ document: DesiredDocument) throws {
            if output.json {
                return Output.json(
                    .array(
                        zip(gateways, outcomes).map { gateway, outcome in
                            [
                                "gateway": JSON(gateway), "version": JSON(document.version), "outcome": JSON(outcome.word),
                                "reason": JSON(outcome.reason),
                            ]
                        }))
            }
            let table = try Table(
                ["GATEWAY", "VERSION", "OUTCOME", "REASON"],
                zip(gateways, outcomes).map { [$0, "\(document.version)", $1.word, $1.reason] }, output)
            output.paged { table.write() }
        }
    }
}
