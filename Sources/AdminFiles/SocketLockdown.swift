// SPDX-License-Identifier: Apache-2.0
// The lock-down of the kernel's Bluetooth sockets: one drop-in of systemd's for all services, and one of the same name
// in its place for each exception (Docs/Decisions/0030-sockets-in-the-lock-down.md). accessoryctl writes them, and the
// daemon reports whether they are installed.

internal import SystemFiles

/// The drop-ins that are there, each known by its unit: "bluetooth.service", or "service" for all services.
public struct SocketLockdown: Sendable {
    /// Where the admin's units are.
    public static let standardUnits = "/etc/systemd/system"

    /// Why they cannot be changed.
    public struct Problem: Error, Hashable, Sendable, CustomStringConvertible {
        /// For the admin.
        public let description: String
    }

    /// Last in the order of drop-ins: with one that is read later, a unit's list of what is allowed would only be taken
    /// out of the list of what is denied.
    private static let name = "zz-accessorysetupd-lockdown.conf"
    private static let all = "service"
    /// BlueZ' daemon, which the lock-down leaves as the only way.
    private static let always = ["bluetooth.service"]

    private static let mark = "# accessorysetupd: lock-down, by accessoryctl lockdown; do not edit\n"
    /// A filter of socket(2) looks neither into the system calls of other architectures nor into a ring of io_uring. An
    /// error that is no unit's default: with that one, ENOSYS since systemd 257 at the latest, a service with a list of
    /// what is allowed would not start.
    private static let noWayAround = """
        SystemCallArchitectures=
        SystemCallArchitectures=native
        SystemCallFilter=~io_uring_setup:EOPNOTSUPP

        """
    private static let closed = mark + "[Service]\nRestrictAddressFamilies=~AF_BLUETOOTH\n" + noWayAround
    /// For units with `RestrictAddressFamilies=none`, in which `~AF_BLUETOOTH` would open all other families.
    private static let closedAlready = mark + "# This unit has RestrictAddressFamilies=none.\n[Service]\n" + noWayAround
    private static let exception = mark + "# An exception: this file takes the place of the one for all services.\n"

    /// The directory of units.
    private let units: String
    /// The contents of the drop-ins, by unit.
    private let drops: [String: String]

    /// - Parameter units: the directory; where it is not there, nothing is switched on.
    /// - Throws: when it, or a drop-in, cannot be read.
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

    /// Whether services that start from now on have no Bluetooth sockets.
    public var isOn: Bool { drops[Self.all] == Self.closed }

    /// Whether nothing is there.
    public var isOff: Bool { drops.isEmpty }

    /// The units that keep Bluetooth sockets, in order.
    public var exceptions: [String] { drops.filter { $0.value == Self.exception }.keys.sorted() }

    /// Edited drop-ins.
    public var changed: [String] {
        drops.filter { ![Self.closed, Self.closedAlready, Self.exception].contains($0.value) }.keys.sorted().map(path)
    }

    /// With the lock-down switched on.
    ///
    /// - Parameter exceptions: services, besides BlueZ' own; nil for those that there are. A name without a suffix is a
    ///   service's.
    /// - Throws: for a name that is none of a service, and for edited drop-ins.
    public func switchedOn(except exceptions: [String]?) throws -> SocketLockdown {
        guard changed.isEmpty else {
            throw Problem(
                description: "\(changed.joined(separator: ", ")): was changed; move it away, and switch the lock-down on again")
        }
        var drops = [Self.all: Self.closed]
        for unit in try unitsWithoutSockets() { drops[unit] = Self.closedAlready }
        for unit in try (exceptions?.map(Self.service) ?? self.exceptions) + Self.always { drops[unit] = Self.exception }
        return SocketLockdown(units, drops)
    }

    /// With the lock-down switched off; edited drop-ins stay.
    public func switchedOff() -> SocketLockdown { SocketLockdown(units, drops.filter { changed.contains(path($0.key)) }) }

    /// Whether the drop-ins are the same.
    public func isAs(_ other: SocketLockdown) -> Bool { drops == other.drops }

    /// Each drop-in whole or not at all: systemd may read them at any time. A directory without any other file goes
    /// with the drop-in.
    ///
    /// - Parameter old: the drop-ins as they are.
    /// - Throws: when something cannot be written.
    public func write(over old: SocketLockdown) throws {
        // What locks comes last and goes first: there is no moment in which an exception is missing.
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

    /// Removes what `write` leaves when its process is killed in the middle.
    ///
    /// - Parameter units: the directory.
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

    /// The name of a service (systemd.unit(5)), and so of a directory.
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

    /// Where systemd looks for units.
    private static let places = [
        "/run/systemd/system", "/run/systemd/generator", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
        "/lib/systemd/system",
    ]

    /// The services that say `RestrictAddressFamilies=none`, in their own file or in a drop-in.
    private func unitsWithoutSockets() throws -> Set<String> {
        var found: Set<String> = []
        for place in units == Self.standardUnits ? [units] + Self.places : [units] {
            for entry in try Self.names(in: place) {
                if entry.hasSuffix(".service") {
                    if Self.saysNone("\(place)/\(entry)") { found.insert(entry) }
                } else if entry.hasSuffix(".service.d") {
                    let drops = (try? SystemFile.names(in: "\(place)/\(entry)")) ?? []
                    if drops.contains(where: { $0.hasSuffix(".conf") && Self.saysNone("\(place)/\(entry)/\($0)") }) {
                        found.insert(String(entry.dropLast(2)))
                    }
                }
            }
        }
        return found
    }

    /// Whether that is the last word of a file.
    private static func saysNone(_ path: String) -> Bool {
        guard let text = try? SystemFile.text(path, limit: 1 << 20) else { return false }
        let values = text.split(separator: "\n").compactMap { line -> String? in
            let parts = line.split(separator: "=", maxSplits: 1).map { $0.filter { !$0.isWhitespace } }
            return parts.first == "RestrictAddressFamilies" ? parts.dropFirst().first ?? "" : nil
        }
        return values.last == "none"
    }
}
