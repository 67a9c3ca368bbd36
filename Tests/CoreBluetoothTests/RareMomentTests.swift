// SPDX-License-Identifier: Apache-2.0
// Behaviour that the real view shows only in rare moments, played by one of the tests' own.

import CoreBluetooth
import DBusKit
import Foundation
import TestSupport
import Testing

@Suite(.serialized) struct RareMomentTests {
    /// The service stays, so no new owner of its name would have the objects read again.
    @Test func objectsThatCannotBeReadAreReadAgain() async throws {
        let view = try await FakeView { member, count in
            member == "GetManagedObjects" && count == 0 ? [.fail("org.bluez.Error.NotReady", "Resource Not Ready")] : nil
        }
        let recorder = Recorder()
        let manager = CBCentralManager(delegate: recorder, queue: recorder.queue, bus: view.address)
        try await recorder.events.wait("state poweredOn")
        #expect(manager.retrievePeripherals(withIdentifiers: [FakeView.identifier]).count == 1)
    }

    @Test func valuesBeforeTheAnswerAreToldAfterIt() async throws {
        let played = try await Played { member, _ in
            member == "StartNotify" ? [.value([1]), .value([2]), .answer([]), .value([3])] : nil
        }
        played.peripheral.setNotifyValue(true, for: played.characteristic)
        try await played.events.wait("value", count: 3)
        #expect(
            played.events.lines.suffix(4) == [
                "notifying 2A19 true", "value 2A19 01", "value 2A19 02", "value 2A19 03",
            ])
    }

    @Test func valuesOfASubscriptionThatFailsAreNotTold() async throws {
        let played = try await Played { member, _ in
            member == "StartNotify"
                ? [.value([1]), .fail("org.bluez.Error.Failed", "Operation failed with ATT error: 0x81"), .value([2])] : nil
        }
        played.peripheral.setNotifyValue(true, for: played.characteristic)
        try await played.events.wait("notifying 2A19 false CBATTError.unlikelyError")
        played.peripheral.readRSSI()
        try await played.events.wait("rssi")
        #expect(!played.events.lines.contains { $0.hasPrefix("value") })
    }

    /// Numbers that are no length, of any type.
    @Test func aLengthThatIsNone() async throws {
        let lengths: [DBusValue] = [.int64(.min), .uint16(0), .string("185")]
        let played = try await Played { member, count in
            member == "ReadValue" ? [.mtu(lengths[count]), .answer([.bytes([UInt8(count)])])] : nil
        }
        for number in lengths.indices {
            played.peripheral.readValue(for: played.characteristic)
            try await played.events.wait("value 2A19 0\(number)")
            #expect(played.peripheral.maximumWriteValueLength(for: .withoutResponse) == 20)
        }
    }

    /// BlueZ sends a value that is read to all its clients before it answers.
    @Test func whatIsReadIsToldOnce() async throws {
        let played = try await Played { member, _ in
            member == "ReadValue" ? [.value([7]), .answer([.bytes([7])])] : nil
        }
        played.peripheral.setNotifyValue(true, for: played.characteristic)
        try await played.events.wait("notifying")
        played.peripheral.readValue(for: played.characteristic)
        try await played.events.wait("value 2A19 07")
        played.peripheral.setNotifyValue(false, for: played.characteristic)
        try await played.events.wait("notifying", count: 2)
        played.peripheral.readValue(for: played.characteristic)
        try await played.events.wait("value 2A19 07", count: 2)
        played.peripheral.readRSSI()
        try await played.events.wait("rssi")
        #expect(played.events.lines.filter { $0.hasPrefix("value") }.count == 2)
    }

    /// Attributes go with the link, and BlueZ reports them first: the requests that wait end with the error of the
    /// link.
    @Test func aLinkThatTakesTheAttributesAlongIsALinkThatBroke() async throws {
        let areAsked = DispatchSemaphore(value: 0)
        let played = try await Played { member, _ in
            guard member == "ReadValue" else { return nil }
            areAsked.wait()
            return [.linkLost]
        }
        for _ in 0..<3 { played.peripheral.readValue(for: played.characteristic) }
        // A question to the module's thread: the reads have arrived there.
        _ = played.peripheral.maximumWriteValueLength(for: .withoutResponse)
        areAsked.signal()
        try await played.events.wait("disconnected")
        let broken = "value 2A19  CBError.peripheralDisconnected"
        #expect(played.events.lines.filter { $0.hasPrefix("value") } == [broken, broken, broken])
    }

    /// The app asks after the link broke, and before it has heard of that.
    @Test func whatIsAskedTooLateIsAnswered() async throws {
        let played = try await Played { member, _ in member == "ReadValue" ? [.linkLost] : nil }
        played.recorder.queue.suspend()
        played.peripheral.readValue(for: played.characteristic)
        // The view answers this after it has said that the link is down.
        #expect(played.manager.retrievePeripherals(withIdentifiers: [FakeView.identifier]).count == 1)
        played.peripheral.readValue(for: played.characteristic)
        played.recorder.queue.resume()
        let broken = "value 2A19  CBError.peripheralDisconnected"
        try await played.events.wait(broken, count: 2)
        let ending = "disconnected disconnected services=-1 CBError.peripheralDisconnected"
        #expect(played.events.lines.suffix(3) == [broken, ending, broken])
    }

    /// While the link stands, they are gone for themselves.
    @Test func requestsToAttributesThatHaveGoneFail() async throws {
        let played = try await Played { member, _ in
            member == "ReadValue"
                ? [.servicesGone, .fail("org.freedesktop.DBus.Error.UnknownObject", "it is not there")] : nil
        }
        for _ in 0..<3 { played.peripheral.readValue(for: played.characteristic) }
        try await played.events.wait("modified")
        let lines = played.events.lines.suffix(4)
        #expect(lines.dropLast().allSatisfy { $0 == "value 2A19  CBError.invalidHandle" })
    }

    @Test func requestsOfOthersAreWaitedFor() async throws {
        let played = try await Played { member, count in
            member == "ReadValue" && count < 3
                ? [.fail("org.bluez.Error.InProgress", "In Progress")]
                : member == "ReadValue" ? [.answer([.bytes([5])])] : nil
        }
        played.peripheral.readValue(for: played.characteristic)
        #expect(try await played.events.wait("value") == "value 2A19 05")
    }

    /// Another program, or this one a moment ago, has the descriptor for writing.
    @Test func aDescriptorOfOthersIsWaitedFor() async throws {
        let played = try await Played { member, count in
            guard member == "WriteValue" else { return nil }
            return count < 3 ? [.fail("org.bluez.Error.NotPermitted", "Write acquired")] : [.answer([])]
        }
        played.peripheral.writeValue(Data([5]), for: played.characteristic, type: .withResponse)
        #expect(try await played.events.wait("written") == "written 2A19")
    }

    /// Many values wait for the descriptor, and it takes only some at once: a value that the app writes then comes
    /// after them, also when there is room again before they have noticed.
    @Test func aValueWithoutResponseDoesNotOvertakeThoseThatWait() async throws {
        let (service, app) = try #require(FileDescriptor.packetPair())
        var size: Int32 = 8192
        #expect(setsockopt(app.rawValue, SOL_SOCKET, SO_SNDBUF, &size, socklen_t(MemoryLayout<Int32>.size)) == 0)
        let haveArrived = DispatchSemaphore(value: 0)
        let played = try await Played { member, _ in
            guard member == "AcquireWrite" else { return nil }
            haveArrived.wait()
            return [.answer([.fileDescriptor(app), .uint16(185)])]
        }
        let write = { played.peripheral.writeValue(Data([$0]), for: played.characteristic, type: .withoutResponse) }
        for value in 0..<UInt8(100) { write(value) }
        // A question to the module's thread, and then one to the view as well.
        _ = played.peripheral.maximumWriteValueLength(for: .withoutResponse)
        haveArrived.signal()
        _ = played.manager.retrievePeripherals(withIdentifiers: [FakeView.identifier])
        var heard: [UInt8] = []
        func hear() {
            var socket = pollfd(fd: service.rawValue, events: Int16(POLLIN), revents: 0)
            #expect(poll(&socket, 1, -1) == 1)
            var packet: UInt8 = 0
            #expect(recv(service.rawValue, &packet, 1, Int32(MSG_DONTWAIT)) == 1)
            heard.append(packet)
        }
        hear()
        write(100)
        while heard.count <= 100 { hear() }
        #expect(heard == Array(0...100))
    }

    /// An empty value goes by a call, which must not overtake the values still in the descriptor.
    @Test func anEmptyValueWithoutResponseWaitsForThoseBeforeIt() async throws {
        let (service, app) = try #require(FileDescriptor.packetPair())
        let calls = Mailbox()
        let played = try await Played { member, _ in
            calls.put(member)
            return member == "AcquireWrite" ? [.answer([.fileDescriptor(app), .uint16(185)])] : nil
        }
        played.peripheral.writeValue(Data([1]), for: played.characteristic, type: .withoutResponse)
        played.peripheral.writeValue(Data(), for: played.characteristic, type: .withoutResponse)
        played.peripheral.readValue(for: played.characteristic)
        // The view answers the first call after `AcquireWrite`, and the second after the module's reaction to that.
        for _ in 0..<2 { _ = played.manager.retrievePeripherals(withIdentifiers: [FakeView.identifier]) }
        #expect(calls.lines.filter { $0 == "AcquireWrite" || $0.hasSuffix("Value") } == ["AcquireWrite"])
        var packet = [UInt8](repeating: 0, count: 8)
        #expect(recv(service.rawValue, &packet, packet.count, Int32(MSG_DONTWAIT)) == 1 && packet[0] == 1)
        #expect(recv(service.rawValue, &packet, packet.count, Int32(MSG_DONTWAIT)) == 0)
        played.view.emitReleased()
        try await played.events.wait("value")
        #expect(calls.lines.suffix(2) == ["WriteValue", "ReadValue"])
    }

    @Test func anAccessoryThatHasForgottenThePairingIsNotTriedAgain() async throws {
        let played = try await Played { member, count in
            switch (member, count) {
            case ("Connect", 1...): [.fail("org.bluez.Error.Failed", "le-connection-key-missing")]
            default: nil
            }
        }
        #expect(played.peripheral.maximumWriteValueLength(for: .withoutResponse) == 182)
        played.manager.cancelPeripheralConnection(played.peripheral)
        try await played.events.wait("disconnected disconnected")
        played.manager.connect(played.peripheral)
        try await played.events.wait("failed disconnected CBError.peerRemovedPairingInformation")
        #expect(played.peripheral.state == .disconnected)
    }

    @Test func whoIsNoAppIsUnauthorized() async throws {
        let view = try await FakeView { member, _ in
            member == "Get" || member == "GetManagedObjects"
                ? [.fail("org.freedesktop.DBus.Error.AccessDenied", "no app")] : nil
        }
        let recorder = Recorder()
        let manager = CBCentralManager(delegate: recorder, queue: recorder.queue, bus: view.address)
        try await recorder.events.wait("state")
        #expect(manager.state == .unauthorized && recorder.events.lines == ["state unauthorized"])
        #expect(manager.authorization == .denied)
    }
}
