// SPDX-License-Identifier: Apache-2.0
// A method of another service that is called from here, and the one place where such a call goes out and its answer
// comes in: the answer has the types that were agreed, or it is an error.

/// A method of another service: its types, and how long its answer is waited for.
public struct RemoteMethod: Sendable {
    /// The service's well-known name; empty for a method that any peer has.
    public let service: String
    public let interface: String
    public let member: String
    /// The first arguments of every call: for one of org.freedesktop.DBus.Properties, the interface and the property.
    public let about: [String]
    /// The types of all arguments, those of `about` included.
    public let takes: String
    /// The types of the answer.
    public let returns: String
    /// How long the answer is waited for.
    public let timeout: Duration
    /// How much is taken of an answer that is read into values.
    public let limits: DecodingLimits

    /// Stores its arguments.
    public init(
        _ service: String, _ interface: String, _ member: String, about: [String] = [], takes: String = "", returns: String = "",
        timeout: Duration, limits: DecodingLimits = .modest
    ) {
        self.service = service
        self.interface = interface
        self.member = member
        self.about = about
        self.takes = takes
        self.returns = returns
        self.timeout = timeout
        self.limits = limits
    }

    /// `Get` of a property.
    public static func get(_ service: String, _ interface: String, _ property: String, timeout: Duration) -> RemoteMethod {
        RemoteMethod(
            service, Bus.properties, "Get", about: [interface, property], takes: "ss", returns: "v", timeout: timeout)
    }

    /// `GetAll` of an interface's properties.
    public static func getAll(_ service: String, _ interface: String, timeout: Duration) -> RemoteMethod {
        RemoteMethod(service, Bus.properties, "GetAll", about: [interface], takes: "s", returns: "a{sv}", timeout: timeout)
    }

    /// `Set` of a property; takes its value as a variant.
    public static func set(_ service: String, _ interface: String, _ property: String, timeout: Duration) -> RemoteMethod {
        RemoteMethod(service, Bus.properties, "Set", about: [interface, property], takes: "ssv", timeout: timeout)
    }

    /// `GetManagedObjects`: all objects of a service.
    public static func objects(_ service: String, timeout: Duration) -> RemoteMethod {
        RemoteMethod(
            service, Bus.objectManager, "GetManagedObjects", returns: "a{oa{sa{sv}}}", timeout: timeout, limits: .generous)
    }

    /// A call of this method.
    ///
    /// - Parameter destination: the receiver, when it is not the service by its name.
    /// - Throws: `InvalidArgs` for a value that cannot travel.
    public func message(
        to destination: String? = nil, at path: ObjectPath, _ arguments: [DBusValue] = []
    ) throws(BusError) -> Message {
        let message = try Message.call(
            to: destination ?? (service.isEmpty ? nil : service), path: path, interface: interface, member: member,
            about.map { .string($0) } + arguments)
        assert(message.signature == takes, "\(member) takes (\(takes)), not (\(message.signature))")
        return message
    }

    /// An answer, if it has the types of this method's.
    public func checked(_ answer: Message) -> Result<Message, BusError> {
        guard answer.hasSignature(returns) else {
            return .failure(
                .standard(
                    "InconsistentMessage", "\(member) was answered with (\(answer.signature.prefix(40))), not with (\(returns))"))
        }
        return .success(answer)
    }
}

extension DecodingLimits {
    /// For an answer that says little: 1 MiB.
    public static let modest = DecodingLimits(depth: 16, values: 65_536, bytes: 1 << 20)
}

extension Connection {
    /// Calls a method and hands the answer over unread. `completion` is called exactly once, from the loop, unless the
    /// call is cancelled first.
    ///
    /// - Parameter destination: the receiver, when it is not the service by its name.
    @discardableResult
    public func ask(
        _ method: RemoteMethod, of destination: String? = nil, at path: ObjectPath, _ arguments: [DBusValue] = [],
        completion: @escaping (Result<Message, BusError>) -> Void
    ) -> PendingCall? {
        do throws(BusError) {
            let message = try method.message(to: destination, at: path, arguments)
            return call(message, timeout: method.timeout) { completion($0.flatMap(method.checked)) }
        } catch {
            loop.soon { completion(.failure(error)) }
            return nil
        }
    }

    /// The same, with the answer as values.
    @discardableResult
    public func call(
        _ method: RemoteMethod, of destination: String? = nil, at path: ObjectPath, _ arguments: [DBusValue] = [],
        completion: @escaping (Result<[DBusValue], BusError>) -> Void
    ) -> PendingCall? {
        ask(method, of: destination, at: path, arguments) { answer in
            completion(
                answer.flatMap { reply in Result { () throws(BusError) in try reply.arguments(limits: method.limits) } })
        }
    }

    /// Calls a method and waits for the answer without running the loop: for start-up.
    func callAndWait(
        _ method: RemoteMethod, at path: ObjectPath, _ arguments: [DBusValue] = []
    ) throws(BusError) -> [DBusValue] {
        let values = try callAndWait(
            method.service, path, method.interface, method.member, method.about.map { .string($0) } + arguments,
            timeout: method.timeout)
        guard values.map(\.signature.rawValue).joined() == method.returns else {
            throw .standard("InconsistentMessage", "\(method.member) was answered with other types than (\(method.returns))")
        }
        return values
    }

    /// Calls a method of many objects, as `callEach` does. An answer of other types is none.
    public func askEach(
        _ method: RemoteMethod, of destination: String? = nil, at paths: [ObjectPath],
        each: @escaping (Int, Message) -> Void, completion: @escaping () -> Void
    ) {
        callEach(
            destination ?? method.service, paths, method.interface, method.member, method.about.map { .string($0) },
            timeout: method.timeout
        ) { index, answer in
            if case .success(let answer) = method.checked(answer) { each(index, answer) }
        } completion: {
            completion()
        }
    }
}

extension SignalFeed {
    /// Calls a method and hands the answer over unread; it comes in order with the stream.
    public func ask(
        _ method: RemoteMethod, at path: ObjectPath, _ arguments: [DBusValue] = [],
        completion: @escaping (Result<Message, BusError>) -> Void
    ) {
        do throws(BusError) {
            call(try method.message(at: path, arguments), timeout: method.timeout) { completion($0.flatMap(method.checked)) }
        } catch {
            loop.soon { completion(.failure(error)) }
        }
    }
}
