// SPDX-License-Identifier: Apache-2.0
// The admin's policy files: read as strictly as manifests, all of them together (Docs/Policy.md).

public import AccessoryCore
internal import AccessoryModel
public import DBusKit
public import KeyFiles
public import Logging
internal import SystemFiles

/// Reads policy files (Docs/Policy.md).
public enum PolicyReader {
    private static let picker = "Picker"
    private static let targetKeys: Set<String> = [
        "App", "Address", "BluetoothServiceUUID", "BluetoothCompanyIdentifier", "BluetoothNameSubstring", "SSID", "SSIDPrefix",
    ]

    /// One file's rules, added to `policy`; or all that is wrong with it, and `policy` stays as it is.
    static func read(path: String, into policy: inout AccessPolicy, _ files: inout RememberedFiles) -> [KeyFileProblem] {
        do throws(KeyFileProblem) {
            var changed = policy
            let problems = try read(try KeyFile(path: path, &files), into: &changed)
            if problems.isEmpty { policy = changed }
            return problems
        } catch {
            return [error]
        }
    }

    private static func read(_ file: KeyFile, into policy: inout AccessPolicy) throws(KeyFileProblem) -> [KeyFileProblem] {
        var known: [String: Set<String>] = [picker: ["Allow", "Deny"]]
        for group in file.groups {
            switch group.split(separator: " ", maxSplits: 1).map(String.init) {
            case let words where words.count == 2 && words[0] == "Approve": known[group] = targetKeys.union(["MinimumRSSI"])
            case let words where words.count == 2 && words[0] == "Deny": known[group] = targetKeys
            default: break
            }
        }
        var problems = file.unknown(besides: known)
        let note = { (group: String, key: String, reason: String) in problems.append(file.problem(group, key, reason)) }
        func apps(_ group: String, _ key: String) throws(KeyFileProblem) -> Set<AppID> {
            var apps: Set<AppID> = []
            for text in try file.list(group, key) {
                if let app = AppID(text) { apps.insert(app) } else { note(group, key, "\(text): not an app's identifier") }
            }
            if file.has(group, key), apps.isEmpty { note(group, key, "names no app") }
            return apps
        }

        if file.has(picker, "Allow") {
            policy.allowed = (policy.allowed ?? []).union(try apps(picker, "Allow"))
            policy.allowedBy.insert(file.path)
        }
        if file.has(picker, "Deny") {
            policy.refused.formUnion(try apps(picker, "Deny"))
            policy.refusedBy.insert(file.path)
        }
        for group in file.groups where known[group] != nil && group != picker {
            let name = String(group.drop { $0 != " " }.dropFirst())
            let target = try target(file, group, note)
            let concerned = file.has(group, "App") ? try apps(group, "App") : nil
            guard group.hasPrefix("Approve ") else {
                policy.denials.append(.init(name: name, source: file.path, apps: concerned, target: target))
                continue
            }
            if concerned?.count != 1 {
                note(group, "App", concerned == nil ? "is missing" : "one app has to be named, not several")
            }
            if target == AccessPolicy.Target() {
                note(group, "BluetoothServiceUUID", "is missing, and so are the other traits: this would approve every accessory")
            }
            let strength = try file.integer(group, "MinimumRSSI") ?? Matcher.Nearness().threshold
            if !(-127...20).contains(strength) { note(group, "MinimumRSSI", "\(strength): must be −127 to 20") }
            if let app = concerned?.first {
                policy.approvals.append(
                    .init(name: name, source: file.path, app: app, target: target, minimumRSSI: strength))
            }
        }
        return problems
    }

    private static func target(
        _ file: KeyFile, _ group: String, _ note: (String, String, String) -> Void
    ) throws(KeyFileProblem) -> AccessPolicy.Target {
        var target = AccessPolicy.Target()
        if let text = try file.string(group, "Address") {
            target.address = BluetoothAddress(text, kind: .public)?.value
            if target.address == nil { note(group, "Address", "\(text): not an address (C0:FF:EE:00:00:01)") }
        }
        var descriptor = DiscoveryDescriptor()
        if let text = try file.string(group, "BluetoothServiceUUID") {
            descriptor.serviceUUID = BluetoothUUID(text)
            if descriptor.serviceUUID == nil { note(group, "BluetoothServiceUUID", "\(text): not a UUID") }
        }
        if let text = try file.string(group, "BluetoothCompanyIdentifier") {
            descriptor.companyIdentifier = CompanyIdentifier(hexadecimal: text)
            if descriptor.companyIdentifier == nil {
                note(group, "BluetoothCompanyIdentifier", "\(text): not four hexadecimal digits")
            }
        }
        descriptor.nameSubstring = try file.string(group, "BluetoothNameSubstring")
        descriptor.ssid = (try file.string(group, "SSID")).map { Array($0.utf8) }
        descriptor.ssidPrefix = (try file.string(group, "SSIDPrefix")).map { Array($0.utf8) }
        if descriptor != DiscoveryDescriptor() {
            do throws(SetupError) { try DescriptorRules.check(descriptor) } catch {
                note(
                    group, descriptor.ssidPrefix != nil ? "SSIDPrefix" : descriptor.ssid != nil ? "SSID" : "BluetoothNameSubstring",
                    error.message)
            }
            target.descriptor = descriptor
        }
        return target
    }
}

/// All policy files of a directory, watched. A file with a problem makes the whole policy unreliable: nothing new is
/// set up, nothing is approved, until it is mended.
public final class PolicyStore {
    /// What all files say together. With a `problem` set it is not to be relied on.
    public private(set) var policy = AccessPolicy()
    /// All that is wrong, over all files; empty for a policy that counts.
    public private(set) var problems: [KeyFileProblem] = []
    /// Called when the policy has changed.
    public var onChange: ((AccessPolicy) -> Void)?
    /// Called when the problems have changed, after `onChange` where the policy has, too.
    public var onProblems: (() -> Void)?
    private let directory: String
    private let log: Logger
    private var reading: RepeatedReading?

    /// The admin's directory; there is none of the vendor's.
    public static let standardDirectory = "/etc/accessory-setup/policy.d"

    /// - Parameter loop: for watching; nil reads once.
    public init(directory: String, loop: MainLoop?, log: Logger) {
        self.directory = directory
        self.log = log
        if let loop {
            reading = RepeatedReading([directory], "policy files", loop: loop, log: log) { [weak self] in self?.load(&$0) }
            reading?.read()
        } else {
            var files = RememberedFiles()
            load(&files)
        }
    }

    private func load(_ files: inout RememberedFiles) {
        var policy = AccessPolicy()
        var problems: [KeyFileProblem] = []
        do throws(SystemFileError) {
            for name in try files.names(in: directory) where name.hasSuffix(".conf") {
                problems += PolicyReader.read(path: "\(directory)/\(name)", into: &policy, &files)
            }
        } catch {
            // No policy is a policy.
            if !error.isMissing { problems.append(KeyFileProblem(file: directory, line: 0, key: "", reason: error.reason)) }
        }
        policy.problem = problems.first.map { "\($0)" }
        let (isNew, hasNewProblems) = (policy != self.policy, problems != self.problems)
        self.policy = policy
        self.problems = problems
        if hasNewProblems {
            for problem in problems { log.error("policy refused: \(problem)") }
        }
        if isNew {
            log.notice(
                "policy read",
                metadata: [
                    "approvals": "\(policy.approvals.count)", "denials": "\(policy.denials.count)",
                    "problems": "\(problems.count)",
                ])
            onChange?(policy)
        }
        // A second mistake changes no rule.
        if hasNewProblems { onProblems?() }
    }
}
