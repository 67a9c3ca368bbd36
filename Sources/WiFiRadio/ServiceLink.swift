// SPDX-License-Identifier: Apache-2.0
// A Wi-Fi service on the bus: the owner of its name, its signals, and the properties of its objects.

internal import AccessoryEngine
internal import CallsOut
internal import DBusKit

/// A service's name on the bus and its owner's objects.
final class ServiceLink {
    let connection: Connection
    let busName: String
    private(set) var owner: String?
    private var isKnown = false
    /// Signals of the present owner; cancelled with it.
    var subscriptions: [Subscription] = []
    private var watch: Subscription?

    init(_ connection: Connection, _ busName: String) {
        self.connection = connection
        self.busName = busName
    }

    /// - Parameter changed: called with the first answer and with every change of the owner.
    func start(changed: @escaping () -> Void) {
        watch = connection.watchName(busName) { [weak self] owner in
            guard let self, !self.isKnown || owner != self.owner else { return }
            self.isKnown = true
            for subscription in self.subscriptions { subscription.cancel() }
            self.subscriptions = []
            self.owner = owner
            changed()
        }
    }

    func call(
        _ call: CallOut, at path: ObjectPath, _ arguments: [DBusValue] = [],
        completion: @escaping (Result<[DBusValue], BusError>) -> Void
    ) {
        guard let owner else {
            connection.loop.soon { completion(.failure(.disconnected("the service is gone"))) }
            return
        }
        connection.call(call, of: owner, at: path, arguments, completion: completion)
    }

    /// All properties of an interface of an object; none of an object that is gone.
    func properties(
        _ call: CallOut, at path: ObjectPath, completion: @escaping (Result<[String: DBusValue], BusError>) -> Void
    ) {
        self.call(call, at: path) { result in
            switch result {
            case .success(let values): completion(.success(values.first?.vardictValue ?? [:]))
            case .failure(let error): completion(error.meansGone ? .success([:]) : .failure(error))
            }
        }
    }

    /// The properties of several objects, in their order, without objects that are gone. Completed once all have
    /// answered.
    func properties(
        _ call: CallOut, at paths: [ObjectPath],
        completion: @escaping (Result<[(path: ObjectPath, values: [String: DBusValue])], BusError>) -> Void
    ) {
        guard !paths.isEmpty else { return completion(.success([])) }
        var found = [[String: DBusValue]](repeating: [:], count: paths.count)
        var missing = paths.count
        var failure: BusError?
        for (index, path) in paths.enumerated() {
            properties(call, at: path) { result in
                switch result {
                case .success(let values): found[index] = values
                case .failure(let error): failure = error
                }
                missing -= 1
                guard missing == 0 else { return }
                completion(failure.map { .failure($0) } ?? .success(Array(zip(paths, found)).map { (path: $0, values: $1) }))
            }
        }
    }

    /// Reads each object with `read`, in the objects' order. Completed once all have answered. Objects that are gone,
    /// or for which `read` returns nil, are left out.
    ///
    /// - Parameter read: gets a cursor on the properties.
    func read<Value>(
        _ call: CallOut, at paths: [ObjectPath], _ read: @escaping (inout ValueCursor) -> Value?,
        completion: @escaping ([Value]) -> Void
    ) {
        guard let owner, !paths.isEmpty else { return completion([]) }
        var found = [Value?](repeating: nil, count: paths.count)
        connection.askEach(call, of: owner, at: paths) { index, answer in
            answer.withArguments { properties in
                properties.enterVariants()
                found[index] = read(&properties)
            }
        } completion: {
            completion(found.compactMap(\.self))
        }
    }

    /// Makes a call and passes the undecoded answer to `read`, with a cursor on its first argument. `completion` is
    /// always called, with the error if there was one.
    func ask(
        _ call: CallOut, at path: ObjectPath, read: @escaping (inout ValueCursor) -> Void,
        completion: @escaping (BusError?) -> Void
    ) {
        guard let owner else {
            connection.loop.soon { completion(.disconnected("the service is gone")) }
            return
        }
        connection.ask(call, of: owner, at: path) { result in
            switch result {
            case .success(let answer):
                answer.withArguments { argument in
                    argument.enterVariants()
                    read(&argument)
                }
                completion(nil)
            case .failure(let error): completion(error)
            }
        }
    }

    /// Changed properties of an object, or of all objects. A scan changes hundreds, so only the named ones are decoded.
    ///
    /// - Parameter handler: gets the named properties that have changed, possibly none.
    func onProperties(
        of path: ObjectPath? = nil, _ interface: String, _ names: [StaticString],
        _ handler: @escaping (ObjectPath, [String: DBusValue]) -> Void
    ) -> Subscription? {
        guard let owner else { return nil }
        return connection.subscribe(
            sender: owner, path: path, interface: Bus.properties, member: "PropertiesChanged", argument0: interface
        ) { message in
            if let values = message.changedProperties(among: names), let path = message.path { handler(path, values) }
        }
    }

    /// Undecoded signals.
    func onMessage(
        _ interface: String, _ member: String, of path: ObjectPath? = nil, _ handler: @escaping (Message) -> Void
    ) -> Subscription? {
        owner.map { connection.subscribe(sender: $0, path: path, interface: interface, member: member, handler: handler) }
    }

    func onSignal(
        _ interface: String, _ member: String, of path: ObjectPath? = nil, _ handler: @escaping (ObjectPath, [DBusValue]) -> Void
    ) -> Subscription? {
        onMessage(interface, member, of: path) { message in
            guard let path = message.path, let arguments = try? message.arguments(limits: .generous) else { return }
            handler(path, arguments)
        }
    }
}

extension Result where Failure == BusError {
    /// The value; passes the error to `report` where there is none.
    func value(orElse report: (BusError) -> Void) -> Success? {
        switch self {
        case .success(let value): return value
        case .failure(let error):
            report(error)
            return nil
        }
    }
}

extension BusError {
    /// Whether an object does not exist any more, in the words of any service.
    var meansGone: Bool { ["UnknownObject", "UnknownMethod", "UnknownInterface"].contains { isStandard($0) } }

    /// The failure of a request that this call is part of. The error's message can quote the request, so it is left
    /// out.
    func failure(of service: String) -> RadioFailure {
        isStandard("NoReply")
            ? RadioFailure(.timeout, "\(service) did not answer in time") : RadioFailure(.other, "\(service) refused (\(name))")
    }
}

extension Message {
    /// The named properties of a `PropertiesChanged`; nil where the types are wrong. An invalidated property counts as
    /// gone: its value is an empty text.
    func changedProperties(among names: [StaticString]) -> [String: DBusValue]? {
        var values: [String: DBusValue] = [:]
        var isComplete = false
        withArguments { argument in
            argument.next()
            let isDictionary = argument.forEachEntry(among: names) { name, value in
                values["\(names[name])"] = value.value(limits: .generous)
            }
            guard isDictionary, argument.next() else { return }
            argument.forEachElement { element in
                if let name = element.word(among: names) { values["\(names[name])"] = .string("") }
            }
            isComplete = !argument.next()
        }
        return isComplete ? values : nil
    }
}
