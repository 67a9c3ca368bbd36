// SPDX-License-Identifier: Apache-2.0
// The states of a manager as a stream.

public import CoreBluetooth

extension CBCentralManager {
    /// The present state, then each change. A task that is behind receives the newest state alone.
    ///
    /// Each call returns a stream of its own. It does not keep the manager, and ends when the app releases that.
    public var states: AsyncStream<CBManagerState> {
        let (stream, continuation) = AsyncStream.makeStream(of: CBManagerState.self, bufferingPolicy: .bufferingNewest(1))
        let cancel = observeState { event in
            switch event {
            case .state(let state): continuation.yield(state)
            case .ended: continuation.finish()
            case .value: break
            }
        }
        continuation.onTermination = { _ in cancel() }
        return stream
    }
}
