// SPDX-License-Identifier: Apache-2.0
// Who a client of the view is: the process that the kernel names, the app that the manifests make of it, and whether it
// still is what it was. What it does as that app is noted here, once for each accessory.

internal import AccessoryModel
internal import CallerIdentity
internal import Logging

/// The identity of a client, which changes with the manifests, and is lost for good by one that becomes another
/// program.
final class ClientIdentity {
    private let pinned: PinnedCaller
    private let authority: any ViewAuthority
    private let log: Logger
    private var identity: ViewIdentity?
    /// Why nothing is for this client any more: it is not what it was when it connected.
    private(set) var refusal: IdentityFailure?
    private var used: Set<AccessoryID> = []
    /// When it was looked at what the client executes, in microseconds.
    private var programSeen: Int64?

    init(_ pinned: PinnedCaller, _ authority: any ViewAuthority, _ log: Logger) {
        self.pinned = pinned
        self.authority = authority
        self.log = log
        identity = try? authority.app(of: pinned)
    }

    /// The app that it speaks for; nil for one that is none.
    var app: AppID? { identity?.app }
    var uid: UInt32 { pinned.caller.uid }
    var pid: Int32 { pinned.caller.pid }

    /// Whether it goes by what it executes, and executes something else by now.
    ///
    /// Looked at once a millisecond at most. In less, a program can hardly be executed, start and send; and whatever it
    /// sends with the first one's socket, that one could have sent for it.
    ///
    /// - Parameter now: microseconds.
    func hasChangedProgram(at now: Int64) -> Bool {
        guard identity?.goesByExecutable == true else { return false }
        if let programSeen, now - programSeen < 1000 { return false }
        programSeen = now
        return (try? pinned.check()) == nil
    }

    /// Asks again which app this is.
    ///
    /// - Parameter client: its name in the log.
    func reconsider(client: String) {
        guard refusal == nil else { return }
        do throws(IdentityFailure) {
            identity = try authority.app(of: pinned)
        } catch {
            refusal = error
            authority.refused(pinned, why: "the view: \(error)")
            log.warning("client of the view refused", metadata: ["client": "\(client)", "reason": "\(error)"])
            identity = nil
        }
    }

    /// What is granted to its app and not switched off.
    var grantedDevices: [GrantedDevice] { app.map { authority.devices(of: $0) } ?? [] }

    /// The app uses an accessory: the first time is noted.
    func noteUse(of accessory: AccessoryID, as what: String) {
        guard let app, used.insert(accessory).inserted else { return }
        authority.used(accessory, by: app, pinned, as: what)
    }
}
