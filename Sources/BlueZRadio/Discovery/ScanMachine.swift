// SPDX-License-Identifier: Apache-2.0
// The scan of one adapter as a value. bluetoothd may lose a scan (adapter reset, another client's stop, a connection on
// 5.66), and may scan although its answer was lost; both are retried, a bounded number of times.

internal import AccessoryEngine
internal import BlueZInterfaces
internal import DBusKit

struct ScanMachine: Equatable {
    enum State: Equatable {
        case stopped
        /// `SetDiscoveryFilter` is pending.
        case filtering(failures: Int)
        /// `StartDiscovery` is pending.
        case starting(failures: Int)
        case running
        /// The next attempt follows after a pause.
        case waiting(failures: Int)
        /// No attempt is made before the next need.
        case failed
        /// `StopDiscovery` is pending.
        case stopping(triesLeft: Int)
    }

    enum Event {
        case needed
        case unneeded
        case filterSet(BusError?)
        case started(BusError?)
        case stopped(BusError?)
        /// The adapter's `Discovering` has become false.
        case discoveryEnded
        case retryIsDue
        /// `StopDiscovery` was sent for another search on this connection, which is one client to bluetoothd.
        case otherSearchEnds
        case otherSearchEnded(BusError?)
    }

    enum Effect: Equatable {
        case setFilter, start, stop, cancelRetry
        case retry(after: Duration)
        case report(RadioFailure)
    }

    private(set) var state = State.stopped
    private var isNeeded = false
    /// bluetoothd may be scanning for this connection without our knowledge: a call was not answered or failed.
    private var mayScan = false

    /// Failures after which the scan is given up, some 17 s. A bluetoothd that was killed leaves the kernel scanning,
    /// and its successor answers `InProgress` until that scan has run out, after about 10 s.
    private static let maxFailures = 13
    /// The weight of a call without an answer, so that a failure is reported within 30 s.
    private static let weightUnanswered = 7
    private static let maxStops = 3

    mutating func handle(_ event: Event) -> [Effect] {
        switch (state, event) {
        case (_, .needed):
            isNeeded = true
            return restart()
        case (_, .unneeded):
            isNeeded = false
            return [.cancelRetry] + restart()
        case (.filtering(let failures), .filterSet(nil)):
            state = .starting(failures: failures)
            return [.start]
        case (.filtering(let failures), .filterSet(let error?)): return failed(error, failures)
        case (.starting, .started(nil)): return run()
        // bluetoothd's answer to a client that scans already.
        case (.starting, .started(let error?)) where mayScan && error.bluez == .inProgress: return run()
        case (.starting(let failures), .started(let error?)):
            mayScan = mayScan || error.leavesOpen
            return failed(error, failures)
        case (.running, .discoveryEnded) where isNeeded: return retry(after: RadioFailure(.other, "BlueZ stopped scanning"), 1)
        case (.waiting(let failures), .retryIsDue): return begin(failures: failures)
        case (.stopping(let triesLeft), .stopped(let error)):
            mayScan = error != nil
            state = .stopped
            // A scan that goes on all the same shows at the next start.
            return mayScan && !isNeeded ? triesLeft > 0 ? stop(triesLeft: triesLeft) : [] : advance()
        case (_, .otherSearchEnds):
            mayScan = true
            return []
        case (.stopped, .otherSearchEnded(let error)), (.waiting, .otherSearchEnded(let error)),
            (.failed, .otherSearchEnded(let error)):
            mayScan = error != nil
            return mayScan ? advance() : []
        default: return []
        }
    }

    /// Begins to count failures anew.
    private mutating func restart() -> [Effect] {
        switch state {
        case .waiting, .failed: state = .stopped
        case .filtering: state = .filtering(failures: 0)
        case .starting: state = .starting(failures: 0)
        case .stopped, .running, .stopping: break
        }
        return advance()
    }

    private mutating func advance() -> [Effect] {
        switch state {
        case .stopped where isNeeded: begin(failures: 0)
        case .running where !isNeeded, .stopped where mayScan: stop(triesLeft: Self.maxStops)
        default: []
        }
    }

    private mutating func begin(failures: Int) -> [Effect] {
        state = .filtering(failures: failures)
        return [.setFilter]
    }

    private mutating func run() -> [Effect] {
        mayScan = false
        state = .running
        return advance()
    }

    private mutating func stop(triesLeft: Int) -> [Effect] {
        state = .stopping(triesLeft: triesLeft - 1)
        return [.stop]
    }

    private mutating func failed(_ error: BusError, _ failures: Int) -> [Effect] {
        state = .stopped
        guard isNeeded else { return advance() }
        let failure = RadioFailure(error.bluez == .notReady ? .unavailable : .other, "\(error)")
        return retry(after: failure, failures + (error.leavesOpen ? Self.weightUnanswered : 1))
    }

    private mutating func retry(after failure: RadioFailure, _ failures: Int) -> [Effect] {
        guard failures < Self.maxFailures else {
            state = .failed
            return [.report(failure)]
        }
        state = .waiting(failures: failures)
        return [.retry(after: .milliseconds(min(200 * failures, 2000)))]
    }
}
