// SPDX-License-Identifier: Apache-2.0
// The faults of a round, and their times, from the seed alone.

import FleetAgent

/// A fault, with its length in milliseconds where it has one.
enum Fault {
    case killBroker(Int)
    case stopBroker(Int)
    case restartOperator
    case partition(Int, Int)
    case slow(Int, Int)
    case setClock(Int, seconds: Int, Int)
    case fillDisk(Int, Int)
    case doom(Int, Doom)
    case stopDaemon(Int, Int, losesStore: Bool)
    case document
    case oldDocument
}

/// The faults in the order of their times, which are milliseconds from the round's begin.
func schedule(gateways: Int, length: Int, _ random: inout SplitMix) -> [(time: Int, fault: Fault)] {
    var faults: [(time: Int, fault: Fault)] = []
    func add(_ count: Int, _ random: inout SplitMix, _ make: (_ gateway: Int, _ length: Int, inout SplitMix) -> Fault) {
        for _ in 0..<count {
            let time = Int.random(in: 0..<length, using: &random)
            let gateway = Int.random(in: 0..<gateways, using: &random)
            let longest = max(2, min(30_000, length - time))
            faults.append((time, make(gateway, Int.random(in: 1..<longest, using: &random), &random)))
        }
    }
    let few = max(2, gateways / 50)
    add(Int.random(in: 0...1, using: &random), &random) { _, length, _ in .killBroker(min(length, 2000)) }
    add(Int.random(in: 0...1, using: &random), &random) { _, length, _ in .stopBroker(length) }
    add(Int.random(in: 0...2, using: &random), &random) { _, _, _ in .restartOperator }
    add(few, &random) { gateway, length, _ in .partition(gateway, length) }
    add(few, &random) { gateway, length, _ in .slow(gateway, length) }
    add(few, &random) { gateway, length, random in
        .setClock(gateway, seconds: [-3600, -90, -61, -30, 30, 61, 90, 3600].randomElement(using: &random) ?? 0, length)
    }
    add(max(1, few / 4), &random) { gateway, length, _ in .fillDisk(gateway, length) }
    add(few * 10, &random) { gateway, _, random in
        let moment = Doom.Moment.allCases.randomElement(using: &random) ?? .before
        let isPowerCut = Int.random(in: 0..<3, using: &random) == 0
        let kind = EffectKind.allCases.randomElement(using: &random) ?? .publish
        return .doom(gateway, Doom(kind: kind, moment: moment, isPowerCut: isPowerCut))
    }
    add(max(1, few / 2), &random) { gateway, length, random in
        .stopDaemon(gateway, length, losesStore: Int.random(in: 0..<3, using: &random) == 0)
    }
    add(4, &random) { _, _, _ in .document }
    add(4, &random) { _, _, _ in .oldDocument }
    return faults.sorted { $0.time < $1.time }
}
