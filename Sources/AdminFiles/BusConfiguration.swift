// SPDX-License-Identifier: Apache-2.0
// The lock-down of org.bluez in the bus' last configuration file, which belongs to the admin: one line, whose removal
// restores the file exactly. accessoryctl switches it, and the daemon reports whether it is on.

internal import SystemFiles

/// The admin's configuration file of the bus, which may be absent.
public struct BusConfiguration: Sendable {
    /// The last file that the system bus reads.
    public static let standardPath = "/etc/dbus-1/system-local.conf"
    /// The policy that the lock-down includes.
    public static let standardPolicy = "/usr/share/accessory-setup/org.bluez.lockdown.conf"

    /// Why the file cannot be changed.
    public struct Problem: Error, Hashable, Sendable, CustomStringConvertible {
        /// For the admin.
        public let description: String
    }

    /// Whether programs may use BlueZ without the scoped view.
    public enum Lockdown: String, Hashable, Sendable {
        /// Only root and the daemon may, and services have no Bluetooth sockets.
        case on
        /// BlueZ' own policy and the kernel decide.
        case off
        /// A part is missing: the line in the bus' configuration, the policy that it includes, or systemd's
        /// drop-ins.
        case broken
    }

    private static let begin = "  <!-- accessorysetupd: lock-down of org.bluez, by accessoryctl lockdown; do not edit -->\n"
    private static let end = "  <!-- accessorysetupd: end -->\n"
    /// A file with nothing but the lock-down, which is removed with it.
    private static let opening = """
        <!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
         "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
        <busconfig>

        """
    private static let closing = "</busconfig>"

    /// Nil without a file.
    private let text: String?

    /// In bytes, many times the size of a configuration.
    private static let maxSize = 1 << 20

    /// - Throws: if the file exists and cannot be read, or is not UTF-8.
    public init(_ path: String) throws {
        do throws(SystemFileError) {
            text = String(validating: try SystemFile.contents(path, limit: Self.maxSize), as: UTF8.self)
        } catch {
            guard error.isMissing else { throw error }
            text = nil
            return
        }
        guard text != nil else { throw Problem(description: "\(path): is not UTF-8, so it cannot be changed safely") }
    }

    private init(text: String?) {
        self.text = text
    }

    /// Whether the lock-down is switched on here.
    public var isLocked: Bool {
        text.map { !Self.places(of: Self.begin, in: $0[...]).isEmpty && !Self.places(of: Self.end, in: $0[...]).isEmpty } ?? false
    }

    /// The state of the whole lock-down.
    ///
    /// - Parameters:
    ///   - policy: the path of the included file.
    ///   - sockets: the drop-ins for services.
    public func lockdown(by policy: String, _ sockets: SocketLockdown) -> Lockdown {
        !isLocked && sockets.isOff ? .off : isLocked && SystemFile.exists(policy) && sockets.isOn ? .on : .broken
    }

    /// With the lock-down switched on.
    ///
    /// - Parameter policy: the path of the included file.
    /// - Throws: if the file is not a configuration of a bus.
    public func locked(including policy: String) throws -> BusConfiguration {
        // A bus does not start without an included file, and the line may outlive the package.
        let block = Self.begin + "  <include ignore_missing=\"yes\">\(policy)</include>\n" + Self.end
        guard let text else { return BusConfiguration(text: Self.opening + block + Self.closing + "\n") }
        // At the end, because later rules override earlier ones.
        guard let close = Self.places(of: Self.closing, in: text[...]).last else {
            throw Problem(description: "the bus' configuration has no \(Self.closing): fix it first")
        }
        return BusConfiguration(text: "\(text[..<close])\(block)\(text[close...])")
    }

    private static func places(of marker: String, in text: Substring) -> [String.Index] {
        text.indices.filter { text[$0...].hasPrefix(marker) }
    }

    /// The configuration before `locked`.
    public func unlocked() -> BusConfiguration {
        guard let text, let begin = Self.places(of: Self.begin, in: text[...]).first,
            let end = Self.places(of: Self.end, in: text[begin...]).first
        else { return self }
        let rest = String(text[..<begin] + text[end...].dropFirst(Self.end.count))
        return BusConfiguration(text: rest == Self.opening + Self.closing + "\n" ? nil : rest)
    }

    /// Replaces the file atomically, as the bus may read it at any time.
    ///
    /// - Throws: if it cannot be written.
    public func write(to path: String) throws {
        guard let text else {
            try SystemFile.remove(path)
            return try SystemFile.syncDirectory(of: path)
        }
        try SystemFile.replace(path, with: text.utf8, mode: SystemFile.mode(path) ?? 0o644)
    }
}
