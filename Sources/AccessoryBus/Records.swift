// SPDX-License-Identifier: Apache-2.0
// The dictionaries inside properties, answers and signals, each with the table of its keys (Docs/Interfaces).

public import AccessoryModel
public import DBusKit

// properties: the keys of a dictionary, which has no levels.
/// An accessory that a person may pick: an element of `Picker.Offers`. All text is for people.
public struct PickerOffer: WireRecord {
    /// Names the offer in `Pick` and `GetImage`.
    public var id = ""
    /// The item's name.
    public var name = ""
    /// The name that the accessory advertises; empty for none.
    public var advertisedName = ""
    /// The last two bytes of its address, where another accessory was offered under the same name: `0A:1F`.
    public var addressEnd: String?
    /// The signal's strength in dBm; nil when unknown.
    public var rssi: Int?
    /// Another app of this daemon has it.
    public var isShared = false
    /// Another program has paired it.
    public var isPaired = false
    /// The address under which the machine is bonded with it, by any program, and `public` or `random`: no device
    /// without the keys of this machine's bond can be used in its place. Nil without a bond.
    public var identity: String?
    /// The name of another accessory that one of its names can be taken for.
    public var resembled: String?
    /// `GetImage` has a picture.
    public var hasImage = false
    /// Of an offer for a kind: how many devices of the kind the app may hear at a time. Nil for a single accessory.
    public var maxDevices: Int?
    /// Of an offer for a kind: how many of its devices are in range.
    public var devicesInRange: Int?
    /// Of an offer for a kind: the names of some devices in range, each once.
    public var namesInRange: [String] = []
    /// The use that the app gets: `read`, `listed`, or `full` where it has had less; nil for full access, and for a
    /// kind.
    public var access: DiscoveryDescriptor.Access.Word?
    /// The characteristics of `listed`, with the names of common ones: `Battery Level (180F/2A19:read+listen)`.
    public var characteristics: [String] = []
    /// The network's name in bytes; nil without a network.
    public var ssid: [UInt8]?
    /// The network's name as text.
    public var network: String?
    /// The network's strength in dBm.
    public var networkRSSI: Int?
    /// The network's protection.
    public var security: NetworkSecurity?
    /// The network's band.
    public var band: NetworkBand?
    /// The place in the network where the app reaches it, as host and port: `printer.local:631`.
    public var endpoint: String?
    /// The rules by which the grant ends, unless the person chooses otherwise; empty for no end.
    public var ends: [String] = []
    /// The ends among which the person may choose; empty for no choice.
    public var endChoices: [String] = []
    /// The accesses to which the person may narrow the app's: `read`; empty for no choice.
    public var accessChoices: [String] = []

    public init() {}
    public static let recordName = "offer"
    public static let table = WireTable<Self>([
        .init("id", \.id, .text), .init("name", \.name, .text), .init("advertisedName", \.advertisedName, .text),
        .init("addressEnd", \.addressEnd, .text), .init("rssi", \.rssi, .int16), .init("shared", \.isShared, .truth),
        .init("paired", \.isPaired, .flag), .init("identity", \.identity, .text), .init("maxDevices", \.maxDevices, .uint32),
        .init("devicesInRange", \.devicesInRange, .uint32), .init("namesInRange", \.namesInRange, .someTexts),
        .init("access", \.access, .word), .init("characteristics", \.characteristics, .someTexts),
        .init("resembles", \.resembled, .text), .init("hasImage", \.hasImage, .truth), .init("ssid", \.ssid, .bytes),
        .init("network", \.network, .text), .init("networkRssi", \.networkRSSI, .int16), .init("security", \.security, .word),
        .init("band", \.band, .word), .init("endpoint", \.endpoint, .text), .init("ends", \.ends, .someTexts),
        .init("endChoices", \.endChoices, .someTexts), .init("accessChoices", \.accessChoices, .someTexts),
    ])

