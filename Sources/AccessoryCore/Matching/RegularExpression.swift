// SPDX-License-Identifier: Apache-2.0
// A regular expression over names, in PCRE2's syntax, run by GLib within limits: patterns come from apps and names from
// strangers, and some pairs would keep a backtracking matcher busy for years.

internal import AccessoryModel
internal import CGLib

/// A compiled expression.
///
/// `@unchecked Sendable`: it does not change after `init`, and GLib documents a `GRegex` as immutable and usable from
/// several threads at once. It is compiled without `G_REGEX_OPTIMIZE`, which would compile machine code at the first
/// match, with a stack of its own.
final class RegularExpression: @unchecked Sendable {
    private let compiled: OpaquePointer

    /// Steps of the matcher over one name. Typical expressions need hundreds; the worst take milliseconds for
    /// this number.
    private static let maxSteps = 50_000
    /// KiB for the places that the matcher may return to.
    private static let maxMemory = 4096

    /// Nil for a pattern that does not compile.
    init?(_ pattern: String, _ options: CompareOptions) {
        let flags = GRegexCompileFlags(options.contains(.caseInsensitive) ? G_REGEX_CASELESS.rawValue : 0)
        // The pattern must compile by itself too: “a)|(b” would within a group.
        guard !pattern.isEmpty, !Self.isAmbiguous(pattern), let alone = g_regex_new(pattern, flags, GRegexMatchFlags(0), nil)
        else { return nil }
        g_regex_unref(alone)
        // PCRE2 counts steps anew at each place where a match may begin, so the search for that place is part of
        // the pattern. Settings at the beginning of an app's pattern (“(*LIMIT_MATCH=…)”) do not compile within a
        // group.
        let search = options.contains(.anchored) ? "" : "(?s:.*?)"
        let limits = "(*LIMIT_MATCH=\(Self.maxSteps))(*LIMIT_DEPTH=\(Self.maxSteps))(*LIMIT_HEAP=\(Self.maxMemory))"
        // “\E” ends a quotation that the pattern leaves open, and a line end ends a comment.
        for end in ["\\E", "\n"] {
            let bounded = "\(limits)\\A\(search)(?:\(pattern)\(end))"
            if let compiled = g_regex_new(bounded, flags, GRegexMatchFlags(0), nil) {
                self.compiled = compiled
                return
            }
        }
        return nil
    }

    deinit {
        g_regex_unref(compiled)
    }

    /// Whether the name has a match; nil when a limit was reached before the answer.
    func verdict(on name: String) -> Bool? {
        var failure: UnsafeMutablePointer<GError>?
        let isFound = name.withCString {
            g_regex_match_full(compiled, $0, gssize(name.utf8.count), 0, GRegexMatchFlags(0), nil, &failure) != 0
        }
        guard failure == nil else {
            g_clear_error(&failure)
            return nil
        }
        return isFound
    }

    /// Whether PCRE2 would misread the pattern without an error: `\C` is a single byte there, undefined within a
    /// character, and sets in sets and their intersection (`[a-z&&[aeiou]]`), which Apple's platforms have, are single
    /// characters.
    private static func isAmbiguous(_ pattern: String) -> Bool {
        var rest = Array(pattern.utf8)[...]
        var isInClass = false
        func skip(_ text: StaticString) -> Bool {
            let text = UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
            guard rest.starts(with: text) else { return false }
            rest = rest.dropFirst(text.count)
            return true
        }
        while !rest.isEmpty {
            if skip("\\") {
                if skip("C") { return true }
                rest = rest.dropFirst()
            } else if !isInClass, skip("[") {
                isInClass = true
                _ = skip("^")
                _ = skip("]")
            } else if isInClass, skip("[:") {
                while !rest.isEmpty, !skip(":]") { rest = rest.dropFirst() }
            } else if isInClass, skip("[") || skip("&&") {
                return true
            } else if skip("]") {
                isInClass = false
            } else {
                rest = rest.dropFirst()
            }
        }
        return false
    }
}
