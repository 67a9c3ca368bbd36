// SPDX-License-Identifier: Apache-2.0
// Making a call of the list: by its name, with the arguments that vary.

public import DBusKit

extension Connection {
    /// Makes a call. `completion` is called exactly once, from the loop, unless the call is cancelled first; an answer
    /// of other types than agreed is an error.
    ///
    /// - Parameter destination: the receiver, when it is not the service by its name.
    @discardableResult
    public func call(
        _ call: CallOut, of destination: String? = nil, at path: ObjectPath, _ arguments: [DBusValue] = [],
        completion: @escaping (Result<[DBusValue], BusError>) -> Void
    ) -> PendingCall? {
        self.call(call.method, of: destination, at: path, arguments, completion: completion)
    }

    /// The same, with the answer unread.
    @discardableResult
    public func ask(
        _ call: CallOut, of destination: String? = nil, at path: ObjectPath, _ arguments: [DBusValue] = [],
        completion: @escaping (Result<Message, BusError>) -> Void
    ) -> PendingCall? {
        ask(call.method, of: destination, at: path, arguments, completion: completion)
    }

    /// Makes a call of many objects; see `askEach(_:of:at:each:completion:)` of a `RemoteMethod`.
    public func askEach(
        _ call: CallOut, of destination: String? = nil, at paths: [ObjectPath], each: @escaping (Int, Message) -> Void,
        completion: @escaping () -> Void
    ) {
        askEach(call.method, of: destination, at: paths, each: each, completion: completion)
    }
}

extension SignalFeed {
    /// Makes a call; the answer arrives in order with the stream, unread.
    public func ask(_ call: CallOut, at path: ObjectPath, completion: @escaping (Result<Message, BusError>) -> Void) {
        ask(call.method, at: path, completion: completion)
    }
}
