// SPDX-License-Identifier: Apache-2.0
// The course of a simulation: all gateways connect, the numbers are measured, rounds of faults follow, each with a
// quiet end at which everything is compared.

import DBusKit
import FleetAgent
import FleetProtocol
import Glibc
import MQTTClient

/// The arguments.
struct Options {
    var host = "127.0.0.1"
    var port = UInt16(1883)
    var gateways = 50
    var seed = UInt64(1)
    /// Of all rounds of faults.
    var seconds = 10
    /// Pauses between attempts to connect, and between ticks, are divided by it.
    var pace = 1
    /// Whether to measure before the faults.
    var measures = true

    /// Nil for arguments that are none.
    init?(_ arguments: some Sequence<String>) {
        for argument in arguments {
            let words = argument.split(separator: "=", maxSplits: 1).map(String.init)
            guard words.count == 2, words[0] == "host" || Int(words[1]) != nil else { return nil }
            let number = Int(words[1]) ?? 0
            switch words[0] {
            case "host": host = words[1]
            case "port": port = UInt16(number)
            case "gateways": gateways = max(1, number)
            case "seed": seed = UInt64(number)
            case "seconds": seconds = max(1, number)
            case "pace": pace = max(1, number)
            case "measures": measures = number != 0
            default: return nil
            }
        }
    }
}

/// The whole simulation.
final class Simulation {
    private let options: Options
    private let world: World
    private let gateways: [SimulatedGateway]
    private let operators: Operator
    private let broker: Broker
    private var random: SplitMix
    private var pulses = 0
    private var load = Load()
    private var faults: [(time: Int, fault: Fault)] = []
    private var roundBegan: Int64 = 0

    /// The present work, per second.
    private struct Load {
        var changes = 0.0
        var commands = 0.0
    }

    private var loop: MainLoop { world.loop }

    /// Seconds for all gateways to return.
    private static let patience = 240

    init(_ options: Options) {
        self.options = options
        random = SplitMix(seed: options.seed)
        let loop = MainLoop()
        let settings = MQTTSettings(host: options.host, port: options.port, clientID: "")
        let world = World(loop, settings, PrivateKey.random(), pace: options.pace)
        self.world = world
        gateways = (1...options.gateways).map { SimulatedGateway($0, world) }
        operators = Operator(world, gateways, seed: random.next())
        broker = Broker(loop)
        for gateway in gateways {
            gateway.onDeath = { [weak self] gateway in self?.reviveLater(gateway) }
        }
    }

    // MARK: The course

    /// - Returns: whether all promises held.
    func run() -> Bool {
        broker.start()
        _ = loop.run(until: { broker.process > 0 }, timeout: .seconds(60))
        operators.connect()
        begin()
        loop.every(.milliseconds(50)) { [weak self] in
            self?.pulse()
            return self != nil
        }
        loop.every(.milliseconds(5000 / options.pace)) { [weak self] in
            self?.operators.askAgain()
            return self != nil
        }
        measured("\(gateways.count) gateways have connected and compared") { awaitAll() }
        quiet()
        if options.measures { measure() }
        let length = max(1500, min(60_000, options.seconds * 500))
        var left = options.seconds * 1000
        while left > 0, world.violations.isEmpty {
            round(length: length)
            left -= length
        }
        return conclude()
    }

    private func seconds(since begin: Int64) -> Double { Double(loop.now - begin) / 1_000_000 }

    private func text(_ seconds: Double) -> String { "\(Double(Int(seconds * 10)) / 10) s" }

    private func measured(_ label: String, _ body: () -> Void) {
        let begin = loop.now
        body()
        say("\(label): \(text(seconds(since: begin)))")
    }

    /// In waves, as machines start.
    private func begin() {
        for (index, gateway) in gateways.enumerated() {
            let seed = random.next()
            loop.after(.milliseconds(index * 10_000 / (10_000 + gateways.count))) { gateway.start(seed: seed) }
        }
    }

    private func reviveLater(_ gateway: SimulatedGateway) {
        let seed = random.next()
        loop.after(.milliseconds(Int(seed % 2000) / options.pace)) { gateway.start(seed: seed) }
    }

    private func awaitAll() {
        let isComplete = loop.run(
            until: { world.compared == gateways.count && operators.isReady }, timeout: .seconds(Self.patience))
        if !isComplete {
            world.violate("only \(world.compared) of \(gateways.count) gateways are connected after \(Self.patience) s")
        }
    }

    // MARK: Numbers

    private func measure() {
        say("memory: broker \(broker.memory) MB, this process \(Broker.ownMemory) MB")
        measured("\(gateways.count) gateways are back after the broker was killed") {
            broker.restart(after: .zero)
            _ = loop.run(until: { world.compared == 0 }, timeout: .seconds(60))
            awaitAll()
        }
        quiet()
        say("memory: broker \(broker.memory) MB, this process \(Broker.ownMemory) MB")
        let (before, begin) = (world.ledger.answered, loop.now)
        while seconds(since: begin) < 5 {
            for _ in 0..<max(0, 400 - world.ledger.open) { operators.command(isNew: true) }
            loop.iterate()
        }
        let rate = Double(world.ledger.answered - before) / seconds(since: begin)
        say("commands: \(Int(rate)) answered per second")
        quiet()
    }

    // MARK: Work

