// SPDX-License-Identifier: Apache-2.0
// The one way for news to leave the engine: everything that changes is told here, in its order, to everybody who
// listens.

public import AccessoryCore
public import AccessoryModel

/// Something that has changed.
public enum EngineNews {
    /// The Bluetooth radio has come, gone, or been switched.
    case bluetooth(RadioState)
    /// A Bluetooth adapter has come or gone, or has other properties.
    case adapters
    /// The Wi-Fi radio has come, gone, or been switched.
    case wifi(RadioState)
    /// There is a picker program now, or none any more.
    case pickerAvailability
    /// Which picker programs there are, what they are called, or which of them shows a picker.
    case pickerPrograms
    /// Grants, accessories, rules, or where the radio has the accessories: who may reach what is to be asked anew. What
    /// is no longer granted is cut on this, before anybody is told why.
    case access

    /// The admin's rules are others now.
    case policy
    /// Lines of the trail were written, oldest first, with their numbers.
    case audited([AuditEntry])

    case sessionOpened(Session)
    case sessionChanged(Session)
    case sessionClosed(Session)
    /// An event for the app, in one of its sessions.
    case event(SessionEvent, in: Session)

    case pickerOpened(PickerRun)
    case pickerChanged(PickerRun, from: PickerPresentation)
    case pickerDeadlineChanged(PickerRun)
    /// A picker program has become the one that shows the picker.
    case pickerAssigned(PickerRun, to: ClientID)
    case pickerClosed(PickerRun)

    /// The machine has joined an accessory's network, or left it.
    case networkUseChanged(of: AccessoryID, SSID)

    case accessoryAppeared(Accessory)
    case accessoryChanged(Accessory, from: Accessory)
    /// The radio may have another object for an accessory, or none any more.
    case deviceChanged(of: Accessory)
    /// Gone from the ledger.
    case accessoryDisappeared(Accessory)
    /// An app sees an accessory from now on, or no longer.
    case visibilityChanged(of: Accessory, to: AppID, visible: Bool)
    case grantAppeared(Grant)
    case grantChanged(Grant, from: Grant)
    case grantDisappeared(Grant)
}

/// Who listens, and what they are told.
final class EventPublisher {
    private var listeners: [(EngineNews) -> Void] = []

    /// Told everything from now on, after those who listen already.
    func listen(_ listener: @escaping (EngineNews) -> Void) { listeners.append(listener) }

    func publish(_ event: EngineNews) {
        for listener in listeners { listener(event) }
    }
}

/// An event of a session, with what it speaks of as it is at this moment.
public struct SessionEvent {
    /// What has happened; which of the others are set depends on it.
    public var type: SessionEventType
    /// The accessory that it speaks of, as the app has it; nil where it speaks of none.
    public var accessory: GrantedAccessory?
    /// The number of the picker run that it belongs to; nil for what belongs to none.
    public var picker: Int?
    /// Why something failed or ended; nil when it did not.
    public var error: SetupError?
    /// For `accessoryDiscovered`.
    public var discovered: DiscoveredAccessory?

    /// Stores its arguments.
    public init(_ type: SessionEventType, accessory: GrantedAccessory? = nil, picker: Int? = nil, error: SetupError? = nil) {
        self.type = type
        self.accessory = accessory
        self.picker = picker
        self.error = error
    }
}
