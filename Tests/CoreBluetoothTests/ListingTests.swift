// SPDX-License-Identifier: Apache-2.0
// Apple's listings that use Core Bluetooth, run as they stand: on the main queue, with the view where the environment
// says, each in a process of its own.

import AccessorySetupKit
import AccessorySetupKitSnippets
import CoreBluetooth
import Foundation
import TestSupport
import Testing

@Suite struct ListingTests {
    @Test func theTalksListingFindsTheDicesService() async {
        await #expect(processExitsWith: .success) {
            let world = try World()
            setenv("ACCESSORY_SETUP_BUS", world.view, 1)
            let event = try await world.addedEvent()
            let found = Mailbox()
            let communication = DiceCommunication(event) { found.put("services \($0.map(\.uuidString))") }
            await MainActor.run { communication.begin() }
            #expect(try await found.wait("services") == "services [\"\(Gadget.service)\"]")
            #expect(try world.links() == ["pink"])
        }
    }

    /// It asks before Bluetooth is on, which Apple's module refuses with a line in the log, as ours does.
    @Test func theGuidesListingAsksTooEarly() async {
        let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
            let world = try World()
            setenv("ACCESSORY_SETUP_BUS", world.view, 1)
            let event = try await world.addedEvent()
            let accessory = try #require(event.accessory)
            await MainActor.run { CommunicationManager().handleAccessoryAdded(accessory) }
            #expect(try world.links().isEmpty)
        }
        let said = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
        #expect(said.contains("API MISUSE: retrievePeripherals while the manager is not poweredOn"))
    }
}
