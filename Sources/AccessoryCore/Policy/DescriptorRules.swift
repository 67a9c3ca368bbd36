// SPDX-License-Identifier: Apache-2.0
// Checks of descriptors, by themselves and against the app's manifest, before the picker gets any (rules 1, 3, 4 and 6
// of the session API).

public import AccessoryModel

/// The checks of descriptors and settings.
public enum DescriptorRules {
    /// Checks one descriptor by itself.
    ///
    /// - Throws: `InvalidRequest` naming the key and the value.
    public static func check(_ descriptor: DiscoveryDescriptor) throws(SetupError) {
        let bluetooth = descriptor.wantsBluetooth
        if let name = descriptor.name.substring {
            guard bluetooth else {
                throw .invalid("bluetoothNameSubstring", name, "needs bluetoothServiceUUID or bluetoothCompanyIdentifier")
            }
            try check("bluetoothNameSubstring", name, descriptor.name.options)
        } else if !descriptor.name.options.isEmpty {
            throw .invalid(
                "bluetoothNameSubstringCompareOptions", descriptor.name.options.rawValue, "needs bluetoothNameSubstring")
        }
        if descriptor.manufacturerData != nil, descriptor.companyIdentifier == nil {
            throw .invalid(
                "bluetoothManufacturerDataBlob", Hex.text(descriptor.manufacturerData?.blob ?? []),
                "needs bluetoothCompanyIdentifier")
        }
        if descriptor.serviceData != nil, descriptor.serviceUUID == nil {
            throw .invalid("bluetoothServiceDataBlob", Hex.text(descriptor.serviceData?.blob ?? []), "needs bluetoothServiceUUID")
        }
        for (key, data) in [
            ("bluetoothManufacturerDataBlob", descriptor.manufacturerData), ("bluetoothServiceDataBlob", descriptor.serviceData),
        ] {
            guard let data, data.blob.count > Limits.dataBytes else { continue }
            throw .invalid(key, "\(data.blob.count) bytes", "longer than \(Limits.dataBytes) bytes")
        }
        if let ssid = descriptor.ssid, let prefix = descriptor.ssidPrefix {
            throw .invalid("ssid", lossy(ssid), "cannot be combined with ssidPrefix (\(lossy(prefix)))")
        }
        for (key, value) in [("ssid", descriptor.ssid), ("ssidPrefix", descriptor.ssidPrefix)] {
            guard let value else { continue }
            guard !value.isEmpty else { throw .invalid(key, "\"\"", "is empty") }
            guard value.count <= SSID.length.upperBound else { throw .invalid(key, lossy(value), "longer than 32 bytes") }
            // Allowed on the air, and never meant: text that ends with a zero, or the name that a hidden network does
            // not say.
            guard !value.contains(0) else { throw .invalid(key, lossy(value), "has a NUL byte") }
        }
        if let aware = descriptor.wifiAware { try check(aware, descriptor) }
        try checkAccess(descriptor)
        guard bluetooth || descriptor.wantsWiFi || descriptor.wifiAware != nil else {
            if descriptor.range == .immediate {
                throw .invalid("bluetoothRange", "immediate", "needs bluetoothServiceUUID or bluetoothCompanyIdentifier")
            }
            throw SetupError(
                .invalidRequest,
                "descriptor: must name bluetoothServiceUUID, bluetoothCompanyIdentifier or a network")
        }
    }

    /// Checks that an app's manifest declares its descriptor.
    ///
    /// - Throws: `InvalidRequest` naming the key, the value and the manifest.
    public static func check(_ descriptor: DiscoveryDescriptor, declaredBy app: AppManifest) throws(SetupError) {
        if descriptor.wantsBluetooth, !app.supports.contains(.bluetooth) {
            throw .invalid("descriptor", "Bluetooth", "not among Supports= in \(app.source)")
        }
        if descriptor.wantsWiFi || descriptor.wifiAware != nil, !app.supports.contains(.wifi) {
            let key = descriptor.ssid != nil ? "ssid" : descriptor.wantsWiFi ? "ssidPrefix" : "wifiAwareServiceName"
            throw .invalid(key, "WiFi", "not among Supports= in \(app.source)")
        }
        if descriptor.wantsWiFi, !app.declares(networksOf: descriptor) {
            let (key, name) = descriptor.ssid.map { ("ssid", $0) } ?? ("ssidPrefix", descriptor.ssidPrefix ?? [])
            throw .invalid(
                key, lossy(name),
                app.networks == nil
                    ? "has fewer than \(AppManifest.Network.shortestPrefix) bytes, and \(app.source) has no Networks="
                    : "not among Networks= in \(app.source)")
        }
        if let company = descriptor.companyIdentifier, !app.companies.contains(company) {
            throw .invalid(
                "bluetoothCompanyIdentifier", company, "not among BluetoothCompanyIdentifiers= in \(app.source)")
        }
        if let service = descriptor.serviceUUID, !app.services.contains(service) {
            throw .invalid("bluetoothServiceUUID", service, "not among BluetoothServices= in \(app.source)")
        }
        if let name = descriptor.name.substring, !app.names.contains(name) {
            throw .invalid("bluetoothNameSubstring", name, "not among BluetoothNames= in \(app.source)")
        }
    }

