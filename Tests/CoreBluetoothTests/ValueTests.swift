// SPDX-License-Identifier: Apache-2.0
// Parts that need no bus: the object tree, the table of errors, Apple's values and types, and the peripheral role,
// which is not there.

import AccessoryModel
import BlueZInterfaces
internal import BlueZObjects
import DBusKit
import Dispatch
import Foundation
import TestSupport
import Testing

@testable import CoreBluetooth

@Suite struct BlueZTreeTests {
    private static let device: ObjectPath = "/org/bluez/hci0/dev_C0"

    private static func object(_ path: ObjectPath, _ interface: String, _ properties: [String: DBusValue])
        -> DBusValue.Entry
    {
        .init(.objectPath(path), interfaces(interface, properties))
    }

    private static func interfaces(_ interface: String, _ properties: [String: DBusValue]) -> DBusValue {
        .dictionary(key: "s", value: "a{sv}", [.init(.string(interface), .vardict(properties))])
    }

    private static func tree(_ entries: [DBusValue.Entry]) -> BlueZTree {
        var tree = BlueZTree()
        tree.load(.dictionary(key: "o", value: "a{sa{sv}}", entries))
        return tree
    }

    private static func gatt() -> BlueZTree {
        tree([
            object("/org/bluez/hci0", Adapter1.interface, ["Powered": .boolean(true)]),
            object(device, Device1.interface, ["Connected": .boolean(true)]),
            object(
                "/org/bluez/hci0/dev_C0/service0010", GattService1.interface,
                ["UUID": .string("0000180f-0000-1000-8000-00805f9b34fb"), "Primary": .boolean(false)]),
            object(
                "/org/bluez/hci0/dev_C0/service000a", GattService1.interface,
                [
                    "UUID": .string("e56a082e-c49b-47ca-a2ab-389127b8abe3"), "Primary": .boolean(true),
                    "Includes": .objectPaths(["/org/bluez/hci0/dev_C0/service0010"]),
                ]),
            object(
                "/org/bluez/hci0/dev_C0/service000a/char000c", GattCharacteristic1.interface,
                [
                    "UUID": .string("0000ff3f-0000-1000-8000-00805f9b34fb"), "Flags": .strings(["read"]),
                    "MTU": .uint16(247),
                ]),
            object(
                "/org/bluez/hci0/dev_C0/service000a/char000c/desc000e", GattDescriptor1.interface,
                ["UUID": .string("00002901-0000-1000-8000-00805f9b34fb")]),
        ])
    }

    @Test func attributesAreInTheOrderOfTheirHandles() {
        let tree = Self.gatt()
        let services = tree.services(of: Self.device)
        #expect(services.map(\.uuid) == ["E56A082E-C49B-47CA-A2AB-389127B8ABE3", "180F"])
        #expect(services.map(\.isPrimary) == [true, false])
        #expect(tree.includedServices(of: services[0].path)?.map(\.uuid) == ["180F"])
        #expect(tree.includedServices(of: services[1].path)?.isEmpty == true)
        let characteristics = tree.characteristics(of: services[0].path)
        #expect(characteristics?.map(\.uuid) == ["FF3F"] && characteristics?.first?.properties == .read)
        #expect(tree.descriptors(of: characteristics![0].path)?.map(\.uuid) == ["2901"])
        #expect(tree.mtu(of: Self.device) == 247 && tree.mtu(of: "/org/bluez/hci0/dev_C1") == nil)
        // Children of objects that do not exist.
        #expect(tree.characteristics(of: "/nowhere") == nil && tree.descriptors(of: services[0].path) == nil)
        #expect(tree.includedServices(of: "/nowhere") == nil)
    }

    /// Apple's systems keep these to themselves.
    @Test func servicesOfTheSystemAreNotShown() {
        var tree = Self.gatt()
        let uuids = [
            "00001800-0000-1000-8000-00805f9b34fb", "00001801-0000-1000-8000-00805f9b34fb",
            "00001812-0000-1000-8000-00805f9b34fb", "7905f431-b5ce-4e99-a40f-4b1e122d00d0",
        ]
        for (number, uuid) in uuids.enumerated() {
            tree.add(
                ObjectPath("/org/bluez/hci0/dev_C0/service000\(number)")!,
                Self.interfaces(GattService1.interface, ["UUID": .string(uuid)]))
        }
        #expect(tree.services(of: Self.device).map(\.uuid) == ["E56A082E-C49B-47CA-A2AB-389127B8ABE3", "180F"])
    }

