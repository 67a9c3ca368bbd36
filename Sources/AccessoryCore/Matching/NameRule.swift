// SPDX-License-Identifier: Apache-2.0
// The name rule of a descriptor: a substring of the advertised local name, compared as Foundation compares strings, because that is
// how the API defines its options.

internal import Foundation
public import AccessoryModel

/// A name substring and its compare options, ready to be applied.
public struct NameRule: Hashable, Sendable {
    private let substring: String
    private let options: CompareOptions

    /// Nil for a regular expression that does not compile.
    public init?(substring: String, options: CompareOptions) {
        if options.contains(.regularExpression) {
            guard (try? NSRegularExpression(pattern: substring)) != nil else { return nil }
        }
        self.substring = substring
        self.options = options
    }

    /// Whether the name fits. A regular expression that takes too long over it does not match it.
    public func matches(_ name: String) -> Bool { verdict(on: name) == true }

    /// How often a regular expression may report that it is still looking: each time is some 10,000 steps, a fraction of a millisecond. An
    /// honest one needs none; one that backtracks would keep the daemon busy for seconds.
    private static let reportsAllowed = 8

    /// Nil when a regular expression took too long to tell, which is no match.
    func verdict(on name: String) -> Bool? {
        if options.contains(.regularExpression) { return regularExpressionVerdict(on: name) }
        // The raw values are Foundation's own.
        let options = NSString.CompareOptions(rawValue: UInt(self.options.rawValue))
        return (name as NSString).range(of: substring, options: options).location != NSNotFound
    }

    /// As `NSString.range(of:options:)` does it, with an end.
    private func regularExpressionVerdict(on name: String) -> Bool? {
        let options = NSString.CompareOptions(rawValue: UInt(self.options.rawValue))
        guard
            let expression = try? NSRegularExpression(
                pattern: substring, options: options.contains(.caseInsensitive) ? .caseInsensitive : [])
        else { return false }
        var verdict: Bool? = false
        var reports = 0
        expression.enumerateMatches(
            in: name, options: options.contains(.anchored) ? [.reportProgress, .anchored] : .reportProgress,
            range: NSRange(location: 0, length: (name as NSString).length)
        ) { match, _, stop in
            if match != nil {
                verdict = true
                stop.pointee = true
            } else {
                reports += 1
                guard reports > Self.reportsAllowed else { return }
                verdict = nil
                stop.pointee = true
            }
        }
        return verdict
    }
}
