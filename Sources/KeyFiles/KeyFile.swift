// SPDX-License-Identifier: Apache-2.0
// A key file (desktop-entry syntax), parsed by GLib. Problems have file, line and key. Unknown keys are errors, so that
// a typing mistake is reported.

internal import CGLib
internal import Glibc

/// A mistake in a key file.
public struct KeyFileProblem: Error, Hashable, Sendable, CustomStringConvertible {
    /// The path of the file.
    public let file: String
    /// 1…; 0 when it concerns the whole file.
    public let line: Int
    /// The key, or a section's name in brackets; empty when it concerns neither.
    public let key: String
    /// For the author of the file.
    public let reason: String

    /// - Parameters:
    ///   - line: 1…; 0 for the whole file.
    ///   - key: empty if it concerns none.
    public init(file: String, line: Int, key: String, reason: String) {
        self.file = file
        self.line = line
        self.key = key
        self.reason = reason
    }

    /// `file:line: key: reason`, without unknown parts.
    public var description: String {
        file + (line > 0 ? ":\(line)" : "") + ": " + (key.isEmpty ? "" : "\(key): ") + reason
    }
}

/// A parsed key file (Desktop Entry Specification, "Basic format of the file").
public final class KeyFile {
    /// The path in problems.
    public let path: String
    private let raw: OpaquePointer
    private let lines: [Substring]

    /// - Throws: if the file cannot be read or is not a key file.
    public convenience init(path: String) throws(KeyFileProblem) {
        var text: UnsafeMutablePointer<gchar>?
        var length: gsize = 0
        var failure: UnsafeMutablePointer<GError>?
        guard g_file_get_contents(path, &text, &length, &failure) != 0, let text else { throw Self.problem(path, &failure) }
        defer { g_free(text) }
        try self.init(
            contents: String(decoding: UnsafeRawBufferPointer(start: text, count: Int(length)), as: UTF8.self), path: path)
    }

    /// - Parameter path: for problems.
    /// - Throws: if this is not a key file.
    public init(contents: String, path: String) throws(KeyFileProblem) {
        self.path = path
        raw = g_key_file_new()
        lines = contents.split(separator: "\n", omittingEmptySubsequences: false)
        var failure: UnsafeMutablePointer<GError>?
        guard g_key_file_load_from_data(raw, contents, gsize(contents.utf8.count), GKeyFileFlags(rawValue: 0), &failure) != 0 else {
            var problem = Self.problem(path, &failure)
            // GLib quotes the invalid line, or fails at the first one that is not empty or a comment.
            let line =
                lines.firstIndex { !$0.isEmpty && strstr(problem.reason, "“\($0)”") != nil }
                ?? lines.firstIndex { line in line.trimmingSpaces.first.map { $0 != "#" } ?? false } ?? 0
            problem = KeyFileProblem(file: path, line: line + 1, key: "", reason: problem.reason)
            throw problem
        }
    }

    deinit {
        g_key_file_unref(raw)
    }

    private static func problem(_ path: String, _ failure: inout UnsafeMutablePointer<GError>?) -> KeyFileProblem {
        defer { g_clear_error(&failure) }
        let reason = failure.map { String(cString: $0.pointee.message) } ?? "cannot be read"
        return KeyFileProblem(file: path, line: 0, key: "", reason: reason)
    }

    /// The sections, in the order of the file.
    public var groups: [String] { strings(g_key_file_get_groups(raw, nil)) }

    /// Sections and keys that are not in `schema` (section → keys).
    public func unknown(besides schema: [String: Set<String>]) -> [KeyFileProblem] {
        var problems: [KeyFileProblem] = []
        for group in groups {
            guard let keys = schema[group] else {
                problems.append(
                    KeyFileProblem(file: path, line: line(of: "[\(group)]"), key: "[\(group)]", reason: "unknown section"))
                continue
            }
            for key in strings(g_key_file_get_keys(raw, group, nil, nil)) where !keys.contains(key) {
                problems.append(problem(group, key, "unknown key"))
            }
        }
        return problems
    }

    /// A problem of a key, with its line.
    public func problem(_ group: String, _ key: String, _ reason: String) -> KeyFileProblem {
        KeyFileProblem(file: path, line: line(of: key, in: group), key: key, reason: reason)
    }

    /// Whether a section has this key, also with an empty value.
    public func has(_ group: String, _ key: String) -> Bool { g_key_file_has_key(raw, group, key, nil) != 0 }

    /// The text of a key; nil if absent.
    public func string(_ group: String, _ key: String) throws(KeyFileProblem) -> String? {
        guard has(group, key) else { return nil }
        guard let text = g_key_file_get_string(raw, group, key, nil) else {
            throw problem(group, key, "not valid text")
        }
        defer { g_free(text) }
        return String(cString: text)
    }

    /// The list of a key, separated by `;`; empty if absent.
    public func list(_ group: String, _ key: String) throws(KeyFileProblem) -> [String] {
        guard has(group, key) else { return [] }
        guard let list = g_key_file_get_string_list(raw, group, key, nil, nil) else {
            throw problem(group, key, "not valid text")
        }
        return strings(list)
    }

    /// The whole number of a key; nil if absent.
    public func integer(_ group: String, _ key: String) throws(KeyFileProblem) -> Int? {
        guard let text = try string(group, key) else { return nil }
        guard let value = Int(text) else { throw problem(group, key, "\(text): not a whole number") }
        return value
    }

    private func strings(_ list: UnsafeMutablePointer<UnsafeMutablePointer<gchar>?>?) -> [String] {
        guard let list else { return [] }
        defer { g_strfreev(list) }
        var result: [String] = []
        var index = 0
        while let text = list[index] {
            result.append(String(cString: text))
            index += 1
        }
        return result
    }

    private func line(of header: String) -> Int {
        (lines.firstIndex { $0.trimmingSpaces == header } ?? -1) + 1
    }

    private func line(of key: String, in group: String) -> Int {
        var inside = false
        for (index, line) in lines.enumerated() {
            let text = line.trimmingSpaces
            if text.hasPrefix("[") { inside = text == "[\(group)]" }
            if inside, text.hasPrefix(key), text.dropFirst(key.count).first(where: { $0 != " " }) == "=" { return index + 1 }
        }
        return 0
    }
}

extension Substring {
    fileprivate var trimmingSpaces: Substring {
        var text = self
        while text.last?.isWhitespace == true { text.removeLast() }
        return text.drop(while: \.isWhitespace)
    }
}
