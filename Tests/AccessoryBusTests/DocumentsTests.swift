// SPDX-License-Identifier: Apache-2.0
// The documents of the interface against the XML and the model: each member, error and event has its line, with names
// and types, and there is no line besides.

import AccessoryBus
import AccessoryModel
import DBusKit
import Foundation
import TestSupport
import Testing

/// A document of Docs/Interfaces.
private struct Document {
    let lines: [Substring]

    init(_ name: String) throws {
        let text = try String(contentsOfFile: "\(Programs.repository)/Docs/Interfaces/\(name).md", encoding: .utf8)
        lines = text.split(separator: "\n", omittingEmptySubsequences: false)
    }

    /// The rows, as their cells, of tables with this first heading.
    func rows(of heading: String) -> [[String]] {
        var result: [[String]] = []
        var isInside = false
        for (index, line) in lines.enumerated() {
            guard line.hasPrefix("|") else {
                isInside = false
                continue
            }
            let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            if index + 1 < lines.count, lines[index + 1].hasPrefix("| ---") {
                isInside = cells.first == heading
            } else if isInside, !line.hasPrefix("| ---") {
                result.append(cells)
            }
        }
        return result
    }

    /// The texts between backquotes.
    static func words(_ text: String) -> [String] { text.matches(of: /`([^`]+)`/).map { String($0.1) } }
}

@Suite struct DocumentsTests {
    @Test(arguments: [
        AccessoryBus.manager, AccessoryBus.session, AccessoryBus.accessory, AccessoryBus.network, AccessoryBus.picker,
        AccessoryBus.grant, AccessoryBus.app, AccessoryBus.admin, AccessoryBus.view,
    ])
    func everyMemberHasItsLine(interface: String) throws {
        let description = try AccessoryBus.description(of: interface)
        let document = try Document(String(try #require(interface.split(separator: ".").last)))
        #expect(document.lines.first?.hasPrefix("# \(interface) — `") == true)

        func list(_ arguments: [InterfaceDescription.Argument]) -> String {
            arguments.map { "\($0.type) \($0.name)" }.joined(separator: ", ")
        }
        let methods = description.methods.map { method in
            "\(method.name)(\(list(method.inputs)))" + (method.outputs.isEmpty ? "" : " → \(list(method.outputs))")
        }
        #expect(document.rows(of: "method").flatMap { Document.words($0[0]) }.sorted() == methods.sorted())

        let properties = description.properties.map { "`\($0.name)` \($0.type)\($0.isWritable ? ", writable" : "")" }
        let told = document.rows(of: "property").flatMap { row in
            row[0].matches(of: /`\w+` [a-z{}()]+(, writable)?/).map { String($0.0) }
        }
        #expect(told.sorted() == properties.sorted())

        let signals = description.signals.map { "## `\($0.name)(\(list($0.arguments)))`" }
        #expect(document.lines.filter { $0.hasPrefix("## `") }.map(String.init).sorted() == signals.sorted())
    }

    @Test func everyErrorHasItsLine() throws {
        let rows = try Document("README").rows(of: "name").map { "\(Document.words($0[0])) \($0[1])" }
        #expect(rows.sorted() == SetupError.Code.allCases.map { "\([$0.busName]) \($0.rawValue)" }.sorted())
    }

    @Test func everyEventHasItsLine() throws {
        let told = try Document("Session").rows(of: "type").flatMap { Document.words($0[0]) }
        // `unknown` stands for a newer event in an older app, and is never sent.
        #expect(told.sorted() == SessionEventType.allCases.filter { $0 != .unknown }.map(\.name).sorted())
    }

    @Test func everyObjectHasItsLine() throws {
        let told = try Document("README").rows(of: "object").flatMap { row in
            row[1].matches(of: /\[(\w+)\]\((\w+)\.md\)/).map { match in
                #expect(match.1 == match.2)
                return String(match.1)
            }
        }
        let files = try FileManager.default.contentsOfDirectory(atPath: "\(Programs.repository)/Sources/AccessoryBus/Interfaces")
        #expect(told.sorted() == files.compactMap { $0.split(separator: ".").dropLast().last.map(String.init) }.sorted())
    }
}
