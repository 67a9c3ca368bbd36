// SPDX-License-Identifier: Apache-2.0
// The identity of a client of the view: the process by the kernel, the app by the manifests, and whether it
// still executes the same program. Its use of each accessory is recorded once.

internal import AccessoryModel
internal import CallerIdentity
internal import DBusKit
internal import Logging

/// The identity of a client, which changes with the manifests, and is lost for good by one that becomes another
/// program.
final class ClientIdentity {
    private let pinned: PinnedCaller
    private let authority: any ViewAuthority
    private let log: Logger
    private var identity: ViewIdentity?
    /// Set once the client executes another program than when it connected: it may receive nothing any more.
    private(set) var refusal: IdentityFailure?
    private var used: Set<AccessoryID> = []
    /// The client's name in the log.
    private let client: String
    private let loop: MainLoop
    /// Called at the end of the turn in which the client was found to be another program.
    var onRefused: (() -> Void)?

    init(_ pinned: PinnedCaller, of client: String, on loop: MainLoop, _ authority: any ViewAuthority, _ log: Logger) {
        self.pinned = pinned
        self.client = client
        self.loop = loop
        self.authority = authority
        self.log = log
        identity = try? authority.app(of: pinned)
    }

    /// The app that it speaks for; nil for one that is none.
    var app: AppID? { identity?.app }
    /// How the app connects from elsewhere; nil for any other app.
    var remote: RemoteApp? { identity?.remote }
    /// The peer for which the client acts.
    var peer: String? { pinned.peer }
    var uid: UInt32 { pinned.caller.uid }
    var pid: Int32 { pinned.caller.pid }

    /// Why nothing may be sent to it: its executable makes it the app, and it executes another by now, or has ended.
    /// Nil where it may.
    var transmissionRefusal: BusError? {
        if refusal == nil, identity?.goesByExecutable == true, !pinned.runsTheSame(in: loop.turn) {
            reconsider()
            if refusal == nil { return .accessDenied("process \(pid) has ended") }
        }
        return refusal.map { .accessDenied("\($0)") }
    }

    /// The client acts for a peer from now on.
    ///
    /// - Returns: false for one that acts for a peer already.
    func act(for peer: String) -> Bool {
        guard pinned.peer == nil else { return false }
        pinned.act(for: peer)
        return true
    }

    /// Whether its messages count, also those of a process that has ended since.
    var isAccepted: Bool {
        _ = transmissionRefusal
        return refusal == nil
    }

    /// Asks again which app this is.
    func reconsider() {
        guard refusal == nil else { return }
        do throws(IdentityFailure) {
            identity = try authority.app(of: pinned)
        } catch {
            refusal = error
            authority.refused(pinned, why: "the view: \(error)")
            log.warning("client of the view refused", metadata: ["client": "\(client)", "reason": "\(error)"])
            identity = nil
            loop.atEndOfTurn { [weak self] in self?.onRefused?() }
        }
    }

    /// The accessories that are granted to its app and not switched off.
    var grantedDevices: [GrantedDevice] { app.map { authority.devices(of: $0) } ?? [] }

    /// The devices that its app hears; nil for an app without a grant for a kind.
    var heardDevices: Set<ObjectPath>? { app.flatMap { authority.heard(by: $0) } }

    /// A use was refused that the grant does not open.
    func recordRefusal(of accessory: AccessoryID, why: String) {
        if let app { authority.refused(accessory, to: app, pinned, why: why) }
    }

    /// The app uses an accessory: the first time is noted.
    func recordUse(of accessory: AccessoryID, as use: String) {
        guard let app, used.insert(accessory).inserted else { return }
        authority.used(accessory, by: app, pinned, as: use)
    }
}
