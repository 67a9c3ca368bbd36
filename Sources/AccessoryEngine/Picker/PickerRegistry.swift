// SPDX-License-Identifier: Apache-2.0
// The programs that have registered to show pickers. Registrations that are not renewed end.

internal import AccessoryModel
internal import Logging

/// A program that shows pickers.
public struct PickerProgram: Hashable, Sendable {
    /// Its connection.
    public let client: ClientID
    /// Its name for people; empty when it gave none.
    public internal(set) var label: String
    /// Its user; nil where that is not known.
    public let uid: UInt32?
    /// Its user's account name, or the number of one without a name, as of the registration.
    public let user: String
    /// The time of the registration, seconds since 1970.
    public let since: Int64
    /// Whether it answers without a person, as a script does.
    public internal(set) var isUnattended = false
    /// Whether no person can see it at the moment: it comes after programs that can be seen.
    public internal(set) var isStandby = false
}

final class PickerRegistry {
    /// In the order of registration.
    private var registered: [PickerProgram] = []
    /// Registrations that end unless they are renewed.
    private var leases: [ClientID: Lease] = [:]
    private let services: EngineServices
    /// The program that shows the picker, if one does.
    private let currentPresenter: () -> ClientID?
    private let onChange: () -> Void
    /// The programs and the presenter as published last.
    private var published: (all: [PickerProgram], presenter: ClientID?) = ([], nil)
    private var leaseTimer: (any EngineTimer)?

    private struct Lease {
        let seconds: Double
        /// Monotonic seconds.
        let end: Double
    }

    /// - Parameter onChange: called when the programs have changed, before that is published.
    init(_ services: EngineServices, currentPresenter: @escaping () -> ClientID?, onChange: @escaping () -> Void) {
        self.services = services
        self.currentPresenter = currentPresenter
        self.onChange = onChange
    }

    /// The first shows the next picker.
    var all: [PickerProgram] { registered.filter { !$0.isStandby } + registered.filter(\.isStandby) }

    subscript(_ client: ClientID) -> PickerProgram? { registered.first { $0.client == client } }

    func register(
        _ client: ClientID, label: String?, lease: Double?, isUnattended: Bool?, isStandby: Bool?, uid: UInt32?,
        user: @autoclosure () -> String
    ) throws(SetupError) {
        let index = registered.firstIndex { $0.client == client }
        guard index != nil || registered.count < Limits.pickers else {
            throw .invalid("RegisterPicker", client, "\(Limits.pickers) pickers are already registered")
        }
        var program =
            index.map { registered[$0] }
            ?? PickerProgram(client: client, label: "", uid: uid, user: user(), since: services.clock.now)
        program.label = label ?? program.label
        program.isUnattended = isUnattended ?? program.isUnattended
        program.isStandby = isStandby ?? program.isStandby
        if let seconds = lease ?? leases[client]?.seconds {
            leases[client] = Lease(seconds: seconds, end: services.clock.uptime + seconds)
        }
        if let index {
            registered[index] = program
        } else {
            registered.append(program)
            services.log.info("picker registered", metadata: ["client": "\(client)"])
            if registered.count == 1 { services.publisher.publish(.pickerAvailability) }
        }
        changed()
    }

    func unregister(_ client: ClientID) {
        guard let index = registered.firstIndex(where: { $0.client == client }) else { return }
        registered.remove(at: index)
        leases[client] = nil
        services.log.info("picker unregistered", metadata: ["client": "\(client)"])
        if registered.isEmpty { services.publisher.publish(.pickerAvailability) }
        changed()
    }

    private func changed() {
        watchLeases()
        onChange()
        publish()
    }

    /// Waits for the next registration that ends; one that is renewed meanwhile is examined at its old end.
    private func watchLeases() {
        guard let end = leases.values.map(\.end).min() else {
            leaseTimer?.cancel()
            leaseTimer = nil
            return
        }
        guard leaseTimer == nil else { return }
        leaseTimer = services.clock.after(max(0, end - services.clock.uptime)) { [weak self] in
            guard let self else { return }
            self.leaseTimer = nil
            let now = self.services.clock.uptime
            for program in self.registered where self.leases[program.client].map({ $0.end <= now }) == true {
                self.services.log.notice("picker program does not respond", metadata: ["client": "\(program.client)"])
                self.unregister(program.client)
            }
            self.watchLeases()
        }
    }

    /// Publishes the programs and the presenter, if they have changed.
    func publish() {
        let presenter = currentPresenter()
        guard all != published.all || presenter != published.presenter else { return }
        published = (all, presenter)
        services.publisher.publish(.pickerPrograms)
    }
}
