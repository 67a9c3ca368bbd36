// From the dictionaries of the session API to the model: every key known, every type right, every limit held, or an error that names
// the key and the value, before anything else happens.

public import AccessoryModel
public import DBusKit

/// One dictionary while it is read: keys are taken out, what is left is unknown.
struct KeyedValues {
    private var rest: [String: DBusValue]
    private let context: String

    /// - Parameter context: where the dictionary stands, for messages: `items[0].descriptor`.
    init(_ value: DBusValue, _ context: String) throws(BusError) {
        guard value.signature == "a{sv}" || value.entries?.isEmpty == true, let values = value.vardictValue else {
            throw .invalid(context, "type \(value.signature)", "is not a dictionary a{sv}")
        }
        guard values.count <= Limits.dictionaryEntries else {
            throw .invalid(context, "\(values.count) entries", "more than \(Limits.dictionaryEntries)")
        }
        rest = values
        self.context = context
    }

    func name(_ key: String) -> String { context.isEmpty ? key : "\(context).\(key)" }

    mutating func take(_ key: String) -> DBusValue? { rest.removeValue(forKey: key) }

    mutating func string(_ key: String) throws(BusError) -> String? {
        guard let value = take(key) else { return nil }
        guard let text = value.stringValue else { throw wrongType(key, value, "s") }
        // By its length alone: what is too long is not looked at, and not quoted.
        guard text.utf8.count <= Limits.textBytes else {
            let beginning = String(decoding: text.utf8.prefix(40), as: UTF8.self)
            throw .invalid(name(key), "\(beginning)…", "\(text.utf8.count) bytes, more than \(Limits.textBytes)")
        }
        return text
    }

    mutating func bytes(_ key: String) throws(BusError) -> [UInt8]? {
        guard let value = take(key) else { return nil }
        guard let bytes = value.bytesValue else { throw wrongType(key, value, "ay") }
        guard bytes.count <= Limits.dataBytes else {
            throw .invalid(name(key), "\(bytes.count) bytes", "longer than \(Limits.dataBytes) bytes")
        }
        return bytes
    }

    /// A number without a sign. Many languages have one type of integer only: any that holds the number is taken.
    mutating func number<Number: FixedWidthInteger & UnsignedInteger>(
        _ key: String, _ type: Number.Type, _ code: Character
    ) throws(BusError) -> Number? {
        guard let value = take(key) else { return nil }
        if case .uint64(let number) = value, let exact = Number(exactly: number) { return exact }
        guard let number = value.integerValue else {
            if case .uint64(let number) = value { throw .invalid(name(key), number, "must be 0 to \(Number.max)") }
            throw wrongType(key, value, "\(code), or another integer")
        }
        guard let exact = Number(exactly: number) else { throw .invalid(name(key), number, "must be 0 to \(Number.max)") }
        return exact
    }

    /// Bytes, or text as its UTF-8 bytes.
    mutating func bytesOrText(_ key: String) throws(BusError) -> [UInt8]? {
        guard let value = take(key) else { return nil }
        guard let bytes = value.stringValue.map({ Array($0.utf8) }) ?? value.bytesValue else {
            throw wrongType(key, value, "ay or s")
        }
        guard bytes.count <= Limits.textBytes else {
            throw .invalid(name(key), "\(bytes.count) bytes", "longer than \(Limits.textBytes) bytes")
        }
        return bytes
    }

    /// A set of options by name.
    mutating func options<Options: OptionSet>(_ key: String, _ names: [(String, Options)]) throws(BusError) -> Options {
        guard let value = take(key) else { return [] }
        guard let words = value.stringsValue else { throw wrongType(key, value, "as") }
        var options = Options()
        for word in words {
            guard let option = names.first(where: { $0.0 == word }) else {
                throw .invalid(name(key), word, "is none of \(names.map(\.0).joined(separator: ", "))")
            }
            options.formUnion(option.1)
        }
        return options
    }

