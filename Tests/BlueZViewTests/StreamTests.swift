// SPDX-License-Identifier: Apache-2.0
// Streams through the view: packets of a descriptor and signals of a client's own connection arrive whole and in order,
// also when the client leaves, the link ends or the grant is revoked while they wait in a pause.

import AccessoryModel
import BlueZInterfaces
import DBusKit
import Glibc
import Logging
import TestSupport
import Testing

@testable import BlueZView

/// So long that a value that arrives cannot have waited for it.
private let anHour = StreamPace(pause: .seconds(3600))

@Suite struct DescriptorRelayTests {
    private let loop = MainLoop()

    /// A relay between two ends that this test holds, and the output of the app's end.
    private final class Stage {
        let service: FileDescriptor
        let app: FileDescriptor
        let relay: DescriptorRelay
        var received: [Int32] = []
        var isAtEnd = false
        private var source: LoopSource?

        init(_ loop: MainLoop, _ pace: StreamPace) throws {
            let (mine, theirs) = try #require(FileDescriptor.packetPair())
            (relay, app) = try #require(DescriptorRelay.make(for: theirs, loop: loop, pace: pace))
            service = mine
            source = loop.onReadable(app.rawValue) { [unowned self] in
                readApp()
                return !isAtEnd
            }
        }

        deinit {
            source?.cancel()
        }

        func readApp() {
            while let packet = Self.receive(app) {
                if packet < 0 { isAtEnd = true } else { received.append(packet) }
                if isAtEnd { return }
            }
        }

        /// A packet; negative at the end, nil when there is none.
        static func receive(_ end: FileDescriptor) -> Int32? {
            var number: Int32 = -1
            let count = recv(end.rawValue, &number, 4, Int32(MSG_DONTWAIT))
            return count == 4 ? number : count == 0 ? -1 : nil
        }

        static func send(_ number: Int32, to end: FileDescriptor) {
            var number = number
            #expect(Glibc.send(end.rawValue, &number, 4, Int32(MSG_NOSIGNAL)) == 4)
        }
    }

    /// Two packets have come, and another waits for an hour.
    private func stageInAPause() throws -> Stage {
        let stage = try Stage(loop, anHour)
        for number: Int32 in 1...2 {
            Stage.send(number, to: stage.service)
            #expect(loop.run(until: { stage.received.last == number }, timeout: .hang))
        }
        Stage.send(3, to: stage.service)
        for _ in 0..<3 { loop.iterate(mayBlock: false) }
        #expect(stage.received == [1, 2] && stage.relay.isPausing)
        return stage
    }

    @Test func aStreamArrivesInOrderAndItsTimerEnds() throws {
        let stage = try Stage(loop, StreamPace())
        var sent: Int32 = 0
        loop.every(.milliseconds(1)) {
            for _ in 0..<3 {
                sent += 1
                Stage.send(sent, to: stage.service)
            }
            return sent < 150
        }
        #expect(loop.run(until: { stage.received.count == 150 }, timeout: .hang))
        #expect(stage.received == Array(1...150))
        // The last one is followed by pauses, and these by nothing.
        #expect(loop.run(until: { !stage.relay.isPausing }, timeout: .hang))
        Stage.send(151, to: stage.service)
        #expect(loop.run(until: { stage.received.last == 151 }, timeout: .hang))
    }

    /// More than the sockets hold: the sender has to wait, and nothing is lost.
    @Test func aSenderWaitsForAReaderThatSleeps() throws {
        let stage = try Stage(loop, StreamPace())
        var sent: Int32 = 0
        let source = loop.onWritable(stage.service.rawValue) {
            var number = sent + 1
            while Glibc.send(stage.service.rawValue, &number, 4, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT)) == 4 {
                sent = number
                number += 1
                if sent == 5000 { return false }
            }
            return true
        }
        #expect(loop.run(until: { stage.received.count == 5000 }, timeout: .hang))
        #expect(stage.received == Array(1...5000))
        source.cancel()
    }

    @Test func revokingCutsOffWhatWaits() throws {
        let stage = try stageInAPause()
        stage.relay.close()
        stage.readApp()
        #expect(stage.isAtEnd && stage.received == [1, 2] && !stage.relay.isPausing)
        #expect(Stage.receive(stage.service) == -1)
    }

    @Test func whatCameBeforeTheLinkEndedArrives() throws {
        let stage = try stageInAPause()
        stage.relay.catchUp(.service)
        stage.relay.close()
        stage.readApp()
        #expect(stage.received == [1, 2, 3] && stage.isAtEnd)
    }

    @Test func theOtherWayIsNotDelayed() throws {
        let stage = try stageInAPause()
        Stage.send(7, to: stage.app)
        var number: Int32?
        let source = loop.onReadable(stage.service.rawValue) {
            number = Stage.receive(stage.service)
            return false
        }
        #expect(loop.run(until: { number == 7 }, timeout: .hang))
        source.cancel()
    }

    @Test func anAppThatClosesInAPauseEndsIt() throws {
        let stage = try stageInAPause()
        var isClosed = false
        stage.relay.whenClosed { isClosed = true }
        shutdown(stage.app.rawValue, Int32(SHUT_RDWR))
        #expect(loop.run(until: { isClosed }, timeout: .hang))
        #expect(!stage.relay.isPausing && Stage.receive(stage.service) == -1)
    }

    /// The app has written everything, and goes.
    @Test func whatAnAppWroteLastArrives() throws {
        let stage = try Stage(loop, anHour)
        for number: Int32 in 1...2 {
            Stage.send(number, to: stage.app)
            var isPresent = false
            let source = loop.onReadable(stage.service.rawValue) {
                isPresent = Stage.receive(stage.service) == number
                return false
            }
            #expect(loop.run(until: { isPresent }, timeout: .hang))
            source.cancel()
        }
        #expect(stage.relay.isPausing)
        Stage.send(3, to: stage.app)
        stage.relay.catchUp(.app)
        stage.relay.close()
        #expect(Stage.receive(stage.service) == 3)
        #expect(Stage.receive(stage.service) == -1)
    }
}

