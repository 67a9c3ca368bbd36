// The engine's time: the main loop's timers and the system's clocks.

public import AccessoryEngine
public import DBusKit
internal import Glibc

final class LoopClock: EngineClock {
    private let loop: MainLoop

    init(_ loop: MainLoop) {
        self.loop = loop
    }

    var now: Int64 { Int64(time(nil)) }

    var uptime: Double {
        var value = timespec()
        clock_gettime(CLOCK_MONOTONIC, &value)
        return Double(value.tv_sec) + Double(value.tv_nsec) / 1e9
    }

    func after(_ seconds: Double, _ body: @escaping () -> Void) -> any EngineTimer {
        loop.after(.seconds(seconds), body)
    }
}

extension LoopSource: EngineTimer {}
