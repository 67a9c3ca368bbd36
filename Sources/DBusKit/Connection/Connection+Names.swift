// SPDX-License-Identifier: Apache-2.0
// What the bus itself is asked: to have a name, and who has one.

extension Connection {
    /// Asks for a well-known name, without queueing for it.
    ///
    /// - Throws: `org.freedesktop.DBus.Error.AddressInUse` when somebody else owns it, or the bus' refusal.
    public func requestName(_ name: String) throws(BusError) {
        guard BusNames.isBusName(name) else { throw .invalidArguments("not a bus name: \(name)") }
        let answer = try callAndWait(Bus.name, Bus.path, Bus.name, "RequestName", [.string(name), .uint32(4)])
        // 1: owner, 4: already owner; 3: it exists.
        guard let code = answer.first?.integerValue, code == 1 || code == 4 else {
            throw .standard("AddressInUse", "somebody else owns \(name) on this bus")
        }
    }

    /// Follows the owner of a name: `handler` gets the present owner first, then every change; nil means nobody.
    public func watchName(_ name: String, handler: @escaping (String?) -> Void) -> Subscription {
        let subscription = subscribe(
            sender: Bus.name, path: Bus.path, interface: Bus.name, member: "NameOwnerChanged", argument0: name
        ) { message in
            guard let arguments = try? message.arguments(), arguments.count == 3,
                let owner = arguments[2].stringValue
            else { return }
            handler(owner.isEmpty ? nil : owner)
        }
        call(Bus.name, Bus.path, Bus.name, "GetNameOwner", [.string(name)]) { [weak subscription] result in
            guard subscription?.isActive == true else { return }
            handler((try? result.get())?.first?.stringValue)
        }
        return subscription
    }
}
