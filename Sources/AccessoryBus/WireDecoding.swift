// SPDX-License-Identifier: Apache-2.0
// From the dictionaries of the session API to the model: every key known, every type right, every limit held, or an
// error that names the key and the value, before anything else happens.

public import AccessoryModel
public import DBusKit

extension BusError {
    static func invalid(_ key: String, _ value: some Any, _ reason: String) -> BusError {
        BusError(SetupError.invalid(key, value, reason))
    }
}

/// The dictionaries that apps send.
public enum WireDecoding {
    /// An `a{sv}` that may hold no key (yet): session options.
    public static func empty(_ value: DBusValue, _ context: String) throws(BusError) {
        try KeyedValues(value, context).finish()
    }

    /// The capabilities of `RegisterPicker`.
    public static func pickerCapabilities(_ value: DBusValue) throws(BusError) -> PickerCapabilities {
        var keys = try KeyedValues(value, "capabilities")
        var capabilities = PickerCapabilities()
        capabilities.label = try keys.string("label")
        if let label = capabilities.label { try checkName(label, keys.name("label")) }
        if let lease = try keys.number("lease", UInt32.self, "u") {
            guard Limits.pickerLease.contains(lease) else {
                throw .invalid(
                    keys.name("lease"), lease,
                    "must be \(Limits.pickerLease.lowerBound) to \(Limits.pickerLease.upperBound) seconds")
            }
            capabilities.lease = Double(lease)
        }
        if let value = keys.take("unattended") {
            guard let isUnattended = value.booleanValue else { throw keys.wrongType("unattended", value, "b") }
            capabilities.isUnattended = isUnattended
        }
        try keys.finish()
        return capabilities
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
                    "items[\(index)].productImage", "\(imageBytes) bytes in total", "more than \(Limits.imageBytesPerPicker)")
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
            throw .invalid(keys.name("renameOptions"), "ssid", "the descriptor declares no network")
        }
        var item = DisplayItem(name: name, image: image, descriptor: descriptor, setupOptions: setup)
        item.renameOptions = rename
        item.migration = migration
        return item
    }

    /// The keys of a migration item; nil for another item.
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
        guard let ssid = SSID(bytes) else { throw .invalid(keys.name(key), text, "has only NUL bytes") }
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
                    "items[\(index)].productImage", "\(imageBytes) bytes in total", "more than \(Limits.imageBytesPerPicker)")
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
                    "must be sealed memory or a readable file on a local disk, of at most \(Limits.imageBytes) bytes")
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
    ///
    /// - Throws: `InvalidRequest` for an unknown key, a wrong type, or a value that no descriptor can have.
    public static func descriptor(_ value: DBusValue, _ context: String) throws(BusError) -> DiscoveryDescriptor {
        var keys = try KeyedValues(value, context)
        let descriptor = try DescriptorKeys.decode(&keys)
        try keys.finish()
        return descriptor
    }

    /// The settings of `ShowPicker`.
    public static func settings(_ value: DBusValue) throws(BusError) -> PickerSettings {
        var keys = try KeyedValues(value, "settings")
        var settings = PickerSettings()
        if let seconds = try keys.takeSeconds("discoveryTimeout", within: Limits.discoveryTimeout) {
            settings.discoveryTimeout = seconds == .infinity ? nil : seconds
        }
        if let seconds = try keys.takeSeconds("waitForPicker", within: Limits.pickerWait) { settings.waitForPicker = seconds }
        if let value = keys.take("options") {
            guard let words = value.stringsValue else { throw keys.wrongType("options", value, "as") }
            for word in words {
                guard word == "filterDiscoveryResults" else {
                    throw .invalid("settings.options", word, "must be filterDiscoveryResults")
                }
                settings.filtersDiscoveryResults = true
            }
        }
        try keys.finish()
        return settings
    }

    /// The answer to a prompt: exactly one of `accept` b, `passkey` u, `pin` s.
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

/// The description that a picker program gives.
public struct PickerCapabilities: Hashable, Sendable {
    /// Its name for people; nil when it gives none.
    public var label: String?
    /// Seconds after which its registration ends unless it registers again, within `Limits.pickerLease`; nil when it
    /// does not say.
    public var lease: Double?
    /// Whether no person sees it; nil when it does not say.
    public var isUnattended: Bool?
}

/// The options of `JoinNetwork`.
public struct JoinOptions: Hashable, Sendable {
    /// The network that the app means; nil for the accessory's.
    public var ssid: SSID?
    /// The network's passphrase; nil for an open network.
    public var passphrase: NetworkJoin.Passphrase?
    /// The network does not say its name, and has to be asked for by it.
    public var isHidden = false
}
