// SPDX-License-Identifier: Apache-2.0
// The daemon's objects as the fleet sees them: each accessory, grant and picker is one JSON object whose keys are the
// properties of its interface (Docs/Interfaces), and the rest is gathered in a few.

internal import AccessoryBus
internal import AccessoryModel
internal import DBusKit
internal import JSONText

/// The objects, by path and interface.
struct DaemonObjects {
    private typealias Properties = [String: DBusValue]

    private var objects: [ObjectPath: [String: [String: DBusValue]]] = [:]

    /// The answer of `GetManagedObjects`.
    init(_ value: DBusValue?) {
        for entry in value?.entries ?? [] {
            guard let path = entry.key.objectPathValue else { continue }
            _ = add(path, entry.value)
        }
    }

    init() {}

    /// The reports that an object is part of.
    enum Part: Hashable {
        case object(String)
        case policy
        case manifests
        case manager
    }

    mutating func add(_ path: ObjectPath, _ interfaces: DBusValue) -> Part? {
        for (name, value) in interfaces.vardictOfDictionaries { objects[path, default: [:]][name] = value }
        return part(of: path)
    }

    mutating func remove(_ path: ObjectPath, _ names: [String]) -> Part? {
        let part = part(of: path)
        for name in names { objects[path]?[name] = nil }
        if objects[path]?.isEmpty == true { objects[path] = nil }
        return part
    }

    mutating func change(_ path: ObjectPath, _ interface: String, _ changed: [String: DBusValue], _ invalidated: [String]) -> Part?
    {
        guard objects[path]?[interface] != nil else { return nil }
        for (name, value) in changed { objects[path]?[interface]?[name] = value }
        for name in invalidated { objects[path]?[interface]?[name] = nil }
        return part(of: path)
    }

    // MARK: Reports

    private func part(of path: ObjectPath) -> Part? {
        if path == AccessoryBus.root { return .manager }
        if path == AccessoryBus.adminPath { return .policy }
        if let id = AccessoryBus.accessoryID(at: path) { return .object("accessory/\(id)") }
        let words = path.rawValue.split(separator: "/")
        guard words.count == 4 else { return nil }
        switch words[2] {
        case "grant", "picker": return .object("\(words[2])/\(words[3])")
        case "app": return .manifests
        default: return nil
        }
    }

    /// All reports, by the ends of their topics.
    var reports: [String: JSON] {
        var reports: [String: JSON] = [:]
        for path in objects.keys {
            guard let part = part(of: path) else { continue }
            reports[Self.end(of: part)] = report(part, at: path)
        }
        for part in [Part.policy, .manifests, .manager] { reports[Self.end(of: part)] = report(part, at: AccessoryBus.root) }
        return reports
    }

    static func end(of part: Part) -> String {
        switch part {
        case .object(let end): end
        case .policy: "policy"
        case .manifests: "manifests"
        case .manager: "manager"
        }
    }

    /// A report; nil for an object that is gone.
    ///
    /// - Parameter path: of an object that is one report.
    func report(_ part: Part, at path: ObjectPath) -> JSON? {
        switch part {
        case .object:
            guard let interfaces = objects[path], !interfaces.isEmpty else { return nil }
            var members: [String: JSON] = [:]
            for (name, properties) in interfaces {
                // An accessory with a network has two interfaces of ours.
                guard name.hasPrefix(AccessoryBus.name) else { continue }
                for (key, value) in properties { members[key] = JSON(value) }
            }
            // For the operators' eyes only: `secret`.
            if var prompt = members["Prompt"]?.members {
                for key in Self.secretKeys { prompt[key] = nil }
                members["Prompt"] = .object(prompt)
            }
            return members.isEmpty ? nil : .object(members)
        case .policy:
            let admin = objects[AccessoryBus.adminPath]?[AccessoryBus.admin] ?? [:]
            return [
                "rules": admin["Policy"].map { JSON($0) } ?? .array([]),
                "problems": admin["PolicyProblems"].map { JSON($0) } ?? .array([]),
            ]
        case .manifests:
            let apps = objects.compactMap { path, interfaces in interfaces[AccessoryBus.app].map { (path, $0) } }.sorted {
                $0.0 < $1.0
            }
            return [
                "apps": .array(
                    apps.map { _, app in
                        JSON.object(app.filter { ["Id", "Name", "Source", "Problems"].contains($0.key) }.mapValues { JSON($0) })
                    })
            ]
        case .manager:
            let manager = objects[AccessoryBus.root]?[AccessoryBus.manager] ?? [:]
            return .object(
                manager.filter { ["Version", "Bluetooth", "WiFi", "PickerAvailable"].contains($0.key) }.mapValues { JSON($0) })
        }
    }

    private static let secretKeys = ["passkey", "pin"]

    /// The secret of a picker's question; nil without one.
    func secret(at path: ObjectPath) -> JSON? {
        guard let prompt = objects[path]?[AccessoryBus.picker]?["Prompt"]?.vardictValue else { return nil }
        let secrets = prompt.filter { Self.secretKeys.contains($0.key) }
        return secrets.isEmpty ? nil : .object(secrets.mapValues { JSON($0) })
    }

    /// A property.
    func value(_ path: ObjectPath, _ interface: String, _ property: String) -> DBusValue? { objects[path]?[interface]?[property] }
}

extension DBusValue {
    /// `a{sa{sv}}`.
    fileprivate var vardictOfDictionaries: [String: [String: DBusValue]] {
        (vardictValue ?? [:]).compactMapValues(\.vardictValue)
    }
}

extension JSON {
    /// A value of D-Bus: bytes as hexadecimal digits, a dictionary with keys of another type than text as null.
    init(_ value: DBusValue) {
        switch value.unwrapped {
        case .boolean(let truth): self = .boolean(truth)
        case .double(let number): self = .number(number)
        case .string(let text): self = .text(text)
        case .objectPath(let path): self = .text(path.rawValue)
        case .bytes(let bytes): self = .text(Hex.text(bytes))
        case .array(_, let elements): self = .array(elements.map { JSON($0) })
        case .structure(let fields): self = .array(fields.map { JSON($0) })
        case .dictionary: self = value.vardictValue.map { .object($0.mapValues { JSON($0) }) } ?? .null
        default: self = value.integerValue.map { .integer($0) } ?? .null
        }
    }
}
