// SPDX-License-Identifier: Apache-2.0
// The possible outcomes of each call: the errors that its service's documentation names, and the daemon's reaction to a
// missing answer. For Docs/Calls.md, which is made from this, and for Tests/Answers, which plays each row.

import CallsOut

extension CallOut {
    /// The errors that are documented for the call, or seen in the service's sources.
    var errors: [String] {
        switch self {
        case .credentials, .process: ["org.freedesktop.DBus.Error.NameHasNoOwner"]
        case .pickerPing: ["org.freedesktop.DBus.Error.UnknownMethod"]
        case .authorization:
            ["Failed", "Cancelled", "NotSupported", "NotAuthorized", "CancellationIdNotUnique"].map {
                "org.freedesktop.PolicyKit1.Error.\($0)"
            }
        case .authorizationEnd: ["org.freedesktop.PolicyKit1.Error.Failed"]
        case .extensionStart, .extensionStop: ["org.freedesktop.DBus.Error.Failed"]
        case .radioObjects, .viewObjects, .viewClientObjects, .iwdObjects, .iwdInfo, .supplicantAbilities:
            ["org.freedesktop.DBus.Error.AccessDenied"]
        case .discoveryFilter, .classicFilter, .viewDiscoveryFilter: Self.bluez("NotReady", "NotSupported", "Failed")
        case .discoveryStart, .classicSearch: Self.bluez("NotReady", "Failed", "InProgress")
        case .discoveryStop, .classicSearchEnd: Self.bluez("NotReady", "Failed", "NotAuthorized")
        case .agentRegistration: Self.bluez("InvalidArguments", "AlreadyExists")
        case .agentEnd: Self.bluez("DoesNotExist")
        case .pairing:
            Self.bluez(
                "InvalidArguments", "Failed", "AlreadyExists", "AuthenticationCanceled", "AuthenticationFailed",
                "AuthenticationRejected", "AuthenticationTimeout", "ConnectionAttemptFailed", "InProgress", "NotReady")
        case .pairingCancel: Self.bluez("DoesNotExist", "Failed")
        case .failedRemoval, .bondRemoval: Self.bluez("InvalidArguments", "Failed", "DoesNotExist", "NotReady")
        case .monitorFeatures: ["org.freedesktop.DBus.Error.InvalidArgs"]
        case .monitorRegistration: Self.bluez("InvalidArguments", "AlreadyExists", "Failed")
        case .inputConnect: Self.bluez("NotReady", "Failed", "InProgress", "AlreadyConnected", "NotAvailable")
        case .viewDisconnect: Self.bluez("NotConnected", "Failed")
        case .preferredBearer: Self.bluez("InvalidArguments")
        case .viewStopNotify: Self.bluez("Failed")
        case .managerScan: ["org.freedesktop.NetworkManager.Device.NotAllowed"] + Self.manager("PermissionDenied")
        case .managerJoin:
            Self.manager("PermissionDenied", "UnknownDevice", "ConnectionNotAvailable")
                + ["org.freedesktop.NetworkManager.Settings.Connection.InvalidProperty"]
        case .activatePreviousConnection:
            Self.manager("PermissionDenied", "UnknownConnection", "UnknownDevice", "ConnectionNotAvailable")
        case .deactivateConnection: Self.manager("PermissionDenied", "ConnectionNotActive")
        case .managerDevices, .managerPoints: Self.manager("PermissionDenied")
        case .iwdScan: Self.iwd("Busy", "Failed", "InProgress")
        case .iwdNetworks: Self.iwd("Failed")
        case .iwdAgentRegistration: Self.iwd("AlreadyExists", "InvalidArguments")
        case .iwdAgentEnd: Self.iwd("NotFound")
        case .iwdJoin, .reconnectPreviousNetwork:
            Self.iwd("Aborted", "Busy", "Failed", "NoAgent", "NotSupported", "Timeout", "InProgress", "NotConfigured")
        case .iwdJoinHidden:
            Self.iwd("Busy", "Failed", "InvalidArguments", "NotFound", "NotHidden", "AlreadyProvisioned", "ServiceSetOverlap")
        case .iwdDisconnect: Self.iwd("Busy", "Failed", "NotConnected")
        case .iwdForget: Self.iwd("Failed", "NotFound")
        case .supplicantScan: Self.supplicant("InvalidArgs", "UnknownError", "Interface.ScanError")
        case .supplicantAdd: Self.supplicant("InvalidArgs", "UnknownError")
        case .supplicantSelect: Self.supplicant("InvalidArgs", "NetworkUnknown")
        case .supplicantRemove: Self.supplicant("InvalidArgs", "UnknownError", "NetworkUnknown")
        case .awareSubscribe, .awarePublish, .awareSubscribeEnd, .awarePublishEnd: Self.supplicant("InvalidArgs", "UnknownError")
        case .pairedIdentity, .pairedCheck, .trust, .alias, .viewLink, .managerDevice, .managerActive, .managerPoint, .iwdStation,
            .supplicantInterfaces, .supplicantInterface, .supplicantPoints, .supplicantPoint, .supplicantNetwork,
            .supplicantEnable:
            ["UnknownObject", "InvalidArgs"].map { "org.freedesktop.DBus.Error.\($0)" }
        }
    }

    private static func bluez(_ names: String...) -> [String] { names.map { "org.bluez.Error.\($0)" } }
    private static func manager(_ names: String...) -> [String] { names.map { "org.freedesktop.NetworkManager.\($0)" } }
    private static func iwd(_ names: String...) -> [String] { names.map { "net.connman.iwd.\($0)" } }
    private static func supplicant(_ names: String...) -> [String] { names.map { "fi.w1.wpa_supplicant1.\($0)" } }

