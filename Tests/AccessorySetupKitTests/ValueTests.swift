// SPDX-License-Identifier: Apache-2.0
// The values of the module by themselves: raw values, copies, equality, UUIDs, images, errors.

import AccessoryModel
import AccessorySetupKit
import AccessorySetupKitApps5
import Foundation
import TestSupport
import Testing

@Suite struct ValueTests {
    /// By compiling: Apple's reference lists these types as `BitwiseCopyable`.
    @Test func valuesAreCopiedBitByBit() {
        func size<Value: BitwiseCopyable>(_: Value.Type) -> Int { MemoryLayout<Value>.size }
        let sizes = [
            size(ASAccessory.AccessoryState.self), size(ASAccessory.RenameOptions.self), size(ASAccessory.SupportOptions.self),
            size(ASAccessoryEventType.self), size(ASBluetoothCompanyIdentifier.self), size(ASDiscoveryDescriptor.Range.self),
            size(ASDiscoveryDescriptor.WiFiAwareServiceRole.self), size(ASError.Code.self),
            size(ASPickerDisplayItem.SetupOptions.self),
        ]
        #expect(sizes.allSatisfy { $0 <= MemoryLayout<Int>.size })
    }

    @Test func errorsArePrintedWithTheirMessages() {
        let error: any Error = ASError(.userCancelled, userInfo: [NSLocalizedDescriptionKey: "the person closed the picker"])
        #expect("\(error)" == "ASError.userCancelled: the person closed the picker")
        #expect("\(ASError(.invalidated))" == "ASError.invalidated: The session is invalidated")
    }

