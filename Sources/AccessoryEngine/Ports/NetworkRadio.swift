// SPDX-License-Identifier: Apache-2.0
// The engine's view of Wi-Fi. WiFiRadio adapts NetworkManager, iwd and wpa_supplicant to it; tests have a manual one.

public import AccessoryModel

/// The machine's Wi-Fi, used on the engine's thread only.
public protocol NetworkRadio: AnyObject {
    /// Of the interface in use.
    var state: RadioState { get }
    /// Receives events; set once, before `start()`.
    var observer: (any NetworkRadioObserver)? { get set }
    /// Why Wi-Fi Aware services cannot be discovered; nil when they can.
    var awareObstacle: String? { get }

    /// Begins to follow the services, and undoes the join of an earlier run.
    func start()

    /// Scans run as long as at least one token lives.
    ///
    /// - Parameters:
    ///   - names: networks that may be hidden, and are asked for by name.
    ///   - aware: Wi-Fi Aware services to look for.
    func scan(probing names: [SSID], aware: [WiFiAware]) -> DiscoveryToken

    /// Joins a network in place of the interface's connection. Completed once; after a failure the interface has its
    /// earlier connection, or will have.
    ///
    /// - Parameter completion: the interface's name, or why not.
    func join(_ join: NetworkJoin, completion: @escaping (Result<String, RadioFailure>) -> Void)

    /// Leaves the joined network and restores the interface's earlier connection. Completed once; also when nothing is
    /// joined.
    func leave(completion: @escaping () -> Void)
}

/// Receives events of Wi-Fi.
public protocol NetworkRadioObserver: AnyObject {
    /// The radio's state has changed, and why, in words for people.
    func networkRadioChanged(_ state: RadioState, reason: String)
    /// A scan is complete: all networks that are in range now, each once.
    func heard(networks: [WiFiNetwork])
    /// All Wi-Fi Aware services that are in range now.
    func heard(services: [AwareService])
    /// Scans are needed and cannot be had; they will not come by themselves.
    func scanFailed(_ failure: RadioFailure)
    /// A network that an earlier run of the daemon had joined was left.
    func earlierNetworkLeft(_ ssid: SSID)
    /// The joined network has gone, and the interface's earlier connection is being restored.
    func networkLost(reason: String)
}

/// The state to restore when the daemon dies while a network is joined. It holds no passphrase.
public struct JoinRecord: Hashable, Sendable {
    /// The service's bus name.
    public var service: String
    /// The service's connection to the bus: another one does not know these objects.
    public var owner: String
    /// The bus of that connection; empty where it was not recorded.
    public var bus: String
    /// The interface's name.
    public var interface: String
    /// The joined network, in hexadecimal digits.
    public var network: String
    /// The service's name for the joined network; empty before it exists.
    public var joined: String
    /// The interface's earlier connection; empty for none.
    public var previous: String
    /// Connections to enable again.
    public var enabled: [String]
    /// The service's own connections, which must not be removed.
    public var preexisting: [String]

    /// Stores its arguments.
    public init(
        service: String, owner: String, bus: String = "", interface: String, network: String, joined: String = "",
        previous: String = "", enabled: [String] = [], preexisting: [String] = []
    ) {
        self.service = service
        self.owner = owner
        self.bus = bus
        self.interface = interface
        self.network = network
        self.joined = joined
        self.previous = previous
        self.enabled = enabled
        self.preexisting = preexisting
    }
}

/// Where the record of the joined network survives a crash. Calls return once it is on disk.
public protocol JoinJournal: AnyObject {
    /// - Parameter record: nil when nothing is to be undone any more.
    func write(_ record: JoinRecord?) throws
    /// The record that was written last; nil when nothing is to be undone.
    func read() throws -> JoinRecord?
}
