// SPDX-License-Identifier: Apache-2.0
// The admin's policy files, which together are the policy (Docs/Policy.md).

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

    /// Adds one file's rules to `policy`.
    ///
    /// - Returns: the file's problems; with any, `policy` is unchanged.
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
        var schema: [String: Set<String>] = [picker: ["Allow", "Deny"]]
        for group in file.groups {
            switch group.split(separator: " ", maxSplits: 1).map(String.init) {
            case let words where words.count == 2 && words[0] == "Approve":
                schema[group] = targetKeys.union(["MinimumRSSI", "MaxDevices"])
            case let words where words.count == 2 && words[0] == "Deny": schema[group] = targetKeys
            case let words where words.count == 2 && words[0] == "Limit":
                // Names are not stored with a grant.
                schema[group] = targetKeys.subtracting(["BluetoothNameSubstring"]).union([
                    "MaxDuration", "EndChoices", "AtEnd", "Access",
                ])
            default: break
            }
        }
        var problems = file.unknown(besides: schema)
        let report = { (group: String, key: String, reason: String) in problems.append(file.problem(group, key, reason)) }
        func apps(_ group: String, _ key: String) throws(KeyFileProblem) -> Set<AppID> {
            var apps: Set<AppID> = []
            for text in try file.list(group, key) {
                if let app = AppID(text) { apps.insert(app) } else { report(group, key, "\(text): not an app's identifier") }
            }
            if file.has(group, key), apps.isEmpty { report(group, key, "names no app") }
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
        for group in file.groups where schema[group] != nil && group != picker {
            let name = String(group.drop { $0 != " " }.dropFirst())
            let target = try target(file, group, report)
            let concerned = file.has(group, "App") ? try apps(group, "App") : nil
            if group.hasPrefix("Limit ") {
                var limit = AccessPolicy.Limit(name: name, source: file.path, apps: concerned, target: target)
                try readLimit(file, group, into: &limit, report)
                policy.limits.append(limit)
                continue
            }
            guard group.hasPrefix("Approve ") else {
                policy.denials.append(.init(name: name, source: file.path, apps: concerned, target: target))
                continue
            }
            if concerned?.count != 1 {
                report(group, "App", concerned == nil ? "is missing" : "must name one app")
            }
            if target == AccessPolicy.Target() {
                report(group, "BluetoothServiceUUID", "is missing, and so are the other traits: this would approve every accessory")
            }
            let strength = try file.integer(group, "MinimumRSSI") ?? Matcher.Nearness().threshold
            if !(-127...20).contains(strength) { report(group, "MinimumRSSI", "\(strength): must be −127 to 20") }
            let devices = try file.integer(group, "MaxDevices")
            if let devices, case let limits = Limits.heardDevices, !limits.contains(devices) {
                report(group, "MaxDevices", "\(devices): must be \(limits.lowerBound) to \(limits.upperBound)")
            }
            if devices != nil, file.has(group, "MinimumRSSI") { report(group, "MinimumRSSI", "cannot be combined with MaxDevices") }
            if devices != nil, target.descriptor?.wantsBluetooth != true || target.address != nil {
                report(group, "MaxDevices", "needs BluetoothServiceUUID or BluetoothCompanyIdentifier, and no Address")
            }
            if let app = concerned?.first {
                policy.approvals.append(
                    .init(name: name, source: file.path, app: app, target: target, minimumRSSI: strength, maxDevices: devices))
            }
        }
        return problems
    }

    private static func readLimit(
        _ file: KeyFile, _ group: String, into limit: inout AccessPolicy.Limit, _ report: (String, String, String) -> Void
    ) throws(KeyFileProblem) {
        if let text = try file.string(group, "MaxDuration") {
            if case .duration(let seconds) = EndRule(text) {
                limit.maxDuration = seconds
            } else {
                report(group, "MaxDuration", "\(text): not a time (90s, 15min, 8h, 7d, 2w)")
            }
        }
        for text in try file.list(group, "EndChoices") {
            guard let choice = EndChoice(text) else {
                report(group, "EndChoices", "\(text): not an end (8h, 18:00, idle 30d, none)")
                continue
            }
            limit.endChoices.append(choice)
        }
        if limit.endChoices.count > Limits.endChoices {
            report(group, "EndChoices", "\(limit.endChoices.count) ends: more than \(Limits.endChoices)")
        }
        if let text = try file.string(group, "Access") {
            limit.access = AccessLimit(text)
            if limit.access == nil {
                report(group, "Access", "\(text): not read, nor a list as 180F/2A19:read+listen;180A/2A29:read")
            }
        }
        switch try file.string(group, "AtEnd") {
        case nil, "keep"?: break
        case "remove"?: limit.removesAtEnd = true
        case let text?: report(group, "AtEnd", "\(text): must be keep or remove")
        }
        if !["MaxDuration", "EndChoices", "AtEnd", "Access"].contains(where: { file.has(group, $0) }) {
            report(group, "MaxDuration", "is missing, and so are EndChoices, AtEnd and Access: this would limit nothing")
        }
    }

    private static func target(
        _ file: KeyFile, _ group: String, _ report: (String, String, String) -> Void
    ) throws(KeyFileProblem) -> AccessPolicy.Target {
        var target = AccessPolicy.Target()
        if let text = try file.string(group, "Address") {
            target.address = BluetoothAddress(text, kind: .public)?.value
            if target.address == nil { report(group, "Address", "\(text): not an address (C0:FF:EE:00:00:01)") }
        }
        var descriptor = DiscoveryDescriptor()
        if let text = try file.string(group, "BluetoothServiceUUID") {
            descriptor.serviceUUID = BluetoothUUID(text)
            if descriptor.serviceUUID == nil { report(group, "BluetoothServiceUUID", "\(text): not a UUID") }
        }
        if let text = try file.string(group, "BluetoothCompanyIdentifier") {
            descriptor.companyIdentifier = CompanyIdentifier(hexadecimal: text)
            if descriptor.companyIdentifier == nil {
                report(group, "BluetoothCompanyIdentifier", "\(text): not four hexadecimal digits")
            }
        }
        descriptor.name.substring = try file.string(group, "BluetoothNameSubstring")
        descriptor.ssid = (try file.string(group, "SSID")).map { Array($0.utf8) }
        descriptor.ssidPrefix = (try file.string(group, "SSIDPrefix")).map { Array($0.utf8) }
        if descriptor != DiscoveryDescriptor() {
            do throws(SetupError) { try DescriptorRules.check(descriptor) } catch {
                report(
                    group, descriptor.ssidPrefix != nil ? "SSIDPrefix" : descriptor.ssid != nil ? "SSID" : "BluetoothNameSubstring",
                    error.message)
            }
            target.descriptor = descriptor
        }
        return target
    }
}

