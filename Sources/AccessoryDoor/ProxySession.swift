// SPDX-License-Identifier: Apache-2.0
// One client's use of the gateway, as a value: its messages, the objects of the scoped view and answers of org.bluez
// in, messages and calls out. The view decides which accessories there are; nothing is permitted here.

internal import BlueZInterfaces
internal import BlueZObjects
internal import DBusKit
internal import ESPHomeAPI

/// A client of the door, after its handshake.
struct ProxySession {
    /// Identifies a call until its answer.
    typealias CallID = Int

    enum Event {
        case request(ClientRequest)
        case objects(ObjectChange)
        /// The owner of org.bluez or an adapter may have changed.
        case stateChanged
        case answered(CallID, Result<[DBusValue], BusError>)
        /// The time of `.schedule(.flush)` is over.
        ///
        /// - Parameter isCongested: whether the client has not read earlier messages.
        case flush(isCongested: Bool)
        case retryScan
    }

    enum Effect: Equatable {
        case send(ServerMessage)
        /// Ends with exactly one `answered`.
        case call(CallID, Call)
        case schedule(Timer)
        /// Ends with `flush` at once.
        case flushNow
        /// Ends the connection once everything has been sent.
        case end
    }

    /// A call to org.bluez.
    struct Call: Equatable {
        let path: ObjectPath
        let interface: String
        let member: String
        var arguments: [DBusValue] = []
    }

    /// Each ends with one event, and runs once at a time.
    enum Timer: Hashable {
        case flush
        case retryScan

        var delay: Duration {
            switch self {
            // As often as an ESP32 sends them.
            case .flush: .milliseconds(100)
            case .retryScan: .seconds(10)
            }
        }
    }

    /// The gateway as clients see it.
    struct Gateway: Equatable {
        var info: ServerMessage.DeviceInfo
        /// Links that one client may have at a time.
        var maxLinks: Int
    }

    enum Subscription { case none, raw, parsed }

    /// The meaning of a call's answer.
    enum Pending: Equatable {
        case connect(UInt64)
        case disconnect(UInt64)
        case read(UInt64, UInt32)
        case write(UInt64, UInt32)
        /// Answered by `wrote` where the client has written the configuration, else by `notify`.
        case startNotify(UInt64, UInt32, ObjectPath, isWrite: Bool)
        case stopNotify(UInt64, UInt32, isWrite: Bool)
        case filter(ObjectPath)
        case startDiscovery(ObjectPath)
        case stopDiscovery
        /// Of a link or a search that has ended: its answer must not be taken for that of the next one's call.
        case abandoned

        /// The link that the call is for.
        var address: UInt64? {
            switch self {
            case .connect(let address), .disconnect(let address), .read(let address, _), .write(let address, _),
                .startNotify(let address, _, _, _), .stopNotify(let address, _, _):
                address
            case .filter, .startDiscovery, .stopDiscovery, .abandoned: nil
            }
        }

        /// The adapter whose search the call begins.
        var adapter: ObjectPath? {
            switch self {
            case .filter(let adapter), .startDiscovery(let adapter): adapter
            default: nil
            }
        }
    }

    /// Calls that one client may have waiting.
    static let maxCalls = 64

    let gateway: Gateway
    private var isGreeted = false
    var subscription = Subscription.none
    var adverts = AdvertQueue()
    /// The adapters that search for this client, or should.
    var scans: [ObjectPath: Scan] = [:]
    var reportedScanner: ScannerState?
    var links: [UInt64: Link] = [:]
    var isSubscribedToLinks = false
    private var pending: [CallID: Pending] = [:]
    private var lastCall: CallID = 0

    init(_ gateway: Gateway) {
        self.gateway = gateway
    }

    /// - Parameter tree: the objects of the view, with the event's changes.
    mutating func handle(_ event: Event, _ tree: BlueZTree) -> [Effect] {
        switch event {
        case .request(let request): return handle(request, tree)
        case .objects(let change): return handle(change, tree)
        case .stateChanged: return checkLinks(tree) + updateScans(tree)
        case .answered(let id, let result):
            guard let pending = pending.removeValue(forKey: id) else { return [] }
            return answered(pending, result, tree)
        case .flush(let isCongested): return flush(isCongested)
        case .retryScan:
            scans = scans.filter { $0.value != .failed }
            return updateScans(tree)
        }
    }

    // MARK: Requests

