// SPDX-License-Identifier: Apache-2.0
// The trail as it is written: the daemon's signals from the creation of this object, without the lines of a list.

internal import AccessoryBus
internal import DBusKit
internal import Glibc

/// Follows the audit trail of the daemon that runs.
final class AuditFollowing {
    private let connection: Connection
    private var subscriptions: [Subscription] = []
    /// Lines that arrived before the list.
    private var waiting: [AuditLine] = []
    /// The numbers of the lines that the list has.
    private var listed: Set<UInt64> = []
    private var show: ((AuditLine) -> Void)?
    private var isOver = false

    /// Listens from now on.
    ///
    /// - Throws: when the daemon cannot be reached.
    init(_ connection: Connection) throws(BusError) {
        self.connection = connection
        // The first call starts the daemon where the bus can do that.
        _ = try connection.callAndWait(AccessoryBus.name, AccessoryBus.root, Bus.peer, "Ping")
        let owner =
            try connection.callAndWait(Bus.name, Bus.path, Bus.name, "GetNameOwner", [.string(AccessoryBus.name)])[0].stringValue
            ?? ""
        subscriptions = [
            connection.subscribe(
                sender: owner, path: AccessoryBus.adminPath, interface: AccessoryBus.admin, member: "Audited"
            ) { [weak self] message in self?.receive(AuditLine.list(wire: (try? message.arguments())?.first)) },
            connection.watchName(AccessoryBus.name) { [weak self] new in
                if new != owner { self?.end() }
            },
        ]
        connection.onDisconnect = { [weak self] in self?.end() }
    }

    private func receive(_ lines: [AuditLine]) {
        guard let show else { return waiting += lines }
        for line in lines where !listed.contains(line.id) { show(line) }
    }

    private func end() {
        isOver = true
        connection.loop.quit()
    }

    /// Shows lines as they arrive, until a signal ends the process.
    ///
    /// - Parameter listed: lines that were shown already.
    /// - Throws: when the daemon has gone.
    func run(after listed: [AuditLine], show: @escaping (AuditLine) -> Void) throws(BusError) {
        // A reader of the output may stop reading: libdbus makes the process ignore that.
        signal(SIGPIPE, SIG_DFL)
        self.listed = Set(listed.map(\.id))
        self.show = show
        receive(waiting)
        waiting = []
        if !isOver { connection.loop.run() }
        throw BusError(name: "org.freedesktop.DBus.Error.Disconnected", message: "accessorysetupd has stopped")
    }
}
