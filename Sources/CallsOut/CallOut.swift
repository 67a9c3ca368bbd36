// SPDX-License-Identifier: Apache-2.0
// All calls that the daemon makes to other services: any other call does not compile. Time-outs are such that whatever
// waits for an outcome gets it within 30 s (Docs/Calls.md, which is made from this).

public import DBusKit

internal import BlueZInterfaces

/// A call that the daemon makes, named by its purpose.
public enum CallOut: String, CaseIterable, Sendable {
    // The bus: a caller's identity.
    case credentials, process
    // A picker program: whether it has read its messages.
    case pickerPing
    // polkit.
    case authorization, authorizationEnd
    // An app's discovery extension, on a connection without a bus.
    case extensionStart, extensionStop

    // bluetoothd: its objects.
    case radioObjects
    // Discovery.
    case discoveryFilter, discoveryStart, discoveryStop
    // Pairing.
    case agentRegistration, agentEnd, pairing, pairingCancel, pairedIdentity
    // After a pairing that failed.
    case pairedCheck, failedRemoval
    // The classic side, input devices, names.
    case classicFilter, classicSearch, classicSearchEnd, trust, preferredBearer, inputConnect, alias
    // Removing.
    case bondRemoval
    // Advertisement monitors.
    case monitorFeatures, monitorRegistration

    // bluetoothd, for the view.
    case viewObjects, viewClientObjects, viewLink, viewDisconnect, viewStopNotify, viewDiscoveryFilter

    // NetworkManager.
    case managerDevices, managerDevice, managerActive, managerScan, managerPoints, managerPoint, managerJoin,
        activatePreviousConnection,
        deactivateConnection

    // iwd.
    case iwdObjects, iwdScan, iwdNetworks, iwdStation, iwdInfo, iwdAgentRegistration, iwdAgentEnd, iwdJoin, iwdJoinHidden,
        reconnectPreviousNetwork, iwdDisconnect, iwdForget

    // wpa_supplicant.
    case supplicantInterfaces, supplicantInterface, supplicantAbilities, supplicantScan, supplicantPoints, supplicantPoint,
        supplicantNetwork, supplicantAdd, supplicantSelect, supplicantRemove, supplicantEnable
    // Wi-Fi Aware.
    case awareSubscribe, awarePublish, awareSubscribeEnd, awarePublishEnd
}

extension CallOut {
    private static let bluez = BlueZ.service
    private static let discovery = "org.accessorysetup1.Extension"
    private static let adapter = Adapter1.interface
    private static let device = Device1.interface
    private static let agents = AgentManager1.interface
    private static let manager = "org.freedesktop.NetworkManager"
    private static let wireless = "org.freedesktop.NetworkManager.Device.Wireless"
    private static let iwd = "net.connman.iwd"
    private static let station = "net.connman.iwd.Station"
    private static let supplicant = "fi.w1.wpa_supplicant1"
    private static let interface = "fi.w1.wpa_supplicant1.Interface"

    /// The method that is called.
    public var method: RemoteMethod {
        switch self {
        case .credentials, .process, .pickerPing, .authorization, .authorizationEnd, .extensionStart, .extensionStop: otherCalls
        case .radioObjects, .discoveryFilter, .discoveryStart, .discoveryStop, .agentRegistration, .agentEnd, .pairing,
            .pairingCancel, .pairedIdentity, .pairedCheck, .failedRemoval, .classicFilter, .classicSearch, .classicSearchEnd,
            .trust, .preferredBearer, .inputConnect, .alias, .bondRemoval, .monitorFeatures, .monitorRegistration:
            radioCalls
        case .viewObjects, .viewClientObjects, .viewLink, .viewDisconnect, .viewStopNotify, .viewDiscoveryFilter: viewCalls
        case .managerDevices, .managerDevice, .managerActive, .managerScan, .managerPoints, .managerPoint, .managerJoin,
            .activatePreviousConnection, .deactivateConnection:
            managerCalls
        case .iwdObjects, .iwdScan, .iwdNetworks, .iwdStation, .iwdInfo, .iwdAgentRegistration, .iwdAgentEnd, .iwdJoin,
            .iwdJoinHidden, .reconnectPreviousNetwork, .iwdDisconnect, .iwdForget:
            iwdCalls
        case .supplicantInterfaces, .supplicantInterface, .supplicantAbilities, .supplicantScan, .supplicantPoints,
            .supplicantPoint, .supplicantNetwork, .supplicantAdd, .supplicantSelect, .supplicantRemove, .supplicantEnable,
            .awareSubscribe, .awarePublish, .awareSubscribeEnd, .awarePublishEnd:
            supplicantCalls
        }
    }

