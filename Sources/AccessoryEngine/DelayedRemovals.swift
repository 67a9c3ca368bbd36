// SPDX-License-Identifier: Apache-2.0
// Removals that a person can still take back: the daemon carries each out after its delay, whether or not the program
// that asked is still connected, and all that remain before it ends.

internal import AccessoryCore
internal import AccessoryModel
internal import Logging

final class DelayedRemovals {
    private struct Removal {
        let time: Int64
        let timer: any EngineTimer
        let reason: String
        let requester: Requester
    }

    private var scheduled: [AccessoryID: Removal] = [:]
    private let services: EngineServices

    init(_ services: EngineServices) { self.services = services }

    /// Seconds since 1970; nil for an accessory that stays.
    func time(of id: AccessoryID) -> Int64? { scheduled[id]?.time }

    /// Replaces an earlier delay of the same accessory.
    func schedule(_ accessory: Accessory, in seconds: Double, reason: String, by requester: Requester) {
        let id = accessory.id
        scheduled[id]?.timer.cancel()
        let timer = services.clock.after(seconds) { [weak self] in self?.perform(id) }
        scheduled[id] = Removal(
            time: Int64((services.clock.wallTime + seconds).rounded(.up)), timer: timer, reason: reason, requester: requester)
        services.log.info("removal scheduled", metadata: ["accessory": "\(id)", "seconds": "\(seconds)"])
        services.publisher.publish(.removalChanged(of: accessory))
    }

    /// - Throws: `InvalidRequest` for an accessory that is not to be removed.
    func cancel(_ accessory: Accessory) throws(SetupError) {
        guard let removal = scheduled.removeValue(forKey: accessory.id) else {
            throw .invalid("accessory", accessory.id, "is not to be removed")
        }
        removal.timer.cancel()
        services.log.info("removal cancelled", metadata: ["accessory": "\(accessory.id)"])
        services.publisher.publish(.removalChanged(of: accessory))
    }

    /// Carries out the rest: before the daemon ends.
    func performAll() { for id in scheduled.keys.sorted() { perform(id) } }

    private func perform(_ id: AccessoryID) {
        guard let removal = scheduled.removeValue(forKey: id) else { return }
        removal.timer.cancel()
        // An app or another admin may have removed it meanwhile.
        guard let accessory = services.registry.ledger.accessories[id] else { return }
        do {
            try services.access.remove(accessory, reason: removal.reason, by: removal.requester) {}
        } catch {
            services.log.error("removal failed", metadata: ["accessory": "\(id)", "error": "\(error.message)"])
            services.publisher.publish(.removalChanged(of: accessory))
        }
    }
}
