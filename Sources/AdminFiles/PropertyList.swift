// SPDX-License-Identifier: Apache-2.0
// A property list in XML (Apple's PropertyList-1.0.dtd), as far as an Info.plist's own keys need it: dictionaries,
// arrays, texts and numbers. GLib reads the markup.

internal import CGLib

/// A value of a property list.
indirect enum PropertyList: Hashable {
    case dictionary([String: PropertyList])
    case array([PropertyList])
    case text(String)
    case integer(Int)
    /// A date, data, a fraction or a truth value, which no key of ours has.
    case other(String)

    /// Nil for what is no property list in XML.
    init?(xml: [UInt8]) {
        let reader = PropertyListReader()
        guard reader.read(xml), let root = reader.root else { return nil }
        self = root
    }
}

/// Builds the values while GLib walks through the elements.
private final class PropertyListReader {
    /// An element that is open, with what it holds so far.
    private struct Level {
        let element: String
        var text = ""
        var values: [PropertyList] = []
        var keys: [String] = []
    }

    private(set) var root: PropertyList?
    private var levels: [Level] = []
    private static let deepest = 64

    /// Whether all of it is in order.
    func read(_ xml: [UInt8]) -> Bool {
        var parser = GMarkupParser()
        parser.start_element = { _, name, _, _, reader, failure in
            guard let name, let reader else { return }
            if !PropertyListReader.of(reader).begin(String(cString: name)) { PropertyListReader.stop(failure) }
        }
        parser.end_element = { _, _, reader, failure in
            guard let reader else { return }
            if !PropertyListReader.of(reader).end() { PropertyListReader.stop(failure) }
        }
        parser.text = { _, text, length, reader, _ in
            guard let text, let reader else { return }
            PropertyListReader.of(reader).add(
                String(decoding: UnsafeRawBufferPointer(start: text, count: Int(length)), as: UTF8.self))
        }
        let context = g_markup_parse_context_new(
            &parser, G_MARKUP_TREAT_CDATA_AS_TEXT, Unmanaged.passUnretained(self).toOpaque(), nil)
        defer { g_markup_parse_context_free(context) }
        return xml.withUnsafeBytes { bytes in
            let text = bytes.baseAddress?.assumingMemoryBound(to: gchar.self)
            return g_markup_parse_context_parse(context, text, gssize(bytes.count), nil) != 0
                && g_markup_parse_context_end_parse(context, nil) != 0
        }
    }

    private static func of(_ pointer: UnsafeMutableRawPointer) -> PropertyListReader {
        Unmanaged<PropertyListReader>.fromOpaque(pointer).takeUnretainedValue()
    }

    private static func stop(_ failure: UnsafeMutablePointer<UnsafeMutablePointer<GError>?>?) {
        g_set_error_literal(failure, g_markup_error_quark(), gint(G_MARKUP_ERROR_INVALID_CONTENT.rawValue), "no property list")
    }

    private func begin(_ element: String) -> Bool {
        levels.append(Level(element: element))
        return levels.count <= Self.deepest && (levels.count > 1) == (element != "plist")
    }

    private func add(_ text: String) {
        guard !levels.isEmpty else { return }
        levels[levels.count - 1].text += text
    }

    private func end() -> Bool {
        guard let level = levels.popLast() else { return false }
        let value: PropertyList
        switch level.element {
        case "plist":
            guard level.values.count == 1 else { return false }
            root = level.values[0]
            return true
        case "key":
            guard levels.last?.element == "dict", levels[levels.count - 1].keys.count == levels[levels.count - 1].values.count
            else { return false }
            levels[levels.count - 1].keys.append(level.text)
            return true
        case "dict":
            guard level.keys.count == level.values.count else { return false }
            value = .dictionary(Dictionary(zip(level.keys, level.values)) { _, last in last })
        case "array": value = .array(level.values)
        case "string": value = .text(level.text)
        case "integer":
            let digits = level.text.split(whereSeparator: \.isWhitespace).joined()
            guard let number = Int(digits) ?? (digits.hasPrefix("0x") ? Int(digits.dropFirst(2), radix: 16) : nil) else {
                return false
            }
            value = .integer(number)
        case "true", "false": value = .other(level.element)
        case "real", "date", "data": value = .other(level.text)
        default: return false
        }
        guard !levels.isEmpty else { return false }
        levels[levels.count - 1].values.append(value)
        return true
    }
}

extension PropertyList: CustomStringConvertible {
    var description: String {
        switch self {
        case .dictionary: "a dictionary"
        case .array: "an array"
        case .text(let text), .other(let text): text
        case .integer(let number): "\(number)"
        }
    }
}