    /// One word of an enumeration.
    mutating func word<Word: RawRepresentable>(_ key: String, _ words: [Word]) throws(BusError) -> Word?
    where Word.RawValue == String {
        guard let text = try string(key) else { return nil }
        guard let word = words.first(where: { $0.rawValue == text }) else {
            throw .invalid(name(key), text, "is none of \(words.map(\.rawValue).joined(separator: ", "))")
        }
        return word
    }

    func wrongType(_ key: String, _ value: DBusValue, _ wanted: String) -> BusError {
        .invalid(name(key), "type \(value.signature)", "must be of type \(wanted)")
    }

    /// What nobody took is not part of the API.
    func finish() throws(BusError) {
        guard let key = rest.keys.min() else { return }
        throw .invalid(name(key), rest[key].map { "type \($0.signature)" } ?? "", "unknown key")
    }
}

extension BusError {
    static func invalid(_ key: String, _ value: some Any, _ reason: String) -> BusError {
        BusError(SetupError.invalid(key, value, reason))
    }
}

/// The dictionaries that apps send.
public enum WireDecoding {
    /// An `a{sv}` that may hold no key (yet): session options, picker capabilities.
    public static func empty(_ value: DBusValue, _ context: String) throws(BusError) {
        try KeyedValues(value, context).finish()
    }

    /// The items of `ShowPicker`.
    public static func items(_ value: DBusValue) throws(BusError) -> [DisplayItem] {
        let values = value.arrayValue ?? []
        guard !values.isEmpty else { throw .invalid("items", "[]", "is empty") }
        guard values.count <= Limits.itemsPerPicker else {
            throw .invalid("items", "\(values.count) items", "more than \(Limits.itemsPerPicker)")
        }
        var items: [DisplayItem] = []
        var imageBytes = 0
        for (index, value) in values.enumerated() {
            let item = try item(value, "items[\(index)]")
            imageBytes += item.image?.bytes.count ?? 0
            guard imageBytes <= Limits.imageBytesPerPicker else {
                throw .invalid(
                    "items[\(index)].productImage", "\(imageBytes) bytes in all", "more than \(Limits.imageBytesPerPicker)")
            }
            items.append(item)
        }
        return items
    }

    private static func item(_ value: DBusValue, _ context: String) throws(BusError) -> DisplayItem {
        var keys = try KeyedValues(value, context)
        guard let name = try keys.string("name") else { throw .invalid(keys.name("name"), "", "is missing") }
        try checkName(name, keys.name("name"))
        let migration = try migration(&keys)
        guard let descriptorValue = keys.take("descriptor") else { throw .invalid(keys.name("descriptor"), "", "is missing") }
        let image = try productImage(keys.take("productImage"), keys.name("productImage"))
        let setup = try keys.options("setupOptions", SetupOptions.names)
        let rename = try keys.options("renameOptions", RenameOptions.names)
        try keys.finish()
        let descriptor = try descriptor(descriptorValue, keys.name("descriptor"))
        if rename.contains(.ssid), !descriptor.wantsWiFi {
            throw .invalid(keys.name("renameOptions"), "ssid", "the descriptor names no network")
        }
        var item = DisplayItem(name: name, image: image, descriptor: descriptor, setupOptions: setup)
        item.renameOptions = rename
        item.migration = migration
        return item
    }

    /// What makes an item a migration item; nil when nothing does.
    private static func migration(_ keys: inout KeyedValues) throws(BusError) -> Migration? {
        var migration = Migration()
        if let text = try keys.string("peripheralIdentifier") {
            guard let peripheral = Migration.Peripheral(text) else {
                throw .invalid(keys.name("peripheralIdentifier"), text, "neither an address nor a UUID")
            }
            migration.peripheral = peripheral
        }
        migration.hotspotSSID = try ssid(&keys, "hotspotSSID")
        migration.wifiAwarePairedDeviceID = try keys.number("wifiAwarePairedDeviceID", UInt64.self, "t")
        return migration == Migration() ? nil : migration
    }

