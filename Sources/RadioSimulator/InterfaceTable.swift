// SPDX-License-Identifier: Apache-2.0
// Interfaces of simulated services in a short notation. A line without indentation names an interface; its members
// follow, one on each line: `Method(type, type) -> type`, `signal Name(type)`, `Property: type` or `Property: type rw`.

internal import DBusKit

enum InterfaceTable {
    /// The interfaces by name.
    static func load(_ table: String) throws(BusError) -> [String: InterfaceDescription] {
        var xml = ""
        for line in table.split(separator: "\n") {
            if line.first == " " {
                xml += member(line.drop { $0 == " " })
            } else {
                xml += (xml.isEmpty ? "<node>" : "</interface>") + "<interface name=\"\(line)\">"
            }
        }
        var result: [String: InterfaceDescription] = [:]
        for description in try InterfaceDescription.parse(xml: xml + "</interface></node>") {
            result[description.name] = description
        }
        return result
    }

    private static func member(_ line: Substring) -> String {
        guard let open = line.firstIndex(of: "("), let close = line.lastIndex(of: ")") else {
            let words = line.split(separator: " ")
            let access = words.last == "rw" ? "readwrite" : "read"
            return "<property name=\"\(words[0].dropLast())\" type=\"\(words[1])\" access=\"\(access)\"/>"
        }
        // A type can contain parentheses, after the arrow only.
        let end = line.firstIndex(of: "-").map { line.index($0, offsetBy: -2) } ?? close
        let inputs = line[line.index(after: open)..<end]
        let head = line[..<open].split(separator: " ")
        if head.count == 2 { return "<signal name=\"\(head[1])\">\(arguments(inputs, nil))</signal>" }
        let outputs = line[line.index(after: end)...].drop { " ->".contains($0) }
        return "<method name=\"\(head[0])\">\(arguments(inputs, "in"))\(arguments(outputs, "out"))</method>"
    }

    private static func arguments(_ types: Substring, _ direction: String?) -> String {
        types.split { ", ".contains($0) }.enumerated().map { index, type in
            "<arg name=\"\(direction ?? "value")\(index)\" type=\"\(type)\"" + (direction.map { " direction=\"\($0)\"/>" } ?? "/>")
        }.joined()
    }
}
