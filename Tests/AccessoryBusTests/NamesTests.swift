// SPDX-License-Identifier: Apache-2.0
// Paths, identifiers, errors and interfaces: each name leads back to the object that it names, and to nothing else.

import AccessoryBus
import AccessoryModel
import DBusKit
import Testing

@Suite struct NamesTests {
    private let id = AccessoryID("7F3C9A52-1111-4222-8333-444455556666")!

    @Test func paths() {
        #expect(AccessoryBus.sessionPath(1) == "/org/accessorysetup1/session/1")
        #expect(AccessoryBus.pickerPath(2) == "/org/accessorysetup1/picker/2")
        #expect(AccessoryBus.grantPath(.max) == "/org/accessorysetup1/grant/9223372036854775807")
        #expect(AccessoryBus.accessoryPath(id) == "/org/accessorysetup1/accessory/7F3C9A52_1111_4222_8333_444455556666")
        for path in [AccessoryBus.sessionPath(1), AccessoryBus.adminPath, AccessoryBus.accessoryPath(id)] {
            #expect(path.isBelow(AccessoryBus.root))
        }
    }

    @Test func anAccessorysPathLeadsBackToIt() {
        for id in [id] + (0..<100).map({ _ in AccessoryID.random() }) {
            #expect(AccessoryBus.accessoryID(at: AccessoryBus.accessoryPath(id)) == id)
        }
        for path: ObjectPath in [
            "/", AccessoryBus.root, AccessoryBus.adminPath, AccessoryBus.sessionPath(1), "/org/accessorysetup1/accessory",
            "/org/accessorysetup1/accessory/1", "/org/accessorysetup1/accessory/7F3C9A52111142228333444455556666",
            "/org/accessorysetup1/accessory/7F3C9A52_1111_4222_8333_444455556666/x",
            "/org/accessorysetup1/grant/7F3C9A52_1111_4222_8333_444455556666",
        ] { #expect(AccessoryBus.accessoryID(at: path) == nil, "\(path)") }
    }

    /// Whatever a manifest's file is called, its path is one, and no other's.
    @Test func appsHavePathsOfTheirOwn() {
        let names = [
            "com.example.dice", "com_example_dice", "com-example-dice", "com.example.dice2", "COM.EXAMPLE.DICE", "", "_", "_2e",
            ".",
            "é", "🎲", "com_2eexample", "a b", "a/b",
        ]
        let paths = names.map(AccessoryBus.appPath)
        #expect(Set(paths).count == names.count)
        for path in paths { #expect(path.rawValue.split(separator: "/").count == 4, "\(path)") }
        #expect(AccessoryBus.appPath("com.example.dice") == "/org/accessorysetup1/app/com_2eexample_2edice")
    }

    @Test(arguments: SetupError.Code.allCases)
    func anErrorsNameLeadsBackToItsCode(code: SetupError.Code) {
        let error = BusError(SetupError(code, "why"))
        #expect(error.name == "org.accessorysetup1.Error." + code.busName && error.message == "why")
        #expect(error.setupCode == code)
    }

    @Test func errorsHaveNamesOfTheirOwn() {
        #expect(Set(SetupError.Code.allCases.map(\.busName)).count == SetupError.Code.allCases.count)
        for name in ["org.freedesktop.DBus.Error.AccessDenied", "org.accessorysetup1.Error.", "org.accessorysetup1.Error.unknown"] {
            #expect(BusError(name: name, message: "").setupCode == nil)
        }
    }

    @Test func everyInterfaceHasItsDescription() throws {
        for interface in [
            AccessoryBus.manager, AccessoryBus.session, AccessoryBus.accessory, AccessoryBus.network, AccessoryBus.picker,
            AccessoryBus.grant, AccessoryBus.app, AccessoryBus.admin,
        ] { #expect(try AccessoryBus.description(of: interface).name == interface) }
        #expect(throws: BusError.self) { try AccessoryBus.description(of: "org.accessorysetup1.Nothing") }
    }
}
