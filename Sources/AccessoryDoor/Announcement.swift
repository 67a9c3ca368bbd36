// SPDX-License-Identifier: Apache-2.0
// The door on the local network, by Avahi: clients of ESPHome find gateways as `_esphomelib._tcp`. Announced anew when
// Avahi restarts; without Avahi clients are given the address by hand. (Avahi, org.freedesktop.Avahi.Server.xml)

public import DBusKit
public import Logging

/// The announcement.
public final class Announcement {
    private static let avahi = "org.freedesktop.Avahi"
    private static let group = "org.freedesktop.Avahi.EntryGroup"
    /// AVAHI_IF_UNSPEC and AVAHI_PROTO_UNSPEC: no restriction.
    private static let all = DBusValue.int32(-1)

    private let connection: Connection
    private let settings: DoorSettings
    private let log: Logger
    private var watch: Subscription?

    /// - Parameter connection: to the system bus.
    public init(_ settings: DoorSettings, on connection: Connection, log: Logger) {
        self.settings = settings
        self.connection = connection
        self.log = log
        watch = connection.watchName(Self.avahi) { [weak self] owner in
            if owner != nil { self?.announce() }
        }
    }

    private func announce() {
        connection.call(Self.avahi, "/", "org.freedesktop.Avahi.Server", "EntryGroupNew") { [weak self] result in
            switch result {
            case .success(let values):
                if let path = values.first?.objectPathValue { self?.fill(path) }
            case .failure(let error): self?.log.warning("cannot announce the door", metadata: ["reason": "\(error.message)"])
            }
        }
    }

    private func fill(_ path: ObjectPath) {
        let records = [
            "mac=\(GatewayIdentity.address.filter { $0 != ":" }.lowercased())", "friendly_name=\(settings.name)",
            "version=2025.11.0", "platform=Linux", "network=ethernet", "project_name=accessorysetupd.accessory-door",
            "api_encryption=Noise_NNpsk0_25519_ChaChaPoly_SHA256",
        ]
        let service: [DBusValue] = [
            Self.all, Self.all, .uint32(0), .string(settings.name), .string("_esphomelib._tcp"), .string(""), .string(""),
            .uint16(settings.port), .array(of: "ay", records.map { .bytes(Array($0.utf8)) }),
        ]
        // In order: Avahi answers the second after the first.
        connection.call(Self.avahi, path, Self.group, "AddService", service) { [weak self] result in
            if let error = result.error { self?.log.warning("cannot announce the door", metadata: ["reason": "\(error.message)"]) }
        }
        connection.call(Self.avahi, path, Self.group, "Commit") { _ in }
    }
}
