// SPDX-License-Identifier: Apache-2.0
// Starts apps whose observed accessories appear, by a connection to the socket that the manifest names.

internal import AccessoryCore
internal import AccessoryModel
internal import Logging

final class Wakes {
    private let services: EngineServices
    private var limits: [AppID: WakeLimit] = [:]
    /// Apps that are to be woken once they may be.
    private var waiting: [AppID: any EngineTimer] = [:]

    init(_ services: EngineServices) {
        self.services = services
    }

    /// An accessory of an app without a session has appeared.
    ///
    /// - Parameter isDue: whether it is present still, asked after a pause.
    func appeared(_ app: AppManifest, isDue: @escaping () -> Bool) {
        guard app.wakeSocket != nil, waiting[app.id] == nil else { return }
        let now = services.clock.uptime
        if let later = limits[app.id, default: WakeLimit()].wake(now: now) {
            waiting[app.id] = services.clock.after(later - now) { [weak self] in
                guard let self else { return }
                self.waiting[app.id] = nil
                guard isDue(), self.services.sessions.active(of: app.id).isEmpty,
                    let manifest = self.services.registry.manifests[app.id]
                else { return }
                self.appeared(manifest, isDue: isDue)
            }
            return
        }
        do throws(SetupError) {
            try services.extensions.wake(app)
            services.log.info("woke an app for its accessory", metadata: ["app": "\(app.id)"])
        } catch {
            services.log.warning("an app cannot be woken", metadata: ["app": "\(app.id)", "reason": "\(error.message)"])
            // The socket may be there later, as while the machine starts.
            appeared(app, isDue: isDue)
        }
    }

    /// An app has opened a session.
    func activated(_ app: AppID) {
        waiting.removeValue(forKey: app)?.cancel()
        limits[app]?.activated(now: services.clock.uptime)
    }
}