    @Test func rawValuesAreApples() {
        let events: [(ASAccessoryEventType, Int)] = [
            (.unknown, 0), (.activated, 10), (.invalidated, 11), (.migrationComplete, 20), (.accessoryAdded, 30),
            (.accessoryRemoved, 31), (.accessoryChanged, 32), (.accessoryDiscovered, 33), (.pickerDidPresent, 40),
            (.pickerDidDismiss, 50), (.pickerSetupBridging, 60), (.pickerSetupFailed, 70), (.pickerSetupPairing, 80),
            (.pickerSetupRename, 90),
        ]
        for (type, number) in events { #expect(type.rawValue == number && ASAccessoryEventType(rawValue: number) == type) }
        let codes: [(ASError.Code, Int)] = [
            (ASError.success, 0), (ASError.unknown, 1), (ASError.activationFailed, 100), (ASError.connectionFailed, 150),
            (ASError.discoveryTimeout, 200), (ASError.extensionNotFound, 300), (ASError.invalidated, 400),
            (ASError.invalidRequest, 450), (ASError.pickerAlreadyActive, 500), (ASError.pickerRestricted, 550),
            (ASError.userCancelled, 700), (ASError.userRestricted, 750),
        ]
        for (code, number) in codes { #expect(code.rawValue == number && ASError.Code(rawValue: number) == code) }
        // The daemon's own numbers are the same, name by name.
        for code in SetupError.Code.allCases { #expect(ASError.Code(rawValue: code.rawValue).map { "\($0)" } == "\(code)") }
        // Additions of ours are no cases: apps have exhaustive switches.
        let additions: [SessionEventType] = [.accessWillEnd, .accessDidEnd, .presenceChanged]
        for type in SessionEventType.allCases where !additions.contains(type) {
            #expect(ASAccessoryEventType(rawValue: type.rawValue).map { "\($0)" } == "\(type)")
        }
        #expect(ASAccessory.AccessoryState.unauthorized.rawValue == 0)
        #expect(ASAccessory.AccessoryState.awaitingAuthorization.rawValue == 10)
        #expect(ASAccessory.AccessoryState.authorized.rawValue == 20)
        #expect(ASAccessory.RenameOptions.ssid.rawValue == 1)
        #expect(ASAccessory.SupportOptions.bluetoothPairingLE.rawValue == 2)
        #expect(ASAccessory.SupportOptions.bluetoothTransportBridging.rawValue == 4)
        #expect(ASAccessory.SupportOptions.bluetoothHID.rawValue == 8)
        #expect(ASPickerDisplayItem.SetupOptions.rename.rawValue == 1)
        #expect(ASPickerDisplayItem.SetupOptions.confirmAuthorization.rawValue == 2)
        #expect(ASPickerDisplayItem.SetupOptions.finishInApp.rawValue == 4)
        #expect(ASPickerDisplayItem.SetupOptions.pickSeveral.rawValue == 256)
        #expect(ASDiscoveryDescriptor.Range.default.rawValue == 0 && ASDiscoveryDescriptor.Range.immediate.rawValue == 10)
        #expect(ASDiscoveryDescriptor.WiFiAwareServiceRole.subscriber.rawValue == 10)
        #expect(ASDiscoveryDescriptor.WiFiAwareServiceRole.publisher.rawValue == 20)
        #expect(ASPickerDisplaySettings.Options.filterDiscoveryResults.rawValue == 1)
        #expect(ASPickerDisplaySettings.DiscoveryTimeout.default.rawValue == 30)
        #expect(ASPickerDisplaySettings.DiscoveryTimeout.short.rawValue == 60)
        #expect(ASPickerDisplaySettings.DiscoveryTimeout.medium.rawValue == 120)
        #expect(ASPickerDisplaySettings.DiscoveryTimeout.long.rawValue == 300)
        #expect(ASPickerDisplaySettings.DiscoveryTimeout.unbounded.rawValue == .infinity)
        #expect(
            ASBluetoothCompanyIdentifier(0x4C).rawValue == 0x4C && ASBluetoothCompanyIdentifier(rawValue: 0x4C).rawValue == 0x4C)
    }

    @Test func whatIsGivenAwayIsCopied() throws {
        let descriptor = ASDiscoveryDescriptor()
        descriptor.bluetoothNameSubstring = "Dice"
        let item = ASPickerDisplayItem(name: "Dice", productImage: try Dice.image(), descriptor: descriptor)
        descriptor.bluetoothNameSubstring = "Lamp"
        #expect(item.descriptor.bluetoothNameSubstring == "Dice")
        #expect(item.descriptor != descriptor)
        descriptor.bluetoothNameSubstring = "Dice"
        #expect(item.descriptor == descriptor && item.descriptor !== descriptor && item.descriptor.hash == descriptor.hash)

        let session = ASAccessorySession()
        #expect(session.pickerDisplaySettings == nil)
        let settings = ASPickerDisplaySettings.default
        session.pickerDisplaySettings = settings
        settings.discoveryTimeout = .short
        session.pickerDisplaySettings?.options = .filterDiscoveryResults
        #expect(session.pickerDisplaySettings?.discoveryTimeout == .default)
        #expect(session.pickerDisplaySettings?.options == .filterDiscoveryResults)
        #expect(settings.options == [])
        #expect(ASPickerDisplaySettings.default.discoveryTimeout == .default, "the default was changed by changing one of them")
        #expect(ASAccessorySettings.default == ASAccessorySettings() && ASAccessorySettings.default !== ASAccessorySettings.default)

        let copy = try #require(descriptor.copy() as? ASDiscoveryDescriptor)
        copy.ssid = "Dice"
        #expect(descriptor.ssid == nil && copy.ssid == "Dice")
        let settingsCopy = try #require(settings.copy() as? ASPickerDisplaySettings)
        #expect(settingsCopy == settings && settingsCopy !== settings)
    }

    @Test func everyTraitIsKept() throws {
        let descriptor = ASDiscoveryDescriptor()
        #expect(descriptor.bluetoothCompanyIdentifier.rawValue == 0 && descriptor.wifiAwareServiceRole == .subscriber)
        #expect(descriptor.bluetoothRange == .default && descriptor.supportedOptions.isEmpty)
        descriptor.bluetoothCompanyIdentifier = .init(0x4C)
        descriptor.bluetoothManufacturerDataBlob = Data([1])
        descriptor.bluetoothManufacturerDataMask = Data([2])
        descriptor.bluetoothServiceUUID = CBUUID(string: "180F")
        descriptor.bluetoothServiceDataBlob = Data([3])
        descriptor.bluetoothServiceDataMask = Data([4])
        descriptor.bluetoothNameSubstring = "a"
        descriptor.bluetoothNameSubstringCompareOptions = .caseInsensitive
        descriptor.bluetoothRange = .immediate
        descriptor.ssid = "b"
        descriptor.ssidPrefix = "c"
        descriptor.supportedOptions = .bluetoothHID
        descriptor.wifiAwareServiceName = "d"
        descriptor.wifiAwareServiceRole = .publisher
        descriptor.wifiAwareModelNameMatch = ASPropertyCompareString(string: "e", compareOptions: .literal)
        descriptor.wifiAwareVendorNameMatch = ASPropertyCompareString(string: "f", compareOptions: .numeric)
        #expect(descriptor.bluetoothCompanyIdentifier.rawValue == 0x4C)
        #expect(descriptor.bluetoothManufacturerDataBlob == Data([1]) && descriptor.bluetoothManufacturerDataMask == Data([2]))
        #expect(descriptor.bluetoothServiceUUID?.uuidString == "180F")
        #expect(descriptor.bluetoothServiceDataBlob == Data([3]) && descriptor.bluetoothServiceDataMask == Data([4]))
        #expect(descriptor.bluetoothNameSubstring == "a" && descriptor.bluetoothNameSubstringCompareOptions == .caseInsensitive)
        #expect(descriptor.bluetoothRange == .immediate && descriptor.ssid == "b" && descriptor.ssidPrefix == "c")
        #expect(descriptor.supportedOptions == .bluetoothHID)
        #expect(descriptor.wifiAwareServiceName == "d" && descriptor.wifiAwareServiceRole == .publisher)
        #expect(descriptor.wifiAwareModelNameMatch == ASPropertyCompareString(string: "e", compareOptions: .literal))
        #expect(descriptor.wifiAwareVendorNameMatch != ASPropertyCompareString(string: "f", compareOptions: .literal))
        #expect("\(descriptor)".contains("bluetoothServiceUUID"))
        // Another form of a UUID is kept, and equal.
        let other = try #require(descriptor.copy() as? ASDiscoveryDescriptor)
        other.bluetoothServiceUUID = CBUUID(string: "0000180F-0000-1000-8000-00805F9B34FB")
        #expect(other == descriptor && other.hash == descriptor.hash)
        #expect(other.bluetoothServiceUUID?.uuidString == "0000180F-0000-1000-8000-00805F9B34FB")
        other.bluetoothServiceUUID = CBUUID()
        #expect(other != descriptor && other.bluetoothServiceUUID == CBUUID())
        let roles = [ASDiscoveryDescriptor(), ASDiscoveryDescriptor()]
        roles[0].wifiAwareServiceRole = .subscriber
        #expect(roles[0] == roles[1] && roles[0].wifiAwareServiceRole == .subscriber)
    }

    @Test func shortUUIDsEqualTheirLongForm() {
        let short = CBUUID(string: "180f")
        let long = CBUUID(string: "0000180F-0000-1000-8000-00805f9b34fb")
        #expect(short == long && short.hash == long.hash && short == CBUUID(string: "0000180F"))
        #expect(short.uuidString == "180F" && long.uuidString == "0000180F-0000-1000-8000-00805F9B34FB")
        #expect(short.data == Data([0x18, 0x0F]) && long.data.count == 16)
        #expect(CBUUID(data: Data([0x18, 0x0F])) == short && CBUUID(data: long.data) == long)
        #expect(CBUUID(data: long.data).uuidString == long.uuidString)
        #expect(CBUUID(data: Data([0, 0, 0x18, 0x0F])) == short)
        let uuid = UUID()
        #expect(
            CBUUID(nsuuid: uuid).uuidString == uuid.uuidString
                && CBUUID(nsuuid: uuid) == CBUUID(string: uuid.uuidString.lowercased()))
        #expect(CBUUID(string: "180F") != CBUUID(string: "180E"))
        // The empty one names nothing.
        let empty = CBUUID()
        #expect(empty.data.isEmpty && empty.uuidString.isEmpty && empty != short && !empty.isEqual("180F"))
        #expect(empty == CBUUID() && empty.hash == CBUUID().hash)
        let prefixed = CBUUID(string: "0xff3f")
        #expect(prefixed.uuidString == "FF3F" && prefixed.data == Data([0xFF, 0x3F]) && prefixed == CBUUID(string: "FF3F"))
        #expect(CBUUID(string: "0x0000FF3F").uuidString == "0000FF3F")
        #expect([CBUUID(string: "180F"): 1][CBUUID(string: "0000180F")] == 1)
    }

    // Input that is no UUID ends the process, with a message that names the input.

    private static func said(_ result: ExitTest.Result?) -> String {
        String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    }

    @Test func aUUIDIsItsOwnCopy() {
        let uuid = CBUUID(string: "180F")
        #expect(uuid.copy() as? CBUUID === uuid)
    }

    @Test func textThatIsNoUUIDEndsTheProcess() async {
        let text = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = CBUUID(string: "UNDECLARED-UUID")
        }
        #expect(Self.said(text).contains("CBUUID(string:): \"UNDECLARED-UUID\" is no UUID"))
        let prefix = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = CBUUID(string: "0xFF3")
        }
        #expect(Self.said(prefix).contains("\"0xFF3\" is no UUID"))
        await #expect(processExitsWith: .failure) { _ = CBUUID(string: "") }
    }

    @Test func dataThatIsNoUUIDEndsTheProcess() async {
        let data = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = CBUUID(data: Data([1, 2, 0xAB]))
        }
        #expect(Self.said(data).lowercased().contains("cbuuid(data:): 3 bytes (0102ab)"))
        await #expect(processExitsWith: .failure) { _ = CBUUID(data: Data()) }
    }

    @Test func advertisementKeysAreApples() {
        #expect(CBAdvertisementDataIsConnectable == "kCBAdvDataIsConnectable")
        #expect(CBAdvertisementDataOverflowServiceUUIDsKey == "kCBAdvDataOverflowServiceUUIDs")
        #expect(CBAdvertisementDataSolicitedServiceUUIDsKey == "kCBAdvDataSolicitedServiceUUIDs")
    }

    @Test func itemsAreEqualByContent() throws {
        func item(_ name: String = "Dice", _ image: UIImage = UIImage(), _ ssid: String? = nil) -> ASPickerDisplayItem {
            let descriptor = ASDiscoveryDescriptor()
            descriptor.ssid = ssid
            return ASPickerDisplayItem(name: name, productImage: image, descriptor: descriptor)
        }
        #expect(item() == item() && item().hash == item().hash && Set([item(), item()]).count == 1)
        let image = try Dice.image()
        #expect(item() != item("Lamp") && item() != item("Dice", image) && item() != item("Dice", UIImage(), "Dice"))
        let renaming = item()
        renaming.setupOptions = .rename
        #expect(renaming != item())
        renaming.setupOptions = []
        renaming.renameOptions = .ssid
        #expect(renaming != item())

        func migration(_ hotspot: String?) -> ASMigrationDisplayItem {
            let item = ASMigrationDisplayItem(name: "Dice", productImage: UIImage(), descriptor: ASDiscoveryDescriptor())
            item.hotspotSSID = hotspot
            return item
        }
        #expect(migration("Dice") == migration("Dice") && migration("Dice").hash == migration("Dice").hash)
        #expect(migration("Dice") != migration(nil) && migration(nil) != item() && item() != migration(nil))

        let found = ASDiscoveredAccessory()
        func discovered(_ accessory: ASDiscoveredAccessory) -> ASDiscoveredDisplayItem {
            ASDiscoveredDisplayItem(name: "Dice", productImage: UIImage(), accessory: accessory)
        }
        #expect(discovered(found) == discovered(found) && discovered(found).hash == discovered(found).hash)
        #expect(discovered(found) != discovered(ASDiscoveredAccessory()))
        #expect(ASPropertyCompareString(string: "a") == ASPropertyCompareString(string: "a", compareOptions: []))
    }

    @Test func imagesStandForSymbols() throws {
        #expect(UIImage(systemName: "") == nil)
        let image = try #require(UIImage(systemName: "dice.fill"))
        #expect(image == UIImage(systemName: "dice.fill") && image.hash == UIImage(systemName: "dice.fill")?.hash)
        #expect(Set(["dice", "dice.fill", "lightbulb", "sensor", "lock"].map { UIImage(systemName: $0) }).count == 5)
        #expect(UIImage(systemName: "no such symbol, says SF Symbols") != nil)
        #expect(UIImage() == UIImage() && UIImage() != image && "\(UIImage())" == "empty")
        #expect("\(image)".hasPrefix("png, "))
    }

    @Test func standInsForTestsAreWhatTheySay() async throws {
        let session = MockSession()
        #expect(session.accessories.map(\.displayName) == ["Mock"] && session.accessories.first?.state == .authorized)
        let item = ASPickerDisplayItem(name: "Dice", productImage: UIImage(), descriptor: ASDiscoveryDescriptor())
        // The asynchronous form asks the overridden method.
        #expect(await code { try await session.showPicker(for: [item]) } == .userCancelled)
        #expect(session.shown == [[item]])
        let (one, other) = (MockAccessory(), MockAccessory())
        #expect(one == one && one != other)
        #expect(ASAccessoryEvent().eventType == .unknown)
    }

    @Test func imagesAreRecognised() throws {
        #expect(UIImage(data: Dice.png) != nil)
        #expect(UIImage(data: Data([0xFF, 0xD8, 0xFF, 0xE0])) != nil)
        #expect(UIImage(data: Data("<?xml version='1.0'?><svg xmlns='http://www.w3.org/2000/svg'/>".utf8)) != nil)
        for bytes in [Data(), Data("<html><svg/></html>".utf8), Data([0x7F, 0x45, 0x4C, 0x46])] {
            #expect(UIImage(data: bytes) == nil)
        }
        let directory = try TemporaryDirectory()
        let file = directory.path + "/dice.png"
        try Dice.png.write(to: URL(fileURLWithPath: file))
        #expect(UIImage(contentsOfFile: file) == UIImage(data: Dice.png))
        #expect(UIImage(contentsOfFile: directory.path + "/none.png") == nil)
        #expect(UIImage(contentsOfFile: directory.path) == nil)
    }

    @Test func imagesAreFoundByName() throws {
        let name = "accessory-setup-kit-\(UUID().uuidString)"
        for directory in ["", "Resources/", "../share/\((CommandLine.arguments[0] as NSString).lastPathComponent)/"] {
            let file = URL(fileURLWithPath: Programs.directory).appendingPathComponent("\(directory)\(name).svg")
                .standardizedFileURL
            let folder = file.deletingLastPathComponent()
            let isNew = !FileManager.default.fileExists(atPath: folder.path)
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: isNew ? folder : file) }
            try Data("<svg/>".utf8).write(to: file)
            #expect(UIImage(named: name) != nil && UIImage(named: name + ".svg") != nil, "\(directory)")
        }
        #expect(UIImage(named: name) == nil && UIImage(named: "") == nil)
    }

    @Test func errorsAreCaughtByCode() {
        func fail() throws { throw ASError(.userCancelled) }
        do {
            try fail()
        } catch ASError.invalidRequest {
            Issue.record("the wrong one")
        } catch ASError.userCancelled {
            // This one.
        } catch {
            Issue.record("none")
        }
        #expect(ASError(.userCancelled) == ASError(.userCancelled) && ASError(.userCancelled) != ASError(.unknown))
        #expect(ASError.errorDomain == ASErrorDomain && ASError.Code.errorDomain == ASErrorDomain)
        let error: any Error = ASError(.pickerRestricted)
        #expect(error.localizedDescription == "The picker is restricted" && (error as NSError).code == 550)
        #expect((error as NSError).domain == ASErrorDomain && (error as NSError).localizedDescription == "The picker is restricted")
        let detailed = ASError(.userCancelled, userInfo: [NSLocalizedDescriptionKey: "enough", "picker": 7])
        #expect(detailed.localizedDescription == "enough" && detailed.userInfo["picker"] as? Int == 7)
        #expect((detailed as NSError).userInfo["picker"] as? Int == 7 && detailed == ASError(.userCancelled))
    }

    @Test func objectsOfTheDomainAreErrorsOfTheModule() throws {
        let object = NSError(domain: ASErrorDomain, code: 700, userInfo: [NSLocalizedDescriptionKey: "enough"])
        func fail(_ error: any Error) throws { throw error }
        for error in [object as any Error, ASError(.userCancelled), ASError(.userCancelled) as NSError] {
            do {
                try fail(error)
            } catch ASError.invalidRequest {
                Issue.record("the wrong one")
            } catch ASError.userCancelled {
                // This one.
            } catch {
                Issue.record("none")
            }
            do {
                try fail(error)
            } catch let error as ASError {
                #expect(error.code == .userCancelled && error.errorCode == 700)
            } catch {
                Issue.record("none")
            }
        }
        #expect((object as? ASError)?.localizedDescription == "enough")
        #expect((NSError(domain: "other", code: 700) as? ASError) == nil)
        #expect(!(ASError.Code.userCancelled ~= NSError(domain: "other", code: 700)))
        // Of a newer module.
        let tomorrow = try #require(NSError(domain: ASErrorDomain, code: 999) as? ASError)
        #expect(tomorrow.code == .unknown && tomorrow.errorCode == 999 && (tomorrow as NSError).code == 999)
    }
}
