// SPDX-License-Identifier: Apache-2.0
// The dictionaries of requests, each with the table of its keys: apps and picker programs encode by it, the daemon
// decodes by it. Types end in `Keys` where the model has no place for values that an app can write.

public import AccessoryModel
public import DBusKit

/// An item of `ShowPicker`.
public struct ItemKeys: WireRequest {
    /// Required.
    public var name: String?
    /// Required.
    public var descriptor: DescriptorKeys?
    /// `h` or `ay`.
    public var image: DBusValue?
    /// The steps around its set-up.
    public var setupOptions: SetupOptions = []
    /// The parts that the person may rename.
    public var renameOptions: RenameOptions = []
    /// `Migration.peripheral`.
    public var peripheral: String?
    /// `Migration.hotspotSSID`.
    public var hotspotSSID: [UInt8]?
    /// `Migration.wifiAwarePairedDeviceID`.
    public var awareDevice: UInt64?
    /// `DisplayItem.end`.
    public var end: EndRule?
    /// `DisplayItem.endChoices`.
    public var endChoices: [EndChoice] = []

    public init() {}
    public static let recordName = "item"
    public static let table = WireTable<Self>([
        .init("name", \.name, .name), .init("descriptor", \.descriptor, .record), .init("productImage", \.image, .image),
        .init("setupOptions", \.setupOptions, .words), .init("renameOptions", \.renameOptions, .words),
        .init("peripheralIdentifier", \.peripheral, .peripheral), .init("hotspotSSID", \.hotspotSSID, .networkName),
        .init("wifiAwarePairedDeviceID", \.awareDevice, .uint64), .init("end", \.end, .end),
        .init("endChoices", \.endChoices, .endChoices),
    ])

    public func checked() throws(WireProblem) -> DisplayItem {
        let name = try required(name, "name")
        let keys = try required(descriptor, "descriptor")
        let image = try productImage(image)
        let descriptor: DiscoveryDescriptor
        do { descriptor = try keys.checked() } catch { throw error.within("descriptor") }
        if renameOptions.contains(.ssid), !descriptor.wantsWiFi {
            throw WireProblem("ssid", "the descriptor declares no network", at: "renameOptions")
        }
        var item = DisplayItem(name: name, image: image, descriptor: descriptor, setupOptions: setupOptions)
        item.renameOptions = renameOptions
        (item.end, item.endChoices) = (end, endChoices)
        var migration = Migration()
        migration.peripheral = peripheral.flatMap { Migration.Peripheral($0) }
        migration.hotspotSSID = hotspotSSID.flatMap { SSID($0) }
        migration.wifiAwarePairedDeviceID = awareDevice
        item.migration = migration == Migration() ? nil : migration
        return item
    }
}

/// An item of `UpdatePicker`.
public struct DiscoveredItemKeys: WireRequest {
    /// Required.
    public var name: String?
    /// `h` or `ay`.
    public var image: DBusValue?
    /// Required; as `accessoryDiscovered` said.
    public var identifier: String?

    public init() {}
    public static let recordName = "discovered item"
    public static let table = WireTable<Self>([
        .init("name", \.name, .name), .init("productImage", \.image, .image), .init("identifier", \.identifier, .text),
    ])

    public func checked() throws(WireProblem) -> DiscoveredItem {
        let name = try required(name, "name")
        let image = try productImage(image)
        let text = try required(identifier, "identifier")
        guard let identifier = AccessoryID(text) else { throw WireProblem(text, "not a UUID", at: "identifier") }
        return DiscoveredItem(name: name, image: image, identifier: identifier)
    }
}

/// The place of an accessory in the network.
public struct EndpointKeys: WireRequest {
    /// Required.
    public var host: String?
    /// Required.
    public var port: UInt16?

    public init() {}
    /// Nothing for nil.
    public init(_ endpoint: NetworkEndpoint?) {
        host = endpoint?.host
        port = endpoint?.port
    }
    public static let recordName = "endpoint"
    public static let table = WireTable<Self>([.init("host", \.host, .text), .init("port", \.port, .port)])

