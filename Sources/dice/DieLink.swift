// SPDX-License-Identifier: Apache-2.0
// The die itself, over BlueZ: connects, finds the characteristic of the rolls, and prints what is rolled. Nothing here is special to
// accessories that were set up: Linux apps talk to theirs through org.bluez.

internal import DBusKit
internal import ProgramSupport

final class DieLink {
    private let loop = MainLoop()
    private let connection: Connection
    private let timeout: Duration
    private static let bluez = "org.bluez"
    /// 0xFF3F: the rolls.
    private static let rollCharacteristic = "0000ff3f-0000-1000-8000-00805f9b34fb"

    init(_ address: Connection.Address, timeout: Duration) throws(BusError) {
        connection = try Connection(address, loop: loop)
        self.timeout = timeout
    }

    /// Prints `count` rolls of the die with this object of org.bluez.
    func printRolls(of name: String, _ device: ObjectPath, count: Int) throws {
        var found: ObjectPath?
        // A link may be the rest of an older one, which breaks as soon as it is used.
        for _ in 0..<4 where found == nil {
            try connect(device)
            found = try findCharacteristic(of: name, device)
        }
        guard let characteristic = found else { throw Failure("the link to \(name) does not hold") }
        let owner =
            try connection.callAndWait(Bus.name, Bus.path, Bus.name, "GetNameOwner", [.string(Self.bluez)]).first?.stringValue ?? ""
        var rolls = 0
        let subscription = connection.subscribe(
            sender: owner, path: characteristic, interface: Bus.properties, member: "PropertiesChanged"
        ) { message in
            guard let changed = (try? message.arguments())?[1].vardictValue, let value = changed["Value"]?.bytesValue else {
                return
            }
            rolls += 1
            StandardOutput.line("\(name) rolled \(value.first ?? 0)")
        }
        // Out of range, switched off, or no longer ours.
        var isGone = false
        let link = connection.subscribe(
            sender: owner, path: device, interface: Bus.properties, member: "PropertiesChanged", argument0: "org.bluez.Device1"
        ) { message in
            if (try? message.arguments())?[1].vardictValue?["Connected"]?.booleanValue == false { isGone = true }
        }
        _ = try connection.callAndWait(Self.bluez, characteristic, "org.bluez.GattCharacteristic1", "StartNotify")
        let arrived = loop.run(until: { rolls >= count || isGone }, timeout: timeout)
        subscription.cancel()
        link.cancel()
        guard rolls >= count || !isGone else { throw Failure("the link to \(name) is gone, after \(rolls) of \(count) rolls") }
        guard arrived else { throw Failure("only \(rolls) of \(count) rolls arrived") }
    }

    /// Links break in busy air; a few attempts are usual.
    private func connect(_ device: ObjectPath) throws {
        var attempt = 1
        while true {
            do {
                _ = try connection.callAndWait(Self.bluez, device, "org.bluez.Device1", "Connect", timeout: .seconds(40))
                return
            } catch {
                guard attempt < 4 else { throw error }
                attempt += 1
                // What BlueZ needs to notice that the link is down; nothing signals the moment at which trying again helps.
                let pause = Duration.seconds(attempt)
                _ = loop.run(until: { false }, timeout: pause)
            }
        }
    }

    /// Services appear some time after the connection does. Nil when the link breaks before.
    private func findCharacteristic(of name: String, _ device: ObjectPath) throws -> ObjectPath? {
        var found: ObjectPath?
        var isConnected = true
        let look = { [self] in
            let reply = try? connection.callAndWait(Self.bluez, "/", Bus.objectManager, "GetManagedObjects")
            for entry in reply?.first?.entries ?? [] {
                if entry.key.objectPathValue == device {
                    isConnected = entry.value.vardictValue?["org.bluez.Device1"]?.vardictValue?["Connected"]?.booleanValue ?? false
                }
                guard let path = entry.key.objectPathValue, path.isBelow(device),
                    let properties = entry.value.vardictValue?["org.bluez.GattCharacteristic1"]?.vardictValue,
                    properties["UUID"]?.stringValue == Self.rollCharacteristic
                else { continue }
                found = path
            }
        }
        look()
        let poll = loop.every(.milliseconds(250)) {
            look()
            return found == nil && isConnected
        }
        defer { poll.cancel() }
        guard loop.run(until: { found != nil || !isConnected }, timeout: timeout) else {
            throw Failure("\(name) has no characteristic 0xFF3F")
        }
        return isConnected ? found : nil
    }
}
