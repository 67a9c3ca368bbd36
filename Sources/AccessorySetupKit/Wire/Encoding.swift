// SPDX-License-Identifier: Apache-2.0
// From the classes of the module to the dictionaries of the session API. Nothing is judged here: the daemon refuses
// wrong values, and names them.

internal import AccessoryModel
internal import DBusKit
internal import Foundation

extension ASPickerDisplayItem {
    /// The items of `ShowPicker` and `UpdatePicker`, `aa{sv}`.
    static func wire(_ items: [ASPickerDisplayItem], isUpdate: Bool) -> DBusValue {
        // A bus lets only so many descriptors into one message (16 by default); the images after these go as bytes.
        var descriptors = 16
        return .array(
            of: "a{sv}",
            items.map { item in
                var values = isUpdate ? item.updateValues : item.itemValues
                // An empty image is none: the picker shows the name alone.
                guard let image = item.productImage.bytes else { return .vardict(values) }
                if descriptors > 0, let descriptor = FileDescriptor.sealed(image, name: "product-image") {
                    values["productImage"] = .fileDescriptor(descriptor)
                    descriptors -= 1
                } else {
                    values["productImage"] = .bytes(image)
                }
                return .vardict(values)
            })
    }

    private var updateValues: [String: DBusValue] {
        var values: [String: DBusValue] = ["name": .string(name)]
        values["identifier"] = (self as? ASDiscoveredDisplayItem).map { .string($0.accessory.identifier) }
        return values
    }

    private var itemValues: [String: DBusValue] {
        var values: [String: DBusValue] = ["name": .string(name), "descriptor": .vardict(descriptor.wireValues)]
        values["setupOptions"] = OptionWords.setup.value(setupOptions.rawValue)
        values["renameOptions"] = OptionWords.rename.value(renameOptions.rawValue)
        guard let migration = self as? ASMigrationDisplayItem else { return values }
        values["peripheralIdentifier"] = (migration.peripheralIdentifier?.uuidString ?? migration.peripheralAddress).map {
            .string($0)
        }
        values["hotspotSSID"] = migration.hotspotSSID.map(DBusValue.init(utf8:))
        if migration.wifiAwarePairedDeviceID != 0 {
            values["wifiAwarePairedDeviceID"] = .uint64(migration.wifiAwarePairedDeviceID)
        }
        return values
    }
}

extension ASPickerDisplaySettings {
    var wire: DBusValue {
        let values = values
        var dictionary: [String: DBusValue] = ["discoveryTimeout": .double(values.discoveryTimeout.rawValue)]
        dictionary["options"] = OptionWords.picker.value(values.options.rawValue)
        return .vardict(dictionary)
    }
}

extension ASAccessorySettings {
    var wire: DBusValue {
        let values = values
        var dictionary: [String: DBusValue] = [:]
        dictionary["ssid"] = values.ssid.map(DBusValue.init(utf8:))
        dictionary["bluetoothTransportBridgingIdentifier"] = values.bluetoothTransportBridgingIdentifier.map(DBusValue.init)
        return .vardict(dictionary)
    }
}

extension ASAccessory.RenameOptions {
    var wire: DBusValue {
        var dictionary: [String: DBusValue] = [:]
        dictionary["renameOptions"] = OptionWords.rename.value(rawValue)
        return .vardict(dictionary)
    }
}

extension DBusValue {
    init(_ data: Data) { self = .bytes([UInt8](data)) }
    init(utf8 text: String) { self = .bytes(Array(text.utf8)) }
    init(_ match: ASPropertyCompareString) {
        self = .structure([.string(match.string), .strings(OptionWords.compare.words(match.compareOptions.rawValue))])
    }
}

/// The names of an option set's bits in the session API.
struct OptionWords {
    let names: [(word: String, bit: UInt)]

    static let compare = OptionWords(CompareOptions.names)
    static let support = OptionWords(SupportOptions.names)
    static let setup = OptionWords(SetupOptions.names)
    static let rename = OptionWords(names: [("ssid", 1)])
    static let picker = OptionWords(names: [("filterDiscoveryResults", 1)])

    private init<Options: OptionSet>(_ names: [(String, Options)]) where Options.RawValue == Int {
        self.names = names.map { ($0.0, UInt($0.1.rawValue)) }
    }

    private init(names: [(String, UInt)]) {
        self.names = names.map { ($0.0, $0.1) }
    }

    /// The words of the bits that are set. A bit without a name goes as its number, so that it is refused rather than
    /// lost.
    func words(_ bits: UInt) -> [String] {
        let known = names.reduce(0) { $0 | $1.bit }
        let strange = bits & ~known
        return names.filter { bits & $0.bit != 0 }.map(\.word) + (strange == 0 ? [] : ["\(strange)"])
    }

    /// `as`; nil when no bit is set.
    func value(_ bits: UInt) -> DBusValue? {
        bits == 0 ? nil : .strings(words(bits))
    }

    /// The bits of words; unknown ones are of a newer daemon and do not count.
    func bits(_ value: DBusValue?) -> UInt {
        (value?.stringsValue ?? []).reduce(0) { bits, word in bits | (names.first { $0.word == word }?.bit ?? 0) }
    }
}
