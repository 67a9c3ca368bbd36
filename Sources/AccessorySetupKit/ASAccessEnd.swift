// SPDX-License-Identifier: Apache-2.0
// The end of an app's right to use an accessory: an addition to Apple's framework.

internal import AccessoryModel

/// When the right to use an accessory ends. Linux only.
///
/// The daemon counts the time while the machine is suspended or switched off too, and a wrong clock changes nothing.
/// The app gets ``ASAccessoryEvent/Addition/accessWillEnd`` before the end and
/// ``ASAccessoryEvent/Addition/accessDidEnd`` at the end;
/// ``ASAccessorySession/renewAccess(to:end:choices:completionHandler:)`` asks the person for more time, without
/// pairing.
public struct ASAccessEnd: Hashable, Sendable, CustomStringConvertible {
    let text: String

    private init(_ text: String) { self.text = text }

    /// So many seconds after the person has agreed: 1 second to 10 years.
    public static func after(seconds: Int) -> ASAccessEnd { ASAccessEnd(EndRule.duration(seconds: seconds).description) }
    /// The next time that the machine's local clock shows this time.
    ///
    /// - Parameters:
    ///   - hour: 0 to 23.
    ///   - minute: 0 to 59.
    public static func at(hour: Int, minute: Int = 0) -> ASAccessEnd {
        ASAccessEnd(EndRule.timeOfDay(minutes: hour * 60 + minute).description)
    }
    /// So many days after the app has last used the accessory: 1 to 3650.
    public static func unused(days: Int) -> ASAccessEnd { ASAccessEnd(EndRule.idle(days: days).description) }
    /// No end, as one of a person's choices.
    public static var never: ASAccessEnd { ASAccessEnd("none") }

    /// As policy files have it: `8h`, `18:00`, `idle 30d`, `none`.
    public var description: String { text }
}
