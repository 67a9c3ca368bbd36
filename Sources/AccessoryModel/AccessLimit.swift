// SPDX-License-Identifier: Apache-2.0
// The use of an accessory's characteristics that a grant opens: everything, reading and listening, or a list. A value
// that can be narrowed by another one, and is never widened by it.

/// Uses of a characteristic. The words are those of the session API.
public struct CharacteristicUses: NamedOptions {
    /// Bits of our own.
    public let rawValue: Int
    /// - Parameter rawValue: bits of our own.
    public init(rawValue: Int) { self.rawValue = rawValue }
    /// To read its value and its descriptors.
    public static let read = CharacteristicUses(rawValue: 1)
    /// To write its value, with an answer or without, and its descriptors.
    public static let write = CharacteristicUses(rawValue: 2)
    /// To subscribe to it: notifications and indications.
    public static let listen = CharacteristicUses(rawValue: 4)

    public static let names: [(String, CharacteristicUses)] = [("read", .read), ("write", .write), ("listen", .listen)]

    /// The words of the uses that are set, in the order of `names`.
    public var words: [String] { Self.names.filter { contains($0.1) }.map(\.0) }
}

/// A characteristic of a device, by its UUIDs: handles change with the device's firmware.
public struct CharacteristicIdentity: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The UUID of its service.
    public let service: BluetoothUUID
    /// Its own UUID.
    public let characteristic: BluetoothUUID
    /// Its place, from 1, among the device's characteristics with both UUIDs, in the order of handles. In a list, 0
    /// stands for all.
    public let instance: Int

    /// Stores its arguments.
    public init(service: BluetoothUUID, characteristic: BluetoothUUID, instance: Int) {
        self.service = service
        self.characteristic = characteristic
        self.instance = instance
    }

    /// `180F/2A19`, or `180F/2A19#2` for one instance.
    public var description: String {
        "\(service.shortest)/\(characteristic.shortest)" + (instance == 0 ? "" : "#\(instance)")
    }

    /// The same for all instances.
    fileprivate var anyInstance: Self { Self(service: service, characteristic: characteristic, instance: 0) }

    /// By the service, the characteristic, and the instance.
    public static func < (a: Self, b: Self) -> Bool {
        (a.service, a.characteristic, a.instance) < (b.service, b.characteristic, b.instance)
    }
}

/// An entry of a list: a characteristic, and its permitted uses.
public struct CharacteristicAccess: Hashable, Sendable, CustomStringConvertible {
    /// The characteristic; instance 0 for all with these UUIDs.
    public let identity: CharacteristicIdentity
    /// The permitted uses.
    public let uses: CharacteristicUses

    /// Stores its arguments.
    public init(_ identity: CharacteristicIdentity, _ uses: CharacteristicUses) {
        self.identity = identity
        self.uses = uses
    }

    /// Reads `SERVICE/CHARACTERISTIC[#INSTANCE]:USE[+USE]…`; nil for any other text.
    public init?(_ text: String) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2 else { return nil }
        let uuids = parts[0].split(separator: "/", omittingEmptySubsequences: false)
        guard uuids.count == 2, let service = BluetoothUUID(uuids[0]) else { return nil }
        let numbered = uuids[1].split(separator: "#", omittingEmptySubsequences: false)
        guard let characteristic = numbered.first.flatMap({ BluetoothUUID($0) }), numbered.count <= 2 else { return nil }
        var instance = 0
        if numbered.count == 2 {
            guard let number = Int(numbered[1]), Limits.characteristicInstance.contains(number), number > 0 else { return nil }
            instance = number
        }
        var uses: CharacteristicUses = []
        for word in parts[1].split(separator: "+", omittingEmptySubsequences: false) {
            guard let use = CharacteristicUses.names.first(where: { $0.0 == word })?.1 else { return nil }
            uses.insert(use)
        }
        self.init(.init(service: service, characteristic: characteristic, instance: instance), uses)
    }

    /// `180F/2A19:read+listen`, as the initializer reads it.
    public var description: String { "\(identity):\(uses.words.joined(separator: "+"))" }
}

