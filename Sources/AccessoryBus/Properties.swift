// SPDX-License-Identifier: Apache-2.0
// The properties of the daemon's interfaces, each with the table that Interfaces/*.xml describes.

public import AccessoryModel
public import DBusKit

// properties: those of the interface, with its names in one table.
/// `org.accessorysetup1.Grant`.
public struct GrantProperties: WireRecord {
    /// The app's identifier.
    public var app = ""
    /// The accessory's object.
    public var accessory: ObjectPath = "/"
    /// How far the set-up has come.
    public var state = AuthorizationState.unauthorized
    /// The admin's switch.
    public var isEnabled = false
    /// The name, in bytes, of the network that the app may join; empty for none.
    public var ssid: [UInt8] = []
    /// The same for people.
    public var networkName = ""
    /// The descriptor by which the app has the accessory.
    public var descriptor: [String: DBusValue] = [:]
    /// The use that the grant opens.
    public var access = DiscoveryDescriptor.Access.Word.full
    /// The characteristics of `listed`: `180F/2A19:read+listen`.
    public var characteristics: [String] = []
    /// Addresses of the devices that are excluded from a kind.
    public var excluded: [String] = []
    /// The rules by which it ends, or has ended; empty for none.
    public var endRules: [String] = []
    /// Seconds since 1970; 0 for a grant that does not end, or has ended.
    public var ends = 0
    /// Whether the app is notified of its presence.
    public var isObserved = false
    /// Whether it, or a device of the kind, is in range now; false while it is not observed.
    public var isPresent = false
    /// The uid of the person who set it up; -1 where a rule approved it.
    public var user = -1
    /// Seconds since 1970.
    public var created = 0
    /// Seconds since 1970; 0 for never.
    public var lastUsed = 0

    public init() {}
    public static let recordName = "Grant"
    public static let table = WireTable<Self>([
        .init("App", \.app, .text, for: .admins, .constant), .init("Accessory", \.accessory, .path, for: .admins, .constant),
        .init("State", \.state, .word, for: .admins), .init("Enabled", \.isEnabled, .truth, for: .admins),
        .init("Ssid", \.ssid, .bytes, for: .admins), .init("NetworkName", \.networkName, .text, for: .admins),
        .init("Descriptor", \.descriptor, .dictionary, for: .admins), .init("Excluded", \.excluded, .texts, for: .admins),
        .init("EndRules", \.endRules, .texts, for: .admins), .init("Ends", \.ends, .seconds, for: .admins),
        .init("Access", \.access, .word, for: .admins), .init("Characteristics", \.characteristics, .texts, for: .admins),
        .init("Observed", \.isObserved, .truth, for: .admins), .init("Present", \.isPresent, .truth, for: .admins),
        .init("Created", \.created, .seconds, for: .admins),
        .init("LastUsed", \.lastUsed, .seconds, for: .admins), .init("User", \.user, .int64, for: .admins),
    ])

    /// The grant as admins see it, without the accessory's presence.
    ///
    /// - Parameter end: when it ends, seconds since 1970; nil for one that does not, or has ended.
    public init(_ grant: Grant, end: Int64?) {
        endRules = grant.terms.time.rules.map(\.description)
        ends = Int(end ?? 0)
        app = grant.app.rawValue
        accessory = AccessoryBus.accessoryPath(grant.accessory)
        state = grant.state
        isEnabled = grant.isEnabled
        ssid = grant.terms.ssid?.bytes ?? []
        networkName = grant.terms.ssid?.description ?? ""
        descriptor = grant.terms.descriptor.keys
        let use = grant.terms.use
        access = use.word
        characteristics = use.list?.entries.map(\.description) ?? []
        excluded = grant.terms.excluded.sorted().map { BluetoothAddress(value: $0, kind: .public).description }
        isObserved = grant.isObserved
        user = grant.user.map(Int.init) ?? -1
        created = Int(grant.created)
        lastUsed = Int(grant.lastUsed ?? 0)
    }
}

