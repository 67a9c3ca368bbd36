// SPDX-License-Identifier: Apache-2.0
// The tables of the daemon's face, printed as Sources/cockpit/interfaces.js: the page reads each property and each key
// by its row.

import AccessoryBus
import DBusKit

func kind(_ shape: WireShape) -> String {
    switch shape {
    case .text: "text"
    case .truth: "truth"
    case .number: "number"
    case .texts: "texts"
    case .bytes: "bytes"
    case .dictionary: "dictionary"
    case .textsByName: "textsByName"
    case .seconds: "seconds"
    case .record(let name): "record \(name)"
    case .records(let name): "records \(name)"
    }
}

/// The value that counts where the daemon leaves a property out; only texts and numbers have one of their own.
func standIn(_ value: DBusValue?) -> String? {
    guard let value else { return nil }
    if let text = value.stringValue { return text.isEmpty ? nil : "\"\(text)\"" }
    return value.integerValue.flatMap { $0 == 0 ? nil : "\($0)" }
}

func printTables(_ name: String, _ tables: [(name: String, rows: [WireRow])]) {
    print("export const \(name) = {")
    for table in tables {
        print("    \(table.name): {")
        for row in table.rows {
            let words = kind(row.shape) + (row.isOptional && row.shape != .truth ? "?" : "")
            print("        \(row.name): [\"\(words)\"\(standIn(row.standIn).map { ", \($0)" } ?? "")],")
        }
        print("    },")
    }
    print("};")
}

print(
    """
    // SPDX-License-Identifier: Apache-2.0
    // The properties of the daemon's interfaces, the keys of its dictionaries and the types that its methods take. Made
    // by `make shapes` from Sources/AccessoryBus; a question mark stands for a value that may be missing.

    """)
printTables("PROPERTIES", AccessoryBus.properties)
print()
printTables("RECORDS", AccessoryBus.records)
print()
print("export const METHODS = {")
for name in AccessoryBus.properties.map(\.name) {
    for method in try AccessoryBus.description(of: "\(AccessoryBus.name).\(name)").methods {
        print("    \"\(name).\(method.name)\": \"\(method.inputSignature)\",")
    }
}
print("};")
