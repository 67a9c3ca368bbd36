// SPDX-License-Identifier: Apache-2.0
// The app's grants, as the daemon lists them on the view, kept up on one connection. (Docs/Interfaces/View.md)

internal import DBusKit
internal import Foundation

/// The grants of one connection to the view.
final class GrantFeed {
    enum Event {
        case changed([ViewSession.Grant])
        /// The daemon takes the process for no app. Permanent on this connection: a manifest that is installed later
        /// counts for new connections.
        case refused
    }

    private static let path: ObjectPath = "/org/accessorysetup1/view"
    private static let interface = "org.accessorysetup1.View"

    private let connection: Connection
    private let onEvent: (Event) -> Void
    private var nameWatch: Subscription?
    private var subscription: Subscription?
    /// Nil until the daemon has answered.
    private var grants: [ViewSession.Grant]?

    init(_ connection: Connection, onEvent: @escaping (Event) -> Void) {
        self.connection = connection
        self.onEvent = onEvent
        nameWatch = connection.watchName(ViewSession.daemon) { [weak self] in self?.daemonChanged($0) }
    }

    var areKnown: Bool { grants != nil }

    func end() {
        nameWatch?.cancel()
        subscription?.cancel()
    }

    private func daemonChanged(_ owner: String?) {
        subscription?.cancel()
        subscription = nil
        // Without an owner the bus is not the view: nothing is granted there.
        guard let owner else { return update(grants ?? []) }
        subscription = connection.subscribe(
            sender: owner, path: Self.path, interface: Bus.properties, member: "PropertiesChanged", argument0: Self.interface
        ) { [weak self] message in
            guard let arguments = try? message.arguments(limits: .generous), arguments.count == 3 else { return }
            if let list = arguments[1].vardictValue?["Peripherals"] {
                self?.update(Self.decode(list))
            } else {
                self?.read {}
            }
        }
        read {}
    }

    /// Asks the daemon for the grants; `completion` is called once they are known.
    func read(_ completion: @escaping () -> Void) {
        connection.call(
            ViewSession.daemon, Self.path, Bus.properties, "Get", [.string(Self.interface), .string("Peripherals")],
            limits: .generous
        ) { [weak self] result in
            switch result {
            case .success(let values): self?.update(values.first.map(Self.decode) ?? [])
            case .failure(let error) where error.isStandard("AccessDenied"):
                self?.grants = []
                self?.onEvent(.refused)
            case .failure: self?.update([])
            }
            completion()
        }
    }

    private static func decode(_ list: DBusValue) -> [ViewSession.Grant] {
        (list.arrayValue ?? []).compactMap { entry in
            guard let fields = entry.structureValue, fields.count == 3,
                let identifier = fields[0].stringValue.flatMap({ UUID(uuidString: $0) }),
                let path = fields[1].objectPathValue, let name = fields[2].stringValue
            else { return nil }
            return .init(identifier: identifier, path: path, name: name)
        }
    }

    private func update(_ new: [ViewSession.Grant]) {
        grants = new
        onEvent(.changed(new))
    }
}