    /// - Parameters:
    ///   - ends: those of the grant.
    ///   - access: the use that the app gets; nil where nothing is to be said about it.
    ///   - canBeNarrowed: whether the person may permit reading alone.
    ///   - resembled: the name in use that one of the offer's names looks like.
    ///   - hasImage: whether the app gave a picture for it.
    ///   - isTwin: whether another accessory was offered under the same name.
    public init(
        _ offer: Offer, ends: [EndRule], choices: [EndChoice], access: AccessLimit?, canBeNarrowed: Bool, resembled: String?,
        hasImage: Bool, isTwin: Bool = false
    ) {
        self.ends = ends.map(\.description)
        endChoices = choices.map(\.description)
        accessChoices = canBeNarrowed ? [AccessLimit.read.text] : []
        id = offer.id
        name = ShownName.marked(offer.name)
        advertisedName = ShownName.marked(offer.advertisedName)
        addressEnd = isTwin ? offer.address.map { String($0.description.suffix(5)) } : nil
        rssi = offer.rssi
        isShared = offer.shared != nil
        // Not through another app of ours.
        isPaired = offer.isBonded && offer.shared == nil
        identity = offer.isBonded ? offer.address.map { "\($0) \($0.kind.rawValue)" } : nil
        self.resembled = resembled.map(ShownName.marked)
        self.hasImage = hasImage
        maxDevices = offer.kind?.maxDevices
        devicesInRange = offer.kind?.count
        namesInRange = offer.kind?.names.map(ShownName.marked) ?? []
        endpoint = offer.reported?.endpoint?.description
        let use = access.map { DiscoveryDescriptor.Access.use($0) }
        self.access = use?.word
        characteristics = (use?.list?.entries ?? []).map { entry in
            AssignedNames.name(of: entry.identity.characteristic).map { "\($0) (\(entry))" } ?? entry.description
        }
        guard let heard = offer.network else { return }
        ssid = heard.ssid.bytes
        network = heard.ssid.description
        networkRSSI = heard.rssi
        security = heard.security
        band = heard.band
    }
}

/// A question to the person, the failure of the last attempt, or the end of the set-up: `Picker.Prompt`. All text is
/// for people.
public struct PickerPrompt: WireRecord {
    /// `PairingPrompt.kind`; nil without a question.
    public var kind: String?
    /// 0 to 999,999, to confirm or to type in at the accessory.
    public var passkey: Int?
    /// The digits of the passkey that have been typed in at the accessory.
    public var entered: Int?
    /// The PIN to type in at the accessory.
    public var pin: String?
    /// The name, in bytes, of the network that the app asks to join.
    public var ssid: [UInt8]?
    /// The same as text.
    public var network: String?
    /// The name of the error with which the last attempt ended.
    public var error: String?
    /// Its message.
    public var message: String?
    /// The person continues in the app.
    public var finishesInApp = false
    /// Names of accessories that are taken over along with the picked one.
    public var migrations: [String] = []
    /// Accessories that were set up so far in a picker that stays open for more; nil for none.
    public var added: Int?

    public init() {}
    public static let recordName = "prompt"
    public static let table = WireTable<Self>([
        .init("kind", \.kind, .text), .init("passkey", \.passkey, .uint32), .init("entered", \.entered, .uint16),
        .init("pin", \.pin, .text), .init("ssid", \.ssid, .bytes), .init("network", \.network, .text),
        .init("error", \.error, .text), .init("message", \.message, .text), .init("finishInApp", \.finishesInApp, .flag),
        .init("migrations", \.migrations, .someTexts), .init("added", \.added, .uint32),
    ])

    /// - Parameters:
    ///   - migrations: the accessories that are taken over along with the picked one.
    ///   - added: accessories that were set up so far.
    public init(_ prompt: PairingPrompt?, failure: SetupError?, finishesInApp: Bool, migrations: [String], added: Int = 0) {
        self.added = added == 0 ? nil : added
        self.finishesInApp = finishesInApp
        self.migrations = migrations.map(ShownName.marked)
        guard let prompt else {
            error = failure.map { BusError($0).name }
            message = failure.map { ShownName.marked($0.message) }
            return
        }
        kind = prompt.kind
        switch prompt {
        case .confirmPasskey(let passkey): self.passkey = Int(passkey)
        case .displayPasskey(let passkey, let entered): (self.passkey, self.entered) = (Int(passkey), Int(entered))
        case .displayPIN(let pin): self.pin = pin
        case .network(let ssid): (self.ssid, network) = (ssid.bytes, ssid.description)
        case .enterPasskey, .enterPIN, .consent: break
        }
    }
}

/// A registered picker program: an element of `Manager.Pickers`. All text is for people.
public struct PickerProgramEntry: WireRecord {
    /// Its own name for itself.
    public var label = ""
    /// The user that runs it.
    public var user = ""
    /// Its executable and process.
    public var program = ""
    /// The time of its registration, in seconds since 1970.
    public var since = 0
    /// The caller registered it.
    public var isYours = false
    /// It shows the picker that is open.
    public var isShowing = false

    public init() {}
    public static let recordName = "program"
    public static let table = WireTable<Self>([
        .init("label", \.label, .text), .init("user", \.user, .text), .init("program", \.program, .text),
        .init("since", \.since, .seconds), .init("isYours", \.isYours, .truth), .init("shows", \.isShowing, .truth),
    ])
}