    /// Checks that an app's manifest declares the terms of a grant: it may change after the set-up.
    ///
    /// - Throws: `InvalidRequest` naming the key, the value and the manifest.
    public static func check(
        _ terms: Grant.Terms, _ technology: Technology, declaredBy app: AppManifest
    ) throws(SetupError) {
        guard app.supports.contains(technology) else {
            throw .invalid("Supports", technology.rawValue, "not among Supports= in \(app.source)")
        }
        try check(terms.descriptor, declaredBy: app)
        // The descriptor may say nothing of the network: a migration names it, or a person who renames it.
        if technology == .wifi, let ssid = terms.ssid { try check(ssid, declaredBy: app) }
    }

    /// Checks that an app's manifest declares the network that a migration names.
    ///
    /// - Throws: `InvalidRequest` naming the key, the value and the manifest.
    public static func check(_ ssid: SSID, declaredBy app: AppManifest) throws(SetupError) {
        var descriptor = DiscoveryDescriptor()
        descriptor.ssid = ssid.bytes
        try check(descriptor, declaredBy: app)
    }

    /// Checks the settings of an authorization, which may complete the descriptor only.
    ///
    /// - Throws: `InvalidRequest` naming the key and the value.
    public static func check(_ settings: AuthorizationSettings, for descriptor: DiscoveryDescriptor) throws(SetupError) {
        if let address = settings.bridgingAddress, !descriptor.supportedOptions.contains(.transportBridging) {
            throw .invalid(
                "settings.bluetoothTransportBridgingIdentifier", address,
                "the accessory's descriptor does not list bluetoothTransportBridging in supportedOptions")
        }
        if let ssid = settings.ssid {
            guard descriptor.fits(ssid) else {
                throw .invalid("settings.ssid", ssid, "does not match the ssid or ssidPrefix of the accessory's descriptor")
            }
        }
    }

    /// Checks the keys of a kind, and those of an accessory with narrowed access: none may open a way around it.
    private static func checkAccess(_ descriptor: DiscoveryDescriptor) throws(SetupError) {
        if !descriptor.isKind, let count = descriptor.maxDevices { throw .invalid("maxDevices", count, "needs access hear") }
        guard descriptor.access != .full else { return }
        func refuse(_ why: String) -> SetupError { .invalid("access", descriptor.access.word.rawValue, why) }
        guard descriptor.wantsBluetooth else { throw refuse("needs bluetoothServiceUUID or bluetoothCompanyIdentifier") }
        guard !descriptor.wantsWiFi else { throw refuse("cannot be combined with ssid or ssidPrefix") }
        guard descriptor.isKind else {
            // Input devices, and classic profiles, are used past the view.
            for (word, option) in SupportOptions.names
            where option != .pairingLE && descriptor.supportedOptions.contains(option) {
                throw refuse("cannot be combined with \(word) in supportedOptions")
            }
            return
        }
        guard descriptor.supportedOptions.isEmpty else { throw refuse("cannot be combined with supportedOptions") }
        guard descriptor.range == .default else { throw refuse("cannot be combined with bluetoothRange immediate") }
        if let count = descriptor.maxDevices, case let limits = Limits.heardDevices, !limits.contains(count) {
            throw .invalid("maxDevices", count, "must be \(limits.lowerBound) to \(limits.upperBound)")
        }
    }

    /// Checks the traits of a Wi-Fi Aware service, which is found by its name.
    private static func check(_ aware: WiFiAware, _ descriptor: DiscoveryDescriptor) throws(SetupError) {
        guard let name = aware.serviceName else {
            throw SetupError(.invalidRequest, "wifiAwareServiceName: is missing, but other Wi-Fi Aware keys require it")
        }
        guard (1...255).contains(name.utf8.count), !name.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) else {
            throw .invalid("wifiAwareServiceName", name, "must be 1 to 255 bytes without control characters")
        }
        for (key, match) in [("wifiAwareModelNameMatch", aware.modelName), ("wifiAwareVendorNameMatch", aware.vendorName)] {
            guard let match else { continue }
            try check(key, match.string, match.options)
        }
        guard !descriptor.wantsBluetooth, descriptor.ssidPrefix == nil else {
            throw .invalid("wifiAwareServiceName", name, "cannot be combined with Bluetooth keys or ssidPrefix in one descriptor")
        }
    }

    /// Checks a text to find in a name.
    private static func check(_ key: String, _ text: String, _ options: CompareOptions) throws(SetupError) {
        guard !text.isEmpty else { throw .invalid(key, "\"\"", "is empty") }
        guard text.utf8.count <= Limits.nameSubstringBytes else {
            throw .invalid(key, text, "longer than \(Limits.nameSubstringBytes) bytes")
        }
        guard NameRule(substring: text, options: options) != nil else {
            throw .invalid(key, text, "not a valid PCRE2 regular expression")
        }
    }

    private static func lossy(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
}

extension AppManifest {
    /// The widest search of a picker of the app: all that its manifest declares.
    public var declaredItems: [DisplayItem] {
        services.sorted().map { service in
            var descriptor = DiscoveryDescriptor()
            descriptor.serviceUUID = service
            return DisplayItem(name: "service \(service)", image: nil, descriptor: descriptor)
        }
            + companies.sorted { $0.value < $1.value }.map { company in
                var descriptor = DiscoveryDescriptor()
                descriptor.companyIdentifier = company
                return DisplayItem(name: "company \(company)", image: nil, descriptor: descriptor)
            }
    }
}