@Suite(.serialized) struct UpstreamTests {
    private static let device: ObjectPath = "/org/bluez/hci0/dev_1"
    private static let characteristic: ObjectPath = "/org/bluez/hci0/dev_1/service000a/char000c"

    /// A bus, who plays org.bluez on it, and a client's way there.
    private final class Stage {
        let bus: PrivateBus
        let loop = MainLoop()
        let service: Connection
        let upstream: Upstream
        var heard: [Int] = []

        init(_ pace: StreamPace) throws {
            bus = try PrivateBus()
            service = try Connection(.server(bus.address), loop: loop)
            try service.requestName(BlueZ.service)
            service.onCall = { [unowned service] call in
                if let reply = try? call.reply([]) { service.send(reply) }
                return true
            }
            upstream = Upstream(
                to: .server(bus.address), loop: loop, ServiceQueue(), Share(of: .user(1000), ViewLimits.User()), pace: pace,
                log: Logger(label: "test"))
            #expect(upstream.open {})
            upstream.subscribe(to: [device], of: service.uniqueName) { [unowned self] message, _ in
                if let number = (try? message.arguments())?[1].vardictValue?["Value"]?.integerValue { heard.append(number) }
            }
            try ask()
        }

        /// Calls, and waits for the answer.
        func ask() throws {
            var isAnswered = false
            let call = try Message.call(
                to: BlueZ.service, path: characteristic, interface: GattCharacteristic1.interface, member: "ReadValue")
            try upstream.forward(call, about: device, in: .link(device)) { outcome in
                if case .reply = outcome { isAnswered = true }
            }
            #expect(loop.run(until: { isAnswered }, timeout: .hang))
        }

        func notify(_ number: Int) throws {
            service.send(
                try Message.signal(
                    path: characteristic, interface: Bus.properties, member: "PropertiesChanged",
                    [.string(GattCharacteristic1.interface), .vardict(["Value": .uint32(UInt32(number))]), .strings([])]))
        }

        /// Hears two values, so that the next one waits for an hour.
        func beginPause() throws {
            for number in 1...2 {
                try notify(number)
                #expect(loop.run(until: { self.heard.last == number }, timeout: .hang))
            }
            try notify(3)
            service.flush()
            // It has passed the bus when an answer that was asked for later has.
            _ = try service.callAndWait(Bus.name, Bus.path, Bus.name, "GetId")
            for _ in 0..<3 { loop.iterate(mayBlock: false) }
            #expect(self.heard == [1, 2])
        }
    }

    @Test func aFastStreamArrivesInOrder() throws {
        let stage = try Stage(StreamPace())
        var sent = 0
        stage.loop.every(.milliseconds(1)) {
            sent += 1
            try? stage.notify(sent)
            return sent < 200
        }
        #expect(stage.loop.run(until: { stage.heard.count >= 100 }, timeout: .hang))
        // A call in the middle of the stream, too.
        try stage.ask()
        #expect(stage.loop.run(until: { stage.heard.count == 200 }, timeout: .hang))
        #expect(stage.heard == Array(1...200))
    }

    @Test func aCallInAPauseIsAnsweredAtOnce() throws {
        let stage = try Stage(anHour)
        try stage.beginPause()
        try stage.ask()
        #expect(stage.heard == [1, 2, 3])
    }

    /// Nor does a name that the bus gives, which comes at about the same time.
    @Test func aSignalBesideAnAnswerBeginsNoPause() throws {
        let stage = try Stage(anHour)
        stage.service.onCall = { [unowned stage] call in
            guard let reply = try? call.reply([]), (try? stage.notify(1)) != nil else { return false }
            stage.service.send(reply)
            // Both have passed the bus before either is read.
            return (try? stage.service.callAndWait(Bus.name, Bus.path, Bus.name, "GetId")) != nil
        }
        try stage.ask()
        for number in 2...3 {
            try stage.notify(number)
            #expect(stage.loop.run(until: { stage.heard.last == number }, timeout: .hang))
        }
    }

    @Test func whatCameBeforeTheLinkEndedIsTold() throws {
        let stage = try Stage(anHour)
        try stage.beginPause()
        stage.upstream.catchUp()
        #expect(stage.heard == [1, 2, 3])
    }

    @Test(arguments: [true, false]) func nothingIsToldAfterTheGrantEnded(isClosed: Bool) throws {
        let stage = try Stage(anHour)
        try stage.beginPause()
        if isClosed {
            stage.upstream.close()
        } else {
            stage.upstream.unsubscribe(from: Self.device)
            // Waiting values are read before the answer, and go to no client.
            try stage.ask()
        }
        #expect(stage.heard == [1, 2])
    }
}
