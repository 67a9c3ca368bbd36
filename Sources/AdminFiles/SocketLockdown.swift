// SPDX-License-Identifier: Apache-2.0
// The lock-down of the kernel's Bluetooth sockets: one drop-in of systemd's for all services, and one of the same name
// in its place for each exception (Docs/Decisions/0030-sockets-in-the-lock-down.md). accessoryctl writes them, and the
// daemon reports whether they are installed.

internal import SystemFiles

/// The installed drop-ins, by unit: "bluetooth.service", or "service" for all services.
public struct SocketLockdown: Sendable {
    /// The directory of the admin's units.
    public static let standardUnits = "/etc/systemd/system"

    /// Why the drop-ins cannot be changed.
    public struct Problem: Error, Hashable, Sendable, CustomStringConvertible {
        /// For the admin.
        public let description: String
    }

    /// Last in the order of drop-ins: if a unit's allow-list were read later, it would only be subtracted from the
    /// deny-list.
    private static let name = "zz-accessorysetupd-lockdown.conf"
    private static let all = "service"
    /// BlueZ' daemon needs Bluetooth sockets.
    private static let always = ["bluetooth.service"]

    private static let mark = "# accessorysetupd: lock-down, by accessoryctl lockdown; do not edit\n"
    /// A filter of socket(2) checks neither system calls of other architectures nor those of an io_uring. The error
    /// must not be a unit's default (ENOSYS since systemd 257): with that, a service with an allow-list would not
    /// start.
    private static let noBypass = """
        SystemCallArchitectures=
        SystemCallArchitectures=native
        SystemCallFilter=~io_uring_setup:EOPNOTSUPP

        """
    private static let closed = mark + "[Service]\nRestrictAddressFamilies=~AF_BLUETOOTH\n" + noBypass
    /// For units with `RestrictAddressFamilies=none`, where `~AF_BLUETOOTH` would allow all other families.
    private static let closedAlready = mark + "# This unit has RestrictAddressFamilies=none.\n[Service]\n" + noBypass
    private static let exception = mark + "# An exception: this file takes the place of the one for all services.\n"

    private let units: String
    /// The content of each drop-in, by unit.
    private let drops: [String: String]

    /// - Parameter units: the directory of units, which may be absent.
    /// - Throws: if it, or a drop-in, cannot be read.
    public init(_ units: String) throws {
        self.units = units
        var drops: [String: String] = [:]
        for directory in try Self.names(in: units) where directory.hasSuffix(".d") {
            let path = "\(units)/\(directory)/\(Self.name)"
            if SystemFile.exists(path) { drops[String(directory.dropLast(2))] = try SystemFile.text(path, limit: 1 << 20) }
        }
        self.drops = drops
    }

    private init(_ units: String, _ drops: [String: String]) {
        self.units = units
        self.drops = drops
    }

    /// Whether services start without Bluetooth sockets.
    public var isOn: Bool { drops[Self.all] == Self.closed }

    /// Whether no drop-in is installed.
    public var isOff: Bool { drops.isEmpty }

    /// The units that keep Bluetooth sockets, in order.
    public var exceptions: [String] { drops.filter { $0.value == Self.exception }.keys.sorted() }

    /// Edited drop-ins.
    public var changed: [String] {
        drops.filter { ![Self.closed, Self.closedAlready, Self.exception].contains($0.value) }.keys.sorted().map(path)
    }

    /// With the lock-down switched on.
    ///
    /// - Parameter exceptions: services besides BlueZ' own; nil for the current ones. `.service` may be omitted.
    /// - Throws: for an invalid name of a service, and for edited drop-ins.
    public func switchedOn(except exceptions: [String]?) throws -> SocketLockdown {
        guard changed.isEmpty else {
            throw Problem(
                description: "\(changed.joined(separator: ", ")): was modified; move it away and turn the lock-down on again")
        }
        var drops = [Self.all: Self.closed]
        for unit in try unitsWithoutSockets() { drops[unit] = Self.closedAlready }
        for unit in try (exceptions?.map(Self.service) ?? self.exceptions) + Self.always { drops[unit] = Self.exception }
        return SocketLockdown(units, drops)
    }