    @Test func signalsKeepItUp() {
        var tree = Self.gatt()
        #expect(tree.isPowered && tree.adapter == "/org/bluez/hci0")
        tree.change("/org/bluez/hci0", Adapter1.interface, ["Powered": .boolean(false)], invalidated: [])
        #expect(!tree.isPowered)
        tree.change(Self.device, Device1.interface, ["RSSI": .int16(-40)], invalidated: ["Connected"])
        #expect(tree.device(Self.device)?.rssi == -40 && tree.device(Self.device)?.isConnected == false)
        tree.change("/org/bluez/hci0/dev_C1", Device1.interface, ["RSSI": .int16(-40)], invalidated: [])
        #expect(tree.device("/org/bluez/hci0/dev_C1") == nil)
        tree.remove("/org/bluez/hci0/dev_C0/service000a", [GattService1.interface])
        #expect(tree.services(of: Self.device).map(\.uuid) == ["180F"])
        tree.add("/org/bluez/hci0/dev_C1", Self.interfaces(Device1.interface, ["Alias": .string("Lamp")]))
        #expect(tree.device("/org/bluez/hci0/dev_C1")?.displayName == "Lamp")
        tree.remove("/org/bluez/hci0", [Adapter1.interface])
        #expect(tree.adapter == nil)
    }

    @Test func anAdvertisementIsRead() throws {
        let tree = Self.tree([
            Self.object(
                Self.device, Device1.interface,
                [
                    "Name": .string("Die"), "TxPower": .int16(4),
                    "UUIDs": .strings(["0000180f-0000-1000-8000-00805f9b34fb"]),
                    "ServiceData": .dictionary(
                        key: "s", value: "v",
                        [.init(.string("0000fff0-0000-1000-8000-00805f9b34fb"), .variant(.bytes([1])))]),
                    "ManufacturerData": .dictionary(
                        key: "q", value: "v",
                        [
                            .init(.uint16(0x0A00), .variant(.bytes([9]))),
                            .init(.uint16(0x004C), .variant(.bytes([1, 2]))),
                        ]),
                ])
        ])
        let advertisement = try #require(tree.device(Self.device)?.advertisement)
        #expect(
            advertisement.fits(nil) && advertisement.fits([]) && advertisement.fits(["180F"])
                && advertisement.fits(["FFF0"]))
        #expect(!advertisement.fits(["1812"]))
        let data = advertisement.dictionary
        #expect(data[CBAdvertisementDataLocalNameKey] as? String == "Die")
        #expect(data[CBAdvertisementDataServiceUUIDsKey] as? [CBUUID] == [CBUUID(string: "180F")])
        #expect(data[CBAdvertisementDataServiceDataKey] as? [CBUUID: Data] == [CBUUID(string: "FFF0"): Data([1])])
        #expect(data[CBAdvertisementDataManufacturerDataKey] as? Data == Data([0x4C, 0, 1, 2]))
        #expect(data[CBAdvertisementDataTxPowerLevelKey] as? NSNumber == 4)
        #expect(data[CBAdvertisementDataIsConnectable] as? NSNumber == true)
        #expect(BlueZTree.Advertisement().dictionary.count == 1)
    }

    /// `CBUUID(string:)` ends the process: text from the bus must not end an app.
    @Test(arguments: ["RANDOM", "", "18", "0000180f-0000-1000-8000-00805f9b34fg", "0000180f00001000800000805f9b34fb"])
    func whatIsNoUUIDIsLeftOut(text: String) throws {
        let uuid = "0000180f-0000-1000-8000-00805f9b34fb"
        let tree = Self.tree([
            Self.object(
                Self.device, Device1.interface,
                [
                    "UUIDs": .strings([text, uuid]),
                    "ServiceData": .dictionary(
                        key: "s", value: "v",
                        [.init(.string(text), .variant(.bytes([1]))), .init(.string(uuid), .variant(.bytes([2])))]),
                ]),
            Self.object("/org/bluez/hci0/dev_C0/service000a", GattService1.interface, ["UUID": .string(text)]),
            Self.object("/org/bluez/hci0/dev_C0/service000b", GattService1.interface, ["UUID": .string(uuid)]),
        ])
        #expect(tree.services(of: Self.device).map(\.uuid) == ["180F"])
        let data = try #require(tree.device(Self.device)?.advertisement).dictionary
        #expect(data[CBAdvertisementDataServiceUUIDsKey] as? [CBUUID] == [CBUUID(string: "180F")])
        #expect(data[CBAdvertisementDataServiceDataKey] as? [CBUUID: Data] == [CBUUID(string: "180F"): Data([2])])
    }

    @Test(arguments: [
        ("0000180f-0000-1000-8000-00805f9b34fb", "180F"), ("1234180f-0000-1000-8000-00805f9b34fb", "1234180F"),
        ("e56a082e-c49b-47ca-a2ab-389127b8abe3", "E56A082E-C49B-47CA-A2AB-389127B8ABE3"), ("180f", "180F"),
    ])
    func uuidsAreAsShortAsTheyCanBe(text: String, short: String) {
        #expect(BluetoothUUID(text).map(BlueZTree.shortened) == short && CBUUID(string: text).key == short)
    }
}

