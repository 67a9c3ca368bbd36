// SPDX-License-Identifier: Apache-2.0
// The sessions on the bus, those that have ended included: their calls get another error than an unknown path.

internal import AccessoryBus
internal import AccessoryCore
internal import AccessoryEngine
internal import AccessoryModel
internal import DBusKit

final class ExportedSessions {
    private var objects: [Int: SessionObject] = [:]
    /// Paths of sessions that were invalidated while their app lives on, and its connection: calls are `Invalidated`,
    /// not `UnknownObject`.
    private var ended: [ObjectPath: String] = [:]

    /// How many ended sessions of one connection are remembered.
    private static let endedPerClient = 64

    /// The error for a request to a session of the caller's that has ended.
    func invalidation(of message: Message) -> BusError? {
        guard let path = message.path, let owner = ended[path], owner == message.sender,
            message.interface == AccessoryBus.session || message.interface == nil
        else { return nil }
        return BusError(SetupError(.invalidated, "the session \(path) was invalidated"))
    }

    func clientGone(_ client: String) { ended = ended.filter { $0.value != client } }

    func open(_ session: Session, _ service: AccessoryService) {
        let (object, client) = (SessionObject(session, service), session.client.rawValue)
        objects[session.id] = object
        service.server.export(object, to: service.audience(of: session))
        for granted in service.engine.ledger.accessories(of: session.app.id) where !service.clients.isAdmin(client) {
            if let object = service.object(of: granted.accessory.id) { service.server.announce(object, to: .only([client])) }
        }
    }

    func publish(_ session: Session, to audience: Audience) { objects[session.id]?.publish(to: audience) }

    func close(_ session: Session, _ service: AccessoryService) {
        guard let object = objects.removeValue(forKey: session.id) else { return }
        let client = session.client.rawValue
        service.server.withdraw(object.path, to: service.audience(of: session))
        guard service.clients.caller(client) != nil, ended.values.count(where: { $0 == client }) < Self.endedPerClient
        else { return }
        ended[object.path] = client
    }

    func emit(_ event: SessionEvent, in session: Session, _ service: AccessoryService) {
        guard let object = objects[session.id] else { return }
        var details = EventDetails(event.discovered)
        if let granted = event.accessory {
            details.accessory = AccessoryBus.accessoryPath(granted.accessory.id)
            details.properties = AccessoryProperties(granted, device: service.devicePath(of: granted.accessory))
        }
        details.picker = event.picker.map { AccessoryBus.pickerPath($0) }
        details.error = event.error.map { BusError($0).name }
        details.message = event.error?.message
        service.server.emit(
            path: object.path, interface: AccessoryBus.session, member: "Event", to: session.client.rawValue,
            [.string(event.type.name), details.wire])
    }
}
