// SPDX-License-Identifier: Apache-2.0
// Removals that a person can still take back: the daemon carries each out after its delay, whether or not the program
// that asked is still connected, and all that remain before it ends. Admins have one for each accessory, and so has
// each person who set it up: a person sees and cancels only their own.

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

    private struct Key: Hashable, Comparable {
        let accessory: AccessoryID
        /// Nil for admins.
        let user: UInt32?

        static func < (a: Self, b: Self) -> Bool { (a.accessory, a.user ?? 0) < (b.accessory, b.user ?? 0) }
    }

    private var scheduled: [Key: Removal] = [:]
    private let services: EngineServices

    init(_ services: EngineServices) { self.services = services }

    /// Seconds since 1970; nil for an accessory that stays.
    func time(of id: AccessoryID, for user: UInt32?) -> Int64? { scheduled[Key(accessory: id, user: user)]?.time }

    /// Replaces an earlier delay of the same accessory.
    func schedule(_ accessory: Accessory, in seconds: Double, reason: String, by requester: Requester) {
        let key = Key(accessory: accessory.id, user: requester.user)
        scheduled[key]?.timer.cancel()
        let timer = services.clock.after(seconds) { [weak self] in self?.perform(key) }
        scheduled[key] = Removal(
            time: Int64((services.clock.wallTime + seconds).rounded(.up)), timer: timer, reason: reason, requester: requester)
        services.log.info("removal scheduled", metadata: ["accessory": "\(accessory.id)", "seconds": "\(seconds)"])
        services.publisher.publish(.removalChanged(of: accessory, for: key.user))
    }

    /// - Throws: `InvalidRequest` for an accessory that is not to be removed.
    func cancel(_ accessory: Accessory, for user: UInt32?) throws(SetupError) {
        guard let removal = scheduled.removeValue(forKey: Key(accessory: accessory.id, user: user)) else {
            throw .invalid("accessory", accessory.id, "is not to be removed")
        }
        removal.timer.cancel()
        services.log.info("removal cancelled", metadata: ["accessory": "\(accessory.id)"])
        services.publisher.publish(.removalChanged(of: accessory, for: user))
    }

    /// Carries out the rest: before the daemon ends.
    func performAll() { for key in scheduled.keys.sorted() { perform(key) } }

    private func perform(_ key: Key) {
        guard let removal = scheduled.removeValue(forKey: key) else { return }
        removal.timer.cancel()
        // An app or another admin may have removed it meanwhile.
        guard let accessory = services.registry.ledger.accessories[key.accessory] else { return }
        do {
            try services.access.remove(accessory, reason: removal.reason, by: removal.requester) {}
        } catch {
            services.log.error("removal failed", metadata: ["accessory": "\(accessory.id)", "error": "\(error.message)"])
            services.publisher.publish(.removalChanged(of: accessory, for: key.user))
        }
    }
}
