// SPDX-License-Identifier: Apache-2.0
// One simulated pairing: asks the agent as the accessory's mode requires, and plays the scenario's faults.

internal import AccessoryModel
internal import DBusKit

final class SimulatedPairing {
    let client: String
    /// Called once: nil when the bond is made.
    var completion: ((BusError?) -> Void)?
    private let device: SimulatedDevice
    private let call: MethodCall
    private let bluez: SimulatedBlueZ
    private var timer: LoopSource?
    private var question: PendingCall?
    private var asked: (client: String, agent: SimulatedBlueZ.Agent)?
    private var isOver = false

    /// How long the exchange of keys takes.
    private static let exchangeTime = Duration.milliseconds(100)
    /// As the kernel: a peer that says nothing is given up.
    private static let silenceTimeout = Duration.seconds(32)
    /// As bluetoothd: an agent that says nothing is given up.
    private static let agentTimeout = Duration.seconds(60)

    private static let failed = BusError.bluez("AuthenticationFailed", "Authentication Failed")

    init(_ device: SimulatedDevice, _ call: MethodCall, _ bluez: SimulatedBlueZ) {
        self.device = device
        self.call = call
        self.bluez = bluez
        client = call.sender
    }

    private var scenario: Scenario.Pairing { device.accessory.scenario.pairing }

    func begin() {
        if device.isConnected { return exchange() }
        // No link is ever established.
        if scenario.fault == .unreachable, device.accessory.consumeFault() == .unreachable { return }
        device.connect { [weak self] error in
            guard let self, !self.isOver else { return }
            if error != nil {
                self.fail(.bluez("ConnectionAttemptFailed", "Page Timeout"))
            } else {
                self.exchange()
            }
        }
    }

    private func exchange() {
        let fault = device.accessory.consumeFault()
        switch fault {
        case .silent: return after(Self.silenceTimeout) { $0.dropLink(.timeout) }
        case .slow: return after(.seconds(scenario.delay)) { $0.ask(wrongKey: false) }
        case .refuse: return after(Self.exchangeTime) { $0.fail(Self.failed) }
        case .drop: return after(Self.exchangeTime) { $0.dropLink(.remote) }
        case .vanish:
            return after(Self.exchangeTime) { pairing in
                pairing.device.accessory.isAway = true
                pairing.dropLink(.timeout)
            }
        case .wrongKey, .unreachable, nil:
            after(Self.exchangeTime) { $0.ask(wrongKey: fault == .wrongKey) }
        }
    }

    private func dropLink(_ end: SimulatedDevice.LinkEnd) {
        // Ends this pairing too.
        device.linkLost(end)
    }

    private func after(_ delay: Duration, _ body: @escaping (SimulatedPairing) -> Void) {
        timer = bluez.loop.after(delay) { [weak self] in
            guard let self, !self.isOver else { return }
            body(self)
        }
    }

    /// Asks the agent; an agent without eyes and hands makes it Just Works.
    private func ask(wrongKey: Bool) {
        let agent = bluez.agent(for: client)
        let isBlind = agent.map { $0.agent.capability == "NoInputNoOutput" } ?? true
        switch scenario.mode {
        case .none: return fail(Self.failed)
        case .justWorks: return wrongKey ? fail(Self.failed) : succeed()
        case _ where isBlind:
            // An accessory that insists on a key gets none.
            return fail(Self.failed)
        case .displayPasskey:
            askAgent(agent!, "RequestPasskey") { answer in
                guard let number = answer.first?.integerValue else { return false }
                return number == Int(self.scenario.passkey) && !wrongKey
            }
        case .pin:
            askAgent(agent!, "RequestPinCode") { answer in answer.first?.stringValue == self.scenario.pin && !wrongKey }
        case .numericComparison:
            askAgent(agent!, "RequestConfirmation", [.uint32(.random(in: 0...999_999))]) { _ in self.scenario.confirms && !wrongKey
            }
        case .enterPasskey:
            enter(.random(in: 0...999_999), digits: 0, wrongKey: wrongKey, agent!)
        }
    }

    private func askAgent(
        _ agent: (client: String, agent: SimulatedBlueZ.Agent), _ member: String, _ more: [DBusValue] = [],
        _ accept: @escaping ([DBusValue]) -> Bool
    ) {
        asked = agent
        question = bluez.connection.call(
            agent.client, agent.agent.path, "org.bluez.Agent1", member, [.objectPath(device.path)] + more,
            timeout: Self.agentTimeout
        ) { [self] result in
            asked = nil
            guard !isOver else { return }
            switch result {
            case .success(let answer): accept(answer) ? succeed() : fail(Self.failed)
            case .failure: fail(Self.failed)
            }
        }
    }

    /// The accessory's user types the passkey that the gateway shows; BlueZ reports every digit.
    private func enter(_ passkey: UInt32, digits: UInt16, wrongKey: Bool, _ agent: (client: String, agent: SimulatedBlueZ.Agent)) {
        bluez.connection.call(
            agent.client, agent.agent.path, "org.bluez.Agent1", "DisplayPasskey",
            [.objectPath(device.path), .uint32(passkey), .uint16(digits)]
        ) { [self] result in
            guard !isOver else { return }
            guard case .success = result else { return fail(Self.failed) }
            guard digits < 6 else { return wrongKey ? fail(Self.failed) : succeed() }
            after(.seconds(scenario.typing)) { $0.enter(passkey, digits: digits + 1, wrongKey: wrongKey, agent) }
        }
    }

    private func succeed() {
        end(nil)
        call.reply()
    }

    /// Ends the pairing; the agent's question is taken back as BlueZ takes it back.
    func fail(_ error: BusError) {
        guard !isOver else { return }
        end(error)
        call.fail(error)
    }

    private func end(_ error: BusError?) {
        guard !isOver else { return }
        isOver = true
        timer?.cancel()
        question?.cancel()
        if let asked {
            bluez.connection.call(asked.client, asked.agent.path, "org.bluez.Agent1", "Cancel") { _ in }
        }
        completion?(error)
    }
}
