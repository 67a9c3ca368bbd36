// SPDX-License-Identifier: Apache-2.0
// Who a client of the view is: the process that the kernel names, the app that the manifests make of it, and whether it
// still is what it was. What it does as that app is noted here, once for each accessory.

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
    /// Why nothing is for this client any more: it is not what it was when it connected.
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
    var uid: UInt32 { pinned.caller.uid }
    var pid: Int32 { pinned.caller.pid }

    /// Why nothing may leave to it: it goes by what it executes, and executes something else by now, or has ended. Nil
    /// where it may.
    var transmissionRefusal: BusError? {
        if refusal == nil, identity?.goesByExecutable == true, !pinned.runsTheSame(in: loop.turn) {
            reconsider()
            if refusal == nil { return .accessDenied("process \(pid) has ended") }
        }
        return refusal.map { .accessDenied("\($0)") }
    }

    /// Whether what it sends counts: also that of a process that has ended since.
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

    /// What is granted to its app and not switched off.
    var grantedDevices: [GrantedDevice] { app.map { authority.devices(of: $0) } ?? [] }

    /// The app uses an accessory: the first time is noted.
    func recordUse(of accessory: AccessoryID, as what: String) {
        guard let app, used.insert(accessory).inserted else { return }
        authority.used(accessory, by: app, pinned, as: what)
    }
}