    private static func ssid(_ keys: inout KeyedValues, _ key: String) throws(BusError) -> SSID? {
        guard let bytes = try keys.bytesOrText(key) else { return nil }
        let text = String(decoding: bytes, as: UTF8.self)
        guard SSID.length.contains(bytes.count) else { throw .invalid(keys.name(key), text, "must have 1 to 32 bytes") }
        guard !bytes.contains(0), let ssid = SSID(bytes) else { throw .invalid(keys.name(key), text, "has a NUL byte") }
        return ssid
    }

    /// The options of `JoinNetwork`. The passphrase is never part of an error.
    public static func joinOptions(_ value: DBusValue) throws(BusError) -> JoinOptions {
        var keys = try KeyedValues(value, "options")
        var options = JoinOptions()
        options.ssid = try ssid(&keys, "ssid")
        if let value = keys.take("passphrase") {
            guard let text = value.stringValue else { throw keys.wrongType("passphrase", value, "s") }
            guard let passphrase = NetworkJoin.Passphrase(text) else {
                throw .invalid(
                    keys.name("passphrase"), "\(text.utf8.count) bytes",
                    "must have 8 to 63 bytes without control characters, or 64 hexadecimal digits")
            }
            options.passphrase = passphrase
        }
        if let value = keys.take("hidden") {
            guard let hidden = value.booleanValue else { throw keys.wrongType("hidden", value, "b") }
            options.isHidden = hidden
        }
        try keys.finish()
        return options
    }

    /// The items of `UpdatePicker`.
    public static func discoveredItems(_ value: DBusValue) throws(BusError) -> [DiscoveredItem] {
        let values = value.arrayValue ?? []
        guard values.count <= Limits.itemsPerPicker else {
            throw .invalid("items", "\(values.count) items", "more than \(Limits.itemsPerPicker)")
        }
        var items: [DiscoveredItem] = []
        var imageBytes = 0
        for (index, value) in values.enumerated() {
            var keys = try KeyedValues(value, "items[\(index)]")
            guard let name = try keys.string("name") else { throw .invalid(keys.name("name"), "", "is missing") }
            try checkName(name, keys.name("name"))
            let image = try productImage(keys.take("productImage"), keys.name("productImage"))
            guard let text = try keys.string("identifier") else { throw .invalid(keys.name("identifier"), "", "is missing") }
            guard let identifier = AccessoryID(text) else { throw .invalid(keys.name("identifier"), text, "not a UUID") }
            try keys.finish()
            imageBytes += image?.bytes.count ?? 0
            guard imageBytes <= Limits.imageBytesPerPicker else {
                throw .invalid(
                    "items[\(index)].productImage", "\(imageBytes) bytes in all", "more than \(Limits.imageBytesPerPicker)")
            }
            items.append(DiscoveredItem(name: name, image: image, identifier: identifier))
        }
        return items
    }

    /// The options of `RenameAccessory`.
    public static func renameOptions(_ value: DBusValue) throws(BusError) -> RenameOptions {
        var keys = try KeyedValues(value, "options")
        let options = try keys.options("renameOptions", RenameOptions.names)
        try keys.finish()
        return options
    }

    /// The settings of `FinishAuthorization`.
    public static func authorizationSettings(_ value: DBusValue) throws(BusError) -> AuthorizationSettings {
        var keys = try KeyedValues(value, "settings")
        var settings = AuthorizationSettings()
        settings.ssid = try ssid(&keys, "ssid")
        if let bytes = try keys.bytes("bluetoothTransportBridgingIdentifier") {
            // A device of classic Bluetooth has a public address.
            guard let address = BluetoothAddress(bytes: bytes, kind: .public) else {
                throw .invalid(keys.name("bluetoothTransportBridgingIdentifier"), Hex.text(bytes), "must have 6 bytes")
            }
            settings.bridgingAddress = address
        }
        try keys.finish()
        return settings
    }