@Suite struct DatabaseChangeTests {
    private static func services(_ paths: [String: String]) -> [AttributeInfo] {
        paths.map { AttributeInfo(path: ObjectPath($0.key)!, uuid: $0.value) }
    }

    private static func change(come: [ObjectPath] = [], gone: [ObjectPath] = []) -> DatabaseChange {
        var change = DatabaseChange()
        for path in come { change.add(path, isGone: false) }
        for path in gone { change.add(path, isGone: true) }
        return change
    }

    /// The new come one by one, then the old go one by one, with the bus slow between any two.
    @Test func servicesThatReplaceOthersAreWaitedForToTheLast() {
        let uuids = ["FF00", "180F", "FF60"]
        var shown = Dictionary(uniqueKeysWithValues: uuids.map { ("/old/\($0)", $0) })
        var change = DatabaseChange()
        var unfinished: [Bool] = []
        for uuid in uuids {
            shown["/new/\(uuid)"] = uuid
            change.add(ObjectPath("/new/\(uuid)")!, isGone: false)
            unfinished.append(change.isUnfinished(Self.services(shown)))
        }
        for uuid in uuids {
            shown["/old/\(uuid)"] = nil
            change.add(ObjectPath("/old/\(uuid)")!, isGone: true)
            unfinished.append(change.isUnfinished(Self.services(shown)))
        }
        #expect(unfinished == [true, true, true, true, true, false])
        #expect(change.gone == ["/old/FF00", "/old/180F", "/old/FF60"])
    }

    @Test func servicesThatGoForGoodAreNotWaitedForLong() {
        #expect(!Self.change(gone: ["/old/FF00"]).isUnfinished(Self.services(["/old/180F": "180F"])))
        #expect(!Self.change(gone: ["/old/FF00"]).isUnfinished([]))
    }

    @Test func oneThatComesBackAtItsOldPlaceIsNoOldOne() {
        var change = Self.change(gone: ["/a"])
        change.add("/a", isGone: false)
        #expect(!change.isUnfinished(Self.services(["/a": "FF00", "/b": "180F"])))
        #expect(change.gone == ["/a"])
    }

    @Test func newServicesBesideOthersAreWaitedForAsLongAsADiscoveryTakes() {
        #expect(Self.change(come: ["/new/FF60"]).isUnfinished(Self.services(["/a": "FF00", "/new/FF60": "FF60"])))
    }
}

@Suite struct ErrorTableTests {
    private static func bluez(_ name: String, _ message: String) -> BusError {
        BusError(name: "org.bluez.Error.\(name)", message: message)
    }

