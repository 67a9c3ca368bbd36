// SPDX-License-Identifier: Apache-2.0
// The app's session: its items for the picker, and the events, which it prints. Everything happens on the main queue.

import AccessorySetupKit

@MainActor
final class DiceSession {
    private let session = ASAccessorySession()
    private var activation: CheckedContinuation<Void, any Error>?
    private var added: ASAccessory?
    private var isPickerShown = false
    /// Waits for events that follow the answer to a request.
    private var waiting: [(isOver: () -> Bool, continuation: CheckedContinuation<Void, Never>)] = []

    private static let allKinds: [(name: String, service: String)] = [
        ("Pink Dice", "E56A082E-C49B-47CA-A2AB-389127B8ABE3"), ("Blue Dice", "0B8F5F5D-3B6C-4D29-8B0F-0E3C1B8A52D7"),
    ]

    /// The kinds of dice that the app's Info.plist declares; others are not allowed.
    static var kinds: [(name: String, service: String)] {
        let declared = Bundle.main.object(forInfoDictionaryKey: "NSAccessorySetupBluetoothServices") as? [String]
        return allKinds.filter { kind in
            declared?.contains { CBUUID(string: $0) == CBUUID(string: kind.service) } ?? true
        }
    }

    /// The dice that the app may use.
    var dice: [ASAccessory] { session.accessories }

    /// - Throws: when there is none of that name.
    func die(named name: String) throws -> ASAccessory {
        guard let die = dice.first(where: { $0.displayName == name }) else { throw Failure("no die is named \(name)") }
        return die
    }

    /// Begins the session.
    func activate() async throws {
        try await withCheckedThrowingContinuation { continuation in
            activation = continuation
            session.activate(on: .main) { [weak self] event in self?.handle(event) }
        }
    }

    private func handle(_ event: ASAccessoryEvent) {
        var text = "event \(event.eventType.name)"
        if let accessory = event.accessory { text += " “\(accessory.shownName)”" }
        if let error = event.error { text += ": \(error.localizedDescription)" }
        say(text)
        switch event.eventType {
        case .activated:
            activation?.resume()
            activation = nil
        case .invalidated:
            activation?.resume(throwing: event.error ?? Failure("the session ended"))
            activation = nil
        case .accessoryAdded: added = event.accessory
        case .pickerDidPresent: isPickerShown = true
        case .pickerDidDismiss: isPickerShown = false
        default: break
        }
        let isEnd = event.eventType == .invalidated
        for waiter in waiting where isEnd || waiter.isOver() { waiter.continuation.resume() }
        waiting.removeAll { isEnd || $0.isOver() }
    }

    private func wait(until isOver: @escaping () -> Bool) async {
        guard !isOver() else { return }
        await withCheckedContinuation { waiting.append((isOver, $0)) }
    }

    /// Waits until the session does not have the die any more.
    func wait(untilGone die: ASAccessory) async {
        await wait { [session] in !session.accessories.contains(die) }
    }

    /// Has a picker shown; afterwards the picker is gone, also after a failure.
    private func showing(_ request: () async throws -> Void) async throws {
        do {
            try await request()
        } catch {
            await wait { [unowned self] in !isPickerShown }
            throw error
        }
        await wait { [unowned self] in !isPickerShown }
    }

    /// Shows the picker; the die that the person has picked.
    func add(letsRename: Bool, searchFor seconds: Double?) async throws -> ASAccessory {
        if let seconds {
            let settings = ASPickerDisplaySettings.default
            settings.discoveryTimeout = .init(rawValue: seconds)
            session.pickerDisplaySettings = settings
        }
        added = nil
        let items = Self.kinds.map { kind in
            let descriptor = ASDiscoveryDescriptor()
            descriptor.bluetoothServiceUUID = CBUUID(string: kind.service)
            descriptor.supportedOptions = .bluetoothPairingLE
            let item = ASPickerDisplayItem(
                name: kind.name, productImage: UIImage(data: Data(Self.drawing.utf8)) ?? UIImage(), descriptor: descriptor)
            if letsRename { item.setupOptions = .rename }
            return item
        }
        try await showing { try await session.showPicker(for: items) }
        guard let added else { throw Failure("no die was added") }
        return added
    }

    func rename(_ die: ASAccessory) async throws { try await showing { try await session.renameAccessory(die) } }

    func remove(_ die: ASAccessory) async throws { try await session.removeAccessory(die) }

    /// A die of the app's own drawing, with a border as its makers like it.
    private static let drawing = """
        <svg xmlns="http://www.w3.org/2000/svg" width="180" height="120" viewBox="0 0 180 120">
        <rect x="50" y="20" width="80" height="80" rx="14" fill="#ff5fa2"/>
        <g fill="#fff"><circle cx="70" cy="40" r="8"/><circle cx="110" cy="40" r="8"/><circle cx="90" cy="60" r="8"/>
        <circle cx="70" cy="80" r="8"/><circle cx="110" cy="80" r="8"/></g></svg>
        """
}

extension ASAccessoryEventType {
    /// For the person who reads the lines.
    var name: String {
        switch self {
        case .activated: "activated"
        case .invalidated: "invalidated"
        case .migrationComplete: "migrationComplete"
        case .accessoryAdded: "accessoryAdded"
        case .accessoryRemoved: "accessoryRemoved"
        case .accessoryChanged: "accessoryChanged"
        case .pickerDidPresent: "pickerDidPresent"
        case .pickerDidDismiss: "pickerDidDismiss"
        case .pickerSetupBridging: "pickerSetupBridging"
        case .pickerSetupFailed: "pickerSetupFailed"
        case .pickerSetupPairing: "pickerSetupPairing"
        case .pickerSetupRename: "pickerSetupRename"
        default: "\(rawValue)"
        }
    }
}

extension ASAccessory {
    /// A name comes from a person, and may be anything: nothing that moves a terminal's cursor is printed.
    var shownName: String {
        String(String.UnicodeScalarView(displayName.unicodeScalars.map { $0.properties.generalCategory == .control ? "?" : $0 }))
    }
}
