// SPDX-License-Identifier: Apache-2.0
// The values of a characteristic as a stream.

public import CoreBluetooth
internal import Synchronization

extension CBPeripheral {
    /// Subscribes to a characteristic, and returns its values.
    ///
    /// The subscription begins with the call. The peripheral's delegate receives the same callbacks as with
    /// `setNotifyValue(_:for:)`, and all values. A value that is read meanwhile is among those of the stream, too.
    ///
    /// The stream ends
    /// - with the error of the subscription, where that fails: a `CBATTError` or `CBError`;
    /// - with the error of `didDisconnectPeripheral`, where the link or the grant ends, also if the manager reconnects;
    /// - with `CBError.invalidHandle`, where the accessory no longer has the characteristic;
    /// - with `CBError.notConnected` at once, where the peripheral is not connected;
    /// - with `CBError.operationCancelled`, where the app releases the peripheral or its manager, which the stream does
    ///   not keep;
    /// - without an error, where notifications are turned off, or the app itself ends the link.
    ///
    /// Cancelling the task that iterates, or releasing the stream, ends the subscription. With the last stream of a
    /// characteristic, notifications are turned off, unless the app has turned them on with `setNotifyValue(_:for:)`.
    ///
    /// - Parameters:
    ///   - characteristic: one of this peripheral's.
    ///   - limit: the number of values that may wait for the task. Beyond it, the oldest or the newest are dropped and
    ///     counted by ``CharacteristicValues/droppedCount``.
    public func values(
        for characteristic: CBCharacteristic,
        bufferingPolicy limit: CharacteristicValues.BufferingPolicy = .bufferingNewest(256)
    ) -> CharacteristicValues {
        let (stream, continuation) = AsyncThrowingStream.makeStream(of: Data.self, bufferingPolicy: limit)
        let dropped = DropCounter()
        let cancel = observeValues(of: characteristic) { event in
            switch event {
            case .value(let value): if case .dropped = continuation.yield(value) { dropped.count.add(1, ordering: .relaxed) }
            case .ended(let error): continuation.finish(throwing: error)
            case .state: break
            }
        }
        continuation.onTermination = { _ in cancel() }
        return CharacteristicValues(stream, dropped)
    }
}

/// The values of a characteristic, see ``CoreBluetooth/CBPeripheral/values(for:bufferingPolicy:)``. To be iterated by
/// one task at a time.
public struct CharacteristicValues: AsyncSequence, Sendable {
    /// The number of values that may wait, and whether the oldest or the newest are dropped beyond it.
    public typealias BufferingPolicy = AsyncThrowingStream<Data, any Error>.Continuation.BufferingPolicy

    private let stream: AsyncThrowingStream<Data, any Error>
    private let dropped: DropCounter

    fileprivate init(_ stream: AsyncThrowingStream<Data, any Error>, _ dropped: DropCounter) {
        self.stream = stream
        self.dropped = dropped
    }

    /// The number of values that were dropped so far, because the task was behind.
    public var droppedCount: Int { dropped.count.load(ordering: .relaxed) }

    /// The iterator of the underlying stream.
    public func makeAsyncIterator() -> AsyncThrowingStream<Data, any Error>.Iterator { stream.makeAsyncIterator() }
}

private final class DropCounter: Sendable {
    let count = Atomic(0)
}
