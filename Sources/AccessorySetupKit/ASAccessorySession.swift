// SPDX-License-Identifier: Apache-2.0
// The entry to the module: a session, which shows pickers, delivers events and manages the app's accessories. The class
// is a thin shell, safe to use from every thread, around the core that keeps the promises.

internal import AccessoryBus
internal import AccessoryModel
internal import DBusKit
public import Dispatch
public import Foundation

/// Shows the picker, delivers events, and manages the accessories that the app may use.
///
/// Activate a session, then use it. All of its methods may be called from any thread and return at once; the handler
/// and all completion handlers are called on the queue given to ``activate(on:eventHandler:)``, in order, never inline.
/// Every completion handler is called exactly once, whatever happens to the daemon. (For a session that was never
/// activated they are called on a queue of the module's own.)
///
/// Keep a reference to the session: when the app releases it, it ends like an invalidated one, but silently.
///
/// Requests between ``activate(on:eventHandler:)`` and ``ASAccessoryEventType/activated`` wait for that event and are
/// then sent, in order; 64 at most, one more is ``ASError/Code/invalidRequest``. An activation that fails answers them
/// with its error. Requests before ``activate(on:eventHandler:)`` end with ``ASError/Code/invalidRequest``, those after
/// ``ASAccessoryEventType/invalidated`` with ``ASError/Code/invalidated``. The errors that are listed with the methods
/// come besides ``ASError/Code/connectionFailed`` (the daemon went away or does not answer) and
/// ``ASError/Code/invalidated`` (the session ended first). A daemon that does not offer a request answers
/// ``ASError/Code/invalidRequest``.
///
/// Where a picker was shown, the order is the same for a success and for a failure:
/// ``ASAccessoryEventType/accessoryAdded`` if there is one, the completion handler of the request,
/// ``ASAccessoryEventType/pickerDidDismiss``. The completion handler finds the accessory among ``accessories``, and may
/// ask for the next picker.
///
/// The asynchronous forms are the same requests. Cancelling the task of one that shows a picker ends the picker as if
/// the person had closed it, and the call throws ``ASError/Code/userCancelled``: the completion handler gets the same
/// error, once the daemon has confirmed that the picker is over. Where the person had finished just before (only the
/// name of the new accessory is missing), the call returns. Cancelling the task of any other request does not call it
/// off.
///
/// Source: Apple's documentation of `ASAccessorySession`.
open class ASAccessorySession: NSObject, @unchecked Sendable {
    // @unchecked because a class that is not final cannot be checked: the one stored property is an immutable reference
    // to a final class that is Sendable. A subclass answers for its own.

    private let core: SessionCore

    /// A session with the daemon on the system bus (or the bus that `DBUS_SYSTEM_BUS_ADDRESS` names).
    public override init() {
        core = SessionCore(Connection.Address("system"))
    }

    /// A session with the daemon on a bus of its own, for tests.
    ///
    /// - Parameter bus: `system`, `session` or a D-Bus server address.
    package init(bus: String) {
        core = SessionCore(Connection.Address(bus))
    }

    deinit {
        if core.abandon() { leave() }
    }

    // MARK: Life

    /// Begins the session. The first event is ``ASAccessoryEventType/activated``, or
    /// ``ASAccessoryEventType/invalidated`` with the error ``ASError/Code/activationFailed`` (no manifest matches this
    /// program; the message says which file would) or ``ASError/Code/connectionFailed`` (the bus or the daemon cannot
    /// be reached).
    ///
    /// A session that is already active ignores the call. A session that is over reports that to the new handler.
    ///
    /// Source: Apple's documentation of `activate(on:eventHandler:)`.
    ///
    /// - Parameters:
    ///   - queue: where `eventHandler` and all completion handlers are called.
    ///   - eventHandler: gets all events, in order. The session holds it until ``ASAccessoryEventType/invalidated`` has
    ///     been handled.
    open func activate(on queue: DispatchQueue = .main, eventHandler: @escaping (ASAccessoryEvent) -> Void) {
        guard core.begin(on: queue, EventHandler(eventHandler)) else { return }
        do {
            try SessionRegistry.perform { [core] in $0.open(core) }
        } catch {
            let error = ASError(.connectionFailed, error.message)
            core.end(error, failing: error)
        }
    }

