// SPDX-License-Identifier: Apache-2.0
// The operator's documents: accepted with signature, selector, version and validity, and reported with their outcome.

internal import FleetProtocol
internal import JSONText

/// The documents of both kinds.
struct DesiredState {
    private enum Outcome {
        /// The document itself, and the reason why it could not be applied before; nil the first time.
        case applying([UInt8], failed: String?)
        case applied
        /// The document itself, which is tried again: it is not valid yet by this gateway's clock, or, with a reason,
        /// could not be written.
        case waiting([UInt8], String?)
        case refused(String)

        var word: String {
            switch self {
            case .applying(_, nil): "applying"
            case .applied: "applied"
            // Also while it is tried again.
            case .waiting, .applying: "waiting"
            case .refused: "refused"
            }
        }
    }

    private struct Latest {
        /// 0 for a document that could not be read.
        var version: Int
        var outcome: Outcome
    }

    private var applied: [DesiredDocument.Kind: AppliedVersion]
    private var latest: [DesiredDocument.Kind: Latest] = [:]

    init(_ applied: [DesiredDocument.Kind: AppliedVersion]) { self.applied = applied }

    /// For the report: the version in force, and the outcome of the latest document.
    func report(_ kind: DesiredDocument.Kind) -> [String: JSON] {
        var members: [String: JSON] = [
            "version": JSON(applied[kind]?.version ?? 0), "documentHash": JSON(applied[kind]?.hash ?? ""),
        ]
        guard let latest = latest[kind] else { return members }
        members["desired"] = JSON(latest.version)
        members["state"] = JSON(latest.outcome.word)
        switch latest.outcome {
        case .refused(let reason), .waiting(_, .some(let reason)), .applying(_, .some(let reason)): members["reason"] = JSON(reason)
        case .applying, .applied, .waiting: break
        }
        return members
    }

    mutating func received(_ text: [UInt8], _ kind: DesiredDocument.Kind, _ gateway: GatewayIdentity, now: Int) -> [AgentEffect] {
        // The broker retains none: the files stay.
        guard !text.isEmpty else { return [] }
        var version = 0
        do throws(FleetProblem) {
            let document = try DesiredDocument(text, kind: kind, keys: gateway.operators)
            version = document.version
            guard document.fleet == gateway.topics.fleet else { throw FleetProblem("fleet: \(document.fleet): another fleet") }
            guard document.gateways.fits(gateway.topics.gateway, labels: gateway.labels) else {
                throw FleetProblem("gateways: \(document.gateways): not for this gateway")
            }
            if let present = applied[kind] {
                guard document.version >= present.version else {
                    throw FleetProblem("version: \(document.version): \(present.version) is in force")
                }
                guard document.version > present.version || document.hash == present.hash else {
                    throw FleetProblem("version: \(document.version): in force with other contents")
                }
                // Its files may be missing after a crash.
                if document.hash == present.hash { return apply(document, text) }
            }
            guard now >= document.validity.lowerBound else {
                latest[kind] = Latest(version: version, outcome: .waiting(text, nil))
                return []
            }
            guard now < document.validity.upperBound else {
                throw FleetProblem("exp: the document has expired by this gateway's clock")
            }
            return apply(document, text)
        } catch {
            latest[kind] = Latest(version: version, outcome: .refused("\(error)"))
            return [.report("\(kind.rawValue) refused: \(error)", isProblem: true)]
        }
    }

    private mutating func apply(_ document: DesiredDocument, _ text: [UInt8]) -> [AgentEffect] {
        var failed: String?
        if case .waiting(text, let reason) = latest[document.kind]?.outcome { failed = reason }
        latest[document.kind] = Latest(version: document.version, outcome: .applying(text, failed: failed))
        return [.apply(document)]
    }

    mutating func applied(_ document: DesiredDocument, _ outcome: DocumentOutcome) -> [AgentEffect] {
        let kind = document.kind
        switch outcome {
        case .applied:
            applied[kind] = AppliedVersion(version: document.version, hash: document.hash)
            latest[kind] = Latest(version: document.version, outcome: .applied)
            return [.report("\(kind.rawValue) applied: version \(document.version)", isProblem: false)]
        case .refused(let problems):
            latest[kind] = Latest(version: document.version, outcome: .refused(problems.joined(separator: "\n")))
            return [.report("\(kind.rawValue) refused: \(problems.first ?? "")", isProblem: true)]
        case .failed(let reason):
            guard case .applying(let text, let earlier) = latest[kind]?.outcome else { return [] }
            latest[kind] = Latest(version: document.version, outcome: .waiting(text, reason))
            // A full disk is one line, not one a minute.
            return earlier == reason ? [] : [.report("\(kind.rawValue) cannot be applied: \(reason)", isProblem: true)]
        }
    }

    /// A minute has passed.
    mutating func tick(_ gateway: GatewayIdentity, now: Int) -> [AgentEffect] {
        latest.sorted { $0.key.rawValue < $1.key.rawValue }.flatMap { kind, latest -> [AgentEffect] in
            guard case .waiting(let text, _) = latest.outcome else { return [] }
            return received(text, kind, gateway, now: now)
        }
    }
}
