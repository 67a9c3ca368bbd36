// SPDX-License-Identifier: Apache-2.0
// The gateways that a signed document is for: the signature would else be as good on any other gateway.

internal import JSONText

/// Names, with `*` for any characters, and labels after `@`. A gateway is selected when one element fits.
public struct GatewaySelector: Hashable, Sendable, CustomStringConvertible {
    /// 1 to 256 elements.
    public let elements: [String]
    /// Separated by spaces.
    public var description: String { elements.joined(separator: " ") }

    /// - Throws: for an element that can fit no gateway.
    public init(_ elements: [String]) throws(FleetProblem) {
        guard (1...256).contains(elements.count) else {
            throw FleetProblem("gateways: must have 1 to 256 elements, not \(elements.count)")
        }
        for element in elements {
            // The stars stand for letters, of which a name begins with one.
            let name = element.hasPrefix("@") ? String(element.dropFirst()) : String(element.map { $0 == "*" ? "a" : $0 })
            guard FleetTopics.isName(name) else {
                throw FleetProblem("gateways: \(element): must be a name, with * for any characters, or a label after @")
            }
        }
        self.elements = elements
    }

    init(_ value: JSON) throws(FleetProblem) {
        guard let list = value.elements, case let texts = list.compactMap(\.string), texts.count == list.count else {
            throw FleetProblem("gateways: not a list of texts")
        }
        try self.init(texts)
    }

    /// Whether a gateway is selected.
    public func fits(_ gateway: String, labels: Set<String>) -> Bool {
        elements.contains { element in
            element.hasPrefix("@")
                ? labels.contains(String(element.dropFirst())) : Self.fits(Array(element.utf8), Array(gateway.utf8))
        }
    }

    /// A `*` that is tried again one byte later when the rest does not fit.
    private static func fits(_ pattern: [UInt8], _ text: [UInt8]) -> Bool {
        let star = UInt8(ascii: "*")
        var (p, t) = (0, 0)
        var retry: (pattern: Int, text: Int)?
        while t < text.count {
            if p < pattern.count, pattern[p] == star {
                retry = (p + 1, t)
                p += 1
            } else if p < pattern.count, pattern[p] == text[t] {
                (p, t) = (p + 1, t + 1)
            } else if let last = retry {
                (p, t) = (last.pattern, last.text + 1)
                retry = (last.pattern, t)
            } else {
                return false
            }
        }
        return pattern[p...].allSatisfy { $0 == star }
    }
}
