// SPDX-License-Identifier: Apache-2.0
// The events of a session: the type, the accessory that the event concerns, and the error that came with it.

public import Foundation

/// The type of a session's event.
///
/// A type that this module does not know (of a newer daemon) arrives as ``unknown``.
///
/// Source: Apple's documentation of `ASAccessoryEventType`; the raw values are Apple's.
public enum ASAccessoryEventType: Int, Hashable, BitwiseCopyable, Sendable {
    /// Something that this version of the module has no name for.
    case unknown = 0
    /// The session is active, and its list of accessories is there.
    case activated = 10
    /// The session is over and cannot be used again. Always the last event. ``ASAccessoryEvent/error`` says why, unless
    /// the app invalidated it itself.
    case invalidated = 11
    /// One accessory has been taken over from the time before AccessorySetupKit.
    case migrationComplete = 20
    /// An accessory was set up. It comes before the completion handler of the request, and that before
    /// ``pickerDidDismiss``.
    case accessoryAdded = 30
    /// The app may no longer use an accessory: removed by the app, the person or an administrator.
    case accessoryRemoved = 31
    /// Something about an accessory has changed, for example its name.
    case accessoryChanged = 32
    /// An accessory matches, and the app is to decide about it
    /// (``ASPickerDisplaySettings/Options/filterDiscoveryResults``).
    case accessoryDiscovered = 33
    /// The picker is being shown.
    case pickerDidPresent = 40
    /// The picker is gone; the next one may be shown. The completion handler of the request has been called before.
    /// ``ASAccessoryEvent/error`` is set when it ended without an accessory.
    case pickerDidDismiss = 50
    /// The accessory is being connected to classic Bluetooth as well.
    case pickerSetupBridging = 60
    /// Setting up failed, ``ASAccessoryEvent/error`` says why; the person may try again in the same picker.
    case pickerSetupFailed = 70
    /// Pairing has begun.
    case pickerSetupPairing = 80
    /// The person is asked for a name.
    case pickerSetupRename = 90
}

/// One event of a session.
///
/// Source: Apple's documentation of `ASAccessoryEvent`.
open class ASAccessoryEvent: NSObject, @unchecked Sendable {
    // @unchecked because a class that is not final cannot be checked: every stored property is an immutable value of a
    // Sendable type. A subclass answers for its own.

    private let type: ASAccessoryEventType
    private let subject: ASAccessory?
    private let failure: ASError?
    private let extra: Addition?

    /// The types of events that Apple's framework does not have. They are no cases of ``ASAccessoryEventType``, so that
    /// an app's exhaustive `switch` compiles on both systems. Linux only.
    public enum Addition: Hashable, Sendable {
        /// The right to use an accessory ends soon, at ``ASAccessory/accessEndDate``: a tenth of its time before, and
        /// an hour at most.
        case accessWillEnd
        /// The right to use an accessory has ended; it is ``ASAccessory/AccessoryState/unauthorized``.
        case accessDidEnd
        /// An observed accessory has come or gone, or has another reason or strength
        /// (``ASAccessorySession/observePresence(of:_:completionHandler:)``).
        case presenceChanged(ASAccessoryPresence)
    }

    /// The type of an event whose ``eventType`` is ``ASAccessoryEventType/unknown``, where this module knows it. Linux
    /// only.
    open var addition: Addition? { extra }

    /// The type of the event.
    open var eventType: ASAccessoryEventType { type }

    /// The accessory that the event is about, as it was then; for ``ASAccessoryEventType/accessoryRemoved`` as it last
    /// was, for ``ASAccessoryEventType/accessoryDiscovered`` an ``ASDiscoveredAccessory``. Nil for events of the
    /// session's life and of the picker.
    open var accessory: ASAccessory? { subject }

    /// Why, for events that report a failure: an ``ASError``. Nil otherwise.
    open var error: (any Error)? { failure }

    /// The presence of an observed accessory, of an event with that ``addition``; nil for all others. Linux only.
    open var presence: ASAccessoryPresence? { if case .presenceChanged(let presence) = extra { presence } else { nil } }

    /// An event of no type, for subclasses that stand in for events in an app's tests. Linux only: Apple's class cannot
    /// be made by apps.
    public override init() {
        type = .unknown
        subject = nil
        failure = nil
        extra = nil
    }

    init(
        _ eventType: ASAccessoryEventType, addition: Addition? = nil, accessory: ASAccessory? = nil, error: ASError? = nil
    ) {
        type = eventType
        extra = addition
        subject = accessory
        failure = error
    }

    /// The type, the accessory and the error.
    open override var description: String {
        var text = "ASAccessoryEvent.\(addition.map { "\($0)" } ?? "\(eventType)")"
        if let accessory { text += " \(accessory)" }
        if let error = error as? ASError {
            text += " (\(error.code): \(error.localizedDescription))"
        } else if let error {
            text += " (\(error))"
        }
        return text
    }
}
