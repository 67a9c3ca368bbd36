// SPDX-License-Identifier: Apache-2.0
// The settings of door.conf. Each has a default; a mistake is an error at the start.

public import InternetAddresses
public import KeyFiles

/// The door's settings.
public struct DoorSettings: Sendable {
    /// `Port=`: 1–65,535.
    public var port: UInt16 = 6053
    /// `Listen=`: all addresses of this machine by default.
    public var listen: [InternetAddress] = [InternetAddress("0.0.0.0"), InternetAddress("::")].compactMap { $0 }
    /// `Name=`: the name by which clients list this gateway.
    public var name = GatewayIdentity.hostName
    /// `Connections=`: links to accessories that one client may have at a time, 1–64.
    public var links = 8
    /// `Announce=`: whether Avahi announces the door.
    public var isAnnounced = true

    /// Where the file is, if there is one.
    public static let standardPath = "/etc/accessory-setup/door.conf"
    private static let door = "Door"

    /// All defaults.
    public init() {}

    /// - Throws: the first problem, with file, line and key.
    public init(path: String) throws(KeyFileProblem) {
        let file = try KeyFile(path: path)
        if let problem = file.unknown(besides: [Self.door: ["Port", "Listen", "Name", "Connections", "Announce"]]).first {
            throw problem
        }
        if let value = try file.integer(Self.door, "Port") {
            guard let number = UInt16(exactly: value), number > 0 else {
                throw file.problem(Self.door, "Port", "\(value): must be 1 to 65535")
            }
            port = number
        }
        if file.has(Self.door, "Listen") {
            listen = try file.list(Self.door, "Listen").map { text throws(KeyFileProblem) in
                guard let address = InternetAddress(text) else {
                    throw file.problem(Self.door, "Listen", "\(text): not an Internet address")
                }
                return address
            }
            if listen.isEmpty { throw file.problem(Self.door, "Listen", "is empty: must be Internet addresses") }
        }
        if let value = try file.string(Self.door, "Name") {
            guard (1...31).contains(value.utf8.count), value.utf8.allSatisfy(GatewayIdentity.isPermitted) else {
                throw file.problem(Self.door, "Name", "\(value): must be 1 to 31 lower-case letters, digits and hyphens")
            }
            name = value
        }
        if let value = try file.integer(Self.door, "Connections") {
            guard (1...64).contains(value) else { throw file.problem(Self.door, "Connections", "\(value): must be 1 to 64") }
            links = value
        }
        switch try file.string(Self.door, "Announce") {
        case nil, "yes": break
        case "no": isAnnounced = false
        case let other?: throw file.problem(Self.door, "Announce", "\(other): neither yes nor no")
        }
    }
}
