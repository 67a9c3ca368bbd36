// SPDX-License-Identifier: Apache-2.0
// Typical apps in Swift 5, compiled in that mode without a warning: completion handlers that capture arbitrary values,
// names of their own for Apple's enumerations, and a single import.

import AccessorySetupKit

/// In the style of UIKit: neither Sendable nor on an actor, and every completion handler captures it.
public final class ViewModel {
    public let session: ASAccessorySession
    public private(set) var log: [String] = []
    private let note: (String) -> Void

    public init(_ session: ASAccessorySession, note: @escaping (String) -> Void) {
        self.session = session
        self.note = note
    }

    public func begin(on queue: DispatchQueue) {
        session.activate(on: queue, eventHandler: handleSessionEvent(event:))
    }

    private func handleSessionEvent(event: ASAccessoryEvent) {
        add(event.eventType.description)
    }

    private func add(_ text: String) {
        log.append(text)
        note(text)
    }

    public func askForEverything(_ accessory: ASAccessory, _ item: ASPickerDisplayItem) {
        session.showPicker { error in self.add("extension: \(error == nil)") }
        session.showPicker(for: [item]) { [weak self] error in self?.add("picker: \(error == nil)") }
        session.updatePicker(showing: []) { error in self.add("update: \(error == nil)") }
        session.finishPickerDiscovery { error in self.add("finish discovery: \(error == nil)") }
        session.renameAccessory(accessory, options: []) { error in self.add("rename: \(error == nil)") }
        session.removeAccessory(accessory) { error in self.add("remove: \(error == nil)") }
        session.finishAuthorization(for: accessory, settings: .default) { error in self.add("finish: \(error == nil)") }
        session.failAuthorization(for: accessory) { error in self.add("fail: \(error == nil)") }
        session.updateAuthorization(for: accessory, descriptor: accessory.descriptor) { error in
            self.add("authorization: \(error == nil)")
        }
    }

    /// Compiled, never called: networks are another test's.
    public func join(_ accessory: ASAccessory) {
        let manager = NEHotspotConfigurationManager.shared
        manager.apply(NEHotspotConfiguration(ssid: "Dice")) { error in self.add("apply: \(error == nil)") }
        manager.joinAccessoryHotspot(accessory, passphrase: "sixsided1") { error in self.add("join: \(error == nil)") }
        manager.joinAccessoryHotspotWithoutSecurity(accessory) { error in self.add("join: \(error == nil)") }
        manager.joinAccessoryHotspotWithoutSecurity(accessory)
        manager.getConfiguredSSIDs { names in self.add("\(names)") }
    }
}

@MainActor public final class MainModel {
    private let session: ASAccessorySession
    public private(set) var types: [ASAccessoryEventType] = []
    public private(set) var isAnswered = false

    public init(_ session: ASAccessorySession) { self.session = session }

    /// - Parameter done: called on the main queue with each event, and after the answer.
    public func begin(_ done: @escaping @Sendable () -> Void) {
        session.activate(on: .main) { [weak self] event in
            self?.types.append(event.eventType)
            done()
        }
        session.finishPickerDiscovery { [weak self] _ in
            Task { @MainActor in
                self?.isAnswered = true
                done()
            }
        }
    }
}

@Observable public final class ObservedModel {
    @ObservationIgnored private let session: ASAccessorySession
    public var types: [ASAccessoryEventType] = []
    public var isAnswered = false

    public init(_ session: ASAccessorySession) { self.session = session }

    public func begin() {
        session.activate(on: DispatchQueue.main, eventHandler: handleSessionEvent(event:))
        session.finishPickerDiscovery { error in self.isAnswered = true }
    }

    func handleSessionEvent(event: ASAccessoryEvent) { types.append(event.eventType) }
}

// Apps print Apple's enumerations with names of their own. Ours are the cases' names, as this is the tests' process
// too.
extension ASAccessoryEventType: CustomStringConvertible {
    public var description: String {
        switch self {
        case .unknown: "unknown"
        case .activated: "activated"
        case .invalidated: "invalidated"
        case .migrationComplete: "migrationComplete"
        case .accessoryAdded: "accessoryAdded"
        case .accessoryRemoved: "accessoryRemoved"
        case .accessoryChanged: "accessoryChanged"
        case .accessoryDiscovered: "accessoryDiscovered"
        case .pickerDidPresent: "pickerDidPresent"
        case .pickerDidDismiss: "pickerDidDismiss"
        case .pickerSetupBridging: "pickerSetupBridging"
        case .pickerSetupFailed: "pickerSetupFailed"
        case .pickerSetupPairing: "pickerSetupPairing"
        case .pickerSetupRename: "pickerSetupRename"
        }
    }
}

extension ASAccessory.AccessoryState: CustomStringConvertible {
    public var description: String {
        switch self {
        case .unauthorized: "unauthorized"
        case .awaitingAuthorization: "awaitingAuthorization"
        case .authorized: "authorized"
        }
    }
}

extension ASError.Code: CustomStringConvertible {
    public var description: String {
        switch self {
        case .success: "success"
        case .unknown: "unknown"
        case .activationFailed: "activationFailed"
        case .connectionFailed: "connectionFailed"
        case .discoveryTimeout: "discoveryTimeout"
        case .extensionNotFound: "extensionNotFound"
        case .invalidated: "invalidated"
        case .invalidRequest: "invalidRequest"
        case .pickerAlreadyActive: "pickerAlreadyActive"
        case .pickerRestricted: "pickerRestricted"
        case .userCancelled: "userCancelled"
        case .userRestricted: "userRestricted"
        }
    }
}

/// An app's stand-ins for its tests.
public final class MockAccessory: ASAccessory, @unchecked Sendable {
    // @unchecked as it is inherited: it stores nothing.

    public override var displayName: String { "Mock" }
    public override var state: ASAccessory.AccessoryState { .authorized }
}

public final class MockSession: ASAccessorySession, @unchecked Sendable {
    // @unchecked as it is inherited; `shown` is not guarded, which is how apps write it: one test uses it, on one
    // thread.

    public private(set) var shown: [[ASPickerDisplayItem]] = []
    public override var accessories: [ASAccessory] { [MockAccessory()] }
    public override func showPicker(
        for displayItems: [ASPickerDisplayItem], completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
        shown.append(displayItems)
        completionHandler(ASError(.userCancelled))
    }
}