    /// Ends the session and its current activity: a picker is dismissed, requests end with
    /// ``ASError/Code/invalidated``, then the handler gets ``ASAccessoryEventType/invalidated``, without an error, and
    /// is released. Further calls have no effect.
    ///
    /// Source: Apple's documentation of `invalidate()`.
    open func invalidate() {
        if core.end(nil, failing: ASError(.invalidated, "the session was invalidated")) { leave() }
    }

    private func leave() {
        Self.perform { [core] in $0.client(of: core)?.close() }
    }

    // MARK: Accessories

    /// The accessories that the app may use, as of the event that was handled last. Empty before
    /// ``ASAccessoryEventType/activated`` and after ``ASAccessoryEventType/invalidated``.
    ///
    /// Source: Apple's documentation of `accessories`.
    open var accessories: [ASAccessory] { core.accessories }

    // MARK: Pickers

    /// Settings of the pickers that are shown from now on; nil for the defaults. Copied when set.
    ///
    /// Source: Apple's documentation of `pickerDisplaySettings`.
    open var pickerDisplaySettings: ASPickerDisplaySettings? {
        get { core.settings }
        set { core.settings = newValue?.duplicate() }
    }

    /// Shows a picker with the accessories that the app's discovery extension finds, see the module
    /// `DeviceDiscoveryExtension`. The extension runs from now until the person has picked or the picker is gone.
    ///
    /// Source: Apple's documentation of `showPicker(completionHandler:)`.
    ///
    /// - Parameter completionHandler: as for ``showPicker(for:completionHandler:)``. At once
    ///   ``ASError/Code/extensionNotFound`` when the app's manifest names no extension, or its socket is absent;
    ///   ``ASError/Code/connectionFailed`` when the extension does not answer or ends, ``ASError/Code/invalidRequest``
    ///   when it breaks the rules of its interface.
    @preconcurrency
    open func showPicker(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        show([], completionHandler)
    }

    /// ``showPicker(completionHandler:)`` as an asynchronous function; it returns when the picker is gone. Cancelling
    /// the task dismisses the picker.
    ///
    /// - Throws: the error that the completion handler would get.
    open func showPicker() async throws {
        try await answerWhenGone { showPicker(completionHandler: $0) }
    }

    /// Shows a picker with the accessories in range that match one of the items; the first one that matches names it.
    ///
    /// The events ``ASAccessoryEventType/pickerDidPresent``, ``ASAccessoryEventType/accessoryAdded`` and
    /// ``ASAccessoryEventType/pickerDidDismiss`` report the picker's progress.
    ///
    /// Source: Apple's documentation of `showPicker(for:completionHandler:)`.
    ///
    /// - Parameters:
    ///   - displayItems: 1 to 256 items. The items and their contents are read now; changing them later has no effect.
    ///   - completionHandler: called when the picker is gone, just before ``ASAccessoryEventType/pickerDidDismiss``:
    ///     with nil when an accessory was set up (after ``ASAccessoryEventType/accessoryAdded``), else with
    ///     ``ASError/Code/userCancelled``, ``ASError/Code/discoveryTimeout``, ``ASError/Code/pickerRestricted``
    ///     (Bluetooth went away) or ``ASError/Code/connectionFailed``. At once when there will be no picker:
    ///     ``ASError/Code/invalidRequest``, ``ASError/Code/pickerAlreadyActive`` or ``ASError/Code/pickerRestricted``.
    @preconcurrency
    open func showPicker(
        for displayItems: [ASPickerDisplayItem], completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
        guard !displayItems.isEmpty else {
            // On the bus, no items mean the extension.
            return submit(completionHandler) { [core] token in
                { _ in core.finish(token, ASError(.invalidRequest, "items: is empty")) }
            }
        }
        show(displayItems, completionHandler)
    }

    private func show(_ items: [ASPickerDisplayItem], _ completion: @escaping SessionCore.Completion) {
        request("ShowPicker", showsPicker: true, completion) {
            [ASPickerDisplayItem.wire(items, isUpdate: false), core.settings?.wire ?? .vardict([:])]
        }
    }