    public func checked() throws(WireProblem) -> NetworkEndpoint {
        let (host, port) = (try required(host, "host"), try required(port, "port"))
        guard let endpoint = NetworkEndpoint(host: host, port: port) else {
            throw WireProblem("\(host):\(port)", "not a host name or an address with a port")
        }
        return endpoint
    }
}

/// An item that an extension reports.
public struct ReportedItemKeys: WireRequest {
    /// Required; the same for the same accessory.
    public var identifier: String?
    /// Required.
    public var name: String?
    /// `h` or `ay`.
    public var image: DBusValue?
    /// `ReportedItem.peripheral`.
    public var peripheral: String?
    /// `ReportedItem.ssid`.
    public var ssid: [UInt8]?
    /// `ReportedIdentity.endpoint`.
    public var endpoint: EndpointKeys?
    /// `ReportedItem.supportedOptions`.
    public var supportedOptions: SupportOptions = []

    public init() {}
    public static let recordName = "reported item"
    public static let table = WireTable<Self>([
        .init("identifier", \.identifier, .text), .init("name", \.name, .text), .init("productImage", \.image, .image),
        .init("bluetoothIdentifier", \.peripheral, .peripheral), .init("ssid", \.ssid, .networkName),
        .init("endpoint", \.endpoint, .record), .init("supportedOptions", \.supportedOptions, .words),
    ])

    public func checked() throws(WireProblem) -> ReportedItem {
        let text = try required(identifier, "identifier")
        let endpoint: NetworkEndpoint?
        do { endpoint = try self.endpoint?.checked() } catch { throw error.within("endpoint") }
        guard let identity = ReportedIdentity(identifier: text, endpoint: endpoint) else {
            throw WireProblem("\(text.utf8.count) bytes", "must have 1 to \(Limits.nameBytes)", at: "identifier")
        }
        // As text from the air: most names come from the network.
        let name = ShownName.marked(try required(name, "name"))
        if let problem = ShownName.refusal(of: name) { throw problem.within("name") }
        var item = ReportedItem(identity, name: name)
        item.image = try productImage(image)
        item.peripheral = peripheral.flatMap { Migration.Peripheral($0) }
        item.ssid = ssid.flatMap { SSID($0) }
        item.supportedOptions = supportedOptions
        guard item.peripheral != nil || item.ssid != nil || endpoint != nil else {
            throw WireProblem(nil as String?, "needs bluetoothIdentifier, ssid or endpoint")
        }
        return item
    }
}

/// The settings of `ShowPicker`.
extension PickerSettings: WireRequest {
    public static let recordName = "settings"
    public static let table = WireTable<Self>([
        .init("discoveryTimeout", \.discoveryTimeout, .timeout), .init("options", \.options, .words),
        .init("waitForPicker", \.waitForPicker, .duration(within: Limits.pickerWait).leftOut(where: 0)),
    ])
}

/// The settings of `FinishAuthorization`.
public struct AuthorizationKeys: WireRequest, Hashable {
    /// `AuthorizationSettings.ssid`.
    public var ssid: [UInt8]?
    /// `AuthorizationSettings.bridgingAddress`.
    public var bridgingAddress: [UInt8]?

    public init() {}
    public static let recordName = "settings"
    public static let table = WireTable<Self>([
        .init("ssid", \.ssid, .networkName), .init("bluetoothTransportBridgingIdentifier", \.bridgingAddress, .address),
    ])

    // A device of classic Bluetooth has a public address.
    public func checked() -> AuthorizationSettings {
        AuthorizationSettings(
            ssid: ssid.flatMap { SSID($0) }, bridgingAddress: bridgingAddress.flatMap { BluetoothAddress(bytes: $0, kind: .public) }
        )
    }
}

/// The options of `RenameAccessory`.
extension RenameOptions: WireRequest {
    public static let recordName = "options"
    public static let table = WireTable<Self>([.init("renameOptions", \.self, .words)])
}