    /// With the lock-down switched off, except for edited drop-ins.
    public func switchedOff() -> SocketLockdown { SocketLockdown(units, drops.filter { changed.contains(path($0.key)) }) }

    /// Whether the drop-ins are equal.
    public func isAs(_ other: SocketLockdown) -> Bool { drops == other.drops }

    /// Writes each drop-in atomically, as systemd may read it at any time. A directory without another file is removed
    /// with its drop-in.
    ///
    /// - Parameter old: the installed drop-ins.
    /// - Throws: if one cannot be written.
    public func write(over old: SocketLockdown) throws {
        // Exceptions are written before the lock and removed after it.
        let isFirst = { (one: String, other: String) in (one == Self.all ? 1 : 0, one) < (other == Self.all ? 1 : 0, other) }
        for unit in old.drops.keys.sorted(by: isFirst).reversed() where drops[unit] == nil && SystemFile.exists(path(unit)) {
            try SystemFile.remove(path(unit))
            try? SystemFile.remove("\(units)/\(unit).d")
        }
        for unit in drops.keys.sorted(by: isFirst) where drops[unit] != old.drops[unit] {
            try SystemFile.makeDirectory("\(units)/\(unit).d", mode: 0o755)
            try SystemFile.replace(path(unit), with: (drops[unit] ?? "").utf8, mode: 0o644)
        }
    }

    /// Removes the drafts of a `write` that was killed.
    ///
    /// - Parameter units: the directory of units.
    public static func removeDrafts(in units: String) throws {
        for directory in try names(in: units) where directory.hasSuffix(".d") {
            SystemFile.removeDraft(of: "\(units)/\(directory)/\(name)")
        }
    }

    private func path(_ unit: String) -> String { "\(units)/\(unit).d/\(Self.name)" }

    private static func names(in directory: String) throws(SystemFileError) -> [String] {
        do throws(SystemFileError) { return try SystemFile.names(in: directory) } catch {
            guard error.isMissing else { throw error }
            return []
        }
    }

    /// The complete name of a service (systemd.unit(5)), which becomes part of a path.
    private static func service(_ name: String) throws -> String {
        let unit = name.hasSuffix(".service") ? name : name + ".service"
        let isValid = unit.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "a")...UInt8(ascii: "z"):
                true
            default: ":-_.\\@".utf8.contains(byte)
            }
        }
        let isOther = [".mount", ".scope", ".slice", ".socket", ".target", ".timer"].contains { name.hasSuffix($0) }
        guard isValid, !isOther, unit != ".service", unit.utf8.count <= 255 else {
            throw Problem(description: "\(name): not the name of a service")
        }
        return unit
    }

    // MARK: Units without any socket

    /// systemd's directories of units.
    private static let places = [
        "/run/systemd/system", "/run/systemd/generator", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
        "/lib/systemd/system",
    ]

    /// Services with `RestrictAddressFamilies=none` in their file or in a drop-in.
    private func unitsWithoutSockets() throws -> Set<String> {
        var found: Set<String> = []
        for place in units == Self.standardUnits ? [units] + Self.places : [units] {
            for entry in try Self.names(in: place) {
                if entry.hasSuffix(".service") {
                    if Self.isNone("\(place)/\(entry)") { found.insert(entry) }
                } else if entry.hasSuffix(".service.d") {
                    let drops = (try? SystemFile.names(in: "\(place)/\(entry)")) ?? []
                    if drops.contains(where: { $0.hasSuffix(".conf") && Self.isNone("\(place)/\(entry)/\($0)") }) {
                        found.insert(String(entry.dropLast(2)))
                    }
                }
            }
        }
        return found
    }

    /// Whether the last assignment in a file is `none`.
    private static func isNone(_ path: String) -> Bool {
        guard let text = try? SystemFile.text(path, limit: 1 << 20) else { return false }
        let values = text.split(separator: "\n").compactMap { line -> String? in
            let parts = line.split(separator: "=", maxSplits: 1).map { $0.filter { !$0.isWhitespace } }
            return parts.first == "RestrictAddressFamilies" ? parts.dropFirst().first ?? "" : nil
        }
        return values.last == "none"
    }
}