    private var otherCalls: RemoteMethod {
        switch self {
        case .credentials:
            RemoteMethod(
                Bus.name, Bus.name, "GetConnectionCredentials", takes: "s", returns: "a{sv}", timeout: .seconds(5))
        case .process:
            RemoteMethod(Bus.name, Bus.name, "GetConnectionUnixProcessID", takes: "s", returns: "u", timeout: .seconds(5))
        case .authorization:
            // A person types a password meanwhile.
            RemoteMethod(
                "org.freedesktop.PolicyKit1", "org.freedesktop.PolicyKit1.Authority", "CheckAuthorization",
                takes: "(sa{sv})sa{ss}us", returns: "(bba{ss})", timeout: .seconds(180))
        case .authorizationEnd:
            RemoteMethod(
                "org.freedesktop.PolicyKit1", "org.freedesktop.PolicyKit1.Authority", "CancelCheckAuthorization", takes: "s",
                timeout: .seconds(10))
        // The engine's own time-out comes first: it counts from the connection.
        case .extensionStart: RemoteMethod("", Self.discovery, "StartDiscovery", takes: "a{sv}", timeout: .seconds(25))
        case .extensionStop: RemoteMethod("", Self.discovery, "StopDiscovery", timeout: .seconds(5))
        default: RemoteMethod("", Bus.peer, "Ping", timeout: .seconds(10))
        }
    }

    private var radioCalls: RemoteMethod {
        let call = { (interface: String, member: String, takes: String, seconds: Int) in
            RemoteMethod(Self.bluez, interface, member, takes: takes, timeout: .seconds(seconds))
        }
        return switch self {
        case .radioObjects: .objects(Self.bluez, timeout: .seconds(20))
        case .discoveryFilter: call(Self.adapter, Adapter1.Member.setDiscoveryFilter, "a{sv}", 10)
        case .discoveryStart: call(Self.adapter, Adapter1.Member.startDiscovery, "", 10)
        case .discoveryStop: call(Self.adapter, Adapter1.Member.stopDiscovery, "", 10)
        // The scan is on, and in busy air bluetoothd reads adverts before it answers calls; the kernel's scan ends
        // after 10.24 s.
        case .agentRegistration: call(Self.agents, AgentManager1.Member.registerAgent, "os", 15)
        case .agentEnd: call(Self.agents, AgentManager1.Member.unregisterAgent, "o", 10)
        // bluetoothd waits 60 s for the agent and some more for the accessory; beyond that it is stuck. The person's
        // time is in it: without it `PairingAttempt` gives up sooner.
        case .pairing: call(Self.device, Device1.Member.pair, "", 100)
        case .pairingCancel: call(Self.device, Device1.Member.cancelPairing, "", 5)
        case .pairedIdentity: .getAll(Self.bluez, Self.device, timeout: .seconds(10))
        case .pairedCheck: .get(Self.bluez, Self.device, Device1.paired.name, timeout: .seconds(5))
        case .failedRemoval: call(Self.adapter, Adapter1.Member.removeDevice, "o", 5)
        case .classicFilter: call(Self.adapter, Adapter1.Member.setDiscoveryFilter, "a{sv}", 10)
        case .classicSearch: call(Self.adapter, Adapter1.Member.startDiscovery, "", 10)
        case .classicSearchEnd: call(Self.adapter, Adapter1.Member.stopDiscovery, "", 10)
        case .trust: .set(Self.bluez, Self.device, Device1.trusted.name, timeout: .seconds(10))
        case .preferredBearer: .set(Self.bluez, Self.device, Device1.preferredBearer.name, timeout: .seconds(10))
        case .inputConnect: call(Self.device, Device1.Member.connect, "", 22)
        case .alias: .set(Self.bluez, Self.device, Device1.alias.name, timeout: .seconds(10))
        case .monitorFeatures:
            .get(
                Self.bluez, AdvertisementMonitorManager1.interface, AdvertisementMonitorManager1.supportedFeatures,
                timeout: .seconds(10))
        // bluetoothd reads the monitors before it answers.
        case .monitorRegistration:
            call(AdvertisementMonitorManager1.interface, AdvertisementMonitorManager1.Member.registerMonitor, "o", 15)
        // A connected device takes bluetoothd two seconds.
        default: call(Self.adapter, Adapter1.Member.removeDevice, "o", 20)
        }
    }

    private var viewCalls: RemoteMethod {
        switch self {
        case .viewObjects, .viewClientObjects: .objects(Self.bluez, timeout: .seconds(20))
        case .viewLink: .getAll(Self.bluez, Self.device, timeout: .seconds(10))
        case .viewDisconnect: RemoteMethod(Self.bluez, Self.device, Device1.Member.disconnect, timeout: .seconds(5))
        case .viewStopNotify:
            RemoteMethod(Self.bluez, GattCharacteristic1.interface, GattCharacteristic1.Member.stopNotify, timeout: .seconds(10))
        // An app's call, with the filter that the app may set; the app waits as long as it likes.
        default: RemoteMethod(Self.bluez, Self.adapter, Adapter1.Member.setDiscoveryFilter, takes: "a{sv}", timeout: .seconds(10))
        }
    }