/// An app that may not ask persons: an element of `Manager.MutedApps`. All text is for people.
public struct MutedAppEntry: WireRecord {
    /// The app's identifier.
    public var app = ""
    /// Its name by its manifest; empty without one.
    public var name = ""
    /// Seconds since 1970.
    public var since = 0
    /// The person, by the program that asked for them.
    public var who = ""

    public init() {}
    public static let recordName = "mutedApp"
    public static let table = WireTable<Self>([
        .init("app", \.app, .text), .init("name", \.name, .text), .init("since", \.since, .seconds), .init("who", \.who, .text),
    ])
}

/// A device that an app hears by a grant for a kind: an element of the answer to `Grant.ListDevices`. All text is for
/// people.
public struct HeardDeviceEntry: WireRecord {
    /// Its present address.
    public var address = ""
    /// The name that it advertises; empty without one.
    public var name = ""

    public init() {}
    public static let recordName = "heardDevice"
    public static let table = WireTable<Self>([.init("address", \.address, .text), .init("name", \.name, .text)])
}

/// A Bluetooth adapter of the machine: an element of `Admin.Adapters`.
public struct AdapterEntry: WireRecord {
    /// Such as `hci0`.
    public var name = ""
    /// Its address.
    public var address = ""
    /// It is switched on.
    public var isPowered = false
    /// The configuration lets it find and pair accessories.
    public var isAllowed = false

    public init() {}
    public static let recordName = "adapter"
    public static let table = WireTable<Self>([
        .init("name", \.name, .text), .init("address", \.address, .text), .init("powered", \.isPowered, .truth),
        .init("allowed", \.isAllowed, .truth),
    ])
}

/// A rule of the policy: an element of `Admin.Policy` and of an explanation's approvals. All text is for people.
public struct PolicyRuleEntry: WireRecord {
    /// `allow-picker`, `deny-picker`, `approve`, `deny` or `limit`.
    public var kind = ""
    /// The rule's name in its file.
    public var name = ""
    /// Identifiers of apps; empty for every app.
    public var apps: [String] = []
    /// The accessories that the rule is about.
    public var target = ""
    /// The weakest signal, in dBm, that the rule approves; nil for other kinds.
    public var minimumRSSI: Int?
    /// The limits that the rule sets; nil for other kinds.
    public var limits: String?
    /// The file; empty where several files add up.
    public var source = ""

    public init() {}
    public static let recordName = "rule"
    public static let table = WireTable<Self>([
        .init("kind", \.kind, .text), .init("name", \.name, .text), .init("apps", \.apps, .texts),
        .init("target", \.target, .text), .init("minimumRssi", \.minimumRSSI, .int16), .init("limits", \.limits, .text),
        .init("source", \.source, .text),
    ])

    /// Marks all text.
    public init(
        _ kind: String, name: String = "", apps: [String], target: String = "", minimumRSSI: Int? = nil, limits: String? = nil,
        source: String
    ) {
        self.limits = limits
        self.kind = kind
        self.name = ShownName.marked(name)
        self.apps = apps
        self.target = ShownName.marked(target)
        self.minimumRSSI = minimumRSSI
        self.source = ShownName.marked(source)
    }
}

/// A mistake in a policy file: an element of `Admin.PolicyProblems`. All text is for people.
public struct PolicyProblemEntry: WireRecord {
    /// The file.
    public var file = ""
    /// The line; 0 for the whole file.
    public var line = 0
    /// The key.
    public var key = ""
    /// The mistake.
    public var reason = ""
    /// The four as one line.
    public var text = ""

    public init() {}
    public static let recordName = "problem"
    public static let table = WireTable<Self>([
        .init("file", \.file, .text), .init("line", \.line, .uint32), .init("key", \.key, .text),
        .init("reason", \.reason, .text), .init("text", \.text, .text),
    ])
}

/// A claim list: an element of `Admin.ClaimLists`. All text is for people.
public struct ClaimListEntry: WireRecord {
    /// Identifies it.
    public var id = ""
    /// The app's identifier.
    public var app = ""
    /// The file.
    public var source = ""
    /// Seconds since 1970: nothing is approved before.
    public var from = 0
    /// Seconds since 1970: nothing is approved from then on.
    public var until = 0
    /// The number of accessories that may be set up.
    public var count = 0
    /// The number of entries.
    public var entries = 0
    /// The number of accessories that were set up.
    public var used = 0

    public init() {}
    public static let recordName = "claimList"
    public static let table = WireTable<Self>([
        .init("id", \.id, .text), .init("app", \.app, .text), .init("source", \.source, .text), .init("from", \.from, .seconds),
        .init("until", \.until, .seconds), .init("count", \.count, .uint32), .init("entries", \.entries, .uint32),
        .init("used", \.used, .uint32),
    ])
}

