// SPDX-License-Identifier: Apache-2.0
// The engine's clock: the main loop's timers and the system's clocks.

public import AccessoryEngine
public import DBusKit
internal import Glibc

final class LoopClock: EngineClock {
    private let loop: MainLoop

    init(_ loop: MainLoop) {
        self.loop = loop
    }

    var wallTime: Double { Self.seconds(CLOCK_REALTIME) }
    var uptime: Double { Double(loop.now) / 1e6 }

    private static func seconds(_ clock: clockid_t) -> Double {
        var value = timespec()
        clock_gettime(clock, &value)
        return Double(value.tv_sec) + Double(value.tv_nsec) / 1e9
    }

    func after(_ seconds: Double, _ body: @escaping () -> Void) -> any EngineTimer {
        loop.after(.seconds(seconds), body)
    }
}

extension LoopSource: EngineTimer {}