    private mutating func handle(_ request: ClientRequest, _ tree: BlueZTree) -> [Effect] {
        switch request {
        case .hello:
            isGreeted = true
            return [.send(.hello(name: gateway.info.name, serverInfo: "accessory-door \(gateway.info.version)"))]
        case .ping: return [.send(.pong)]
        case .disconnect: return [.send(.disconnected), .end]
        case .disconnected: return [.end]
        case .pong: return []
        case .authentication: return [.send(.authenticated)]
        // A client says hello first.
        case _ where !isGreeted: return [.end]
        case .deviceInfo: return [.send(.deviceInfo(gateway.info))]
        case .listEntities: return [.send(.entitiesDone)]
        case .setEncryptionKey: return [.send(.encryptionKeySet(hasWorked: false))]
        case .subscribeAdvertisements(let isRaw):
            subscription = isRaw ? .raw : .parsed
            reportedScanner = nil
            return updateScans(tree)
        case .unsubscribeAdvertisements:
            subscription = .none
            _ = adverts.takeAll()
            return updateScans(tree)
        // bluetoothd searches actively, for all its clients together.
        case .setScannerMode: return [.send(.scanner(scannerState, mode: .active))]
        case .subscribeFreeConnections:
            isSubscribedToLinks = true
            return freeConnections
        case .device(let address, let action): return handle(action, address, tree)
        case .setConnectionParameters(let address): return [.send(.connectionParameters(address: address, .notSupported))]
        case .getServices(let address): return services(of: address, tree)
        case .read(let address, let handle), .readDescriptor(let address, let handle): return read(address, handle, tree)
        case .write(let address, let handle, let needsResponse, let value):
            return write(address, handle, value, needsResponse: needsResponse, tree)
        case .writeDescriptor(let address, let handle, let value): return write(address, handle, value, needsResponse: true, tree)
        case .notify(let address, let handle, let isEnabled): return notify(address, handle, isEnabled, tree)
        case .other: return []
        }
    }

    private mutating func handle(_ action: ClientRequest.DeviceAction, _ address: UInt64, _ tree: BlueZTree) -> [Effect] {
        switch action {
        case .connect: connect(address, tree)
        case .disconnect: disconnect(address)
        // A picker does both.
        case .pair: [.send(.paired(address: address, isPaired: false, .notSupported))]
        case .unpair: [.send(.unpaired(address: address, hasWorked: false, .notSupported))]
        // bluetoothd keeps the services of bonded accessories, and learns of changes by itself.
        case .clearCache: [.send(.clearedCache(address: address, hasWorked: false, .notSupported))]
        case .other: []
        }
    }

    // MARK: Calls

    /// A call whose answer means this.
    mutating func call(_ call: Call, _ meaning: Pending) -> Effect {
        lastCall += 1
        pending[lastCall] = meaning
        return .call(lastCall, call)
    }

    /// Whether another call would be too many.
    var isBusy: Bool { pending.count >= Self.maxCalls }

    /// Answers to these calls have no effect any more.
    mutating func abandonCalls(where isAbandoned: (Pending) -> Bool) {
        for (id, meaning) in pending where isAbandoned(meaning) { pending[id] = .abandoned }
    }

    private mutating func answered(_ pending: Pending, _ result: Result<[DBusValue], BusError>, _ tree: BlueZTree) -> [Effect] {
        let error: BusError? = if case .failure(let error) = result { error } else { nil }
        switch pending {
        case .connect(let address): return connected(address, error, tree)
        case .disconnect(let address): return disconnected(address)
        case .read(let address, let handle):
            if let error { return failed(address, handle, GATTError(error)) }
            return [.send(.read(address: address, handle: handle, (try? result.get())?.first?.bytesValue ?? []))]
        case .write(let address, let handle):
            return error.map { failed(address, handle, GATTError($0)) } ?? [.send(.wrote(address: address, handle: handle))]
        case .startNotify(let address, let handle, let path, let isWrite):
            if let error {
                // Unless it was turned off and on again meanwhile.
                let isTriedAgain = self.pending.values.contains {
                    if case .startNotify(address, _, path, _) = $0 { true } else { false }
                }
                if !isTriedAgain { links[address]?.notifying.remove(path) }
                return failed(address, handle, GATTError(error))
            }
            return notifyingSet(address, handle, isWrite: isWrite)
        case .stopNotify(let address, let handle, let isWrite):
            return notifyingSet(address, handle, isWrite: isWrite)
        case .filter(let adapter): return filtered(adapter)
        case .startDiscovery(let adapter): return discoveryStarted(adapter, error, tree)
        case .stopDiscovery, .abandoned: return []
        }
    }

    // MARK: Objects

    private mutating func handle(_ change: ObjectChange, _ tree: BlueZTree) -> [Effect] {
        switch change {
        case .loaded:
            for address in links.keys { links[address]?.attributesChanged() }
            return checkLinks(tree) + updateScans(tree)
        case .device(let path, let changed):
            let effects = links.filter { $0.value.path == path }.keys.flatMap { checkLink($0, tree) }
            return effects + heard(path, changed, tree)
        case .endAnnounced, .released: return []
        case .attribute(let path, let isGone):
            for (address, link) in links where path.isBelow(link.path) {
                links[address]?.attributesChanged()
                if isGone { links[address]?.notifying.remove(path) }
            }
            return []
        case .value(let path, let value):
            guard let (address, link) = links.first(where: { $0.value.notifying.contains(path) }),
                let handle = link.handle(of: path)
            else { return [] }
            return [.send(.notified(address: address, handle: handle, value))]
        }
    }
}

extension GATTError {
    /// bluetoothd's error, or the view's, as the client knows it.
    init(_ error: BusError) {
        if let code = error.attributeCode {
            self.init(rawValue: code)
            return
        }
        self =
            switch error.bluez {
            case .notConnected: .notConnected
            case .inProgress: .busy
            case .canceled, .authenticationCanceled: .connectionCancelled
            case .connectionAttemptFailed: .failedToEstablish
            case .failed where error.message.lowercased() == "not connected": .notConnected
            case nil where error.isStandard("UnknownObject"): .invalidHandle
            case nil where error.isStandard("LimitsExceeded"): .noResources
            default: .error
            }
    }
}
