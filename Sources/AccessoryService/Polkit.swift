// SPDX-License-Identifier: Apache-2.0
// polkit, where it runs: an administrator who is not root may become an admin of ours, for the life of the connection,
// by proving it.

internal import CallsOut
internal import DBusKit

struct Polkit {
    private static let path: ObjectPath = "/org/freedesktop/PolicyKit1/Authority"
    static let manage = "org.accessorysetup1.manage"

    let connection: Connection

    /// Asks whether a client may do `action`; the person behind it may be asked for a password. Without polkit: no.
    func check(_ client: String, _ action: String, completion: @escaping (Bool) -> Void) {
        connection.call(
            .authorization, at: Self.path,
            [
                .structure([.string("system-bus-name"), .vardict(["name": .string(client)])]), .string(action),
                .dictionary(key: "s", value: "s", []),
                // AllowUserInteraction.
                .uint32(1), .string(""),
            ]
        ) { result in
            completion((try? result.get())?.first?.structureValue?.first?.booleanValue == true)
        }
    }
}