/// All policy files of the watched directories, and the claim lists beside the last one. While a policy file of any
/// directory has a problem, no accessory is set up and no rule approves; a claim list with a problem is left out.
public final class PolicyStore {
    /// The policy of all files. With a `problem` it must not be used.
    public private(set) var policy = AccessPolicy()
    /// The problems of all files; empty for a valid policy.
    public private(set) var problems: [KeyFileProblem] = []
    /// The problems of all claim lists.
    public private(set) var listProblems: [KeyFileProblem] = []
    /// Called after a change of the problems, and after `onChange`.
    public var onProblems: (() -> Void)?
    private let onChange: (AccessPolicy) -> Void
    private let directories: [String]
    private let listDirectory: String
    private let log: Logger
    private var reading: RepeatedReading?

    /// The directory of a fleet's agent, then the admin's; vendors have none.
    public static let standardDirectories = ["/var/lib/accessory-fleet/policy.d", "/etc/accessory-setup/policy.d"]

    /// - Parameters:
    ///   - directories: of the policy files, one or more, which add up in this order and need not exist; claim lists
    ///     are in `claims.d` beside the last one.
    ///   - loop: for watching; nil reads once.
    ///   - onChange: called after a change of the policy, the first reading included.
    public init(directories: [String], loop: MainLoop?, log: Logger, onChange: @escaping (AccessPolicy) -> Void = { _ in }) {
        precondition(!directories.isEmpty)
        self.onChange = onChange
        self.directories = directories
        let last = directories[directories.count - 1]
        listDirectory = (last.lastIndex(of: "/").map { last[...$0] } ?? "") + "claims.d"
        self.log = log
        if let loop {
            reading = RepeatedReading(directories + [listDirectory], "policy files", loop: loop, log: log) { [weak self] in
                self?.load(&$0)
            }
            reading?.read()
        } else {
            var files = RememberedFiles()
            load(&files)
        }
    }

    private func load(_ files: inout RememberedFiles) {
        var policy = AccessPolicy()
        var problems: [KeyFileProblem] = []
        for directory in directories {
            do throws(SystemFileError) {
                for name in try files.names(in: directory) where name.hasSuffix(".conf") {
                    problems += PolicyReader.read(path: "\(directory)/\(name)", into: &policy, &files)
                }
            } catch {
                // A directory that is absent has no rules; one that cannot be read may have denials.
                if !error.isMissing { problems.append(KeyFileProblem(file: directory, line: 0, key: "", reason: error.reason)) }
            }
        }
        policy.problem = problems.first.map { "\($0)" }
        let listProblems = readLists(into: &policy, &files)
        let isNew = policy != self.policy
        let hasNewProblems = problems != self.problems || listProblems != self.listProblems
        if problems != self.problems {
            for problem in problems { log.error("policy refused: \(problem)") }
        }
        if listProblems != self.listProblems {
            for problem in listProblems { log.error("claim list refused: \(problem)") }
        }
        self.policy = policy
        self.problems = problems
        self.listProblems = listProblems
        if isNew {
            log.notice(
                "policy read",
                metadata: [
                    "approvals": "\(policy.approvals.count)", "denials": "\(policy.denials.count)",
                    "limits": "\(policy.limits.count)", "lists": "\(policy.lists.count)",
                    "problems": "\(problems.count + listProblems.count)",
                ])
            onChange(policy)
        }
        // Another problem does not always change the policy.
        if hasNewProblems { onProblems?() }
    }

    /// Adds all lists without problems.
    private func readLists(into policy: inout AccessPolicy, _ files: inout RememberedFiles) -> [KeyFileProblem] {
        var problems: [KeyFileProblem] = []
        do throws(SystemFileError) {
            for name in try files.names(in: listDirectory) where name.hasSuffix(".conf") {
                let path = "\(listDirectory)/\(name)"
                let (list, found) = ClaimListReader.read(path: path, &files)
                problems += found
                guard let list else { continue }
                if let other = policy.lists.first(where: { $0.id == list.id }) {
                    let reason = "\(list.id): is the list in \(other.source) already"
                    problems.append(KeyFileProblem(file: path, line: 0, key: "Id", reason: reason))
                } else {
                    policy.lists.append(list)
                }
            }
        } catch {
            if !error.isMissing {
                problems.append(KeyFileProblem(file: listDirectory, line: 0, key: "", reason: error.reason))
            }
        }
        return problems
    }
}
