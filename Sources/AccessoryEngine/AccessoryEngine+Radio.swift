// What the radio tells, and what it means for the running picker.

public import AccessoryCore
public import AccessoryModel
internal import Logging

extension AccessoryEngine: RadioObserver {
    public func radioChanged(_ state: RadioState, reason: String) {
        log.notice("Bluetooth is \(state.rawValue)", metadata: ["reason": "\(reason)"])
        observer?.radioStateChanged(state)
        onAccessChange?()
        if state == .ready { cleanUp() } else { lost(.bluetooth, "Bluetooth: \(reason)") }
    }

    public func discoveryFailed(_ failure: RadioFailure) {
        log.error("discovery failed", metadata: ["reason": "\(failure)"])
        lost(.bluetooth, "discovery failed: \(failure)")
    }

    /// A radio is of no use any more. A run goes on while something it looks for can still be found.
    func lost(_ technology: Technology, _ reason: String) {
        guard let run = picker else { return }
        let goesOn =
            run.machine.needsScan && !run.machine.isPairing
            && run.items.contains { !$0.descriptor.technologies.contains(technology) && obstacle(to: $0.descriptor) == nil }
        if technology == .bluetooth {
            guard goesOn else { return feed(.radioLost(reason)) }
            if run.dropDevices() { refreshOffers() }
        } else if run.machine.needsScan {
            guard goesOn || run.machine.isPairing else { return feed(.radioLost(reason)) }
            if run.dropNetworks() { refreshOffers() }
        }
    }

    public func heard(_ changes: [HeardDevice]) {
        if !explanations.isEmpty { noteHeard(changes) }
        guard let run = picker, run.machine.needsScan else { return }
        guard run.take(changes, now: clock.uptime) else { return }
        scheduleDiscoveries(run)
        refreshOffers()
    }

    public func lost(_ device: RadioDeviceID) {
        guard let run = picker else { return }
        if run.drop(device) { refreshOffers() }
    }

    public func pairingPrompted(_ prompt: PairingPrompt) {
        feed(.prompted(prompt))
    }

    public func bridgingStarted() {
        feed(.bridgingStarted)
    }

    public func pairingEnded(_ result: Result<PairedIdentity, RadioFailure>) {
        guard let run = picker else { return }
        switch result {
        case .success(let identity):
            log.info("paired", metadata: ["picker": "\(run.id)"])
            audit(
                .paired, app: run.session.app.id, accessory: run.picked?.identifier, by: run.pickedBy, why: "for picker \(run.id)")
            feed(.paired(identity))
        case .failure(let failure):
            log.warning("pairing failed", metadata: ["picker": "\(run.id)", "reason": "\(failure)"])
            let intent = run.intent
            run.intent = nil
            feed(.pairingFailed(SetupError(.connectionFailed, failure.message)))
            guard let intent else { return }
            switch failure.reason {
            // The radio's own answer: there is no bond, or none of ours.
            case .refused, .connection, .busy: forget(intent)
            // Nobody knows how far it got.
            case .unavailable, .timeout, .cancelled, .other: finish(intent) {}
            }
        }
    }

    public func deviceChanged(_ address: BluetoothAddress?) {
        for accessory in ledger.accessories.values where address == nil || accessory.address == address {
            observer?.deviceChanged(of: accessory)
        }
        onAccessChange?()
    }
}