    private func pulse() {
        pulses += 1
        let share = 0.05
        func times(_ rate: Double) -> Int {
            let whole = rate * share
            return Int(whole) + (Double.random(in: 0..<1, using: &random) < whole - whole.rounded(.down) ? 1 : 0)
        }
        for _ in 0..<times(load.changes) { gateways[Int.random(in: gateways.indices, using: &random)].live(&random) }
        for _ in 0..<times(load.commands) { operators.command(isNew: Int.random(in: 0..<4, using: &random) > 0) }
        // Each gateway ticks once a minute.
        let period = 1200 / options.pace
        for index in stride(from: pulses % period, to: gateways.count, by: period) { gateways[index].tick() }
        while let (time, fault) = faults.first, Double(time) / 1000 <= seconds(since: roundBegan) {
            faults.removeFirst()
            perform(fault)
        }
    }

    private func perform(_ fault: Fault) {
        func end(after length: Int, _ body: @escaping () -> Void) { loop.after(.milliseconds(length), body) }
        switch fault {
        case .killBroker(let length):
            world.count("broker's kills")
            broker.restart(after: .milliseconds(length))
        case .stopBroker(let length):
            world.count("broker's stalls")
            broker.stop(true)
            end(after: length) { [broker] in broker.stop(false) }
        case .restartOperator: operators.restart()
        case .partition(let index, let length):
            world.count("partitions")
            gateways[index].partition(true)
            end(after: length) { [gateways] in gateways[index].partition(false) }
        case .slow(let index, let length):
            world.count("slow connections")
            gateways[index].slow(true)
            end(after: length) { [gateways] in gateways[index].slow(false) }
        case .setClock(let index, let seconds, let length):
            world.count("clocks set")
            gateways[index].setClock(seconds)
            end(after: length) { [gateways] in gateways[index].setClock(0) }
        case .fillDisk(let index, let length):
            world.count("full disks")
            gateways[index].fillDisk(true)
            end(after: length) { [gateways] in gateways[index].fillDisk(false) }
        case .doom(let index, let doom): gateways[index].doom(doom)
        case .stopDaemon(let index, let length, let losesStore):
            world.count(losesStore ? "lost stores" : "daemons' restarts")
            gateways[index].stopDaemon()
            end(after: length) { [gateways] in gateways[index].startDaemon(losesStore: losesStore) }
        case .document: operators.document(to: max(5, gateways.count / 20))
        case .oldDocument: operators.oldDocument(to: max(5, gateways.count / 20))
        }
    }

    // MARK: Rounds

    private func round(length: Int) {
        faults = schedule(gateways: gateways.count, length: length, &random)
        roundBegan = loop.now
        // As in a busy fleet, or as many as the machine can play.
        load = Load(changes: min(500, Double(gateways.count)), commands: min(300, Double(gateways.count) * 2))
        _ = loop.run(until: { false }, timeout: .milliseconds(length))
        load = Load()
        heal()
        let begin = loop.now
        awaitAll()
        let back = seconds(since: begin)
        operators.newestDocuments()
        let settled = quiet()
        say("round: all back after \(text(back)), equal after \(text(settled)); broker \(broker.memory) MB")
    }

    private func heal() {
        for (_, fault) in faults { perform(fault) }
        faults = []
        broker.stop(false)
        for gateway in gateways {
            gateway.doom(nil)
            gateway.partition(false)
            gateway.slow(false)
            gateway.setClock(0)
            gateway.fillDisk(false)
            gateway.startDaemon(losesStore: false)
        }
    }

    /// Waits until all is equal, which nothing but quiet may bring about within five seconds.
    ///
    /// - Returns: the seconds that it took.
    @discardableResult
    private func quiet() -> Double {
        let begin = loop.now
        var different = Array(gateways.indices)
        while seconds(since: begin) < 5, !different.isEmpty {
            let pause = loop.now
            _ = loop.run(until: { loop.now - pause > 250_000 }, timeout: .milliseconds(300))
            different = different.filter { operators.difference($0) != nil || operators.missingLines($0) != nil }
        }
        let took = seconds(since: begin)
        for index in different.prefix(10) {
            if let text = operators.difference(index) { world.violate("\(gateways[index].name): reported: \(text)") }
            if let text = operators.missingLines(index) { world.violate("\(gateways[index].name): audit: \(text)") }
        }
        if different.count > 10 { world.violate("\(different.count) gateways are different after 5 s of quiet") }
        return took
    }

    private func conclude() -> Bool {
        for index in gateways.indices {
            if let text = operators.disorder(index) { world.violate("\(gateways[index].name): audit: \(text)") }
        }
        let ledger = world.ledger
        say("met: " + world.counts.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", "))
        guard world.violations.isEmpty else {
            say("seed \(options.seed): broken:")
            for violation in world.violations.prefix(20) { say("  " + violation) }
            return false
        }
        say(
            "each command at most once: \(ledger.issued) signed, \(ledger.repeated) repetitions, \(ledger.performed) performed, "
                + "\(ledger.answered) answered")
        say("each line of the trails once and in order: \(operators.trails.total)")
        say("the reports equal the daemons' states within 5 s of quiet: \(gateways.count) gateways")
        say("no document older than the last: \(world.counts["documents applied"] ?? 0) applied")
        return true
    }
}
