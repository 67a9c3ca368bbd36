// SPDX-License-Identifier: Apache-2.0
// A property list (Apple's PropertyList-1.0.dtd), as far as keys of an Info.plist need it: dictionaries, arrays, texts
// and numbers. XML in UTF-8 or UTF-16, parsed by GLib, or the binary form.

internal import CGLib

/// Why a file is not a property list.
struct PropertyListProblem: Error {
    /// For the admin.
    let reason: String

    init(_ reason: String) {
        self.reason = reason
    }
}

/// A value of a property list.
indirect enum PropertyList: Hashable {
    case dictionary([String: PropertyList])
    case array([PropertyList])
    case text(String)
    case integer(Int)
    /// A date, data, a fraction, a truth value or a number of more than 63 bits: no supported key has one.
    case other(String)

    /// The maximum depth of nested values.
    static let maxDepth = 64

    /// The root of a list in any of its forms.
    static func read(_ bytes: [UInt8]) throws(PropertyListProblem) -> PropertyList {
        if bytes.starts(with: BinaryPropertyList.magic) { return try BinaryPropertyList.read(bytes) }
        let xml: [UInt8] =
            switch (bytes.first, bytes.dropFirst().first) {
            case (0xEF, 0xBB): Array(bytes.dropFirst(3))
            case (0xFE, 0xFF): Array(text(utf16: Array(bytes.dropFirst(2)), isBigEndian: true).utf8)
            case (0xFF, 0xFE): Array(text(utf16: Array(bytes.dropFirst(2)), isBigEndian: false).utf8)
            // Without a byte order mark, by the first “<”.
            case (0x00, UInt8(ascii: "<")): Array(text(utf16: bytes, isBigEndian: true).utf8)
            case (UInt8(ascii: "<"), 0x00): Array(text(utf16: bytes, isBigEndian: false).utf8)
            default: bytes
            }
        return try PropertyListReader().read(xml)
    }

    /// Invalid code units become U+FFFD.
    static func text(utf16 bytes: [UInt8], isBigEndian: Bool) -> String {
        let units = stride(from: 0, to: bytes.count - 1, by: 2).map { at in
            let (first, second) = (UInt16(bytes[at]), UInt16(bytes[at + 1]))
            return isBigEndian ? first << 8 | second : second << 8 | first
        }
        return String(decoding: units, as: UTF16.self)
    }
}

/// Builds the values while GLib walks through the elements.
private final class PropertyListReader {
    /// An open element, with its content so far.
    private struct Level {
        let element: String
        var text = ""
        var values: [PropertyList] = []
        var keys: [String] = []
    }

    private var root: PropertyList?
    private var levels: [Level] = []
    /// Why the last element is invalid.
    private var problem: String?

    func read(_ xml: [UInt8]) throws(PropertyListProblem) -> PropertyList {
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
        var failure: UnsafeMutablePointer<GError>?
        let isRead = xml.withUnsafeBytes { bytes in
            let text = bytes.baseAddress?.assumingMemoryBound(to: gchar.self)
            return g_markup_parse_context_parse(context, text, gssize(bytes.count), &failure) != 0
                && g_markup_parse_context_end_parse(context, &failure) != 0
        }
        defer { g_clear_error(&failure) }
        if isRead, let root { return root }
        var line: gint = 0
        g_markup_parse_context_get_position(context, &line, nil)
        let message = failure.map { String(cString: $0.pointee.message) } ?? "it is empty"
        throw PropertyListProblem("line \(line): \(problem ?? message)")
    }

    private static func of(_ pointer: UnsafeMutableRawPointer) -> PropertyListReader {
        Unmanaged<PropertyListReader>.fromOpaque(pointer).takeUnretainedValue()
    }

    private static func stop(_ failure: UnsafeMutablePointer<UnsafeMutablePointer<GError>?>?) {
        g_set_error_literal(failure, g_markup_error_quark(), gint(G_MARKUP_ERROR_INVALID_CONTENT.rawValue), "not a property list")
    }

    private func refuse(_ reason: String) -> Bool {
        problem = reason
        return false
    }

    private func begin(_ element: String) -> Bool {
        levels.append(Level(element: element))
        guard levels.count <= PropertyList.maxDepth else { return refuse("<\(element)> is nested too deeply") }
        return (levels.count > 1) == (element != "plist")
            || refuse("<\(element)> is out of place: the outermost element is <plist>")
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
            guard level.values.count == 1 else { return refuse("<plist> has \(level.values.count) values instead of one") }
            root = level.values[0]
            return true
        case "key":
            guard levels.last?.element == "dict", levels[levels.count - 1].keys.count == levels[levels.count - 1].values.count
            else { return refuse("<key>\(level.text)</key> is out of place") }
            levels[levels.count - 1].keys.append(level.text)
            return true
        case "dict":
            guard level.keys.count == level.values.count else {
                return refuse("<dict> has keys without values, or values without keys")
            }
            value = .dictionary(Dictionary(zip(level.keys, level.values)) { _, last in last })
        case "array": value = .array(level.values)
        case "string": value = .text(level.text)
        case "integer":
            let digits = level.text.split(whereSeparator: \.isWhitespace).joined()
            let isHexadecimal = digits.lowercased().hasPrefix("0x")
            let bare = isHexadecimal ? String(digits.dropFirst(2)) : digits
            if let number = Int(bare, radix: isHexadecimal ? 16 : 10) {
                value = .integer(number)
            } else if UInt64(bare, radix: isHexadecimal ? 16 : 10) != nil {
                value = .other(digits)
            } else {
                return refuse("<integer>\(level.text)</integer> is not a number")
            }
        case "true", "false": value = .other(level.element)
        case "real", "date", "data": value = .other(level.text)
        default: return refuse("<\(level.element)> is not an element of a property list")
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