    /// A display name, see `ShownName`.
    public static func checkName(_ name: String, _ key: String) throws(BusError) {
        if let problem = ShownName.problem(with: name) {
            throw .invalid(key, name.utf8.count > Limits.nameBytes ? "\(name.utf8.count) bytes" : name.debugDescription, problem)
        }
    }

    private static func productImage(_ value: DBusValue?, _ key: String) throws(BusError) -> ProductImage? {
        guard let value else { return nil }
        let bytes: [UInt8]
        if let descriptor = value.fileDescriptorValue {
            guard let contents = descriptor.readFile(limit: Limits.imageBytes) else {
                throw .invalid(
                    key, "descriptor",
                    "not sealed memory or a file on a local disk, readable and of at most \(Limits.imageBytes) bytes")
            }
            bytes = contents
        } else if let contents = value.bytesValue {
            bytes = contents
        } else {
            throw .invalid(key, "type \(value.signature)", "must be of type h or ay")
        }
        guard bytes.count <= Limits.imageBytes else {
            throw .invalid(key, "\(bytes.count) bytes", "more than \(Limits.imageBytes)")
        }
        guard let image = ProductImage(bytes) else { throw .invalid(key, "\(bytes.count) bytes", "neither PNG, JPEG nor SVG") }
        return image
    }

    /// A descriptor; the rules among its keys are the engine's to check.
    public static func descriptor(_ value: DBusValue, _ context: String) throws(BusError) -> DiscoveryDescriptor {
        var keys = try KeyedValues(value, context)
        var descriptor = DiscoveryDescriptor()
        descriptor.companyIdentifier = try keys.number("bluetoothCompanyIdentifier", UInt16.self, "q").map { CompanyIdentifier($0) }
        if let text = try keys.string("bluetoothServiceUUID") {
            guard let uuid = BluetoothUUID(text) else {
                throw .invalid(keys.name("bluetoothServiceUUID"), text, "not a UUID of 16, 32 or 128 bits")
            }
            descriptor.serviceUUID = uuid
        }
        descriptor.manufacturerData = try maskedData(&keys, "bluetoothManufacturerData")
        descriptor.serviceData = try maskedData(&keys, "bluetoothServiceData")
        descriptor.nameSubstring = try keys.string("bluetoothNameSubstring")
        descriptor.nameCompareOptions = try keys.options("bluetoothNameSubstringCompareOptions", CompareOptions.names)
        descriptor.range = try keys.word("bluetoothRange", [.default, .immediate]) ?? .default
        descriptor.ssid = try keys.bytesOrText("ssid")
        descriptor.ssidPrefix = try keys.bytesOrText("ssidPrefix")
        descriptor.supportedOptions = try keys.options("supportedOptions", SupportOptions.names)
        descriptor.wifiAware = try wifiAware(&keys)
        try keys.finish()
        return descriptor
    }

    private static func maskedData(_ keys: inout KeyedValues, _ prefix: String) throws(BusError) -> MaskedData? {
        let blob = try keys.bytes(prefix + "Blob")
        let mask = try keys.bytes(prefix + "Mask")
        guard blob != nil || mask != nil else { return nil }
        guard let blob else { throw .invalid(keys.name(prefix + "Mask"), Hex.text(mask ?? []), "needs \(prefix)Blob") }
        guard let mask else { throw .invalid(keys.name(prefix + "Blob"), Hex.text(blob), "needs \(prefix)Mask") }
        do {
            return try MaskedData(blob: blob, mask: mask)
        } catch {
            switch error {
            case .empty: throw .invalid(keys.name(prefix + "Blob"), "[]", "is empty")
            case .lengthsDiffer:
                throw .invalid(keys.name(prefix + "Mask"), "\(mask.count) bytes", "the blob has \(blob.count) bytes")
            case .blobBitOutsideMask(let index):
                throw .invalid(
                    keys.name(prefix + "Blob"), Hex.text(blob), "byte \(index) has a bit outside the mask and could match nothing")
            }
        }
    }

