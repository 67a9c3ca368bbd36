// SPDX-License-Identifier: Apache-2.0
// Our org.bluez.Agent1, through which bluetoothd asks the person. It is registered on the connection that pairs, while
// it pairs. It does not request to be the default agent, but bluetoothd makes it the default where no other is
// registered, and then also asks it about pairings that accessories begin. So it answers for the one device that was
// picked only.

internal import AccessoryModel
internal import BlueZInterfaces
internal import DBusKit

/// Prompts of bluetoothd, one at a time, for the device that is being paired.
final class PairingAgent: ExportedObject {
    static let path: ObjectPath = "/org/accessorysetup1/agent"

    /// The pairing that the agent serves.
    private struct Pairing {
        let device: ObjectPath
        let onPrompt: (PairingPrompt) -> Void
        var hasPrompted = false
        /// The person has to act at the accessory; bluetoothd does not signal the end of that.
        var isDisplaying = false
        /// The call that the person's answer is for.
        var question: MethodCall?
    }

    let path: ObjectPath = PairingAgent.path
    private(set) var interfaces: [ExportedInterface] = []
    /// bluetoothd's unique name: only that may call.
    var owner: String?
    private var pairing: Pairing?

    /// The device that is being paired; calls about any other are rejected.
    var device: ObjectPath? { pairing?.device }
    /// Whether bluetoothd has called for this pairing, so that there was a link.
    var hasPrompted: Bool { pairing?.hasPrompted == true }
    /// Whether the person has to answer, or to act at the accessory.
    var awaitsPerson: Bool { pairing?.question != nil || pairing?.isDisplaying == true }

    init() throws(BusError) {
        var agent = ExportedInterface(try InterfaceDescription.parse(xml: Agent1.description)[0])
        agent.method("Release") { call throws(BusError) in call.reply() }
        agent.method("Cancel") { [unowned self] call throws(BusError) in
            cancelPrompt()
            call.reply()
        }
        agent.method("RequestPinCode") { [unowned self] call throws(BusError) in try ask(call, .enterPIN) }
        agent.method("RequestPasskey") { [unowned self] call throws(BusError) in try ask(call, .enterPasskey) }
        agent.method("RequestConfirmation") { [unowned self] call throws(BusError) in
            try ask(call, .confirmPasskey(UInt32(call.arguments[1].integerValue ?? 0)))
        }
        agent.method("DisplayPinCode") { [unowned self] call throws(BusError) in
            try display(call, .displayPIN(call.arguments[1].stringValue ?? ""))
        }
        agent.method("DisplayPasskey") { [unowned self] call throws(BusError) in
            let entered = UInt16(call.arguments[2].integerValue ?? 0)
            try display(call, .displayPasskey(UInt32(call.arguments[1].integerValue ?? 0), entered: entered))
        }
        // The person has picked this device, which covers both.
        for member in ["RequestAuthorization", "AuthorizeService"] {
            agent.method(member) { [unowned self] call throws(BusError) in
                try check(call)
                call.reply()
            }
        }
        interfaces = [agent]
    }

    func isVisible(to caller: String) -> Bool { caller == owner }

    /// Serves the pairing of this device, until `end`.
    func begin(for device: ObjectPath, onPrompt: @escaping (PairingPrompt) -> Void) {
        pairing = Pairing(device: device, onPrompt: onPrompt)
    }

    func end() {
        cancelPrompt()
        pairing = nil
    }

    private func check(_ call: MethodCall) throws(BusError) {
        guard let device, call.arguments.first?.objectPathValue == device else { throw .bluez(.rejected, "rejected") }
        pairing?.hasPrompted = true
    }

    private func ask(_ call: MethodCall, _ prompt: PairingPrompt) throws(BusError) {
        try check(call)
        cancelPrompt()
        pairing?.question = call
        let onPrompt = pairing?.onPrompt
        onPrompt?(prompt)
    }

    private func display(_ call: MethodCall, _ prompt: PairingPrompt) throws(BusError) {
        try check(call)
        pairing?.isDisplaying = true
        let onPrompt = pairing?.onPrompt
        onPrompt?(prompt)
        call.reply()
    }

    /// Passes on the person's answer to the pending prompt; without one bluetoothd has cancelled it meanwhile.
    func answer(_ answer: PromptAnswer) {
        guard let call = pairing?.question else { return }
        pairing?.question = nil
        switch answer {
        case .accept: call.reply()
        case .passkey(let number): call.reply(.uint32(number))
        case .pin(let text): call.reply(.string(text))
        case .reject: call.fail(.bluez(.rejected, "rejected"))
        }
    }

    func cancelPrompt() {
        let question = pairing?.question
        pairing?.question = nil
        question?.fail(.bluez(.canceled, "cancelled"))
    }
}