    private var managerCalls: RemoteMethod {
        let call = { (interface: String, member: String, takes: String, returns: String) in
            RemoteMethod(Self.manager, interface, member, takes: takes, returns: returns, timeout: .seconds(10))
        }
        return switch self {
        case .managerDevices: call(Self.manager, "GetDevices", "", "ao")
        case .managerDevice: .getAll(Self.manager, "org.freedesktop.NetworkManager.Device", timeout: .seconds(10))
        case .managerActive: .getAll(Self.manager, "org.freedesktop.NetworkManager.Connection.Active", timeout: .seconds(10))
        case .managerScan: call(Self.wireless, "RequestScan", "a{sv}", "")
        case .managerPoints: call(Self.wireless, "GetAllAccessPoints", "", "ao")
        case .managerPoint: .getAll(Self.manager, "org.freedesktop.NetworkManager.AccessPoint", timeout: .seconds(10))
        case .managerJoin: call(Self.manager, "AddAndActivateConnection2", "a{sa{sv}}ooa{sv}", "ooa{sv}")
        case .activatePreviousConnection: call(Self.manager, "ActivateConnection", "ooo", "o")
        default: call(Self.manager, "DeactivateConnection", "o", "")
        }
    }

    private var iwdCalls: RemoteMethod {
        let call = { (interface: String, member: String, takes: String) in
            RemoteMethod(Self.iwd, "net.connman.iwd.\(interface)", member, takes: takes, timeout: .seconds(10))
        }
        // Less than the 25 s after which D-Bus libraries give a call up.
        let join = { (interface: String, member: String, takes: String) in
            RemoteMethod(Self.iwd, "net.connman.iwd.\(interface)", member, takes: takes, timeout: .seconds(18))
        }
        return switch self {
        case .iwdObjects: .objects(Self.iwd, timeout: .seconds(10))
        case .iwdScan: call("Station", "Scan", "")
        case .iwdNetworks:
            RemoteMethod(Self.iwd, Self.station, "GetOrderedNetworks", returns: "a(on)", timeout: .seconds(10))
        case .iwdStation: .getAll(Self.iwd, Self.station, timeout: .seconds(10))
        case .iwdInfo: RemoteMethod(Self.iwd, "net.connman.iwd.Daemon", "GetInfo", returns: "a{sv}", timeout: .seconds(10))
        case .iwdAgentRegistration: call("AgentManager", "RegisterAgent", "o")
        case .iwdAgentEnd: call("AgentManager", "UnregisterAgent", "o")
        case .iwdJoin, .reconnectPreviousNetwork: join("Network", "Connect", "")
        case .iwdJoinHidden: join("Station", "ConnectHiddenNetwork", "s")
        case .iwdDisconnect: call("Station", "Disconnect", "")
        default: call("KnownNetwork", "Forget", "")
        }
    }

    private var supplicantCalls: RemoteMethod {
        let call = { (member: String, takes: String, returns: String) in
            RemoteMethod(Self.supplicant, Self.interface, member, takes: takes, returns: returns, timeout: .seconds(10))
        }
        return switch self {
        case .supplicantInterfaces: .getAll(Self.supplicant, Self.supplicant, timeout: .seconds(10))
        case .supplicantInterface: .getAll(Self.supplicant, Self.interface, timeout: .seconds(10))
        case .supplicantAbilities:
            RemoteMethod(Self.supplicant, Bus.introspectable, "Introspect", returns: "s", timeout: .seconds(10))
        case .supplicantScan: call("Scan", "a{sv}", "")
        case .supplicantPoints: .get(Self.supplicant, Self.interface, "BSSs", timeout: .seconds(10))
        case .supplicantPoint: .getAll(Self.supplicant, "\(Self.supplicant).BSS", timeout: .seconds(10))
        case .supplicantNetwork: .getAll(Self.supplicant, "\(Self.supplicant).Network", timeout: .seconds(10))
        case .supplicantAdd: call("AddNetwork", "a{sv}", "o")
        case .supplicantSelect: call("SelectNetwork", "o", "")
        case .supplicantRemove: call("RemoveNetwork", "o", "")
        case .supplicantEnable: .set(Self.supplicant, "\(Self.supplicant).Network", "Enabled", timeout: .seconds(10))
        case .awareSubscribe: call("NANSubscribe", "a{sv}", "u")
        case .awarePublish: call("NANPublish", "a{sv}", "u")
        case .awareSubscribeEnd: call("NANCancelSubscribe", "u", "")
        default: call("NANCancelPublish", "u", "")
        }
    }
}