    private static func wifiAware(_ keys: inout KeyedValues) throws(BusError) -> WiFiAware? {
        var aware = WiFiAware()
        aware.serviceName = try keys.string("wifiAwareServiceName")
        aware.serviceRole = try keys.word("wifiAwareServiceRole", [.subscriber, .publisher])
        aware.modelName = try wifiAwareMatch(&keys, "wifiAwareModelNameMatch")
        aware.vendorName = try wifiAwareMatch(&keys, "wifiAwareVendorNameMatch")
        return aware == WiFiAware() ? nil : aware
    }

    private static func wifiAwareMatch(_ keys: inout KeyedValues, _ key: String) throws(BusError) -> WiFiAware.Match? {
        guard let value = keys.take(key) else { return nil }
        guard let fields = value.structureValue, fields.count == 2, let text = fields[0].stringValue else {
            throw keys.wrongType(key, value, "(sas)")
        }
        var inner = try KeyedValues(.vardict(["options": fields[1]]), keys.name(key))
        return WiFiAware.Match(string: text, options: try inner.options("options", CompareOptions.names))
    }

    /// The settings of `ShowPicker`.
    public static func settings(_ value: DBusValue) throws(BusError) -> PickerSettings {
        var keys = try KeyedValues(value, "settings")
        var settings = PickerSettings()
        if let value = keys.take("discoveryTimeout") {
            guard let seconds = value.doubleValue ?? value.integerValue.map(Double.init) else {
                throw keys.wrongType("discoveryTimeout", value, "d")
            }
            guard seconds == .infinity || Limits.discoveryTimeout.contains(seconds) else {
                throw .invalid(
                    "settings.discoveryTimeout", seconds,
                    "must be \(Limits.discoveryTimeout.lowerBound) to \(Limits.discoveryTimeout.upperBound) seconds, or infinity")
            }
            settings.discoveryTimeout = seconds == .infinity ? nil : seconds
        }
        if let value = keys.take("options") {
            guard let words = value.stringsValue else { throw keys.wrongType("options", value, "as") }
            for word in words {
                guard word == "filterDiscoveryResults" else {
                    throw .invalid("settings.options", word, "is none of filterDiscoveryResults")
                }
                settings.filtersDiscoveryResults = true
            }
        }
        try keys.finish()
        return settings
    }

    /// What a picker answers to a prompt: exactly one of `accept` b, `passkey` u, `pin` s.
    public static func answer(_ value: DBusValue) throws(BusError) -> PromptAnswer {
        var keys = try KeyedValues(value, "answer")
        var answers: [PromptAnswer] = []
        if let value = keys.take("accept") {
            guard let accept = value.booleanValue else { throw keys.wrongType("accept", value, "b") }
            answers.append(accept ? .accept : .reject)
        }
        if let passkey = try keys.number("passkey", UInt32.self, "u") {
            guard Limits.passkey.contains(passkey) else { throw .invalid("answer.passkey", passkey, "must be 0 to 999999") }
            answers.append(.passkey(passkey))
        }
        if let pin = try keys.string("pin") {
            guard Limits.pinBytes.contains(pin.utf8.count) else {
                throw .invalid("answer.pin", "\(pin.utf8.count) bytes", "must be 1 to 16")
            }
            answers.append(.pin(pin))
        }
        try keys.finish()
        // A number typed in says "accept" by itself; only "no" contradicts it.
        if answers.count == 2, answers[0] == .accept { answers.removeFirst() }
        guard answers.count == 1 else {
            throw BusError(SetupError(.invalidRequest, "answer: needs exactly one of accept, passkey, pin"))
        }
        return answers[0]
    }
}

/// What `JoinNetwork` is asked.
public struct JoinOptions: Hashable, Sendable {
    /// The network that the app means; nil for the accessory's.
    public var ssid: SSID?
    public var passphrase: NetworkJoin.Passphrase?
    public var isHidden = false
}