    /// ``showPicker(for:completionHandler:)`` as an asynchronous function; it returns when the picker is gone.
    /// Cancelling the task dismisses the picker.
    ///
    /// - Throws: the error that the completion handler would get.
    open func showPicker(for displayItems: [ASPickerDisplayItem]) async throws {
        try await answerWhenGone { showPicker(for: displayItems, completionHandler: $0) }
    }

    /// Puts discovered accessories into the picker that is being shown, see
    /// ``ASPickerDisplaySettings/Options/filterDiscoveryResults``.
    ///
    /// Source: Apple's documentation of `updatePicker(showing:completionHandler:)`.
    ///
    /// - Parameters:
    ///   - displayItems: the accessories, with the names and images that the picker is to show.
    ///   - completionHandler: called when the picker has them. ``ASError/Code/invalidRequest`` when no picker of this
    ///     session filters.
    @preconcurrency
    open func updatePicker(
        showing displayItems: [ASDiscoveredDisplayItem], completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
        request("UpdatePicker", completionHandler) { [ASPickerDisplayItem.wire(displayItems, isUpdate: true)] }
    }

    /// ``updatePicker(showing:completionHandler:)`` as an asynchronous function.
    ///
    /// - Throws: the error that the completion handler would get.
    open func updatePicker(showing displayItems: [ASDiscoveredDisplayItem]) async throws {
        try await answer { updatePicker(showing: displayItems, completionHandler: $0) }
    }

    /// Ends the search of the picker that is being shown, as if its time were over. No effect once the picker was
    /// updated.
    ///
    /// Source: Apple's documentation of `finishPickerDiscovery(completionHandler:)`.
    ///
    /// - Parameter completionHandler: called when that is done. ``ASError/Code/invalidRequest`` without a picker.
    @preconcurrency
    open func finishPickerDiscovery(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        request("FinishPickerDiscovery", completionHandler) { [] }
    }

    /// ``finishPickerDiscovery(completionHandler:)`` as an asynchronous function.
    ///
    /// - Throws: the error that the completion handler would get.
    open func finishPickerDiscovery() async throws {
        try await answer { finishPickerDiscovery(completionHandler: $0) }
    }

    // MARK: Managing accessories

    /// Shows a picker in which the person renames an accessory.
    ///
    /// Source: Apple's documentation of `renameAccessory(_:options:completionHandler:)`.
    ///
    /// - Parameters:
    ///   - accessory: one of ``accessories``.
    ///   - renameOptions: the names that renaming changes.
    ///   - completionHandler: called when the picker is gone, just before ``ASAccessoryEventType/pickerDidDismiss``:
    ///     ``ASError/Code/userCancelled``, or when there will be none: ``ASError/Code/invalidRequest`` (also for an
    ///     accessory that is not the app's), ``ASError/Code/pickerAlreadyActive``, ``ASError/Code/pickerRestricted``.
    @preconcurrency
    open func renameAccessory(
        _ accessory: ASAccessory, options renameOptions: ASAccessory.RenameOptions = [],
        completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
        request("RenameAccessory", showsPicker: true, completionHandler) {
            [.objectPath(accessory.object), renameOptions.model.wire]
        }
    }

    /// ``renameAccessory(_:options:completionHandler:)`` as an asynchronous function; it returns when the picker is
    /// gone. Cancelling the task dismisses the picker.
    ///
    /// - Throws: the error that the completion handler would get.
    open func renameAccessory(_ accessory: ASAccessory, options renameOptions: ASAccessory.RenameOptions = []) async throws {
        try await answerWhenGone { renameAccessory(accessory, options: renameOptions, completionHandler: $0) }
    }

    /// Shows a short picker in which the person gives the app more time with an accessory whose use ends, or has ended.
    /// Nothing is paired. Linux only.
    ///
    /// - Parameters:
    ///   - accessory: one of ``accessories``.
    ///   - end: the new end, counted from the person's consent; nil for the same as before.
    ///   - choices: ends among which the person may choose; empty for no choice.
    ///   - completionHandler: called when the picker is gone, as for ``renameAccessory(_:options:completionHandler:)``.
    ///     ``ASError/Code/invalidRequest`` also for an accessory whose use does not end, and one that has lost its
    ///     pairing: that one is for ``showPicker(for:completionHandler:)``.
    @preconcurrency
    open func renewAccess(
        to accessory: ASAccessory, end: ASAccessEnd? = nil, choices: [ASAccessEnd] = [],
        completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
        request("RenewAccess", showsPicker: true, completionHandler) {
            var options = RenewalOptions()
            options.end = end.flatMap { EndRule($0.text) }
            options.endChoices = choices.compactMap { EndChoice($0.text) }
            return [.objectPath(accessory.object), options.wire]
        }
    }

