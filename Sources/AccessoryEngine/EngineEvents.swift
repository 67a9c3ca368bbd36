// SPDX-License-Identifier: Apache-2.0
// Every change leaves the engine as an event, in order, to all listeners.

public import AccessoryModel

/// Something that has changed.
public enum EngineEvent {
    /// The Bluetooth radio has come, gone, or been switched.
    case bluetooth(RadioState)
    /// A Bluetooth adapter has come or gone, or has other properties.
    case adapters
    /// The Wi-Fi radio has come, gone, or been switched.
    case wifi(RadioState)
    /// There is a picker program now, or none any more.
    case pickerAvailability
    /// A picker program has come, gone, changed its name, or begun or ended to show a picker.
    case pickerPrograms
    /// Grants, accessories, rules or radio objects have changed: listeners must review access. Revoked access ends on
    /// this event, before any event about the reason.
    case access

    /// An app hears other devices now by its grants for kinds.
    case hearing(AppID)
    /// An app was muted, or may ask again.
    case mutedApps
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
    case pickerChanged(PickerRun)
    case pickerDeadlineChanged
    /// A picker program has become the one that shows the picker.
    case pickerAssigned(from: ClientID, to: ClientID)
    case pickerClosed(PickerRun)

    /// The machine has joined an accessory's network, or left it.
    case networkUseChanged(of: AccessoryID, SSID)

    case accessoryAppeared(Accessory)
    case accessoryChanged(Accessory, from: Accessory)
    /// The radio may have another object for an accessory, or none any more.
    case deviceChanged(of: Accessory)
    /// A delayed removal was scheduled or cancelled, or has failed: the one of admins, or of a person by uid.
    case removalChanged(of: Accessory, for: UInt32?)
    /// Gone from the ledger.
    case accessoryDisappeared(Accessory)
    /// An app sees an accessory from now on, or no longer.
    case visibilityChanged(of: Accessory, to: AppID, visible: Bool)
    /// The grants on an accessory that a person set up, by uid, are others now.
    case ownGrantsChanged(of: Accessory, by: UInt32, from: [Grant], to: [Grant])
    case grantAppeared(Grant)
    case grantChanged(Grant, from: Grant)
    case grantDisappeared(Grant)
    /// An observed accessory has come into range or left it, or is observed no longer.
    case presenceChanged(of: Grant)
}

/// Publishes events to listeners.
final class EventPublisher {
    private var listeners: [(EngineEvent) -> Void] = []

    /// Adds a listener after those that exist.
    func listen(_ listener: @escaping (EngineEvent) -> Void) { listeners.append(listener) }

    func publish(_ event: EngineEvent) {
        for listener in listeners { listener(event) }
    }
}

/// An event of a session, with its subjects as they are at this moment.
public struct SessionEvent {
    /// The type; the other properties depend on it.
    public var type: SessionEventType
    /// The accessory that it speaks of, as the app has it; nil where it speaks of none.
    public var accessory: GrantedAccessory?
    /// The number of its picker run; nil without one.
    public var picker: Int?
    /// Why something failed or ended; nil when it did not.
    public var error: SetupError?
    /// For `accessoryDiscovered`.
    public var discovered: DiscoveredAccessory?
    /// For `presenceChanged`.
    public var presence: PresenceNews?

    /// Stores its arguments.
    public init(_ type: SessionEventType, accessory: GrantedAccessory? = nil, picker: Int? = nil, error: SetupError? = nil) {
        self.type = type
        self.accessory = accessory
        self.picker = picker
        self.error = error
    }
}