    @Test(arguments: [
        (bluez("NotPermitted", "Read not permitted"), CBATTError.Code.readNotPermitted, 2),
        (bluez("NotPermitted", "Write not permitted"), .writeNotPermitted, 3),
        (bluez("NotPermitted", "Read not permitted: the app may not read it"), .readNotPermitted, 2),
        (bluez("NotPermitted", "Write not permitted: the app may not write it"), .writeNotPermitted, 3),
        (bluez("NotPermitted", "Notify not permitted: the app may not listen to it"), .writeNotPermitted, 3),
        (bluez("NotPermitted", "Not paired"), .insufficientAuthentication, 5),
        (bluez("InvalidArguments", "Invalid offset"), .invalidOffset, 7),
        (bluez("InvalidArguments", "Invalid Length"), .invalidAttributeValueLength, 13),
        (bluez("NotAuthorized", "Operation Not Authorized"), .insufficientAuthorization, 8),
        (bluez("NotSupported", "Operation is not supported"), .requestNotSupported, 6),
        (bluez("Failed", "Operation failed with ATT error: 0x0e"), .unlikelyError, 0x0E),
        (bluez("Failed", "Operation failed with ATT error: 0x11"), .insufficientResources, 0x11),
        (bluez("Failed", "Operation failed with ATT error: 0x80"), .unlikelyError, 0x80),
    ])
    func codesOfTheAttributeProtocol(error: BusError, code: CBATTError.Code, raw: Int) throws {
        let read = try #require(ErrorTable.attributeError(error) as? CBATTError)
        #expect(read.code == code && read.errorCode == raw && (read as NSError).domain == "CBATTErrorDomain")
        #expect((read as NSError).code == raw && read.localizedDescription.hasSuffix(": " + error.message))
    }