// properties: those of the interface, with its names in one table.
/// `org.accessorysetup1.Accessory`.
public struct AccessoryProperties: WireRecord {
    /// The name for people.
    public var displayName = ""
    /// The state of the grant by which it is seen.
    public var state = AuthorizationState.unauthorized
    /// The daemon's identifier; empty without a Bluetooth side.
    public var bluetoothIdentifier = ""
    /// The address of the classic side; empty without one.
    public var bridgingIdentifier: [UInt8] = []
    /// The network's name in bytes; empty without one.
    public var ssid: [UInt8] = []
    /// The Wi-Fi Aware pairing identifier; 0 without one.
    public var awareDevice: UInt64 = 0
    /// The descriptor of the grant by which it is seen.
    public var descriptor: [String: DBusValue] = [:]
    /// The object of org.bluez; `/` while BlueZ does not know it.
    public var device: ObjectPath = "/"
    /// Where the app's extension has found it in the network; empty without.
    public var endpoint = EndpointKeys()
    /// When the app's grant ends, seconds since 1970; 0 when it does not, or has ended.
    public var ends = 0
    /// The use that the app's grant opens.
    public var access = DiscoveryDescriptor.Access.Word.full
    /// The characteristics of `listed`: `180F/2A19:read+listen`.
    public var characteristics: [String] = []
    /// Its Bluetooth address; empty without one.
    public var address = ""
    /// The address of the adapter that it was set up with; empty when unknown.
    public var adapter = ""
    /// The network's name for people.
    public var networkName = ""
    /// Identifiers of the apps that have a grant; for a person, one that they set up.
    public var apps: [String] = []
    /// It has a link.
    public var isConnected = false
    /// Percent; -1 when unknown.
    public var battery = -1
    /// Reasons, for people, why granted apps cannot use it.
    public var problems: [String] = []
    /// The name that the accessory gives itself; empty when unknown.
    public var advertisedName = ""
    /// `ImageData` returns a product image.
    public var hasImage = false
    /// When it is removed, seconds since 1970; 0 when it stays.
    public var removalTime = 0

    public init() {}
    public static let recordName = "Accessory"
    public static let table = WireTable<Self>([
        .init("DisplayName", \.displayName, .text), .init("State", \.state, .word),
        .init("BluetoothIdentifier", \.bluetoothIdentifier, .text),
        .init("BluetoothTransportBridgingIdentifier", \.bridgingIdentifier, .bytes), .init("Ssid", \.ssid, .bytes),
        .init("WiFiAwarePairedDeviceID", \.awareDevice, .uint64), .init("Descriptor", \.descriptor, .dictionary),
        .init("Device", \.device, .path), .init("Endpoint", \.endpoint, .record), .init("Ends", \.ends, .seconds),
        .init("Access", \.access, .word), .init("Characteristics", \.characteristics, .texts),
        .init("Address", \.address, .text, for: .persons),
        .init("Adapter", \.adapter, .text, for: .persons), .init("NetworkName", \.networkName, .text, for: .persons),
        .init("Apps", \.apps, .texts, for: .persons), .init("Connected", \.isConnected, .truth, for: .persons),
        .init("Battery", \.battery, .int16, for: .persons), .init("Problems", \.problems, .texts, for: .persons, .never),
        .init("AdvertisedName", \.advertisedName, .text, for: .persons), .init("HasImage", \.hasImage, .truth, for: .persons),
        .init("RemovalTime", \.removalTime, .seconds, for: .persons),
    ])

    /// The properties that the accessory and the grant have, without those of the radio's link and of other grants.
    ///
    /// - Parameters:
    ///   - device: the object of org.bluez; nil when BlueZ does not know it now.
    ///   - end: when the grant ends, seconds since 1970; nil for one that does not, or has ended.
    public init(_ granted: GrantedAccessory, device: ObjectPath?, end: Int64?) {
        ends = Int(end ?? 0)
        let terms = granted.grant.terms
        access = terms.use.word
        characteristics = terms.use.list?.entries.map(\.description) ?? []
        displayName = granted.accessory.displayName
        state = granted.grant.state
        bluetoothIdentifier = granted.address == nil ? "" : granted.accessory.id.rawValue
        bridgingIdentifier = terms.classicAddress?.bytes ?? []
        ssid = terms.ssid?.bytes ?? []
        awareDevice = terms.awareDevice ?? 0
        descriptor = terms.descriptor.keys
        self.device = (granted.address == nil ? nil : device) ?? "/"
        endpoint = EndpointKeys(terms.reported?.endpoint)
        address = granted.accessory.address?.description ?? ""
        adapter = granted.accessory.adapter?.description ?? ""
        networkName = terms.ssid?.description ?? ""
        hasImage = granted.accessory.image != nil
    }

