// From the model to what the bus carries: properties, snapshots, descriptors.

public import AccessoryModel
public import DBusKit

public enum WireEncoding {
    /// A descriptor with the session API's keys.
    public static func descriptor(_ descriptor: DiscoveryDescriptor) -> DBusValue {
        var values: [String: DBusValue] = [:]
        values["bluetoothCompanyIdentifier"] = descriptor.companyIdentifier.map { .uint16($0.value) }
        values["bluetoothServiceUUID"] = descriptor.serviceUUID.map { .string($0.description) }
        values["bluetoothManufacturerDataBlob"] = descriptor.manufacturerData.map { .bytes($0.blob) }
        values["bluetoothManufacturerDataMask"] = descriptor.manufacturerData.map { .bytes($0.mask) }
        values["bluetoothServiceDataBlob"] = descriptor.serviceData.map { .bytes($0.blob) }
        values["bluetoothServiceDataMask"] = descriptor.serviceData.map { .bytes($0.mask) }
        values["bluetoothNameSubstring"] = descriptor.nameSubstring.map { .string($0) }
        values["ssid"] = descriptor.ssid.map { .bytes($0) }
        values["ssidPrefix"] = descriptor.ssidPrefix.map { .bytes($0) }
        if descriptor.range != .default { values["bluetoothRange"] = .string(descriptor.range.rawValue) }
        let compare = CompareOptions.names.filter { descriptor.nameCompareOptions.contains($0.1) }.map(\.0)
        if !compare.isEmpty { values["bluetoothNameSubstringCompareOptions"] = .strings(compare) }
        let supported = SupportOptions.names.filter { descriptor.supportedOptions.contains($0.1) }.map(\.0)
        if !supported.isEmpty { values["supportedOptions"] = .strings(supported) }
        return .vardict(values)
    }

    /// The properties of an accessory that apps see; also the snapshot that events carry.
    ///
    /// - Parameter device: the object of org.bluez; nil when BlueZ does not know it now.
    public static func properties(of accessory: Accessory, state: AuthorizationState, device: ObjectPath?) -> [String: DBusValue] {
        [
            "DisplayName": .string(accessory.displayName),
            "State": .string(state.rawValue),
            "BluetoothIdentifier": .string(accessory.address == nil ? "" : accessory.id.rawValue),
            "BluetoothTransportBridgingIdentifier": .bytes([]),
            "Ssid": .bytes(accessory.ssid ?? []),
            "WiFiAwarePairedDeviceID": .uint64(0),
            "Descriptor": descriptor(accessory.descriptor),
            "Device": .objectPath(device ?? "/"),
        ]
    }

    /// Offers as a picker sees them.
    public static func offers(_ offers: [Offer], hasImage: (Offer) -> Bool) -> DBusValue {
        .array(
            of: "a{sv}",
            offers.map { offer in
                var values: [String: DBusValue] = [
                    "id": .string(offer.id), "name": .string(offer.name), "advertisedName": .string(offer.advertisedName),
                    "shared": .boolean(offer.shared != nil), "hasImage": .boolean(hasImage(offer)),
                ]
                values["rssi"] = offer.rssi.map { .int16(Int16(clamping: $0)) }
                return .vardict(values)
            })
    }

    /// A prompt, or why the last attempt failed.
    public static func prompt(_ prompt: PairingPrompt?, failure: SetupError?) -> DBusValue {
        var values: [String: DBusValue] = [:]
        if let prompt {
            values["kind"] = .string(prompt.kind)
            switch prompt {
            case .confirmPasskey(let passkey): values["passkey"] = .uint32(passkey)
            case .displayPasskey(let passkey, let entered):
                values["passkey"] = .uint32(passkey)
                values["entered"] = .uint16(entered)
            case .displayPIN(let pin): values["pin"] = .string(pin)
            case .enterPasskey, .enterPIN, .consent: break
            }
        } else if let failure {
            let error = BusError(failure)
            values["error"] = .string(error.name)
            values["message"] = .string(error.message)
        }
        return .vardict(values)
    }
}
