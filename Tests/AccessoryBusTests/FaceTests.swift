// SPDX-License-Identifier: Apache-2.0
// The tables of the daemon's face against the XML, and against themselves: each property and each key has its row, with
// the type, the readers and the signal of the XML; and a value that was encoded is decoded to the same.

import AccessoryBus
import AccessoryModel
import DBusKit
import Foundation
import TestSupport
import Testing

@Suite struct FaceTests {
    @Test func everyPropertyHasItsRow() throws {
        for (name, rows) in AccessoryBus.properties {
            let described = try AccessoryBus.description(of: "\(AccessoryBus.name).\(name)").properties
            func lines(_ each: some Sequence<(String, Signature, String)>) -> [String] { each.map { "\($0)" }.sorted() }
            #expect(
                lines(rows.map { ($0.name, $0.signature, $0.signal.rawValue) })
                    == lines(described.map { ($0.name, $0.type, $0.emitsChanged) }), "\(name)")
        }
        let interfaces = try Set(
            FileManager.default.contentsOfDirectory(atPath: Self.folder).filter { name in
                try String(contentsOfFile: "\(Self.folder)/\(name)", encoding: .utf8).contains("<property")
            })
        // The view's interface has one property, and another server (BlueZView).
        let known = AccessoryBus.properties.map { "\(AccessoryBus.name).\($0.name).xml" } + ["org.accessorysetup1.View.xml"]
        #expect(interfaces == Set(known))
    }

    /// The XML says “Admins only” of a property, or of its interface; “Persons only” where those who set it up
    /// see it too.
    @Test func theReadersAreThoseOfTheXML() throws {
        for (name, rows) in AccessoryBus.properties {
            let text = try String(contentsOfFile: "\(Self.folder)/\(AccessoryBus.name).\(name).xml", encoding: .utf8)
            let head = text[..<(text.range(of: "<interface")?.lowerBound ?? text.startIndex)]
            for row in rows {
                let property = try #require(text.range(of: "<property name=\"\(row.name)\""), "\(name).\(row.name)")
                let before = text[..<property.lowerBound].trimmingCharacters(in: .whitespacesAndNewlines)
                let comment = before.hasSuffix("-->") ? before[before.range(of: "<!--", options: .backwards)!.lowerBound...] : ""
                let isForAdmins = head.contains("Admins only") || comment.contains("Admins only")
                #expect((row.reader == .admins) == isForAdmins, "\(name).\(row.name)")
                #expect((row.reader == .persons) == comment.contains("Persons only"), "\(name).\(row.name)")
                #expect((row.reader == .pickerPrograms) == comment.contains("For picker programs"), "\(name).\(row.name)")
            }
        }
    }

    /// The comments of the XML name each key with its type.
    @Test func everyKeyIsInTheXML() throws {
        let text = try FileManager.default.contentsOfDirectory(atPath: Self.folder).map {
            try String(contentsOfFile: "\(Self.folder)/\($0)", encoding: .utf8)
        }.joined(separator: "\n")
        for (name, rows) in AccessoryBus.records {
            for row in rows { #expect(text.contains("\(row.name) \(row.signature)"), "\(name).\(row.name)") }
        }
    }

    /// Keys of requests have no place in the XML; the documents name each.
    @Test func everyKeyOfARequestIsInTheDocuments() throws {
        let folder = "\(Programs.repository)/Docs/Interfaces"
        let text = try FileManager.default.contentsOfDirectory(atPath: folder).map {
            try String(contentsOfFile: "\(folder)/\($0)", encoding: .utf8)
        }.joined(separator: "\n")
        for (name, rows) in AccessoryBus.requests {
            for row in rows {
                let key = row.name.hasSuffix("DataMask") ? "\(row.name.dropLast(4))Blob`, `…Mask" : row.name
                #expect(text.contains("`\(key)`"), "\(name).\(row.name)")
            }
        }
    }

    @Test func decodingIsTheInverseOfEncoding() throws {
        try check(GrantProperties.self)
        try check(AccessoryProperties.self)
        try check(NetworkProperties.self)
        try check(AppProperties.self)
        try check(ManagerProperties.self)
        try check(SessionProperties.self)
        try check(PickerProperties.self)
        try check(AdminProperties.self)
        try check(PickerOffer.self)
        try check(MutedAppEntry.self)
        try check(HeardDeviceEntry.self)
        try check(PickerPrompt.self)
        try check(AuditLine.self)
        try check(ExplainedDeviceEntry.self)
        try check(AccessExplanation.self)
        try check(ClaimListEntry.self)
        try check(ClaimReport.self)
        try check(ClaimReport.Entry.self)
        try check(AdvertisementEntry.self)
        try check(EventDetails.self)
        try check(ItemKeys.self)
        try check(DiscoveredItemKeys.self)
        try check(EndpointKeys.self)
        try check(ReportedItemKeys.self)
        try check(DescriptorKeys.self)
        try check(PickerSettings.self)
        try check(AuthorizationKeys.self)
        try check(RenameOptions.self)
        try check(RenewalOptions.self)
        try check(PickChoice.self)
        try check(JoinOptions.self)
        try check(PickerCapabilities.self)
        try check(AnswerKeys.self)
    }

    /// Each row alone changes the value, is the one change, and survives encoding and decoding.
    private func check<Record: WireRecord>(_ type: Record.Type) throws {
        for row in Record.table.rows {
            let value = try #require(sample(of: row), "\(Record.recordName).\(row.name): no sample of \(row.signature)")
            let record = Record(wire: [row.name: value])
            #expect(record != Record(), "\(Record.recordName).\(row.name)")
            #expect(Record.table.encode(row.name, of: record) == value, "\(Record.recordName).\(row.name)")
            #expect(
                Record.table.changes(from: Record(), to: record) == (row.signal == .whenChanged ? [row.name] : []),
                "\(Record.recordName).\(row.name)")
            // A value of another type leaves the field as it is.
            #expect(Record(wire: [row.name: .structure([.byte(1)])]) == Record(), "\(Record.recordName).\(row.name)")
        }
        #expect(Record(wire: ["strange": .string("x")]) == Record())
    }

    private func sample(of row: WireRow) -> DBusValue? {
        switch row.shape {
        case .record(let name): record(name).map { .vardict($0) }
        case .records(let name): record(name).map { .array(of: "a{sv}", [.vardict($0)]) }
        default:
            switch row.signature {
            case "s": .string(Self.words[row.name] ?? "x")
            case "b": .boolean(true)
            case "o": .objectPath("/x")
            case "ao": .objectPaths(["/x"])
            case "as": .strings([Self.words[row.name] ?? "x"])
            case "(sas)": .structure([.string("x"), .strings([])])
            case "a(ssuas)":
                .array(
                    of: "(ssuas)",
                    [
                        .structure([
                            .string("0000180f-0000-1000-8000-00805f9b34fb"), .string("00002a19-0000-1000-8000-00805f9b34fb"),
                            .uint32(2), .strings(["read"]),
                        ])
                    ])
            case "d": .double(7)
            case "ay": .bytes([1])
            case "n": .int16(-7)
            case "q": .uint16(7)
            case "u": .uint32(7)
            case "t": .uint64(7)
            case "x": .int64(7)
            case "a{sv}": .vardict(["x": .string("y")])
            case "a{sas}": .dictionary(key: "s", value: "as", [.init(.string("x"), .strings(["y"]))])
            case "a{say}": .dictionary(key: "s", value: "ay", [.init(.string("x"), .bytes([1]))])
            case "a{qay}": .dictionary(key: "q", value: "ay", [.init(.uint16(1), .bytes([1]))])
            default: nil
            }
        }
    }

    /// Values of the rows that do not take any text.
    private static let words = [
        "State": "authorized", "reason": "advert", "security": "wpa2", "band": "5 GHz", "bluetoothServiceUUID": "180F",
        "bluetoothRange": "immediate", "access": "read", "Access": "read",
        "wifiAwareServiceRole": "publisher", "bluetoothNameSubstringCompareOptions": "literal", "supportedOptions": "bluetoothHID",
        "setupOptions": "rename", "end": "8h", "endChoices": "none", "renameOptions": "ssid", "options": "filterDiscoveryResults",
        "passphrase": "12345678",
    ]

    /// The rows that a record always has, and one more.
    private func record(_ name: String) -> [String: DBusValue]? {
        let tables = AccessoryBus.records + AccessoryBus.properties + AccessoryBus.requests
        guard let rows = tables.first(where: { $0.name == name })?.rows else {
            return nil
        }
        var values: [String: DBusValue] = [:]
        for row in rows where row.reader == .whoeverSeesIt { values[row.name] = row.standIn }
        if let row = rows.first(where: { $0.reader == .whoeverSeesIt && $0.signature == "s" }) {
            values[row.name] = sample(of: row)
        }
        return values
    }

    private static let folder = "\(Programs.repository)/Sources/AccessoryBus/Interfaces"
}
