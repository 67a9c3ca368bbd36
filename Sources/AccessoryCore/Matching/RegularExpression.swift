// SPDX-License-Identifier: Apache-2.0
// A regular expression over names, run by GLib (PCRE2) with an end: patterns come from apps and names from strangers,
// and some pairs of them would keep a backtracking matcher busy for years.

internal import AccessoryModel
internal import CGLib

/// A compiled expression in ICU's syntax.
///
/// `@unchecked Sendable`: it is never changed after `init`, and GLib documents a `GRegex` as immutable and usable from
/// several threads at once. It is compiled without `G_REGEX_OPTIMIZE`, which would make code at the first match.
final class RegularExpression: @unchecked Sendable {
    private let compiled: OpaquePointer

    /// Steps of the matcher over one name. An honest expression needs hundreds; the worst takes some milliseconds for
    /// all of them.
    private static let steps = 50_000
    /// KiB that a search may remember to come back to.
    private static let memory = 4096

    /// Nil for one that does not compile, or has what only other dialects read the same way (`PatternTranslation`).
    init?(_ pattern: String, _ options: CompareOptions) {
        let ignoresCase = options.contains(.caseInsensitive)
        guard let translated = PatternTranslation.pcre(pattern, ignoresCase: ignoresCase) else { return nil }
        // The search for the beginning is part of the pattern, so that the limit is one for all beginnings together.
        let search = options.contains(.anchored) ? "" : "(?s:.*?)"
        let limits = "(*LIMIT_MATCH=\(Self.steps))(*LIMIT_DEPTH=\(Self.steps))(*LIMIT_HEAP=\(Self.memory))"
        var flags = G_REGEX_ANCHORED.rawValue
        if ignoresCase { flags |= G_REGEX_CASELESS.rawValue }
        guard
            let compiled = g_regex_new(
                "\(limits)\(search)(?:\(translated))", GRegexCompileFlags(flags), GRegexMatchFlags(0), nil)
        else { return nil }
        self.compiled = compiled
    }

    deinit {
        g_regex_unref(compiled)
    }

    /// Whether it is found in the name; nil when that took too long to tell.
    func verdict(on name: String) -> Bool? {
        // PCRE2 reports a limit that was reached, and nothing else that text can bring about.
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
}
