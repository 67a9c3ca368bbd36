// SPDX-License-Identifier: Apache-2.0
// The operator's files on the gateway, in directories that the daemon reads: a document's files are written beside the
// present ones, checked as the daemon will read them, and exchanged with them at once.

internal import AdminFiles
internal import FleetProtocol
internal import KeyFiles
internal import Logging
internal import SystemFiles

/// The directories of the agent's state that the daemon reads.
struct DesiredFiles {
    /// The agent's state directory.
    let root: String

    private func directory(_ kind: DesiredDocument.Kind) -> String {
        switch kind {
        case .policy: root + "/policy.d"
        case .manifests: root + "/apps"
        }
    }

    /// Writes and checks a document's files.
    ///
    /// - Parameter record: stores the version, before the files are in force.
    func apply(_ document: DesiredDocument, record: () throws(SystemFileError) -> Void) -> DocumentOutcome {
        let live = directory(document.kind)
        let draft = live + ".new"
        do throws(SystemFileError) {
            if try present(live) == document.files {
                try record()
                return .applied
            }
            try empty(draft)
            try SystemFile.makeDirectory(draft, mode: 0o755)
            for (name, text) in document.files.sorted(by: { $0.key < $1.key }) {
                try SystemFile.replace("\(draft)/\(name)", with: Array(text.utf8), mode: 0o644)
            }
            let problems = check(document, in: draft)
            guard problems.isEmpty else {
                try empty(draft)
                return .refused(problems)
            }
            try record()
            try exchange(draft, with: live)
            try SystemFile.syncDirectory(of: live)
            // It is in force, whatever becomes of the earlier files.
            try? empty(draft)
            return .applied
        } catch {
            return .failed("\(error)")
        }
    }

    /// The files in force; nil where there is no directory.
    private func present(_ live: String) throws(SystemFileError) -> [String: String]? {
        guard SystemFile.exists(live) else { return nil }
        var files: [String: String] = [:]
        for name in try SystemFile.names(in: live) { files[name] = try SystemFile.text("\(live)/\(name)") }
        return files
    }

    private func empty(_ directory: String) throws(SystemFileError) {
        guard SystemFile.exists(directory) else { return }
        for name in try SystemFile.names(in: directory) { try SystemFile.remove("\(directory)/\(name)") }
        try SystemFile.remove(directory)
    }

    private func exchange(_ draft: String, with live: String) throws(SystemFileError) {
        guard SystemFile.exists(live) else { return try SystemFile.move(draft, to: live) }
        try SystemFile.exchange(draft, live)
    }

    // MARK: Checking

    private static let silence = Logger(label: "fleet") { _ in SwiftLogNoOpLogHandler() }

    /// As `accessoryctl policy check` and `accessoryctl manifest check` do.
    private func check(_ document: DesiredDocument, in draft: String) -> [String] {
        let problems: [KeyFileProblem] =
            switch document.kind {
            case .policy: PolicyStore(directories: [draft], loop: nil, log: Self.silence).problems
            case .manifests: ManifestReader.problems(in: document.files.keys.sorted().map { "\(draft)/\($0)" })
            }
        // The draft's path means nothing to the operator.
        return problems.map {
            let file = $0.file.hasPrefix(draft + "/") ? String($0.file.dropFirst(draft.count + 1)) : $0.file
            return "\(KeyFileProblem(file: file, line: $0.line, key: $0.key, reason: $0.reason))"
        }
    }
}
