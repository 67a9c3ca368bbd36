// From the bus to the classes of the module. What a newer daemon says and this module does not know is left out or becomes `unknown`;
// what is missing counts as empty.

internal import AccessoryBus
internal import AccessoryModel
internal import DBusKit
internal import Foundation

extension ASDiscoveryDescriptor {
    convenience init(wire values: [String: DBusValue]) {
        var traits = Traits()
        if let company = values["bluetoothCompanyIdentifier"]?.integerValue.flatMap({ UInt16(exactly: $0) }) {
            traits.companyIdentifier = ASBluetoothCompanyIdentifier(company)
        }
        traits.manufacturerDataBlob = values["bluetoothManufacturerDataBlob"]?.bytesValue.map { Data($0) }
        traits.manufacturerDataMask = values["bluetoothManufacturerDataMask"]?.bytesValue.map { Data($0) }
        traits.serviceUUID = values["bluetoothServiceUUID"]?.stringValue.map { CBUUID(string: $0) }
        traits.serviceDataBlob = values["bluetoothServiceDataBlob"]?.bytesValue.map { Data($0) }
        traits.serviceDataMask = values["bluetoothServiceDataMask"]?.bytesValue.map { Data($0) }
        traits.nameSubstring = values["bluetoothNameSubstring"]?.stringValue
        traits.nameCompareOptions = OptionWords.compare.bits(values["bluetoothNameSubstringCompareOptions"])
        if values["bluetoothRange"]?.stringValue == "immediate" { traits.range = .immediate }
        traits.ssid = values["ssid"]?.bytesValue.map { String(decoding: $0, as: UTF8.self) }
        traits.ssidPrefix = values["ssidPrefix"]?.bytesValue.map { String(decoding: $0, as: UTF8.self) }
        traits.supportedOptions = ASAccessory.SupportOptions(rawValue: OptionWords.support.bits(values["supportedOptions"]))
        traits.wifiAwareServiceName = values["wifiAwareServiceName"]?.stringValue
        if values["wifiAwareServiceRole"]?.stringValue == "publisher" { traits.wifiAwareServiceRole = .publisher }
        traits.wifiAwareModelNameMatch = values["wifiAwareModelNameMatch"].flatMap(ASPropertyCompareString.init(wire:))
        traits.wifiAwareVendorNameMatch = values["wifiAwareVendorNameMatch"].flatMap(ASPropertyCompareString.init(wire:))
        self.init(traits)
    }
}

extension ASPropertyCompareString {
    fileprivate convenience init?(wire value: DBusValue) {
        guard let fields = value.structureValue, fields.count == 2, let text = fields[0].stringValue else { return nil }
        self.init(string: text, compareOptions: NSString.CompareOptions(rawValue: OptionWords.compare.bits(fields[1])))
    }
}

extension ASAccessoryEvent {
    /// - Parameter details: of the session's signal `Event`.
    convenience init(type name: String, details: [String: DBusValue]) {
        let type =
            SessionEventType.allCases.first { $0.name == name }.flatMap { ASAccessoryEventType(rawValue: $0.rawValue) } ?? .unknown
        let object = details["accessory"]?.objectPathValue
        let properties = details["properties"]?.vardictValue ?? [:]
        let accessory: ASAccessory? =
            type == .accessoryDiscovered
            ? ASDiscoveredAccessory(object ?? "/", properties, details: details) : object.map { ASAccessory($0, properties) }
        let error = details["error"]?.stringValue.map {
            ASError(BusError(name: $0, message: details["message"]?.stringValue ?? ""))
        }
        self.init(type, accessory: accessory, error: error)
    }
}

extension ASError {
    /// What the bus or the daemon answered.
    init(_ error: BusError) {
        self.init(Self.code(of: error), error.message.isEmpty ? error.name : error.message)
    }

    private static func code(of error: BusError) -> Code {
        if let code = error.setupCode { return Code(rawValue: code.rawValue) ?? .unknown }
        let prefix = "org.freedesktop.DBus.Error."
        guard error.name.hasPrefix(prefix) else { return .unknown }
        let short = String(error.name.dropFirst(prefix.count))
        if short.hasPrefix("Spawn.") { return .connectionFailed }
        switch short {
        // Nobody there, or nobody who answers.
        case "ServiceUnknown", "NameHasNoOwner", "NoServer", "NoNetwork", "FileNotFound", "Disconnected", "NoReply", "Timeout",
            "TimedOut", "BadAddress", "IOError", "AuthFailed":
            return .connectionFailed
        // Understood, and not to be had: an older daemon, an accessory that is not the app's, too much of something.
        case "NotSupported", "UnknownMethod", "UnknownInterface", "UnknownObject", "InvalidArgs", "LimitsExceeded":
            return .invalidRequest
        default:
            return .unknown
        }
    }
}