/// Characteristics with their uses: each characteristic at most once, sorted, and no instance with a use that all have.
public struct CharacteristicList: Hashable, Sendable, CustomStringConvertible {
    /// In the order of their identities.
    public let entries: [CharacteristicAccess]

    /// Entries of one characteristic are taken together.
    public init(_ entries: some Sequence<CharacteristicAccess>) {
        var uses: [CharacteristicIdentity: CharacteristicUses] = [:]
        for entry in entries { uses[entry.identity, default: []].formUnion(entry.uses) }
        self.entries = uses.compactMap { identity, own -> CharacteristicAccess? in
            let left = identity.instance == 0 ? own : own.subtracting(uses[identity.anyInstance] ?? [])
            return left.isEmpty ? nil : CharacteristicAccess(identity, left)
        }.sorted { $0.identity < $1.identity }
    }

    /// The permitted uses of a characteristic of the device.
    public func uses(of identity: CharacteristicIdentity) -> CharacteristicUses {
        entries.reduce(into: []) { uses, entry in
            if entry.identity == identity || entry.identity == identity.anyInstance { uses.formUnion(entry.uses) }
        }
    }

    /// The uses that both permit.
    fileprivate func intersection(_ other: CharacteristicList) -> CharacteristicList {
        // An instance that either list names, with the uses that each permits to it.
        let named = Set(entries.map(\.identity)).union(other.entries.map(\.identity))
        return CharacteristicList(named.map { CharacteristicAccess($0, uses(of: $0).intersection(other.uses(of: $0))) })
    }

    fileprivate func intersection(_ uses: CharacteristicUses) -> CharacteristicList {
        CharacteristicList(entries.map { CharacteristicAccess($0.identity, $0.uses.intersection(uses)) })
    }

    /// The entries, between semicolons.
    public var description: String { entries.map(\.description).joined(separator: "; ") }
}

/// The use of an accessory's characteristics that a grant opens.
public enum AccessLimit: Hashable, Sendable, CustomStringConvertible {
    /// Everything that the accessory offers.
    case full
    /// Reading and listening, of every characteristic. Whether a read has an effect on the accessory cannot be known.
    case read
    /// The uses in a list, and no other characteristic.
    case listed(CharacteristicList)

    private static let readUses: CharacteristicUses = [.read, .listen]

    /// Reads `full`, `read`, or entries of a list between semicolons: `180F/2A19:read+listen;180A/2A29:read`. Nil for
    /// any other text, and past `Limits.characteristics`.
    public init?(_ text: String) {
        switch text {
        case "full": self = .full
        case "read": self = .read
        default:
            let parts = text.split(separator: ";").map { $0.drop { $0 == " " } }.filter { !$0.isEmpty }
            let entries = parts.compactMap { CharacteristicAccess(String($0)) }
            guard !entries.isEmpty, entries.count == parts.count, entries.count <= Limits.characteristics else { return nil }
            self = .listed(CharacteristicList(entries))
        }
    }

    /// As the initializer reads it.
    public var text: String { if case .listed(let list) = self { list.description } else { description } }

    /// The part that both permit.
    public func narrowed(by other: AccessLimit) -> AccessLimit {
        switch (self, other) {
        case (.full, let limit), (let limit, .full): limit
        case (.read, .read): .read
        case (.read, .listed(let list)), (.listed(let list), .read): .listed(list.intersection(Self.readUses))
        case (.listed(let list), .listed(let other)): .listed(list.intersection(other))
        }
    }

    /// Whether it permits nothing that the other one does not.
    public func isWithin(_ other: AccessLimit) -> Bool { narrowed(by: other) == self }

    /// Whether all of some uses are permitted.
    ///
    /// - Parameter identity: nil for a characteristic that is not known: no list has it.
    public func allows(_ uses: CharacteristicUses, of identity: CharacteristicIdentity?) -> Bool {
        switch self {
        case .full: true
        case .read: Self.readUses.isSuperset(of: uses)
        case .listed(let list): identity.map { list.uses(of: $0).isSuperset(of: uses) } ?? false
        }
    }

    /// `full`, `read`, or `listed` with the list.
    public var description: String {
        switch self {
        case .full: "full"
        case .read: "read"
        case .listed(let list): "listed (\(list))"
        }
    }
}
