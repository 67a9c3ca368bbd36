// SPDX-License-Identifier: Apache-2.0
// Completions for the shell: accessories, apps and grants of the daemon. For root alone: polkit would ask other users
// for a password when they press a key.

internal import AccessoryBus
internal import ArgumentParser
internal import DBusKit
internal import Glibc

enum Completions {
    /// By address or identifier: names have spaces, at which shells split.
    static let accessories = kind { $0.accessories.map { $0.address.isEmpty ? $0.id : $0.address } }
    static let apps = kind { $0.apps.map(\.id) }
    static let grants = kind { $0.grants.map(\.id) }

    private static func kind(_ choices: @escaping @Sendable (Inventory) -> [String]) -> CompletionKind {
        .custom { words, _, _ in
            guard geteuid() == 0 else { return [] }
            var bus: [String] = []
            if let index = words.firstIndex(of: "--bus") { bus = Array(words[index...].prefix(2)) }
            guard let options = try? BusOptions.parse(bus), let inventory = try? Inventory(options) else { return [] }
            return choices(inventory).sorted()
        }
    }
}