/// The entries of a claim list, used and left: `GetClaims`. All text is for people.
public struct ClaimReport: WireRecord {
    /// One accessory of the list.
    public struct Entry: WireRecord {
        /// Its address, serial number or bytes.
        public var entry = ""
        /// Its name once it is set up; empty for the app's.
        public var name = ""
        /// Seconds since 1970; nil for an entry that is left.
        public var time: UInt64?
        /// The accessory's identifier; nil for an entry that is left.
        public var accessory: String?
        /// Nothing but its advert has proved the accessory's identity.
        public var isUnauthenticated = false

        public init() {}
        public static let recordName = "claim"
        public static let table = WireTable<Self>([
            .init("entry", \.entry, .text), .init("name", \.name, .text), .init("time", \.time, .uint64),
            .init("accessory", \.accessory, .text), .init("unauthenticated", \.isUnauthenticated, .flag),
        ])
    }

    /// Why it approves nothing now; nil while it is open.
    public var closed: String?
    /// In the order of the file; used ones that the file no longer has at the end.
    public var entries: [Entry] = []

    public init() {}
    public static let recordName = "claimReport"
    public static let table = WireTable<Self>([.init("closed", \.closed, .text), .init("entries", \.entries, .records())])
}

/// A line of the audit trail, as `GetAudit` and `Audited` carry it. All text is for people.
public struct AuditLine: WireRecord {
    /// Counted up, never used twice.
    public var id: UInt64 = 0
    /// Seconds since 1970.
    public var time = 0
    /// `AuditEntry.Event`.
    public var event = ""
    /// The app's identifier; empty for none.
    public var app = ""
    /// The accessory's identifier; empty for none.
    public var accessory = ""
    /// The requester.
    public var who = ""
    /// The reason.
    public var why = ""

    public init() {}
    public static let recordName = "audit"
    public static let table = WireTable<Self>([
        .init("id", \.id, .uint64), .init("time", \.time, .seconds), .init("event", \.event, .text), .init("app", \.app, .text),
        .init("accessory", \.accessory, .text), .init("who", \.who, .text), .init("why", \.why, .text),
    ])
}

/// A device in range and the reasons why it is not offered: an element of `Explain`'s answer. All text is for people.
public struct ExplainedDeviceEntry: WireRecord {
    /// Its Bluetooth address; empty for a network.
    public var address = ""
    /// Its name; empty for none.
    public var name = ""
    /// The strength in dBm; nil when unknown.
    public var rssi: Int?
    /// The name of the item that it matches; empty for none.
    public var item = ""
    /// Empty for a device that is offered.
    public var reasons: [String] = []
    /// The network's name in bytes; nil for a Bluetooth device.
    public var ssid: [UInt8]?
    /// The same as text.
    public var network: String?
    /// `public` or `random`; nil for a network.
    public var addressType: String?
    /// Whether it would be picked without a person, and why or why not; nil without rules that approve or claim lists.
    public var unattended: String?
    /// The app's grants for kinds that match it, and how to open them; empty for none.
    public var kinds: [String] = []
    /// Its advert; nil for a network.
    public var advertisement: AdvertisementEntry?

    public init() {}
    public static let recordName = "device"
    public static let table = WireTable<Self>([
        .init("address", \.address, .text), .init("name", \.name, .text), .init("rssi", \.rssi, .int16),
        .init("item", \.item, .text), .init("reasons", \.reasons, .texts), .init("ssid", \.ssid, .bytes),
        .init("network", \.network, .text), .init("addressType", \.addressType, .text),
        .init("unattended", \.unattended, .text), .init("kinds", \.kinds, .texts),
        .init("advertisement", \.advertisement, .record),
    ])
}

/// Whether an app may use an accessory, and the reasons: `ExplainAccess`. All text is for people.
public struct AccessExplanation: WireRecord {
    /// The rule that denies an accessory.
    public struct Denial: WireRecord {
        /// The rule's name in its file.
        public var name = ""
        /// The file.
        public var source = ""

        public init() {}
        public static let recordName = "denial"
        public static let table = WireTable<Self>([.init("name", \.name, .text), .init("source", \.source, .text)])
    }

