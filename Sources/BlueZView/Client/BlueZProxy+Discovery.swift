// SPDX-License-Identifier: Apache-2.0
// Discovery on a client's side of org.bluez: it begins once the links that hide devices are down, and its filter is
// written anew.

internal import BlueZInterfaces
internal import CallsOut
internal import DBusKit

extension BlueZProxy {
    func answerDiscovery(_ call: Message, _ adapter: ObjectPath, _ member: String) {
        guard shown.isPowered(adapter) else { return refuse(call, .notReady) }
        if member == "SetDiscoveryFilter" { return setFilter(call) }
        guard member == "StartDiscovery", let app = identity.app else { return passDiscovery(call, adapter, member) }
        let inputs = Set(scope.devices.filter { environment.authority.isInput($0.value) }.keys)
        // A short search must not be over before the links that hide devices are down.
        links.handle(.discoveryRequested(Array(scope.devices.keys), app, inputs: inputs)) { [weak self] in
            self?.passDiscovery(call, adapter, member)
        }
    }

    private func setFilter(_ call: Message) {
        do throws(BusError) {
            guard call.signature == "a{sv}" else {
                throw .invalidArguments("SetDiscoveryFilter takes (a{sv}), not (\(call.signature))")
            }
            guard let path = call.path else { return }
            let filter = try DiscoveryFilter(try call.arguments().first)
            let other = try CallOut.viewDiscoveryFilter.method.message(at: path, [.vardict(filter.values)])
            pass(call, about: nil, saying: other)
        } catch {
            refuse(call, error)
        }
    }

    private func passDiscovery(_ call: Message, _ adapter: ObjectPath, _ member: String) {
        forward(call, about: nil) { [weak self] answer in
            guard let self else { return }
            self.answer(call, answer, about: .app)
            // Clients wait for the answer first, as from bluetoothd.
            if member == "StartDiscovery" || member == "StopDiscovery" {
                self.shown.setDiscovering(member == "StartDiscovery", with: adapter)
                self.shown.signalAdapters()
            }
        }
    }
}
