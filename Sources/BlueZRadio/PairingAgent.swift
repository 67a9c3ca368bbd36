// SPDX-License-Identifier: Apache-2.0
// Our org.bluez.Agent1: BlueZ asks it what pairing needs of the person. It is registered on the connection that pairs,
// for as long. It never asks to be the default agent; where there is no other, BlueZ makes it that, and asks it for
// what accessories begin by themselves. So it answers for the one device that was picked.

internal import AccessoryModel
internal import BlueZInterfaces
internal import DBusKit

/// Questions of bluetoothd, one at a time, for the device that is being paired.
final class PairingAgent: ExportedObject {
    static let path: ObjectPath = "/org/accessorysetup1/agent"

    let path: ObjectPath = PairingAgent.path
    private(set) var interfaces: [ExportedInterface] = []
    /// Only bluetoothd may ask.
    var owner: String?
    /// The device that is being paired; all others are rejected.
    var device: ObjectPath? {
        didSet {
            wasAsked = false
            isShowing = false
        }
    }
    /// Whether it has asked for anything: then there is a link.
    private(set) var wasAsked = false
    /// Whether it is the person's turn: to answer, or to do something at the accessory, the end of which nobody tells.
    var waitsForPerson: Bool { question != nil || isShowing }
    private var isShowing = false
    var onPrompt: ((PairingPrompt) -> Void)?
    private var question: MethodCall?

    init() throws(BusError) {
        var agent = ExportedInterface(try InterfaceDescription.parse(xml: Agent1.description)[0])
        agent.method("Release") { call throws(BusError) in call.reply() }
        agent.method("Cancel") { [unowned self] call throws(BusError) in
            dropQuestion()
            call.reply()
        }
        agent.method("RequestPinCode") { [unowned self] call throws(BusError) in try ask(call, .enterPIN) }
        agent.method("RequestPasskey") { [unowned self] call throws(BusError) in try ask(call, .enterPasskey) }
        agent.method("RequestConfirmation") { [unowned self] call throws(BusError) in
            try ask(call, .confirmPasskey(UInt32(call.arguments[1].integerValue ?? 0)))
        }
        agent.method("DisplayPinCode") { [unowned self] call throws(BusError) in
            try check(call)
            isShowing = true
            onPrompt?(.displayPIN(call.arguments[1].stringValue ?? ""))
            call.reply()
        }
        agent.method("DisplayPasskey") { [unowned self] call throws(BusError) in
            try check(call)
            isShowing = true
            onPrompt?(
                .displayPasskey(
                    UInt32(call.arguments[1].integerValue ?? 0), entered: UInt16(call.arguments[2].integerValue ?? 0)))
            call.reply()
        }
        // The person picked this very device: what it asks for on the way is covered by that.
        agent.method("RequestAuthorization") { [unowned self] call throws(BusError) in
            try check(call)
            call.reply()
        }
        agent.method("AuthorizeService") { [unowned self] call throws(BusError) in
            try check(call)
            call.reply()
        }
        interfaces = [agent]
    }

    func isVisible(to caller: String) -> Bool { caller == owner }

    private func check(_ call: MethodCall) throws(BusError) {
        guard let device, call.arguments.first?.objectPathValue == device else { throw BusError.bluez(.rejected, "rejected") }
        wasAsked = true
    }

    private func ask(_ call: MethodCall, _ prompt: PairingPrompt) throws(BusError) {
        try check(call)
        dropQuestion()
        question = call
        onPrompt?(prompt)
    }

    /// The person's answer to the last question. An answer without a question is dropped: BlueZ has cancelled it
    /// meanwhile.
    func answer(_ answer: PromptAnswer) {
        guard let call = question else { return }
        question = nil
        switch answer {
        case .accept: call.reply()
        case .passkey(let number): call.reply(.uint32(number))
        case .pin(let text): call.reply(.string(text))
        case .reject: call.fail(BusError.bluez(.rejected, "rejected"))
        }
    }

    func dropQuestion() {
        question?.fail(BusError.bluez(.canceled, "cancelled"))
        question = nil
    }
}
