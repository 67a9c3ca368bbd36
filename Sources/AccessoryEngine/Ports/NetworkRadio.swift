// SPDX-License-Identifier: Apache-2.0
// What the engine needs of Wi-Fi, in the model's words. WiFiRadio adapts NetworkManager, iwd and wpa_supplicant to it;
// tests put a manual one here.

public import AccessoryModel

/// The machine's Wi-Fi, used on the engine's thread only.
public protocol NetworkRadio: AnyObject {
    /// Of the interface in use.
    var state: RadioState { get }
    /// Told what happens; set once, before `start()`.
    var observer: (any NetworkRadioObserver)? { get set }
    /// Why Wi-Fi Aware services cannot be discovered; nil when they can.
    var awareObstacle: String? { get }

    /// Begins to follow the services, and takes back what an earlier run has joined.
    func start()

    /// Scans run as long as at least one token lives.
    ///
    /// - Parameters:
    ///   - names: networks that may be hidden, and are asked for by name.
    ///   - aware: Wi-Fi Aware services to look for.
    func scan(asking names: [SSID], aware: [WiFiAware]) -> DiscoveryToken

    /// Joins a network in place of what the interface was connected to. Completed once; after a failure the interface
    /// is connected as before, or on its way there.
    ///
    /// - Parameter completion: the interface's name, or why not.
    func join(_ join: NetworkJoin, completion: @escaping (Result<String, RadioFailure>) -> Void)

    /// Leaves the joined network; the interface gets back what it was connected to. Completed once; also when nothing
    /// is joined.
    func leave(completion: @escaping () -> Void)
}

/// What Wi-Fi tells.
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
    /// The joined network is gone. The interface is getting back what it was connected to.
    func networkLost(reason: String)
}

/// What has to be undone when the daemon dies while a network is joined. It holds no passphrase.
public struct JoinRecord: Hashable, Sendable {
    /// The service's bus name.
    public var service: String
    /// The service's connection to the bus: another one knows nothing of these objects.
    public var owner: String
    /// The bus on which it has that name; empty where nobody has written it down.
    public var bus: String
    /// The interface's name.
    public var interface: String
    /// The joined network, in hexadecimal digits.
    public var network: String
    /// What the service calls the joined network; empty before it is known.
    public var joined: String
    /// What the interface was connected to before; empty for nothing.
    public var previous: String
    /// What else has to be switched on again.
    public var enabled: [String]
    /// What the service had of its own: none of it is ours to remove.
    public var known: [String]

    /// Stores its arguments.
    public init(
        service: String, owner: String, bus: String = "", interface: String, network: String, joined: String = "",
        previous: String = "", enabled: [String] = [], known: [String] = []
    ) {
        self.service = service
        self.owner = owner
        self.bus = bus
        self.interface = interface
        self.network = network
        self.joined = joined
        self.previous = previous
        self.enabled = enabled
        self.known = known
    }
}

/// Where the record of the joined network survives a crash. Calls return once it is on disk.
public protocol JoinJournal: AnyObject {
    /// - Parameter record: nil when nothing is to be undone any more.
    func write(_ record: JoinRecord?) throws
    /// The record that was written last; nil when nothing is to be undone.
    func read() throws -> JoinRecord?
}
