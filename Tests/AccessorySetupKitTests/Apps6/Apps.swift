// SPDX-License-Identifier: Apache-2.0
// The same kinds of apps in Swift 6. The compiler's diagnostic for a class that is not Sendable in a completion handler
// is a warning, as with Apple's framework; the manifest keeps it quiet here, and an error would still be one.

import AccessorySetupKit
import NetworkExtension
import UIKit

/// In the style of UIKit: neither Sendable nor on an actor, and every completion handler captures it.
public final class ViewModel {
    private let session: ASAccessorySession
    public private(set) var log: [String] = []

    public init(_ session: ASAccessorySession) { self.session = session }

    public func begin(on queue: DispatchQueue) {
        session.activate(on: queue, eventHandler: handleSessionEvent(event:))
    }

    private func handleSessionEvent(event: ASAccessoryEvent) { log.append("\(event.eventType)") }

    public func askForEverything(_ accessory: ASAccessory, _ item: ASPickerDisplayItem) {
        session.showPicker { error in self.log.append("extension: \(error == nil)") }
        session.showPicker(for: [item]) { [weak self] error in self?.log.append("picker: \(error == nil)") }
        session.updatePicker(showing: []) { error in self.log.append("update: \(error == nil)") }
        session.finishPickerDiscovery { error in self.log.append("finish discovery: \(error == nil)") }
        session.renameAccessory(accessory) { error in self.log.append("rename: \(error == nil)") }
        session.removeAccessory(accessory) { error in self.log.append("remove: \(error == nil)") }
        session.finishAuthorization(for: accessory, settings: .default) { error in self.log.append("finish: \(error == nil)") }
        session.failAuthorization(for: accessory) { error in self.log.append("fail: \(error == nil)") }
        session.updateAuthorization(for: accessory, descriptor: accessory.descriptor) { error in
            self.log.append("authorization: \(error == nil)")
        }
        let manager = NEHotspotConfigurationManager.shared
        manager.apply(NEHotspotConfiguration(ssid: "Dice")) { error in self.log.append("apply: \(error == nil)") }
        manager.joinAccessoryHotspot(accessory, passphrase: "sixsided1") { error in self.log.append("join: \(error == nil)") }
        manager.joinAccessoryHotspotWithoutSecurity(accessory) { error in self.log.append("join: \(error == nil)") }
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
        Task {
            try? await session.finishPickerDiscovery()
            isAnswered = true
            done()
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

/// Both modules know the class, and it is one class.
public func symbol() -> AccessorySetupKit.UIImage { UIImage(systemName: "dice.fill")! }
