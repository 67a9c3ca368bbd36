// SPDX-License-Identifier: Apache-2.0
// Match rules, as clients of the view ask for them: the parser takes the rules that dbus-daemon's own parser allows,
// and a rule can be held against any message.

import DBusKit

/// Messages of the kinds that clients get.
///
/// nonisolated(unsafe): they are read on one thread only.
nonisolated(unsafe) private let messages: [Message] = {
    let device: ObjectPath = "/org/bluez/hci0/dev_C0_FF_EE_00_00_01"
    do throws(BusError) {
        let all: [Message] = [
            try .signal(
                path: device, interface: "org.freedesktop.DBus.Properties", member: "PropertiesChanged",
                [.string("org.bluez.Device1"), .vardict(["RSSI": .int16(-50)]), .strings([])]),
            try .signal(
                path: "/", interface: "org.freedesktop.DBus.ObjectManager", member: "InterfacesAdded",
                [.objectPath(device), .dictionary(key: "s", value: "a{sv}", [])]),
            try .signal(
                path: "/org/freedesktop/DBus", interface: "org.freedesktop.DBus", member: "NameOwnerChanged",
                [.string("org.bluez"), .string(""), .string(":1.4")]),
            try .signal(path: "/a", interface: "a.b", member: "C", (0..<64).map { .string("/aa/b\($0)/") }),
        ]
        for message in all { message.setSender(":1.4") }
        return all
    } catch {
        found("\(error)")
    }
}()

func readMatchRule(_ bytes: UnsafeRawBufferPointer) {
    let text = String(decoding: bytes, as: UTF8.self)
    do throws(BusError) {
        let rule = try MatchRule(text)
        expect(text.utf8.count <= MatchRule.maxBytes, "a rule of \(text.utf8.count) bytes")
        let matching = messages.filter { rule.matches($0, from: [":1.4", "org.bluez"]) }
        // One more condition, that holds: the same.
        if !text.contains("type"), !text.isEmpty, text.utf8.count < MatchRule.maxBytes - 20, text.last != "\\" {
            if let narrower = try? MatchRule("type='signal'," + text) {
                let same = messages.filter { narrower.matches($0, from: [":1.4", "org.bluez"]) }
                expect(same.count == matching.count, "a rule that names the type as well takes others")
            }
        }
    } catch {
        expect(error.isStandard("MatchRuleInvalid"), "refused as something else: \(error)")
    }
}
