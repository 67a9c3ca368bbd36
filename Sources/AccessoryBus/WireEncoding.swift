// SPDX-License-Identifier: Apache-2.0
// From the model to what the bus carries: properties, snapshots, descriptors.

public import AccessoryModel
public import DBusKit

/// The model in the words of the bus (Docs/Interfaces).
public enum WireEncoding {
    /// A descriptor with the session API's keys.
    public static func descriptor(_ descriptor: DiscoveryDescriptor) -> DBusValue { .vardict(DescriptorKeys.encode(descriptor)) }

    /// The names of an accessory's properties that apps see.
    public static let accessoryProperties = [
        "DisplayName", "State", "BluetoothIdentifier", "BluetoothTransportBridgingIdentifier", "Ssid", "WiFiAwarePairedDeviceID",
        "Descriptor", "Device",
    ]

    /// One of `accessoryProperties`; nil for another name.
    ///
    /// - Parameter device: the object of org.bluez; nil when BlueZ does not know it now.
    public static func property(
        _ name: String, of granted: GrantedAccessory, device: @autoclosure () -> ObjectPath?
    ) -> DBusValue? {
        let terms = granted.grant.terms
        return switch name {
        case "DisplayName": .string(granted.accessory.displayName)
        case "State": .string(granted.grant.state.rawValue)
        case "BluetoothIdentifier": .string(granted.address == nil ? "" : granted.accessory.id.rawValue)
        case "BluetoothTransportBridgingIdentifier": .bytes(terms.classicAddress?.bytes ?? [])
        case "Ssid": .bytes(terms.ssid?.bytes ?? [])
        case "WiFiAwarePairedDeviceID": .uint64(terms.awareDevice ?? 0)
        case "Descriptor": descriptor(terms.descriptor)
        case "Device": .objectPath((granted.address == nil ? nil : device()) ?? "/")
        default: nil
        }
    }

    /// The properties of an accessory that apps see, all of them: the snapshot that events carry.
    ///
    /// - Parameter device: the object of org.bluez; nil when BlueZ does not know it now.
    public static func properties(of granted: GrantedAccessory, device: ObjectPath?) -> [String: DBusValue] {
        var values: [String: DBusValue] = [:]
        for name in accessoryProperties { values[name] = property(name, of: granted, device: device) }
        return values
    }

    /// Offers as a picker sees them: text for the person is marked, and a network has its name as text too.
    ///
    /// - Parameter resembled: the name in use that one of the offer's looks like.
    public static func offers(_ offers: [Offer], resembled: (Offer) -> String?, hasImage: (Offer) -> Bool) -> DBusValue {
        .array(
            of: "a{sv}",
            offers.map { offer in
                // Twice a second, dozens of them: without a dictionary, where there is no network to sort in.
                var values: [(key: String, value: DBusValue)] = [
                    ("advertisedName", .string(ShownName.marked(offer.advertisedName))), ("hasImage", .boolean(hasImage(offer))),
                    ("id", .string(offer.id)), ("name", .string(ShownName.marked(offer.name))),
                ]
                // Not through another app of ours.
                if offer.isBonded, offer.shared == nil { values.append(("paired", .boolean(true))) }
                if let name = resembled(offer) { values.append(("resembles", .string(ShownName.marked(name)))) }
                if let rssi = offer.rssi { values.append(("rssi", .int16(Int16(clamping: rssi)))) }
                values.append(("shared", .boolean(offer.shared != nil)))
                if let heard = offer.network {
                    values += network(heard)
                    values.append(("network", .string(heard.ssid.description)))
                    values.sort { $0.key < $1.key }
                }
                return .dictionary(key: "s", value: "v", values.map { .init(.string($0.key), .variant($0.value)) })
            })
    }