    /// Errors with a meaning other than that the call has failed.
    var distinctErrors: String {
        switch self {
        case .discoveryStart: "`InProgress` after a call without an answer: the scan is on; `NotReady`: the adapter is off"
        case .classicSearch: "`InProgress`: another client scans already"
        case .agentRegistration: "`AlreadyExists`: ours, from before"
        case .pairing:
            "`AlreadyExists`: paired before; `ConnectionAttemptFailed`: again, three times at most; the others: a message to the person"
        case .bondRemoval, .failedRemoval: "`DoesNotExist`: already removed"
        case .monitorRegistration: "`AlreadyExists`: success"
        case .inputConnect: "`AlreadyConnected`: success"
        case .managerScan: "`NotAllowed`: after a pause"
        case .deactivateConnection: "`ConnectionNotActive`: already ended"
        case .iwdScan: "`Busy`, `InProgress`: after a pause"
        case .iwdAgentRegistration: "`AlreadyExists`: ours, from before"
        case .iwdJoin, .iwdJoinHidden: "`NoAgent`, `Aborted`: a passphrase is wanted; `NotFound`, `Failed`: an error to the app"
        case .iwdDisconnect: "`NotConnected`: already ended"
        case .iwdForget: "`NotFound`: already removed"
        case .supplicantScan: "`ScanError`: busy, after a pause"
        case .supplicantRemove: "`NetworkUnknown`: already removed"
        case .managerDevice, .managerActive, .managerPoint, .iwdStation, .supplicantInterface, .supplicantPoint,
            .supplicantNetwork, .supplicantEnable:
            "`UnknownObject`: the object was removed"
        default: ""
        }
    }

    /// The outcome when no answer arrives in time, or an invalid one.
    var unanswered: String {
        switch self {
        case .credentials: "the caller is not identified, and refused; of org.bluez, the client of the view gets the error"
        case .process: "the caller is not identified, and refused"
        case .pickerPing: "the picker gets the next offers all the same"
        case .authorization: "not authorized, and the question is withdrawn"
        case .authorizationEnd: "logged: the question stays until the person answers it"
        case .extensionStart: "the picker ends with `ConnectionFailed`, 10 s after the connection"
        case .extensionStop: "nothing: the connection is closed after 1 s"
        case .radioObjects: "read again after 1, 2, 4 … 16 s; the last answer counts meanwhile"
        case .discoveryFilter, .discoveryStart: "once more, then the picker ends with `DiscoveryFailed`"
        case .discoveryStop: "three times; a later start takes `InProgress` for its own"
        case .agentRegistration, .pairedIdentity: "the pairing has failed, and the bond is removed"
        case .agentEnd: "nothing: the next pairing uses the registered agent"
        case .pairing:
            "called off 20 s after the first attempt without a link, 25 s after it or the person's last answer with one; the bond is "
                + "removed if there is one"
        case .pairingCancel: "the pairing has ended all the same after 5 s, and the bond is removed if there is one"
        case .pairedCheck, .failedRemoval: "the person is informed; checked again after 2, 4 … 64 s, and when the adapter returns"
        case .classicFilter, .classicSearchEnd: "nothing: the next call decides"
        case .classicSearch: "the search goes on; without the classic side bridging has failed after 15 s"
        case .trust, .inputConnect: "the set-up has failed, and the bond is removed"
        case .preferredBearer: "logged: `Connect` uses the last transport"
        case .alias: "logged: BlueZ keeps its own name for it"
        case .bondRemoval: "the requester gets an error; removed again after 2, 4 … 60 s where no app may have the bond"
        case .monitorFeatures, .monitorRegistration: "observed accessories are searched for in windows"
        case .viewObjects: "read again after 2 s; clients see the changes that signals bring"
        case .viewClientObjects: "the app gets the new objects with the next change"
        case .viewLink, .viewDisconnect, .viewStopNotify: "treated as success"
        case .viewDiscoveryFilter: "the app's own call waits as long as the app"
        case .managerDevices, .managerDevice, .iwdObjects, .supplicantInterfaces, .supplicantInterface:
            "interfaces: read again after 1, 2, 4 … 16 s; before a join: the join fails, nothing is changed"
        case .managerActive, .supplicantNetwork: "before a join: the join fails, nothing is changed; afterwards its signals decide"
        case .managerScan, .iwdScan, .supplicantScan, .managerPoints, .iwdNetworks, .supplicantPoints:
            "the scan has failed; the picker reports it after 20 s of failures"
        case .managerPoint, .supplicantPoint:
            "that network is not offered; one that was just joined is left, and the join fails"
        case .managerJoin, .supplicantAdd: "the join fails; a network that was added all the same is removed"
        case .activatePreviousConnection, .deactivateConnection, .iwdForget, .iwdDisconnect, .supplicantRemove, .supplicantEnable:
            "the record stays; undone after 2, 4 … 64 s, at the next start, and before the next join"
        case .iwdStation: "its signals decide"
        case .iwdInfo: "the join fails, nothing is changed"
        case .iwdAgentRegistration, .iwdJoin, .iwdJoinHidden, .supplicantSelect: "the join fails, and is undone"
        case .iwdAgentEnd, .reconnectPreviousNetwork: "logged: iwd returns to the previous network by itself"
        case .supplicantAbilities: "asked again after 5 s"
        case .awareSubscribe, .awarePublish: "begun again after 5 s"
        case .awareSubscribeEnd, .awarePublishEnd: "wpa_supplicant ends it after 300 s"
        }
    }
}