    /// An accessory that is only discovered.
    public init(_ discovered: DiscoveredAccessory) {
        displayName = discovered.item.name
        bluetoothIdentifier = discovered.advertisement == nil ? "" : discovered.identifier.rawValue
        ssid = discovered.network?.ssid.bytes ?? []
        descriptor = discovered.item.descriptor.keys
    }
}

/// `org.accessorysetup1.Network`.
public struct NetworkProperties: WireRecord {
    /// The machine's interface that is on the accessory's network; empty for none.
    public var interface = ""

    public init() {}
    public static let recordName = "Network"
    public static let table = WireTable<Self>([.init("Interface", \.interface, .text)])
}

/// `org.accessorysetup1.App`.
public struct AppProperties: WireRecord {
    /// The app's identifier.
    public var id = ""
    /// The app's name for people.
    public var name = ""
    /// The manifest's file.
    public var source = ""
    /// Mistakes in the manifest, with file, line and key.
    public var problems: [String] = []
    /// The path of the app's own socket; empty without one.
    public var socket = ""
    /// The manifest by its keys; empty for one with problems.
    public var manifest: [String: [String]] = [:]

    public init() {}
    public static let recordName = "App"
    public static let table = WireTable<Self>([
        .init("Id", \.id, .text, for: .admins, .constant), .init("Name", \.name, .text, for: .admins),
        .init("Source", \.source, .text, for: .admins), .init("Problems", \.problems, .texts, for: .admins),
        .init("Socket", \.socket, .text, for: .admins), .init("Manifest", \.manifest, .textsByName, for: .admins),
    ])
}

/// `org.accessorysetup1.Manager`.
public struct ManagerProperties: WireRecord {
    /// The daemon's version.
    public var version = ""
    /// `ready`, `off` or `absent`.
    public var bluetooth = ""
    /// The same for Wi-Fi.
    public var wifi = ""
    /// A picker program is registered.
    public var isPickerAvailable = false
    /// The registered programs in their order: the first one shows the next picker.
    public var pickers: [PickerProgramEntry] = []
    /// Apps that may not ask persons.
    public var mutedApps: [MutedAppEntry] = []

    public init() {}
    public static let recordName = "Manager"
    public static let table = WireTable<Self>([
        .init("Version", \.version, .text, .constant), .init("Bluetooth", \.bluetooth, .text), .init("WiFi", \.wifi, .text),
        .init("PickerAvailable", \.isPickerAvailable, .truth), .init("Pickers", \.pickers, .records(), for: .pickerPrograms),
        .init("MutedApps", \.mutedApps, .records(), for: .persons),
    ])
}

/// `org.accessorysetup1.Session`.
public struct SessionProperties: WireRecord {
    /// The app's identifier.
    public var app = ""
    /// The connection's program.
    public var program = ""
    /// `created`, `active` or `invalidated`.
    public var state = ""
    /// The accessories that the app has.
    public var accessories: [ObjectPath] = []

    public init() {}
    public static let recordName = "Session"
    public static let table = WireTable<Self>([
        .init("App", \.app, .text, .constant), .init("Program", \.program, .text, for: .admins, .constant),
        .init("State", \.state, .text), .init("Accessories", \.accessories, .paths),
    ])
}

