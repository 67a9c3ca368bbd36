// SPDX-License-Identifier: Apache-2.0
// Runs apps as they are written elsewhere: those of the folders Apps5 and Apps6, whose compilation is part of the test,
// and the sample app with its Info.plist.

import AccessorySetupKit
import AccessorySetupKitApps5
import AccessorySetupKitApps6
import DBusKit
import Foundation
import TestSupport
import Testing

@Suite struct AppTests {
    @Test func aViewModelGetsAllItsAnswers() async throws {
        let bus = try PrivateBus()
        let daemon = try await FakeDaemon(on: bus, accessories: [FakeDaemon.accessory: FakeDaemon.properties("Dice")])
        for member in ["ShowPicker", "RenameAccessory", "UpdateAuthorization"] {
            daemon.answer(member, with: .values([.objectPath("/")]))
        }
        let session = ASAccessorySession(bus: bus.address)
        defer { session.invalidate() }
        let log = Mailbox<String>()
        let queue = DispatchQueue(label: "test.app")
        let model = AccessorySetupKitApps5.ViewModel(session) { log.put($0) }
        model.begin(on: queue)
        model.askForEverything(ASAccessory(), try Dice.item("Dice", Dice.pink))
        let lines = try await log.wait("ten lines") { $0.count >= 10 ? $0 : nil }
        #expect(lines.first == "activated")
        #expect(
            lines.dropFirst().sorted() == [
                "authorization: true", "extension: true", "fail: true", "finish discovery: true", "finish: true", "picker: true",
                "remove: true", "rename: true", "update: true",
            ])
        withExtendedLifetime((daemon, model)) {}
    }

    @Test @MainActor func modelsOnTheMainActorAreCalledThere() async throws {
        let bus = try PrivateBus()
        let daemon = try await FakeDaemon(on: bus)
        let told = Mailbox<Bool>()
        let sessions = [ASAccessorySession(bus: bus.address), ASAccessorySession(bus: bus.address)]
        defer { for session in sessions { session.invalidate() } }
        let five = AccessorySetupKitApps5.MainModel(sessions[0])
        five.begin { told.put(Thread.isMainThread) }
        // The event and the answer.
        _ = try await told.wait(count: 2)
        let six = AccessorySetupKitApps6.MainModel(sessions[1])
        six.begin { told.put(true) }
        _ = try await told.wait(count: 4)
        #expect(five.types == [.activated] && five.isAnswered && six.types == [.activated] && six.isAnswered)
        withExtendedLifetime(daemon) {}
    }

    @Test func aFileThatImportsCoreBluetoothAloneHasObservation() {
        let model = LinkModel()
        let changed = Mailbox<Bool>()
        withObservationTracking {
            _ = model.service
        } onChange: {
            changed.put(true)
        }
        model.service = CBUUID(string: "180F")
        #expect(changed.elements == [true] && mayAdvertise().rawValue == 3)
        #expect(LinkModel.age(of: Date.timeIntervalSinceReferenceDate) >= 0)
    }

    @Test func imagesComeThroughEitherModule() {
        #expect(AppImages.symbol() == symbol() && AppImages.symbol() == UIImage(systemName: "dice.fill"))
        #expect(AppImages.nothing() == UIImage())
    }

    /// Where Foundation looks for the Info.plist of a program on Linux: beside it.
    @Test func theSampleFindsItsInfoPlist() throws {
        // Links in the program's own file system: a copy that another test's child still has open cannot be run.
        let directory = Programs.directory + "/accessory-setup-kit-\(UUID().uuidString)"
        let files = FileManager.default
        defer { try? files.removeItem(atPath: directory) }
        let (pink, blue) = ("Pink Dice  \(Dice.pink)", "Blue Dice  \(Dice.blue)")
        func kinds(_ program: String) throws -> [String] {
            let dice = try ChildProcess(program, ["kinds"])
            #expect(dice.waitForExit() == 0)
            return dice.lines
        }
        for folder in ["app", "other", "bin"] {
            try files.createDirectory(atPath: "\(directory)/\(folder)", withIntermediateDirectories: true)
        }
        for folder in ["app", "other"] {
            try files.linkItem(atPath: Programs.directory + "/dice", toPath: "\(directory)/\(folder)/dice")
        }
        #expect(try kinds(directory + "/app/dice") == [pink, blue])
        let list = directory + "/app/Info.plist"
        try files.copyItem(atPath: Programs.repository + "/Sources/dice/Info.plist", toPath: list)
        #expect(try kinds(directory + "/app/dice") == [pink, blue])
        let blueOnly = """
            <?xml version="1.0" encoding="UTF-8"?>
            <plist version="1.0"><dict>
            <key>NSAccessorySetupBluetoothServices</key><array><string>\(Dice.blue.lowercased())</string></array>
            </dict></plist>
            """
        try Data(blueOnly.utf8).write(to: URL(fileURLWithPath: list))
        #expect(try kinds(directory + "/app/dice") == [blue])
        // By a link to it, as an installed app is in /usr/bin.
        try files.createSymbolicLink(atPath: directory + "/bin/dice", withDestinationPath: "../app/dice")
        #expect(try kinds(directory + "/bin/dice") == [blue])
        #expect(try kinds(directory + "/other/dice") == [pink, blue])
    }
}