    /// The app may use it now.
    public var mayUse = false
    /// The manifest's file; empty without one.
    public var manifest = ""
    /// Mistakes in the manifest.
    public var problems: [String] = []
    /// Rules that approve accessories for the app.
    public var approvals: [PolicyRuleEntry] = []
    /// The reason why the app gets no picker; nil where it gets one.
    public var pickerRefusal: String?
    /// The grant; nil without one.
    public var grant: ObjectPath?
    /// Rules that limit the grant.
    public var limits: [PolicyRuleEntry] = []
    /// The rule that denies the accessory; nil without one.
    public var denial: Denial?
    /// The entry of a claim list by which the app got it; nil for none.
    public var claim: String?

    public init() {}
    public static let recordName = "access"
    public static let table = WireTable<Self>([
        .init("mayUse", \.mayUse, .truth), .init("manifest", \.manifest, .text), .init("problems", \.problems, .texts),
        .init("approvals", \.approvals, .records()), .init("limits", \.limits, .records()),
        .init("pickerRefused", \.pickerRefusal, .text),
        .init("grant", \.grant, .path), .init("denial", \.denial, .record), .init("claim", \.claim, .text),
    ])
}

/// Data that an accessory advertises, as it sent it.
public struct AdvertisementEntry: WireRecord {
    /// The local name.
    public var localName: String?
    /// UUIDs of services.
    public var serviceUUIDs: [String] = []
    /// Data by the service's UUID.
    public var serviceData: [String: [UInt8]] = [:]
    /// Data by the company's number.
    public var manufacturerData: [UInt16: [UInt8]] = [:]
    /// The transmit power in dBm.
    public var txPower: Int?

    public init() {}
    public static let recordName = "advertisement"
    public static let table = WireTable<Self>([
        .init("localName", \.localName, .text), .init("serviceUUIDs", \.serviceUUIDs, .someTexts),
        .init("serviceData", \.serviceData, .bytesByText), .init("manufacturerData", \.manufacturerData, .bytesByNumber),
        .init("txPower", \.txPower, .int16),
    ])

    /// Sorted, so that the same advert is always the same value.
    public init(_ advert: Advertisement) {
        localName = advert.localName
        serviceUUIDs = advert.serviceUUIDs.sorted().map(\.description)
        serviceData = Dictionary(uniqueKeysWithValues: advert.serviceData.map { ($0.key.description, $0.value) })
        manufacturerData = Dictionary(uniqueKeysWithValues: advert.manufacturerData.map { ($0.key.value, $0.value) })
        txPower = advert.txPower
    }
}

// properties: the keys of a dictionary, which has no levels.
/// The details of an event: the second argument of `Session.Event`.
public struct EventDetails: WireRecord {
    /// The accessory's object.
    public var accessory: ObjectPath?
    /// The accessory as it was when the event was sent; nil where the event is about none.
    public var properties: AccessoryProperties?
    /// The picker's object.
    public var picker: ObjectPath?
    /// The name of the error; nil for success.
    public var error: String?
    /// Its message.
    public var message: String?
    /// Names an accessory that is only discovered in `UpdatePicker`.
    public var identifier: String?
    /// Its strength in dBm.
    public var rssi: Int?
    /// Its advert.
    public var advertisement: AdvertisementEntry?
    /// Its network's name in bytes.
    public var ssid: [UInt8]?
    /// The network's strength in dBm.
    public var networkRSSI: Int?
    /// The network's protection.
    public var security: NetworkSecurity?
    /// The network's band.
    public var band: NetworkBand?
    /// Whether it has come into range, or has left it.
    public var isPresent: Bool?
    /// Why, or why it was present last.
    public var reason: PresenceReason?
    /// The address of a device of a kind.
    public var device: String?

    public init() {}
    public static let recordName = "event"
    public static let table = WireTable<Self>([
        .init("accessory", \.accessory, .path), .init("properties", \.properties, .record), .init("picker", \.picker, .path),
        .init("error", \.error, .text), .init("message", \.message, .text), .init("identifier", \.identifier, .text),
        .init("rssi", \.rssi, .int16), .init("advertisement", \.advertisement, .record), .init("ssid", \.ssid, .bytes),
        .init("networkRssi", \.networkRSSI, .int16), .init("security", \.security, .word), .init("band", \.band, .word),
        .init("present", \.isPresent, .truth),
        .init("reason", \.reason, .word), .init("device", \.device, .text),
    ])

    /// The details of an accessory that is only discovered; nothing for none.
    public init(_ discovered: DiscoveredAccessory?) {
        guard let discovered else { return }
        identifier = discovered.identifier.rawValue
        properties = AccessoryProperties(discovered)
        advertisement = discovered.advertisement.map { AdvertisementEntry($0) }
        rssi = discovered.rssi
        ssid = discovered.network?.ssid.bytes
        networkRSSI = discovered.network?.rssi
        security = discovered.network?.security
        band = discovered.network?.band
    }
}