    /// A network, as offers and discoveries carry it: `ssid` ay, and where it is in range `networkRssi` n, `security`
    /// s, `band` s; nothing for none.
    public static func network(_ network: WiFiNetwork?) -> [String: DBusValue] {
        guard let network else { return [:] }
        var values: [String: DBusValue] = ["ssid": .bytes(network.ssid.bytes)]
        values["networkRssi"] = network.rssi.map { .int16(Int16(clamping: $0)) }
        values["security"] = network.security.map { .string($0.rawValue) }
        values["band"] = network.band.map { .string($0.rawValue) }
        return values
    }

    /// What was heard of an accessory, as it sent it: `localName` s, `serviceUUIDs` as, `serviceData` a{say},
    /// `manufacturerData` a{qay}, `txPower` n; each only where there is something.
    public static func advertisement(_ advert: Advertisement) -> DBusValue {
        var values: [String: DBusValue] = [:]
        values["localName"] = advert.localName.map { .string($0) }
        values["txPower"] = advert.txPower.map { .int16(Int16(clamping: $0)) }
        if !advert.serviceUUIDs.isEmpty { values["serviceUUIDs"] = .strings(advert.serviceUUIDs.sorted().map(\.description)) }
        if !advert.serviceData.isEmpty {
            let entries = advert.serviceData.sorted { $0.key < $1.key }
            values["serviceData"] = .dictionary(
                key: "s", value: "ay", entries.map { .init(.string($0.key.description), .bytes($0.value)) })
        }
        if !advert.manufacturerData.isEmpty {
            let entries = advert.manufacturerData.sorted { $0.key < $1.key }
            values["manufacturerData"] = .dictionary(
                key: "q", value: "ay", entries.map { .init(.uint16($0.key.value), .bytes($0.value)) })
        }
        return .vardict(values)
    }

    /// The details of an accessory that is only discovered; the snapshot has the properties of one that is set up.
    public static func discovered(_ accessory: DiscoveredAccessory) -> [String: DBusValue] {
        var values: [String: DBusValue] = [
            "identifier": .string(accessory.identifier.rawValue),
            "properties": .vardict([
                "DisplayName": .string(accessory.item.name), "State": .string(AuthorizationState.unauthorized.rawValue),
                "BluetoothIdentifier": .string(accessory.advertisement == nil ? "" : accessory.identifier.rawValue),
                "Ssid": .bytes(accessory.network?.ssid.bytes ?? []), "Descriptor": descriptor(accessory.item.descriptor),
            ]),
        ]
        values["advertisement"] = accessory.advertisement.map(advertisement)
        values.merge(network(accessory.network)) { own, _ in own }
        values["rssi"] = accessory.rssi.map { .int16(Int16(clamping: $0)) }
        return values
    }

    /// A prompt, or why the last attempt failed; at the end, whether the person goes on in the app. Text for the person
    /// is marked.
    ///
    /// - Parameter migrations: what is taken over along with the accessory that is picked.
    public static func prompt(
        _ prompt: PairingPrompt?, failure: SetupError?, finishInApp: Bool, migrations: [String]
    ) -> DBusValue {
        var values: [String: DBusValue] = [:]
        if !migrations.isEmpty { values["migrations"] = .strings(migrations.map(ShownName.marked)) }
        if finishInApp { values["finishInApp"] = .boolean(true) }
        if let prompt {
            values["kind"] = .string(prompt.kind)
            switch prompt {
            case .confirmPasskey(let passkey): values["passkey"] = .uint32(passkey)
            case .displayPasskey(let passkey, let entered):
                values["passkey"] = .uint32(passkey)
                values["entered"] = .uint16(entered)
            case .displayPIN(let pin): values["pin"] = .string(pin)
            case .network(let network):
                values["ssid"] = .bytes(network.bytes)
                values["network"] = .string(network.description)
            case .enterPasskey, .enterPIN, .consent: break
            }
        } else if let failure {
            let error = BusError(failure)
            values["error"] = .string(error.name)
            values["message"] = .string(ShownName.marked(error.message))
        }
        return .vardict(values)
    }
}
