// SPDX-License-Identifier: Apache-2.0
// Claim lists: accessories that an app gets without a person, one by one, each entry once (Docs/Policy.md). A list is a
// value, read from claims.d; its used entries are in the store.

internal import CGLib
public import AccessoryModel

/// A list of accessories for one app.
public struct ClaimList: Hashable, Sendable {
    /// Where accessories show the identities that the entries have.
    public enum Place: Hashable, Sendable {
        /// A public or static address: private ones change.
        case address
        /// The Local Name, with these texts around the serial number.
        case name(prefix: String, suffix: String)
        /// From this byte on. `isText`: entries are text, else hexadecimal digits.
        case manufacturerData(CompanyIdentifier, offset: Int, isText: Bool)
        case serviceData(BluetoothUUID, offset: Int, isText: Bool)
    }

    /// One accessory.
    public struct Entry: Hashable, Sendable {
        /// Its address in upper case, its serial number, or its bytes in lower case: unique in the list.
        public let key: String
        /// The answer to the accessory's prompt, without which a claim is refused; nil for an accessory that asks
        /// nothing.
        public let answer: PromptAnswer?
        /// The accessory's name once it is set up; nil for the item's.
        public let name: String?

        /// Stores its arguments.
        public init(key: String, answer: PromptAnswer? = nil, name: String? = nil) {
            self.key = key
            self.answer = answer
            self.name = name
        }
    }

    /// Identifies the list for ever: claims are counted by it, whatever the file's name.
    public var id: String
    /// The path of the list's file.
    public var source: String
    /// The app that gets the accessories.
    public var app: AppID
    /// Seconds since 1970: nothing is approved before the first and from the second on.
    public var window: Range<Int64>
    /// The number of claims at most.
    public var count: Int
    /// Where the entries' keys are looked for.
    public var place: Place
    /// In the order of the file.
    public let entries: [Entry]
    private let index: [String: Int]

    /// - Parameter entries: with different keys; those for data all have one length.
    public init(
        id: String, source: String, app: AppID, window: Range<Int64>, count: Int, place: Place, entries: [Entry]
    ) {
        self.id = id
        self.source = source
        self.app = app
        self.window = window
        self.count = count
        self.place = place
        self.entries = entries
        index = Dictionary(entries.enumerated().map { ($1.key, $0) }) { first, _ in first }
    }

    /// The place of the entry that an accessory fits; nil for none.
    func position(of advert: Advertisement) -> Int? {
        func key(in payload: [UInt8]?, _ offset: Int, _ isText: Bool) -> String? {
            guard let payload, let length = entries.first.map({ isText ? $0.key.utf8.count : $0.key.utf8.count / 2 }),
                payload.count >= offset + length
            else { return nil }
            let bytes = Array(payload[offset..<offset + length])
            return isText ? String(decoding: bytes, as: UTF8.self) : Hex.text(bytes)
        }
        let key: String? =
            switch place {
            case .address: advert.address.isLasting ? advert.address.description : nil
            case .name(let prefix, let suffix):
                advert.localName.flatMap { name in
                    guard name.utf8.count > prefix.utf8.count + suffix.utf8.count, name.hasPrefix(prefix), name.hasSuffix(suffix)
                    else { return nil }
                    return String(name.dropFirst(prefix.count).dropLast(suffix.count))
                }
            case .manufacturerData(let company, let offset, let isText): key(in: advert.manufacturerData[company], offset, isText)
            case .serviceData(let service, let offset, let isText): key(in: advert.serviceData[service], offset, isText)
            }
        return key.flatMap { index[$0] }
    }

    /// A time as the file has it.
    public static func text(of time: Int64) -> String {
        guard let date = g_date_time_new_from_unix_utc(gint64(time)) else { return "\(time)" }
        defer { g_date_time_unref(date) }
        guard let text = g_date_time_format_iso8601(date) else { return "\(time)" }
        defer { g_free(text) }
        return String(cString: text)
    }
}

extension BluetoothAddress {
    /// Whether it is public or static, and so a device's for good (Core 5.4, Vol 6, Part B, 1.3.2).
    fileprivate var isLasting: Bool { kind == .public || value >> 46 == 0b11 }
}

extension Claim: CustomStringConvertible {
    /// As an admin reads it.
    public var description: String { "\(key), " + (isAuthenticated ? "authenticated by its passkey or PIN" : "unauthenticated") }
}

/// An entry that was used up: in the store for ever.
public struct Claim: Equatable, Sendable {
    /// The list and its entry.
    public struct Key: Hashable, Sendable, CustomStringConvertible {
        /// The list's identifier.
        public let list: String
        /// The entry's key.
        public let entry: String

        /// Stores its arguments.
        public init(list: String, entry: String) {
            self.list = list
            self.entry = entry
        }

        /// As an admin reads it.
        public var description: String { "entry \(entry) of claim list \(list)" }
    }

    /// Which entry.
    public let key: Key
    /// The list's app.
    public let app: AppID
    /// The accessory that was set up by it.
    public let accessory: AccessoryID
    /// Whether the accessory has proved itself by the entry's passkey or PIN.
    public let isAuthenticated: Bool
    /// Seconds since 1970.
    public let time: Int64

    /// Stores its arguments.
    public init(_ key: Key, app: AppID, accessory: AccessoryID, isAuthenticated: Bool, time: Int64) {
        self.key = key
        self.app = app
        self.accessory = accessory
        self.isAuthenticated = isAuthenticated
        self.time = time
    }
}
