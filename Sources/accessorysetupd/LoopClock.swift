// SPDX-License-Identifier: Apache-2.0
// The engine's clock: the main loop's timers and the system's clocks.

internal import AccessoryCore
public import AccessoryEngine
public import DBusKit
internal import Glibc
internal import SystemFiles

final class LoopClock: EngineClock {
    private let loop: MainLoop

    /// The kernel's identifier of this boot; the same for ever where there is none.
    private let boot = (try? SystemFile.text("/proc/sys/kernel/random/boot_id")) ?? ""
    private let hasRealTimeClock = access("/sys/class/rtc/rtc0", F_OK) == 0

    init(_ loop: MainLoop) {
        self.loop = loop
    }

    var reading: ClockReading {
        // A test lets time pass for the loop alone.
        let passed = uptime - Self.seconds(CLOCK_MONOTONIC)
        return ClockReading(
            boot: boot, sinceBoot: Self.seconds(CLOCK_BOOTTIME) + max(0, passed), wall: wallTime,
            isTrusted: wallTime >= Self.release && (hasRealTimeClock || SystemFile.exists(Self.synchronized)))
    }

    func next(_ minutes: Int, after wall: Double) -> Double {
        // Today's, else tomorrow's; mktime(3) knows the days that have no such minute.
        for day in 0...2 {
            var now = time_t(wall)
            var local = tm()
            localtime_r(&now, &local)
            (local.tm_hour, local.tm_min, local.tm_sec) = (Int32(minutes / 60), Int32(minutes % 60), 0)
            local.tm_mday += Int32(day)
            local.tm_isdst = -1
            let time = Double(mktime(&local))
            if time > wall { return time }
        }
        return wall + 86400
    }

    func onClockSet(_ body: @escaping () -> Void) -> any EngineTimer { loop.onClockSet(body) }

    var wallTime: Double { Self.seconds(CLOCK_REALTIME) }
    var uptime: Double { Double(loop.now) / 1e6 }

    /// systemd-timesyncd(8) makes this file once it has set the clock. (The sandbox has no adjtimex(2).)
    private static let synchronized = "/run/systemd/timesync/synchronized"
    /// In 2026: an earlier wall clock was never set, or its battery is empty.
    private static let release = 1_767_225_600.0

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
