// SPDX-License-Identifier: Apache-2.0
// Between two runs of the daemon the service manager keeps the view's clients: their sockets, and their state in
// sealed memory. (systemd.service(5), `FileDescriptorStoreMax=`)

internal import BlueZView
internal import DBusKit
internal import Logging
internal import ProgramSupport

enum Handover {
    /// Of the descriptors that the service manager keeps.
    private static let names = (state: "view-state", socket: "view-client")
    /// Bytes of state: far more than for the clients that there may be.
    private static let longest = 64 << 20

    /// Whether a descriptor from the service manager is one of these.
    static func owns(_ name: String) -> Bool { name == names.state || name == names.socket }

    /// What the run before has left; the service manager keeps it no longer.
    ///
    /// - Parameter given: all that the service manager has handed over.
    static func take(_ given: [(name: String, descriptor: FileDescriptor)]) -> ViewHandover? {
        guard given.contains(where: { owns($0.name) }) else { return nil }
        ServiceManager.forget(names.state)
        ServiceManager.forget(names.socket)
        guard let state = given.last(where: { $0.name == names.state })?.descriptor.readFile(limit: longest) else { return nil }
        return ViewHandover(state: state, descriptors: given.filter { $0.name == names.socket }.map(\.descriptor))
    }

    /// Leaves the view's clients to the next run. Where nothing could keep them they hear that all is gone.
    static func leave(_ view: BlueZView, _ log: Logger) {
        guard let left = view.leave(isKept: ServiceManager.isThere) else { return }
        guard let state = FileDescriptor.sealed(left.state, name: names.state) else {
            return log.error("the view's clients cannot be handed over: no memory")
        }
        for descriptor in left.descriptors { ServiceManager.keep(descriptor, named: names.socket) }
        ServiceManager.keep(state, named: names.state)
        ServiceManager.waitUntilTaken()
    }
}
