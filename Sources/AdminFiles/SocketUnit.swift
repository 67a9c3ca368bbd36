// SPDX-License-Identifier: Apache-2.0
// The path at which a socket unit of systemd's listens, read from the unit's file: the daemon may not start units, and
// needs no answer of systemd's to connect to a socket.

internal import SystemFiles

/// Socket units, as `Extension=` and `Wake=` of a manifest name them.
public enum SocketUnit {
    /// Why a unit has no path to connect to.
    public struct Problem: Error, Hashable, Sendable, CustomStringConvertible {
        /// For the admin: the unit, and the reason.
        public let description: String
    }

    /// The directories of system units, in systemd's order: the first file of a name counts.
    public static let standardDirectories = [
        "/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
    ]

    /// Whether this is the name of a socket unit that is no instance of a template: an instance's path has specifiers.
    static func isName(_ text: String) -> Bool {
        let stem = text.utf8.dropLast(suffix.utf8.count)
        return text.hasSuffix(suffix) && !stem.isEmpty && text.utf8.count <= 255 && stem.first != UInt8(ascii: ".")
            && stem.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: ":"), UInt8(ascii: "-"), UInt8(ascii: "_"),
                    UInt8(ascii: "."), UInt8(ascii: "\\"):
                    true
                default: false
                }
            }
    }

    private static let suffix = ".socket"
    private static let key = "ListenStream"

    /// The last absolute path of `ListenStream=` in a unit's file, without its drop-ins.
    ///
    /// - Parameter directories: of units; the first file of the name counts.
    /// - Throws: for a unit that is missing, unreadable or masked, and one without such a path, or with a specifier in
    ///   it, which systemd alone can expand.
    public static func path(of unit: String, in directories: [String]) throws(Problem) -> String {
        for directory in directories {
            let file = "\(directory)/\(unit)"
            let text: String
            do throws(SystemFileError) {
                text = try SystemFile.text(file, limit: 1 << 20)
            } catch {
                guard error.isMissing else { throw Problem(description: "\(unit): \(error)") }
                continue
            }
            // An empty file, or a link to /dev/null.
            guard !text.isEmpty else { throw Problem(description: "\(unit): \(file): is masked") }
            let addresses = addresses(in: text)
            guard let path = addresses.last(where: { $0.hasPrefix("/") }) ?? addresses.last else {
                throw Problem(description: "\(unit): \(file): has no \(key)=")
            }
            let reason: String? =
                if path.utf8.contains(UInt8(ascii: "%")) {
                    "has a specifier: name the socket's path in the manifest"
                } else if path.hasPrefix("@") {
                    "is an abstract socket, which any user could have made"
                } else if !path.hasPrefix("/") {
                    "is not an absolute path"
                } else {
                    nil
                }
            if let reason { throw Problem(description: "\(unit): \(file): \(key)=\(path): \(reason)") }
            return path
        }
        throw Problem(description: "\(unit): no such unit in \(directories.joined(separator: ", "))")
    }

    /// The values of `ListenStream=` in the section `[Socket]`; an empty one forgets those before it.
    private static func addresses(in text: String) -> [String] {
        var addresses: [String] = []
        var (isSocket, continues) = (false, false)
        let text = text.hasPrefix("\u{FEFF}") ? text.dropFirst() : text[...]
        for line in text.split(whereSeparator: \.isNewline).map(trimmed) where !line.hasPrefix("#") && !line.hasPrefix(";") {
            let isContinuation = continues
            continues = line.hasSuffix("\\")
            if isContinuation { continue }
            if line.hasPrefix("[") { isSocket = line == "[Socket]" }
            guard isSocket, let equals = line.firstIndex(of: "="), trimmed(line[..<equals]) == key else { continue }
            let value = trimmed(line[line.index(after: equals)...])
            if value.isEmpty { addresses = [] } else { addresses.append(String(value)) }
        }
        return addresses
    }

    private static func trimmed(_ text: Substring) -> Substring {
        var text = text.drop(while: \.isWhitespace)
        while text.last?.isWhitespace == true { text.removeLast() }
        return text
    }
}