    /// ``renewAccess(to:end:choices:completionHandler:)`` as an asynchronous function; it returns when the picker is
    /// gone. Cancelling the task dismisses the picker.
    ///
    /// - Throws: the error that the completion handler would get.
    open func renewAccess(to accessory: ASAccessory, end: ASAccessEnd? = nil, choices: [ASAccessEnd] = []) async throws {
        try await answerWhenGone { renewAccess(to: accessory, end: end, choices: choices, completionHandler: $0) }
    }

    /// Takes the app's right to use an accessory away; with the last app's right the bond goes too.
    ///
    /// Source: Apple's documentation of `removeAccessory(_:completionHandler:)`.
    ///
    /// - Parameters:
    ///   - accessory: one of ``accessories``.
    ///   - completionHandler: called when it is gone, after ``ASAccessoryEventType/accessoryRemoved``.
    ///     ``ASError/Code/invalidRequest`` for an accessory that is not the app's.
    @preconcurrency
    open func removeAccessory(_ accessory: ASAccessory, completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        request("RemoveAccessory", completionHandler) { [.objectPath(accessory.object)] }
    }

    /// ``removeAccessory(_:completionHandler:)`` as an asynchronous function.
    ///
    /// - Throws: the error that the completion handler would get.
    open func removeAccessory(_ accessory: ASAccessory) async throws {
        try await answer { removeAccessory(accessory, completionHandler: $0) }
    }

    /// Begins or ends the observation of an accessory's presence. Events with an ``ASAccessoryEvent/presence`` follow:
    /// one with the present state at once, in each later session too, and one for each change. The observation is part
    /// of the app's right to the accessory: it outlives the session, restarts and reboots. Linux only.
    ///
    /// - Parameters:
    ///   - accessory: one of ``accessories``; for a kind, all its devices are observed.
    ///   - isObserved: false ends the observation.
    ///   - completionHandler: called when that is done. ``ASError/Code/invalidRequest`` for an accessory that the app
    ///     cannot use, ``ASError/Code/userRestricted`` where an administrator denies it.
    @preconcurrency
    open func observePresence(
        of accessory: ASAccessory, _ isObserved: Bool = true, completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
        request("ObservePresence", completionHandler) { [.objectPath(accessory.object), .boolean(isObserved)] }
    }

    /// ``observePresence(of:_:completionHandler:)`` as an asynchronous function.
    ///
    /// - Throws: the error that the completion handler would get.
    open func observePresence(of accessory: ASAccessory, _ isObserved: Bool = true) async throws {
        try await answer { observePresence(of: accessory, isObserved, completionHandler: $0) }
    }

    // MARK: Authorization

    /// Finishes setting up an accessory that is ``ASAccessory/AccessoryState/awaitingAuthorization``.
    ///
    /// Source: Apple's documentation of `finishAuthorization(for:settings:completionHandler:)`.
    ///
    /// - Parameters:
    ///   - accessory: one of ``accessories``.
    ///   - settings: the properties that the app has found out about the accessory. Read now.
    ///   - completionHandler: called when that is done. ``ASError/Code/invalidRequest`` when it does not await
    ///     authorization, or the settings do not fit.
    @preconcurrency
    open func finishAuthorization(
        for accessory: ASAccessory, settings: ASAccessorySettings, completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
        request("FinishAuthorization", completionHandler) { [.objectPath(accessory.object), settings.wire] }
    }

    /// ``finishAuthorization(for:settings:completionHandler:)`` as an asynchronous function.
    ///
    /// - Throws: the error that the completion handler would get.
    open func finishAuthorization(for accessory: ASAccessory, settings: ASAccessorySettings) async throws {
        try await answer { finishAuthorization(for: accessory, settings: settings, completionHandler: $0) }
    }

