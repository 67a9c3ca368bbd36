// SPDX-License-Identifier: Apache-2.0
// An item of a picker as one argument of `accessoryctl ask`: keys and values from a shell, with the types that the
// session API has for them. The daemon judges the values.

internal import AccessoryBus
internal import AccessoryModel
internal import DBusKit
internal import SystemFiles

/// `KEY=VALUE[,KEY=VALUE]…`; `\,` and `\\` stand for the character.
struct ItemArgument {
    /// For `ShowPicker`.
    let item: DBusValue
    /// The item's descriptor.
    let descriptor: DBusValue

    struct Problem: Error, CustomStringConvertible {
        let description: String
    }

    private static let itemRows = rows(ItemKeys.self) {
        ["name", "productImage", "setupOptions", "end", "endChoices"].contains($0.name)
    }
    // A structure has no form here.
    private static let descriptorRows = rows(DescriptorKeys.self) { $0.signature != "(sas)" }

    private static func rows<Record: WireRecord>(_ type: Record.Type, _ isPossible: (WireRow) -> Bool) -> [String: WireRow] {
        Dictionary(uniqueKeysWithValues: Record.table.rows.filter(isPossible).map { ($0.name, $0) })
    }

    init(_ text: String) throws(Problem) {
        var item: [String: DBusValue] = [:]
        var descriptor: [String: DBusValue] = [:]
        for part in Self.split(text) {
            guard let equals = part.firstIndex(of: "="), equals > part.startIndex else {
                throw Problem(description: "\(part): is not KEY=VALUE")
            }
            let (key, value) = (String(part[..<equals]), String(part[part.index(after: equals)...]))
            guard item[key] == nil, descriptor[key] == nil else { throw Problem(description: "\(key): given twice") }
            if let row = Self.itemRows[key] {
                item[key] = try Self.value(value, row)
            } else if let row = Self.descriptorRows[key] {
                descriptor[key] = try Self.value(value, row)
            } else {
                let keys = (Array(Self.itemRows.keys) + Self.descriptorRows.keys).sorted().joined(separator: ", ")
                throw Problem(description: "\(key): must be one of \(keys)")
            }
        }
        // An app that is to confirm, or to finish, must be a program of its own.
        for option in item["setupOptions"]?.stringsValue ?? [] where option != "rename" {
            throw Problem(description: "setupOptions: \(option): only rename is possible here")
        }
        self.descriptor = .vardict(descriptor)
        item["descriptor"] = self.descriptor
        self.item = .vardict(item)
    }

    private static func split(_ text: String) -> [String] {
        var parts = [""]
        var isEscaped = false
        for character in text {
            switch character {
            case "\\" where !isEscaped:
                isEscaped = true
                continue
            case "," where !isEscaped: parts.append("")
            default: parts[parts.count - 1].append(character)
            }
            isEscaped = false
        }
        return parts
    }

    private static func value(_ text: String, _ row: WireRow) throws(Problem) -> DBusValue {
        let key = row.name
        switch row.shape {
        // `SERVICE/CHARACTERISTIC[#INSTANCE]:USE[+USE]…;…`.
        case .texts where key == "characteristics":
            var keys = DescriptorKeys()
            for entry in text.split(separator: ";", omittingEmptySubsequences: false) {
                guard let access = CharacteristicAccess(String(entry)) else {
                    throw Problem(
                        description:
                            "\(key): \(entry): must be SERVICE/CHARACTERISTIC[#INSTANCE]:USE[+USE]…, with the uses read, write and listen"
                    )
                }
                keys.characteristics.append(access)
            }
            return keys.wire.vardictValue?[key] ?? .strings([])
        // `WORD+WORD`.
        case .texts: return .strings(text.split(separator: "+", omittingEmptySubsequences: false).map(String.init))
        case .number:
            let isHexadecimal = text.lowercased().hasPrefix("0x")
            guard let number = isHexadecimal ? UInt64(text.dropFirst(2), radix: 16) : UInt64(text) else {
                throw Problem(description: "\(key): \(text): is not a number")
            }
            return .uint64(number)
        case .bytes where key == "productImage":
            do {
                return .bytes(try SystemFile.contents(text, limit: Limits.imageBytes))
            } catch {
                throw Problem(description: "\(key): \(error)")
            }
        case .bytes:
            var bytes: [UInt8] = []
            var rest = Substring(text)
            while !rest.isEmpty {
                guard rest.count >= 2, let byte = UInt8(rest.prefix(2), radix: 16), !rest.hasPrefix("+") else {
                    throw Problem(description: "\(key): \(text): must be hexadecimal, two digits per byte")
                }
                bytes.append(byte)
                rest = rest.dropFirst(2)
            }
            return .bytes(bytes)
        default: return .string(text)
        }
    }
}