/// The options of `RenewAccess`.
extension RenewalOptions: WireRequest {
    public static let recordName = "options"
    public static let table = WireTable<Self>([.init("end", \.end, .end), .init("endChoices", \.endChoices, .endChoices)])
}

/// The choice of `PickWith`.
extension PickChoice: WireRequest {
    public static let recordName = "choice"
    public static let table = WireTable<Self>([.init("end", \.end, .endChoice), .init("access", \.access, .access)])
}

/// The options of `JoinNetwork`. The passphrase is never part of an error.
public struct JoinOptions: WireRequest, Hashable {
    /// The network that the app means; nil for the accessory's.
    public var ssid: SSID?
    /// The network's passphrase; nil for an open network.
    public var passphrase: NetworkJoin.Passphrase?
    /// The network does not say its name, and has to be asked for by it.
    public var isHidden = false

    public init() {}
    public static let recordName = "options"
    public static let table = WireTable<Self>([
        .init("ssid", \.ssid, WireType<[UInt8]>.networkName.converted({ SSID($0) }, \.bytes)),
        .init("passphrase", \.passphrase, .passphrase), .init("hidden", \.isHidden, .flag),
    ])
}

/// The capabilities of `RegisterPicker`: the description that a picker program gives.
public struct PickerCapabilities: WireRequest, Hashable {
    /// Its name for people; nil when it gives none.
    public var label: String?
    /// Seconds after which its registration ends unless it registers again, within `Limits.pickerLease`; nil when it
    /// does not say.
    public var lease: UInt32?
    /// Whether no person sees it; nil when it does not say.
    public var isUnattended: Bool?
    /// Whether no person can see it at the moment; nil when it does not say.
    public var isStandby: Bool?

    public init() {}
    public static let recordName = "capabilities"
    public static let table = WireTable<Self>([
        .init("label", \.label, .name), .init("lease", \.lease, .lease), .init("unattended", \.isUnattended, .truth),
        .init("standby", \.isStandby, .truth),
    ])
}

/// The answer of `Respond`.
public struct AnswerKeys: WireRequest {
    /// The person agrees, or does not.
    public var accepts: Bool?
    /// The passkey that the accessory shows.
    public var passkey: UInt32?
    /// The accessory's PIN.
    public var pin: String?

    public init() {}
    /// The key that says an answer.
    public init(_ answer: PromptAnswer) {
        switch answer {
        case .accept: accepts = true
        case .reject: accepts = false
        case .passkey(let passkey): self.passkey = passkey
        case .pin(let pin): self.pin = pin
        }
    }
    public static let recordName = "answer"
    public static let table = WireTable<Self>([
        .init("accept", \.accepts, .truth), .init("passkey", \.passkey, .passkey), .init("pin", \.pin, .pin),
    ])

    public func checked() throws(WireProblem) -> PromptAnswer {
        // A number typed in says "accept" by itself; only "no" contradicts it.
        switch (accepts, passkey, pin) {
        case (let accepts?, nil, nil): return accepts ? .accept : .reject
        case (nil, let passkey?, nil), (true, let passkey?, nil): return .passkey(passkey)
        case (nil, nil, let pin?), (true, nil, let pin?): return .pin(pin)
        default: throw WireProblem(nil as String?, "needs exactly one of accept, passkey, pin")
        }
    }
}

/// The options of `CreateSession`, which has no keys yet.
public struct SessionKeys: WireRequest {
    public init() {}
    public static let recordName = "options"
    public static let table = WireTable<Self>([])
}

// MARK: - Types

extension WireType<String> {
    /// A name for people, see `ShownName`.
    fileprivate static var name: Self { text.refusing(ShownName.refusal) }
    fileprivate static var peripheral: Self {
        text.refusing { Migration.Peripheral($0) == nil ? WireProblem($0, "neither an address nor a UUID") : nil }
    }
    fileprivate static var pin: Self {
        text.refusing { pin in
            Limits.pinBytes.contains(pin.utf8.count) ? nil : WireProblem("\(pin.utf8.count) bytes", "must be 1 to 16")
        }
    }
}

