// SPDX-License-Identifier: Apache-2.0
// A daemon of the test's own, which gives scripted answers and sends any event: for answers and events that the real
// one does not offer, or offers only in rare moments, or will offer one day.

import AccessoryBus
import AccessoryModel
import AccessorySetupKit
import DBusKit
import Synchronization
import TestSupport

/// A method call that arrived.
struct Call: Sendable {
    let member: String
    let arguments: [DBusValue]

    /// A dictionary among the arguments.
    func values(_ index: Int) -> [String: DBusValue] { arguments[index].vardictValue ?? [:] }
}

/// How a call is answered.
enum Response: Sendable {
    case values([DBusValue])
    case failure(String)
    case never
}

/// The fake daemon's scripted answers, and the calls that it received.
private final class Script: Sendable {
    let calls = Mailbox<Call>()
    let responses = Mutex<[String: Response]>([:])

    func take(_ call: Call) -> Response? {
        calls.put(call)
        return responses.withLock { $0[call.member] }
    }
}

final class FakeDaemon: Sendable {
    private let script = Script()
    private let thread: LoopThread<FakeService>
    static let picker: ObjectPath = "/org/accessorysetup1/picker/1"
    static let accessory: ObjectPath = "/org/accessorysetup1/accessory/A"

    /// - Parameter accessories: the accessories that the app may use from the beginning.
    init(on bus: PrivateBus, accessories: [ObjectPath: [String: DBusValue]] = [:]) async throws {
        let address = bus.address
        let started = Mailbox<Bool>()
        thread = try LoopThread(name: "fake-daemon") { [script] loop in
            let service = FakeService(loop, script)
            started.put((try? service.start(address, accessories)) != nil)
            return service
        }
        guard try await started.wait() else { throw Overdue(description: "the fake daemon cannot start") }
    }

    var calls: Mailbox<Call> { script.calls }

    func answer(_ member: String, with response: Response) { script.responses.withLock { $0[member] = response } }

    /// Answers the calls of a member that were not to be answered.
    func release(_ member: String, with values: [DBusValue]) { thread.perform { $0.release(member, values) } }

    /// Sends an event to the app whose session was made last.
    func emit(_ type: String, _ details: [String: DBusValue] = [:]) {
        thread.perform { $0.emit(AccessoryBus.session, "Event", at: $0.session, [.string(type), .vardict(details)]) }
    }

    func changeAccessory(_ path: ObjectPath, _ changes: [String: DBusValue]) {
        thread.perform {
            $0.emit(
                Bus.properties, "PropertiesChanged", at: path, [.string(AccessoryBus.accessory), .vardict(changes), .strings([])])
        }
    }

    /// Gives the name away, as a daemon does that ends.
    func end() { thread.perform { $0.end() } }

    static func properties(_ name: String, state: String = "authorized") -> [String: DBusValue] {
        ["DisplayName": .string(name), "State": .string(state), "Device": .objectPath("/")]
    }
}

/// Lives on the fake daemon's thread.
private final class FakeService {
    private let loop: MainLoop
    private var connection: Connection?
    private var server: ObjectServer?
    private var app: String?
    private var sessions = 0
    var session: ObjectPath { AccessoryBus.sessionPath(sessions) }
    private let script: Script

    init(_ loop: MainLoop, _ script: Script) {
        self.loop = loop
        self.script = script
    }

    func start(_ address: String, _ accessories: [ObjectPath: [String: DBusValue]]) throws {
        let connection = try Connection(.server(address), loop: loop)
        let server = ObjectServer(on: connection, root: AccessoryBus.root)
        var manager = try interface(AccessoryBus.manager)
        manager.method("CreateSession") { [unowned self] call throws(BusError) in
            app = call.sender
            sessions += 1
            self.server?.export(FakeObject(session, try sessionInterface(accessories.keys.sorted())))
            answer(call, otherwise: [.objectPath(session)])
        }
        server.export(FakeObject(AccessoryBus.root, manager))
        for (path, properties) in accessories {
            var accessory = try interface(AccessoryBus.accessory)
            for (name, value) in properties { accessory.property(name) { _ in value } }
            server.export(FakeObject(path, accessory))
        }
        connection.onCall = { [weak server] in server?.serve($0) ?? false }
        try connection.requestName(AccessoryBus.name)
        (self.connection, self.server) = (connection, server)
    }

    /// An interface of which nothing is played yet: its methods fail, and its properties have no values.
    private func interface(_ name: String) throws(BusError) -> ExportedInterface {
        var interface = ExportedInterface(try AccessoryBus.description(of: name))
        for method in interface.description.methods {
            interface.method(method.name) { _ throws(BusError) in throw BusError.failed("\(method.name) is not played") }
        }
        for property in interface.description.properties { interface.property(property.name) { _ in nil } }
        return interface
    }

    private func sessionInterface(_ accessories: [ObjectPath]) throws(BusError) -> ExportedInterface {
        var interface = try interface(AccessoryBus.session)
        interface.property("Accessories") { _ in .objectPaths(accessories) }
        for method in interface.description.methods {
            let hasPicker = method.outputs.map(\.type) == ["o"]
            interface.method(method.name) { [unowned self] call throws(BusError) in
                answer(call, otherwise: hasPicker ? [.objectPath(FakeDaemon.picker)] : [])
                if method.name == "Activate" {
                    emit(AccessoryBus.session, "Event", at: call.path, [.string("activated"), .vardict([:])])
                }
            }
        }
        return interface
    }

    private func answer(_ call: MethodCall, otherwise values: [DBusValue]) {
        switch script.take(Call(member: call.member, arguments: call.arguments)) ?? .values(values) {
        case .values(let values): if let first = values.first { call.reply(first) } else { call.reply() }
        case .failure(let name): call.fail(BusError(name: name, message: "because"))
        case .never: held.append(call)
        }
    }

    func release(_ member: String, _ values: [DBusValue]) {
        let calls = held.filter { $0.member == member }
        held.removeAll { $0.member == member }
        for call in calls { if let first = values.first { call.reply(first) } else { call.reply() } }
    }

    /// Calls without an answer so far.
    private var held: [MethodCall] = []

    func emit(_ interface: String, _ member: String, at path: ObjectPath, _ arguments: [DBusValue]) {
        server?.emit(path: path, interface: interface, member: member, to: app, arguments)
    }

    func end() { connection?.call(Bus.name, Bus.path, Bus.name, "ReleaseName", [.string(AccessoryBus.name)]) { _ in } }
}

private final class FakeObject: ExportedObject {
    let path: ObjectPath
    let interfaces: [ExportedInterface]

    init(_ path: ObjectPath, _ interface: ExportedInterface) {
        self.path = path
        interfaces = [interface]
    }

    func isVisible(to caller: String) -> Bool { true }
}
