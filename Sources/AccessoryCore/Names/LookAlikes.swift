// SPDX-License-Identifier: Apache-2.0
// Names that a person confuses with other names: written with letters of other scripts, or with digits for letters. Two
// names with one skeleton (Unicode's UTS #39, section 4) look the same.

public import AccessoryModel
internal import CGLib

/// The names in use, by their skeletons.
public struct LookAlikes {
    /// The names with a skeleton, and whose they are: thousands of accessories may share one.
    private var names: [String: [String: Set<AccessoryID>]] = [:]
    /// Skeletons of texts that were asked for. Offers come twice a second, with the same texts.
    private var skeletons: [String: String] = [:]

    /// More texts than the offers of all pickers have at a time.
    private static let mostKept = 4 * Limits.offersShown

    /// No name is in use.
    public init() {}

    /// An accessory has a name from now on; nil takes its name away.
    public mutating func rename(_ id: AccessoryID, from old: String?, to new: String?) {
        if let old {
            let skeleton = Skeleton.of(old)
            names[skeleton]?[old]?.remove(id)
            if names[skeleton]?[old]?.isEmpty == true { names[skeleton]?[old] = nil }
            if names[skeleton]?.isEmpty == true { names[skeleton] = nil }
        }
        if let new { names[Skeleton.of(new), default: [:]][new, default: []].insert(id) }
    }

    /// The name in use that one of the texts looks like, without being it; nil for none. An accessory's own name does
    /// not count, and of several the first in alphabetical order.
    ///
    /// - Parameter texts: the texts that are shown for one accessory.
    public mutating func resembled(by texts: [String], of id: AccessoryID) -> String? {
        guard !names.isEmpty else { return nil }
        for text in texts {
            guard let alike = names[skeleton(text)] else { continue }
            // Texts that are canonically equivalent are equal to Swift.
            if let name = alike.lazy.filter({ $0.key != text && $0.value != [id] }).map(\.key).min() { return name }
        }
        return nil
    }

    private mutating func skeleton(_ text: String) -> String {
        if let cached = skeletons[text] { return cached }
        if skeletons.count >= Self.mostKept { skeletons = [:] }
        let skeleton = Skeleton.of(text)
        skeletons[text] = skeleton
        return skeleton
    }
}

/// The skeleton of a text.
enum Skeleton {
    /// The text in prototypes: each character, decomposed for compatibility, is the one that stands for all that look
    /// like it. Characters that are not seen are left out, and so are spaces at the ends and more than one between
    /// words. Case counts.
    static func of(_ text: String) -> String {
        var shown = String.UnicodeScalarView()
        var isBetween = false
        for scalar in decomposed(text).unicodeScalars where !scalar.properties.isDefaultIgnorableCodePoint {
            if scalar.properties.isWhitespace {
                isBetween = !shown.isEmpty
                continue
            }
            if isBetween { shown.append(" ") }
            isBetween = false
            if let prototype = prototypes[scalar] { shown += prototype.unicodeScalars } else { shown.append(scalar) }
        }
        return String(shown)
    }

    private static func decomposed(_ text: String) -> String {
        text.utf8.allSatisfy { $0 < 0x80 } ? text : Unicode.normalize(text, G_NORMALIZE_NFKD)
    }

    private static let prototypes: [Unicode.Scalar: String] = {
        var prototypes: [Unicode.Scalar: String] = [:]
        var prototype = ""
        for word in Confusables.text.split(whereSeparator: { $0 == " " || $0 == "\n" }) {
            if word.first == "=" {
                prototype = String(String.UnicodeScalarView(word.dropFirst().split(separator: "+").compactMap(scalar)))
            } else if let scalar = scalar(word) {
                prototypes[scalar] = prototype
            }
        }
        return prototypes
    }()

    private static func scalar(_ digits: Substring) -> Unicode.Scalar? { UInt32(digits, radix: 16).flatMap(Unicode.Scalar.init) }
}