/// `org.accessorysetup1.Picker`. All text is for people.
public struct PickerProperties: WireRecord {
    /// The app's identifier.
    public var app = ""
    /// The app's name.
    public var appName = ""
    /// The program that shows it; empty where the policy answers.
    public var program = ""
    /// `discovery`, `migration`, `rename` or `authorization`.
    public var kind = ""
    /// `PickerPresentation.Stage`.
    public var stage = ""
    /// Accessories that may be picked.
    public var offers: [PickerOffer] = []
    /// The question to the person.
    public var prompt = PickerPrompt()
    /// The end of the discovery, in microseconds of CLOCK_REALTIME; 0 for none.
    public var deadline: UInt64 = 0

    public init() {}
    public static let recordName = "Picker"
    public static let table = WireTable<Self>([
        .init("App", \.app, .text, .constant), .init("AppName", \.appName, .text, .constant), .init("Program", \.program, .text),
        .init("Kind", \.kind, .text, .constant), .init("Stage", \.stage, .text), .init("Offers", \.offers, .records()),
        .init("Prompt", \.prompt, .record), .init("Deadline", \.deadline, .uint64),
    ])
}

/// `org.accessorysetup1.Admin`.
public struct AdminProperties: WireRecord {
    /// The rules of the policy files.
    public var policy: [PolicyRuleEntry] = []
    /// Mistakes in them.
    public var policyProblems: [PolicyProblemEntry] = []
    /// The claim lists.
    public var claimLists: [ClaimListEntry] = []
    /// Mistakes in them.
    public var claimProblems: [PolicyProblemEntry] = []
    /// The machine's Bluetooth adapters.
    public var adapters: [AdapterEntry] = []
    /// `on`, `off`, `broken` or `unknown`, as the files say at the moment of the call.
    public var lockdown = "unknown"

    public init() {}
    public static let recordName = "Admin"
    public static let table = WireTable<Self>([
        .init("Policy", \.policy, .records(), for: .admins),
        .init("PolicyProblems", \.policyProblems, .records(), for: .admins),
        .init("ClaimLists", \.claimLists, .records(), for: .admins),
        .init("ClaimProblems", \.claimProblems, .records(), for: .admins),
        .init("Adapters", \.adapters, .records(), for: .admins), .init("Lockdown", \.lockdown, .text, for: .admins, .never),
    ])
}

extension AccessoryBus {
    /// The rows of every interface with properties, by the interface's name without the daemon's prefix.
    public static let properties: [(name: String, rows: [WireRow])] = [
        rows(AccessoryProperties.self), rows(AdminProperties.self), rows(AppProperties.self), rows(GrantProperties.self),
        rows(ManagerProperties.self), rows(NetworkProperties.self), rows(PickerProperties.self), rows(SessionProperties.self),
    ]

    /// The rows of every kind of dictionary, by its name.
    public static let records: [(name: String, rows: [WireRow])] = [
        rows(PickerOffer.self), rows(EndpointKeys.self), rows(PickerPrompt.self), rows(PickerProgramEntry.self),
        rows(MutedAppEntry.self), rows(HeardDeviceEntry.self),
        rows(AdapterEntry.self),
        rows(PolicyRuleEntry.self), rows(PolicyProblemEntry.self), rows(ClaimListEntry.self), rows(ClaimReport.self),
        rows(ClaimReport.Entry.self), rows(AuditLine.self), rows(ExplainedDeviceEntry.self),
        rows(AccessExplanation.self), rows(AccessExplanation.Denial.self), rows(AdvertisementEntry.self), rows(EventDetails.self),
    ]

    /// The rows of the dictionaries of requests, by their names.
    public static let requests: [(name: String, rows: [WireRow])] = [
        rows(ItemKeys.self), rows(DiscoveredItemKeys.self), rows(EndpointKeys.self), rows(ReportedItemKeys.self),
        rows(DescriptorKeys.self), rows(PickerSettings.self),
        rows(AuthorizationKeys.self), rows(RenameOptions.self), rows(JoinOptions.self), rows(PickerCapabilities.self),
        rows(AnswerKeys.self),
    ]

    private static func rows<Record: WireRecord>(_ type: Record.Type) -> (name: String, rows: [WireRow]) {
        (Record.recordName, Record.table.rows)
    }
}
