// SPDX-License-Identifier: Apache-2.0
// The name rule of a descriptor: a substring of the advertised local name, compared as Foundation compares strings,
// because that is how the API defines its options.

public import AccessoryModel

/// A name substring and its compare options, ready to be applied.
public struct NameRule: Hashable, Sendable {
    private enum Search: Sendable {
        case substring(SubstringSearch)
        case expression(RegularExpression)
    }

    private let substring: String
    private let options: CompareOptions
    private let search: Search

    /// Nil for a regular expression that does not compile.
    public init?(substring: String, options: CompareOptions) {
        if options.contains(.regularExpression) {
            guard let expression = RegularExpression(substring, options) else { return nil }
            search = .expression(expression)
        } else {
            search = .substring(SubstringSearch(substring, options))
        }
        self.substring = substring
        self.options = options
    }

    /// Whether the name fits. A regular expression that takes too long over it does not match it.
    public func matches(_ name: String) -> Bool { verdict(on: name) == true }

    /// Nil when a regular expression reached its limit, which is no match.
    func verdict(on name: String) -> Bool? {
        switch search {
        case .substring(let search): search.isFound(in: name)
        case .expression(let expression): expression.verdict(on: name)
        }
    }

    /// Rules are equal when they ask the same.
    public static func == (one: NameRule, other: NameRule) -> Bool {
        one.options == other.options && one.substring.utf8.elementsEqual(other.substring.utf8)
    }

    /// Hashes substring and options.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(options)
        for byte in substring.utf8 { hasher.combine(byte) }
    }
}
