// SPDX-License-Identifier: Apache-2.0
// The NSAccessorySetup… keys of an app's own Info.plist, for apps that bring one: they add to what the manifest says
// itself.

internal import AccessoryModel

enum InfoPlist {
    /// - Parameters:
    ///   - files: where it is read.
    ///   - note: called for everything that is wrong.
    static func read(_ path: String, into manifest: inout AppManifest, _ files: inout RememberedFiles, note: (String) -> Void) {
        guard path.hasPrefix("/") else { return note("not an absolute path") }
        guard let data = try? files.contents(of: path) else {
            return note("not a readable file of at most \(RememberedFiles.largest) bytes")
        }
        let list: [String: PropertyList]
        do throws(PropertyListProblem) {
            guard case .dictionary(let root) = try PropertyList.read(data) else {
                return note("not a property list with a dictionary")
            }
            list = root
        } catch {
            return note("not a property list: \(error.reason)")
        }
        // Both spellings are in use.
        let supports = ["NSAccessorySetupSupports", "NSAccessorySetupKitSupports"].filter { list[$0] != nil }
        if supports.isEmpty, manifest.supports.isEmpty { note("NSAccessorySetupSupports: is missing") }
        for key in supports {
            for text in strings(list, key, note) {
                if let technology = Technology(rawValue: text) {
                    manifest.supports.insert(technology)
                } else if text != "WiFiAware" {
                    note("\(key): \(text): neither Bluetooth nor WiFi")
                }
            }
        }
        for text in strings(list, "NSAccessorySetupBluetoothServices", note) {
            if let uuid = BluetoothUUID(text) {
                manifest.services.insert(uuid)
            } else {
                note("NSAccessorySetupBluetoothServices: \(text): not a UUID")
            }
        }
        manifest.names.formUnion(strings(list, "NSAccessorySetupBluetoothNames", note))
        for text in strings(list, "NSAccessorySetupBluetoothCompanyIdentifiers", note) {
            if let company = CompanyIdentifier(hexadecimal: text) {
                manifest.companies.insert(company)
            } else {
                note("NSAccessorySetupBluetoothCompanyIdentifiers: \(text): not four hexadecimal digits")
            }
        }
    }

    /// The strings of an array; numbers, as some write company identifiers, as their hexadecimal digits.
    private static func strings(_ list: [String: PropertyList], _ key: String, _ note: (String) -> Void) -> [String] {
        guard let value = list[key] else { return [] }
        guard case .array(let array) = value else {
            note("\(key): not an array")
            return []
        }
        return array.compactMap { element in
            switch element {
            case .text(let text): return text
            case .integer(let number) where (0...0xFFFF).contains(number): return String(number, radix: 16)
            default:
                note("\(key): \(element): neither a string nor a number of 16 bits")
                return nil
            }
        }
    }
}