    /// Gives up an accessory that is ``ASAccessory/AccessoryState/awaitingAuthorization``; it is removed again.
    ///
    /// Source: Apple's documentation of `failAuthorization(for:completionHandler:)`.
    ///
    /// - Parameters:
    ///   - accessory: one of ``accessories``.
    ///   - completionHandler: called when that is done. ``ASError/Code/invalidRequest`` when it does not await
    ///     authorization.
    @preconcurrency
    open func failAuthorization(for accessory: ASAccessory, completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        request("FailAuthorization", completionHandler) { [.objectPath(accessory.object)] }
    }

    /// ``failAuthorization(for:completionHandler:)`` as an asynchronous function.
    ///
    /// - Throws: the error that the completion handler would get.
    open func failAuthorization(for accessory: ASAccessory) async throws {
        try await answer { failAuthorization(for: accessory, completionHandler: $0) }
    }

    /// Shows a picker in which the person allows the app another technology for an accessory, for example Wi-Fi Aware.
    ///
    /// Source: Apple's documentation of `updateAuthorization(for:descriptor:completionHandler:)`.
    ///
    /// - Parameters:
    ///   - accessory: one of ``accessories``.
    ///   - descriptor: the accessory's traits with the new technology's. Read now.
    ///   - completionHandler: called when the picker is gone, just before ``ASAccessoryEventType/pickerDidDismiss``:
    ///     ``ASError/Code/userCancelled``, or when there will be none: ``ASError/Code/invalidRequest``,
    ///     ``ASError/Code/pickerAlreadyActive``, ``ASError/Code/pickerRestricted``.
    @preconcurrency
    open func updateAuthorization(
        for accessory: ASAccessory, descriptor: ASDiscoveryDescriptor,
        completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
        request("UpdateAuthorization", showsPicker: true, completionHandler) {
            [.objectPath(accessory.object), descriptor.sent.wire]
        }
    }

    /// ``updateAuthorization(for:descriptor:completionHandler:)`` as an asynchronous function; it returns when the
    /// picker is gone. Cancelling the task dismisses the picker.
    ///
    /// - Throws: the error that the completion handler would get.
    open func updateAuthorization(for accessory: ASAccessory, descriptor: ASDiscoveryDescriptor) async throws {
        try await answerWhenGone { updateAuthorization(for: accessory, descriptor: descriptor, completionHandler: $0) }
    }

    // MARK: -

    private func request(
        _ member: String, showsPicker: Bool = false, _ completion: @escaping SessionCore.Completion, _ arguments: () -> [DBusValue]
    ) {
        submit(completion) { token in
            // Encoded here, so that the request does not contain later changes by the caller.
            let arguments = arguments()
            return { $0.request(token, member, arguments, showsPicker: showsPicker) }
        }
    }

    /// Has a request sent, now or when the session is active.
    private func submit(_ completion: @escaping SessionCore.Completion, _ makeSend: (Int) -> SessionCore.Send) {
        guard let token = core.open(completion) else { return }
        let call = PickerCall.current
        if call?.isCancelled == true { return core.finish(token, Self.cancelled) }
        let send = makeSend(token)
        if core.holdUnlessActive(token, send) {
            // Without a client the session has ended meanwhile, and the request with it.
            Self.perform { [core] in $0.client(of: core).map(send) }
        }
        call?.begin { [core] in
            guard !core.withdraw(token, Self.cancelled) else { return }
            Self.perform { $0.client(of: core)?.giveUp(token) }
        }
    }

    private static let cancelled = ASError(.userCancelled, "the task was cancelled")

    private static func perform(_ body: @escaping @Sendable (SessionRegistry) -> Void) {
        try? SessionRegistry.perform(body)
    }

    private func answer(_ request: (@escaping SessionCore.Completion) -> Void) async throws {
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            request { error in
                if let error { continuation.resume(throwing: error) } else { continuation.resume() }
            }
        }
    }

    /// For requests that show a picker: cancelling the task ends it.
    private func answerWhenGone(_ request: (@escaping SessionCore.Completion) -> Void) async throws {
        let call = PickerCall()
        try await withTaskCancellationHandler {
            try await answer { completion in PickerCall.$current.withValue(call) { request(completion) } }
        } onCancel: {
            call.cancel()
        }
    }
}
