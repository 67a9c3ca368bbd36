// SPDX-License-Identifier: Apache-2.0
// The programs that are registered to show pickers, over time: registrations that are not renewed end, and whoever
// watches is told of each change.

internal import AccessoryModel
internal import Logging

final class PickerRegistry {
    private var programs = PickerPrograms()
    private let news: News
    private let clock: any EngineClock
    private let log: Logger
    /// Who shows the picker now, if a program does.
    private let shower: () -> ClientID?
    private let onGone: (ClientID) -> Void
    /// The programs, and the one that shows the picker, as they were told last.
    private var told: (all: [PickerProgram], shower: ClientID?) = ([], nil)
    private var leaseTimer: (any EngineTimer)?

    /// - Parameter onGone: called when a program is no longer registered, before that is told.
    init(
        _ news: News, _ clock: any EngineClock, _ log: Logger, shower: @escaping () -> ClientID?,
        onGone: @escaping (ClientID) -> Void
    ) {
        self.news = news
        self.clock = clock
        self.log = log
        self.shower = shower
        self.onGone = onGone
    }

    var all: [PickerProgram] { programs.all }
    var first: ClientID? { programs.first }

    /// - Parameters:
    ///   - label: what the program calls itself; nil leaves what it has said before.
    ///   - lease: seconds after which the registration ends; nil leaves what the program has said before.
    ///   - isUnattended: whether no person sees it; nil leaves what the program has said before.
    ///   - user: asked for of a program that is new.
    /// - Throws: `InvalidRequest` past `Limits.pickers`.
    func register(
        _ client: ClientID, label: String?, lease: Double?, isUnattended: Bool?, user: @autoclosure () -> String
    ) throws(SetupError) {
        defer { changed() }
        guard
            try programs.register(
                client, label: label, lease: lease, isUnattended: isUnattended, user: user(), now: clock.now, uptime: clock.uptime)
        else { return }
        log.info("picker registered", metadata: ["client": "\(client)"])
        if programs.all.count == 1 { news.tell(.pickerAvailability) }
    }

    func unregister(_ client: ClientID) {
        guard programs.unregister(client) else { return }
        log.info("picker unregistered", metadata: ["client": "\(client)"])
        onGone(client)
        if programs.all.isEmpty { news.tell(.pickerAvailability) }
        changed()
    }

    private func changed() {
        watchLeases()
        tell()
    }

    /// Waits for the next registration that ends. One that is renewed meanwhile is looked at when its old end comes.
    private func watchLeases() {
        guard let end = programs.nextEnd else {
            leaseTimer?.cancel()
            leaseTimer = nil
            return
        }
        guard leaseTimer == nil else { return }
        leaseTimer = clock.after(max(0, end - clock.uptime)) { [weak self] in
            guard let self else { return }
            self.leaseTimer = nil
            for client in self.programs.ended(at: self.clock.uptime) {
                self.log.notice("picker program is silent", metadata: ["client": "\(client)"])
                self.unregister(client)
            }
            self.watchLeases()
        }
    }

    /// Tells who is registered and who shows the picker, where that has changed.
    func tell() {
        let now = (all: programs.all, shower: shower())
        guard now.all != told.all || now.shower != told.shower else { return }
        told = now
        news.tell(.pickerPrograms)
    }
}
