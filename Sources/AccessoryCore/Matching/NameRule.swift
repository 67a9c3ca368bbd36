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

    public func matches(_ name: String) -> Bool {
        // The raw values are Foundation's own.
        let options = NSString.CompareOptions(rawValue: UInt(self.options.rawValue))
        return (name as NSString).range(of: substring, options: options).location != NSNotFound
    }
}
