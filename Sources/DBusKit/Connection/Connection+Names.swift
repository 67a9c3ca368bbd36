// SPDX-License-Identifier: Apache-2.0
// Names: requesting one from the bus, and following its owner; and the bus' own identity.

internal import CDBus

extension Connection {
    /// Unique to each run of a bus, over all boots: each bus gives its unique names anew.
    /// (`dbus_connection_get_server_id`.)
    public var busIdentifier: String {
        guard let identifier = dbus_connection_get_server_id(raw) else { return "" }
        defer { dbus_free(identifier) }
        return String(cString: identifier)
    }

    /// Asks for a well-known name, without queueing for it.
    ///
    /// - Throws: `org.freedesktop.DBus.Error.AddressInUse` when another connection owns it, or the bus' refusal.
    public func requestName(_ name: String) throws(BusError) {
        guard BusNames.isBusName(name) else { throw .invalidArguments("not a bus name: \(name)") }
        let answer = try callAndWait(BusCall.nameRequest.method, at: Bus.path, [.string(name), .uint32(4)])
        // 1: owner, 4: already owner; 3: it exists.
        guard let code = answer.first?.integerValue, code == 1 || code == 4 else {
            throw .standard("AddressInUse", "another program owns \(name) on this bus")
        }
    }

    /// Follows the owner of a name: `handler` gets the present owner first, then every change; nil means no owner.
    public func watchName(_ name: String, handler: @escaping (String?) -> Void) -> Subscription {
        let heard = Heard()
        let subscription = subscribe(
            sender: Bus.name, path: Bus.path, interface: Bus.name, member: "NameOwnerChanged", argument0: name
        ) { message in
            guard let arguments = try? message.arguments(), arguments.count == 3,
                let owner = arguments[2].stringValue
            else { return }
            heard.hasChanged = true
            handler(owner.isEmpty ? nil : owner)
        }
        askOwner(name, subscription, heard, handler)
        return subscription
    }

    /// Whether a change has arrived already.
    private final class Heard {
        var hasChanged = false
    }

    /// Asks again where the bus gives no answer: an owner that stays would never be reported.
    private func askOwner(
        _ name: String, _ subscription: Subscription, _ heard: Heard, _ handler: @escaping (String?) -> Void
    ) {
        call(BusCall.nameOwner.method, at: Bus.path, [.string(name)]) { [weak self, weak subscription] result in
            guard let subscription, subscription.isActive else { return }
            switch result {
            case .success(let values): handler(values.first?.stringValue)
            case .failure(let error) where error.isStandard("NameHasNoOwner"): handler(nil)
            case .failure:
                guard !heard.hasChanged else { return }
                handler(nil)
                guard let self, self.isConnected else { return }
                self.loop.after(.seconds(1)) { [weak self, weak subscription] in
                    guard let self, let subscription, subscription.isActive else { return }
                    self.askOwner(name, subscription, heard, handler)
                }
            }
        }
    }
}