    @Test(arguments: [
        (bluez("Failed", "Not connected"), CBError.Code.notConnected),
        (bluez("NotConnected", "Not Connected"), .notConnected),
        (bluez("Failed", "le-connection-abort-by-local"), .connectionFailed),
        (bluez("Failed", "le-connection-timeout"), .connectionTimeout),
        (bluez("Failed", "br-connection-page-timeout"), .connectionTimeout),
        (bluez("Failed", "le-connection-concurrent-connection-limit"), .connectionLimitReached),
        (bluez("Failed", "le-connection-key-missing"), .peerRemovedPairingInformation),
        (bluez("AuthenticationFailed", "Authentication Failed"), .peerRemovedPairingInformation),
        (bluez("NotSupported", "Operation is not supported"), .operationNotSupported),
        (bluez("Failed", "Operation failed"), .unknown),
        (bluez("Surprise", ""), .unknown), (.standard("NoReply", "late"), .connectionTimeout),
        (.unknownObject("/x"), .invalidHandle),
        (.disconnected("gone"), .peripheralDisconnected),
    ])
    func errorsOfBlueZAndTheBus(error: BusError, code: CBError.Code) throws {
        let read = try #require(ErrorTable.linkError(error) as? CBError)
        #expect(
            read.code == code && (read as NSError).domain == CBErrorDomain && (read as NSError).code == code.rawValue)
    }

    @Test(arguments: [
        ("Timeout", CBError.Code.connectionTimeout), ("Remote", .peripheralDisconnected), ("Local", .peripheralDisconnected),
        ("Suspend", .peripheralDisconnected), ("Authentication", .peerRemovedPairingInformation),
        ("Unknown", .peripheralDisconnected), ("Surprise", .peripheralDisconnected),
    ])
    func reasonsWhyALinkEnds(word: String, code: CBError.Code) {
        #expect(ErrorTable.linkEnd("org.bluez.Reason." + word).code == code)
        #expect(ErrorTable.linkEnd(nil).code == .peripheralDisconnected)
    }

    /// Apps look for these terms of Apple's texts.
    @Test(arguments: [
        (bluez("Failed", "le-connection-key-missing"), "removed pairing information"),
        (bluez("Failed", "le-connection-timeout"), "The connection has timed out unexpectedly"),
        (bluez("AuthenticationTimeout", "late"), "Failed to encrypt the connection"),
        (bluez("Failed", "Operation failed with ATT error: 0x0f"), "insufficient encryption"),
        (bluez("Failed", "Operation failed with ATT error: 0x0f"), "Encryption is insufficient"),
        (bluez("NotPermitted", "Not paired"), "Authentication is insufficient"),
        (bluez("NotPermitted", "Read not permitted"), "Reading is not permitted"),
        (bluez("Failed", "Operation failed with ATT error: 0x80"), "Unknown ATT error"),
    ])
    func textsHaveTheTermsOfApples(error: BusError, term: String) {
        let read = ErrorTable.attributeError(error)
        #expect(read.localizedDescription.contains(term) && (read as NSError).localizedDescription.contains(term))
        #expect(read.localizedDescription.contains(error.message))
    }

    @Test func namesOfCommonUUIDs() {
        for (text, name) in [
            ("180F", "Battery"), ("0000180f-0000-1000-8000-00805f9b34fb", "Battery"), ("2A19", "Battery Level"),
            ("2902", "Client Characteristic Configuration"), ("FF40", "FF40"), (UUID().uuidString.lowercased(), nil),
        ] {
            let uuid = CBUUID(string: text)
            #expect("\(uuid)" == name ?? text.uppercased() && uuid.uuidString == text.uppercased())
        }
    }

    @Test func onlyWhatCannotChangeEndsConnecting() {
        #expect(ErrorTable.endsConnecting(Self.bluez("AuthenticationFailed", "")))
        #expect(ErrorTable.endsConnecting(Self.bluez("Failed", "le-connection-key-missing")))
        #expect(!ErrorTable.endsConnecting(Self.bluez("Failed", "le-connection-abort-by-local")))
        #expect(
            !ErrorTable.endsConnecting(Self.bluez("InProgress", ""))
                && !ErrorTable.endsConnecting(.standard("NoReply", "")))
    }

    @Test func errorsAreCaughtByTheirCodes() {
        do {
            throw CBError(.connectionTimeout, userInfo: [NSLocalizedDescriptionKey: "late"])
        } catch CBError.connectionTimeout {
        } catch {
            Issue.record(error)
        }
        do {
            throw CBATTError(.insufficientEncryption)
        } catch CBATTError.insufficientEncryption {
        } catch {
            Issue.record(error)
        }
        #expect(CBError(.unknownDevice).code.rawValue == 12 && CBError.unkownDevice == CBError.unknownDevice)
        #expect(
            CBError(.connectionTimeout, userInfo: [NSLocalizedDescriptionKey: "late"]).localizedDescription == "late")
    }

    /// Apps take a callback's error for an NSError first.
    @Test func errorsComeBackFromTheirObjects() {
        let late = CBError(.connectionTimeout, userInfo: [NSLocalizedDescriptionKey: "late"]) as NSError
        #expect(CBError(_nsError: late) == CBError(.connectionTimeout))
        #expect(CBError(_nsError: late).localizedDescription == "late")
        #expect(CBError(_nsError: NSError(domain: CBErrorDomain, code: 4711)).code == .unknown)
        let own = CBATTError(raw: 0x80, "the accessory's own")
        #expect(CBATTError(_nsError: own as NSError) == own)
    }
}

