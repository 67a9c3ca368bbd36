// SPDX-License-Identifier: Apache-2.0
// Events of an extension, and the session that takes them to the daemon.

internal import DBusKit
public import Foundation

/// An event about a device.
///
/// Source: Apple's documentation of `DDDeviceEvent`.
open class DDDeviceEvent: NSObject {
    /// The kind of event; the raw values are Apple's.
    public enum EventType: Int, Hashable, Sendable, CustomStringConvertible {
        /// Without effect.
        case unknown = 0
        /// The device is there.
        case deviceFound = 40
        /// The device has gone.
        case deviceLost = 41
        /// The device has other properties.
        case deviceChanged = 42

        /// The name of the case.
        public var description: String {
            switch self {
            case .unknown: "unknown"
            case .deviceFound: "deviceFound"
            case .deviceLost: "deviceLost"
            case .deviceChanged: "deviceChanged"
            }
        }
    }

    /// The kind of event.
    public let eventType: EventType
    /// The device as it is now.
    public let device: DDDevice

    /// An event about a device.
    public init(eventType: EventType, device: DDDevice) {
        self.eventType = eventType
        self.device = device
    }
}

/// Takes events of devices.
///
/// Source: Apple's documentation of `DDEventHandler`.
public typealias DDEventHandler = (DDDeviceEvent) -> Void

/// One discovery, which lasts as long as the picker searches. Its method may be called from any thread.
///
/// Source: Apple's documentation of `DDDiscoverySession`.
public final class DDDiscoverySession: NSObject, Sendable {
    private let send: @Sendable (String, DBusValue) -> Void

    init(_ send: @escaping @Sendable (String, DBusValue) -> Void) { self.send = send }

    /// Reports a device to the picker. Without effect once the discovery was stopped. A device that breaks the rules
    /// ends the picker, and the app gets `ASError.Code.invalidRequest`.
    ///
    /// Source: Apple's documentation of `report(_:)`.
    public func report(_ event: DDDeviceEvent) {
        switch event.eventType {
        case .deviceFound: send("ItemFound", event.device.item)
        case .deviceChanged: send("ItemChanged", event.device.item)
        case .deviceLost: send("ItemLost", .string(event.device.identifier))
        case .unknown: break
        }
    }
}
