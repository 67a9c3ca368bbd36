// SPDX-License-Identifier: Apache-2.0
// The engine's requests about networks of accessories, and the events of Wi-Fi.

public import AccessoryModel
internal import Logging

extension AccessoryEngine {
    /// Joins the network of an accessory for an app; the interface is the app's until it leaves, goes, or loses its
    /// grant.
    ///
    /// - Parameters:
    ///   - network: the network that the app means; nil for the accessory's.
    ///   - completion: called once, with why not.
    /// - Throws: `InvalidRequest` for a network that is not granted, `UserRestricted` where the admin denies it.
    public func joinNetwork(
        of id: AccessoryID, for client: ClientID, _ app: AppID, passphrase: NetworkJoin.Passphrase?, isHidden: Bool,
        network: SSID?, completion: @escaping (SetupError?) -> Void
    ) throws(SetupError) {
        try networks.join(
            id, for: client, app, passphrase: passphrase, isHidden: isHidden, network: network, completion: completion)
    }

    /// An app has done with an accessory's network. Nothing happens to one that it had not joined.
    ///
    /// - Parameter completion: called once the interface is given back, or where others use it still, at once.
    public func leaveNetwork(of id: AccessoryID, for client: ClientID, completion: @escaping () -> Void) {
        networks.leave(id, for: client, completion: completion)
    }

    /// The interface that is on an accessory's network now; nil when none is.
    ///
    /// - Parameter ssid: the network that is meant; nil for any that an app has joined for this accessory.
    public func networkInterface(of id: AccessoryID, on ssid: SSID?) -> String? { networks.interface(of: id, on: ssid) }

    /// Gives the interface back: before the daemon ends.
    public func leaveNetworks(_ completion: @escaping () -> Void) { networks.end(completion) }
}

// MARK: - Wi-Fi

extension AccessoryEngine: NetworkRadioObserver {
    /// Publishes the state. Unless Wi-Fi is ready, a picker ends that can find nothing without it.
    public func networkRadioChanged(_ state: RadioState, reason: String) {
        services.log.notice("Wi-Fi is \(state.rawValue)", metadata: ["reason": "\(reason)"])
        services.publisher.publish(.wifi(state))
        if state != .ready { pickers.runner?.radioLost(.wifi, "Wi-Fi: \(reason)", pickers.requests) }
    }

    /// Ends a picker that can find nothing without Wi-Fi.
    public func scanFailed(_ failure: RadioFailure) {
        services.log.error("scanning for networks failed", metadata: ["reason": "\(failure)"])
        pickers.runner?.radioLost(.wifi, "scanning for networks failed: \(failure)", pickers.requests)
    }

    /// Forwards them to the picker that searches, and to explanations.
    public func heard(networks: [WiFiNetwork]) {
        explanations.heard(networks)
        pickers.runner?.heard(networks)
    }

    /// Forwards them to the picker that searches.
    public func heard(services: [AwareService]) { pickers.runner?.heard(services) }
    /// Notes it in the trail.
    public func earlierNetworkLeft(_ ssid: SSID) { networks.leftEarlier(ssid) }
    /// Publishes it to the apps on the network.
    public func networkLost(reason: String) { networks.gone(reason) }
}