@Suite struct AppleValueTests {
    @Test func flagsAreApplesProperties() {
        #expect(
            CBCharacteristicProperties(flags: ["read", "write", "notify", "unheard-of"]) == [.read, .write, .notify])
        #expect(CBCharacteristicProperties(flags: ["encrypt-notify"]) == [.notify, .notifyEncryptionRequired])
        #expect(CBCharacteristicProperties(flags: ["write-without-response", "indicate"]).rawValue == 0x24)
    }

    @Test func descriptorsHaveApplesTypes() {
        #expect(CBDescriptor.value(Data("Roll".utf8), of: CBUUID(string: "2901")) as? String == "Roll")
        #expect(CBDescriptor.value(Data([1, 2]), of: CBUUID(string: "2902")) as? NSNumber == 0x0201)
        #expect(CBDescriptor.value(Data([1]), of: CBUUID(string: "2900")) as? NSNumber == 1)
        #expect(CBDescriptor.value(Data([4, 5]), of: CBUUID(string: "2904")) as? Data == Data([4, 5]))
    }

    @Test func theViewIsFound() {
        func find(_ environment: [String: String], _ hasUsualSocket: Bool) -> Connection.Address {
            ViewAddress.address(in: environment, hasUsualSocket: hasUsualSocket)
        }
        let both = ["ACCESSORY_SETUP_BUS": "unix:path=/a", "DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/b"]
        #expect(find(both, true) == .server("unix:path=/a"))
        #expect(find(["DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/b"], true) == .system)
        #expect(find([:], true) == .server("unix:path=/run/accessory-setup/bus") && find([:], false) == .system)
    }

    @Test func theWindowFillsAndIsTold() {
        let gate = CommandGate()
        #expect(gate.hasRoom)
        for _ in 0..<32 { #expect(gate.reserve()) }
        #expect(!gate.hasRoom)
        let notified = (0..<32).map { _ in gate.giveBack() }
        // Once, at half.
        #expect(notified.filter { $0 }.count == 1 && notified.firstIndex(of: true) == 15)
        for _ in 0..<512 { #expect(gate.reserve()) }
        #expect(!gate.reserve())
    }

    /// A value goes the short way only while no earlier request is on its way.
    @Test func theShortWayOvertakesNothing() throws {
        let (end, other) = try #require(FileDescriptor.packetPair())
        let gate = CommandGate()
        let (path, value): (ObjectPath, Data) = ("/a", Data([1]))
        #expect(!gate.send(value, to: path))
        gate.open(path, end)
        #expect(!gate.consumeUse() && gate.send(value, to: path) && gate.consumeUse() && !gate.consumeUse())
        // Not to another characteristic; and a packet of no bytes would be the end.
        #expect(!gate.send(value, to: "/b") && !gate.send(Data(), to: path))
        gate.ask()
        #expect(!gate.send(value, to: path))
        // A second request is on its way while the first one ends.
        gate.ask()
        gate.arrive()
        gate.open(path, end)
        #expect(!gate.send(value, to: path))
        gate.arrive()
        gate.open(path, end)
        #expect(gate.send(value, to: path))
        // Values that the gate has no room for go the long way, and so does every value after the descriptor was given
        // back.
        var sent = 2
        while gate.send(value, to: path) { sent += 1 }
        #expect(sent > 2 && !gate.hasRoom)
        #expect(gate.reserve() && !gate.hasRoom && gate.giveBack() && gate.hasRoom)
        gate.close(other)
        var byte: UInt8 = 0
        var received = 0
        while recv(other.rawValue, &byte, 1, Int32(MSG_DONTWAIT)) == 1 { received += 1 }
        #expect(received == sent && gate.send(value, to: path))
        gate.close(end)
        #expect(!gate.send(value, to: path))
    }

    @Test func thePeripheralRoleIsNotThere() async throws {
        final class Delegate: NSObject, CBPeripheralManagerDelegate {
            let events = Mailbox()
            func peripheralManagerDidUpdateState(_ peripheral: CBPeripheralManager) {
                events.put("state \(peripheral.state)")
            }
            func peripheralManager(_ peripheral: CBPeripheralManager, didAdd service: CBService, error: (any Error)?) {
                events.put("added \(service.uuid) \((error as? CBError)?.code == .operationNotSupported)")
            }
            func peripheralManagerDidStartAdvertising(_ peripheral: CBPeripheralManager, error: (any Error)?) {
                events.put("advertising \((error as? CBError)?.code == .operationNotSupported)")
            }
        }
        let delegate = Delegate()
        let queue = DispatchQueue(label: "test.app")
        queue.suspend()
        let manager = CBPeripheralManager(delegate: delegate, queue: queue)
        #expect(manager.state == .unknown)
        queue.resume()
        let service = CBMutableService(type: CBUUID(string: "180F"), primary: true)
        let level = CBMutableCharacteristic(
            type: CBUUID(string: "2A19"), properties: [.read], value: Data([100]), permissions: [.readable])
        level.descriptors = [
            CBMutableDescriptor(type: CBUUID(string: CBUUIDCharacteristicUserDescriptionString), value: "Level")
        ]
        service.characteristics = [level]
        #expect(service.characteristics?.first === level && level.value == Data([100]))
        manager.add(service)
        manager.startAdvertising([CBAdvertisementDataLocalNameKey: "x"])
        #expect(!manager.updateValue(Data(), for: level, onSubscribedCentrals: nil))
        try await delegate.events.wait("advertising true")
        #expect(delegate.events.lines == ["state unsupported", "added Battery true", "advertising true"])
    }
}
