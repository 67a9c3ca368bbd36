// SPDX-License-Identifier: Apache-2.0
// Hands the view's clients over to the next run: the service manager stores their sockets, and their state in sealed
// memory (systemd.service(5), `FileDescriptorStoreMax=`).

internal import BlueZView
internal import DBusKit
internal import Logging
internal import ProgramSupport

enum Handover {
    /// Names of descriptors at the service manager.
    private static let names = (state: "view-state", socket: "view-client")
    /// In bytes of state: far more than the maximum number of clients needs.
    private static let maxSize = 64 << 20

    /// Whether a descriptor from the service manager belongs to the handover.
    static func owns(_ name: String) -> Bool { name == names.state || name == names.socket }

    /// Receives the clients of the previous run from the service manager.
    ///
    /// - Parameter inherited: all descriptors from the service manager, with their names.
    static func receive(_ inherited: [(name: String, descriptor: FileDescriptor)]) -> ViewHandover? {
        guard inherited.contains(where: { owns($0.name) }) else { return nil }
        ServiceManager.discard(names.state)
        ServiceManager.discard(names.socket)
        guard let state = inherited.last(where: { $0.name == names.state })?.descriptor.readFile(limit: maxSize) else { return nil }
        return ViewHandover(state: state, descriptors: inherited.filter { $0.name == names.socket }.map(\.descriptor))
    }

    /// Leaves the view's clients to the next run. Without a service manager their objects are removed.
    static func leave(_ view: BlueZView, _ log: Logger) {
        guard let handover = view.leave(isKept: ServiceManager.isThere) else { return }
        guard let state = FileDescriptor.sealed(handover.state, name: names.state) else {
            return log.error("cannot hand over the view's clients: out of memory")
        }
        for descriptor in handover.descriptors { ServiceManager.keep(descriptor, named: names.socket) }
        ServiceManager.keep(state, named: names.state)
        ServiceManager.waitUntilTaken()
    }
}