extension WireType<EndRule> {
    fileprivate static var end: Self {
        WireType<String>.text.refusing {
            EndRule($0) == nil ? WireProblem($0, "not an end (90s, 15min, 8h, 7d, 2w, 18:00, idle 30d)") : nil
        }.converted({ EndRule($0) }, \.description)
    }
}

extension WireType<EndChoice> {
    fileprivate static var endChoice: Self {
        WireType<String>.text.refusing(EndChoice.refusal).converted({ EndChoice($0) }, \.description)
    }
}

extension WireType<[EndChoice]> {
    fileprivate static var endChoices: Self {
        WireType<[String]>.someTexts.refusing { texts in
            texts.count > Limits.endChoices
                ? WireProblem("\(texts.count) ends", "more than \(Limits.endChoices)")
                : texts.lazy.compactMap(EndChoice.refusal).first
        }.converted({ $0.compactMap { EndChoice($0) } }, { $0.map(\.description) })
    }
}

extension WireType<AccessLimit> {
    fileprivate static var access: Self {
        WireType<String>.text.refusing(AccessLimit.refusal).converted({ AccessLimit($0) }, \.text)
    }
}

extension AccessLimit {
    /// Why a text is no access.
    @Sendable static func refusal(of text: String) -> WireProblem? {
        AccessLimit(text) == nil
            ? WireProblem(text, "neither full nor read, nor a list as 180F/2A19:read+listen;180A/2A29:read") : nil
    }
}

extension EndChoice {
    /// Why a text is no choice.
    @Sendable static func refusal(of text: String) -> WireProblem? {
        EndChoice(text) == nil ? WireProblem(text, "neither an end (90s, 15min, 8h, 7d, 2w, 18:00, idle 30d) nor none") : nil
    }
}

extension WireType<[UInt8]> {
    fileprivate static var networkName: Self {
        bytesOrText.refusing { bytes in
            let isOfLength = SSID.length.contains(bytes.count)
            guard !isOfLength || SSID(bytes) == nil else { return nil }
            return WireProblem(
                String(decoding: bytes, as: UTF8.self), isOfLength ? "has only NUL bytes" : "must have 1 to 32 bytes")
        }
    }
    fileprivate static var address: Self {
        bytes.refusing { $0.count == 6 ? nil : WireProblem(Hex.text($0), "must have 6 bytes") }
    }
}

extension WireType<DBusValue> {
    /// `h` or `ay`.
    fileprivate static var image: Self {
        Self(
            "ay", .bytes, { $0 }, { $0.fileDescriptorValue == nil && $0.bytesValue == nil ? nil : $0.unwrapped },
            wanted: "h or ay")
    }
}

extension WireType<NetworkJoin.Passphrase> {
    fileprivate static var passphrase: Self {
        Self(
            "s", .text, { .string($0.text) }, { $0.stringValue.flatMap { NetworkJoin.Passphrase($0) } },
            refuse: { value in
                guard let text = value.stringValue, NetworkJoin.Passphrase(text) == nil else { return nil }
                return WireProblem(
                    "\(text.utf8.count) bytes",
                    "must have 8 to 63 bytes without control characters, or 64 hexadecimal digits")
            })
    }
}

extension WireType<UInt16> {
    fileprivate static var port: Self { unsigned("q", DBusValue.uint16) }
}

extension WireType<UInt32> {
    fileprivate static var lease: Self {
        let range = Limits.pickerLease
        return unsigned("u", DBusValue.uint32).refusing { lease in
            range.contains(lease) ? nil : WireProblem(lease, "must be \(range.lowerBound) to \(range.upperBound) seconds")
        }
    }
    fileprivate static var passkey: Self {
        unsigned("u", DBusValue.uint32).refusing { Limits.passkey.contains($0) ? nil : WireProblem($0, "must be 0 to 999999") }
    }
}

extension WireType<Double?> {
    /// Infinity for nil.
    fileprivate static var timeout: Self {
        WireType<Double>.duration(within: Limits.discoveryTimeout)
            .converted({ .some($0 == .infinity ? nil : $0) }, { $0 ?? .infinity })
    }
}
