// SPDX-License-Identifier: Apache-2.0
// bluetoothd's errors of requests about attributes as codes of the attribute protocol. (BlueZ, create_gatt_dbus_error
// in src/gatt-client.c; Core Specification 5.4, Vol 3, Part F, 3.4.1.1)

public import DBusKit

extension BusError {
    /// The code of the attribute protocol in an error of a request about an attribute; nil for an error of the link.
    public var attributeCode: Int? { AttributeErrors.code(of: self) }
}

private enum AttributeErrors {
    /// Codes of the attribute protocol that BlueZ has a text for, in lower case.
    private static let attributeTexts: [String: Int] = [
        "org.bluez.error.notpermitted: read not permitted": 0x02,
        "org.bluez.error.notpermitted: write not permitted": 0x03,
        "org.bluez.error.notpermitted: not paired": 0x05,
        "org.bluez.error.invalidarguments: invalid offset": 0x07,
        "org.bluez.error.invalidarguments: invalid length": 0x0D,
    ]

    /// Codes of the attribute protocol that BlueZ has an error for, whatever the text.
    private static let attributeErrors: [BlueZError: Int] = [
        .notSupported: 0x06, .notAuthorized: 0x08, .invalidOffset: 0x07, .invalidValueLength: 0x0D, .improperlyConfigured: 0xFD,
    ]

    /// The same for a grant that does not open everything, where the view says more. Subscribing is a write of the
    /// characteristic's descriptor.
    private static let narrowings: [(text: String, code: Int)] = [
        ("Read not permitted: ", 0x02), ("Write not permitted: ", 0x03), ("Notify not permitted: ", 0x03),
    ]

    static func code(of error: BusError) -> Int? {
        if error.bluez == .notPermitted, let narrowing = narrowings.first(where: { error.message.hasPrefix($0.text) }) {
            return narrowing.code
        }
        if let code = attributeTexts["\(error.name): \(error.message)".lowercased()] ?? error.bluez.flatMap({ attributeErrors[$0] })
        {
            return code
        }
        // "Operation failed with ATT error: 0x80"
        let words = error.message.split(separator: " ").suffix(3)
        guard error.bluez == .failed, let digits = words.last, words.dropLast().elementsEqual(["ATT", "error:"]),
            digits.hasPrefix("0x")
        else { return nil }
        return Int(digits.dropFirst(2), radix: 16)
    }
}
