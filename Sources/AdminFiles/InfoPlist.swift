// SPDX-License-Identifier: Apache-2.0
// The NSAccessorySetup… keys of an app's Info.plist. They add to the manifest's own keys.

internal import AccessoryModel

enum InfoPlist {
    /// - Parameters:
    ///   - files: for reading.
    ///   - report: called with each problem.
    static func read(_ path: String, into manifest: inout AppManifest, _ files: inout RememberedFiles, report: (String) -> Void) {
        guard path.hasPrefix("/") else { return report("not an absolute path") }
        guard let data = try? files.contents(of: path) else {
            return report("not a readable file of at most \(RememberedFiles.maxSize) bytes")
        }
        let list: [String: PropertyList]
        do throws(PropertyListProblem) {
            guard case .dictionary(let root) = try PropertyList.read(data) else {
                return report("not a property list with a dictionary")
            }
            list = root
        } catch {
            return report("not a property list: \(error.reason)")
        }
        // Both spellings are in use.
        let supports = ["NSAccessorySetupSupports", "NSAccessorySetupKitSupports"].filter { list[$0] != nil }
        if supports.isEmpty, manifest.supports.isEmpty { report("NSAccessorySetupSupports: is missing") }
        for key in supports {
            for text in strings(list, key, report) {
                if let technology = Technology(rawValue: text) {
                    manifest.supports.insert(technology)
                } else if text != "WiFiAware" {
                    report("\(key): \(text): neither Bluetooth nor WiFi")
                }
            }
        }
        for text in strings(list, "NSAccessorySetupBluetoothServices", report) {
            if let uuid = BluetoothUUID(text) {
                manifest.services.insert(uuid)
            } else {
                report("NSAccessorySetupBluetoothServices: \(text): not a UUID")
            }
        }
        manifest.names.formUnion(strings(list, "NSAccessorySetupBluetoothNames", report))
        for text in strings(list, "NSAccessorySetupBluetoothCompanyIdentifiers", report) {
            if let company = CompanyIdentifier(hexadecimal: text) {
                manifest.companies.insert(company)
            } else {
                report("NSAccessorySetupBluetoothCompanyIdentifiers: \(text): not four hexadecimal digits")
            }
        }
    }

    /// The strings of an array. Numbers, which some apps use for company identifiers, become hexadecimal digits.
    private static func strings(_ list: [String: PropertyList], _ key: String, _ report: (String) -> Void) -> [String] {
        guard let value = list[key] else { return [] }
        guard case .array(let array) = value else {
            report("\(key): not an array")
            return []
        }
        return array.compactMap { element in
            switch element {
            case .text(let text): return text
            case .integer(let number) where (0...0xFFFF).contains(number): return String(number, radix: 16)
            default:
                report("\(key): \(element): neither a string nor a number of 16 bits")
                return nil
            }
        }
    }
}
