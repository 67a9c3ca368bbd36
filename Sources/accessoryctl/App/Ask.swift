// SPDX-License-Identifier: Apache-2.0
// `accessoryctl ask`: sets accessories up for the calling app, which may be a shell script. A session ends with its
// connection, so a script cannot have one; a command of its unit can.

internal import AccessoryBus
internal import AccessoryModel
internal import ArgumentParser
internal import DBusKit
internal import Glibc
internal import JSONText
internal import ProgramSupport

struct Ask: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Shows a picker for the calling app, and prints its accessories.",
        discussion: """
            For scripts and services: as ExecStartPre= in a unit, it asks on behalf of the unit's app. An item is \
            KEY=VALUE[,KEY=VALUE]…, with the keys of the session API: name, productImage (a file), setupOptions=rename, and \
            those of a descriptor. Lists are WORD+WORD, data is hexadecimal, and characteristics are \
            180F/2A19:read+listen;180A/2A29#1:read with access=listed.

            Without --another, the picker is shown only if the app has no accessory that matches an item.

            Exit status: 0 the app has an accessory, and the list is printed; 1 refused or failed; 2 the person cancelled; 3 the daemon \
            cannot be reached, or went away; 64 wrong arguments.
            """)

    @OptionGroup var options: BusOptions

    @Option(
        help: ArgumentHelp(
            "How long to wait for a picker program, if none is registered: seconds, or infinity.", valueName: "seconds"))
    var wait = 0.0

    @Option(help: ArgumentHelp("How long to search for accessories: seconds, or infinity. Default: 30.", valueName: "seconds"))
    var timeout: Double?

    @Flag(help: "Show the picker even if the app has a matching accessory.")
    var another = false

    @Argument(
        help: ArgumentHelp("An item to offer: name=Dice,bluetoothServiceUUID=180F", valueName: "item"),
        transform: { try ItemArgument($0) })
    var items: [ItemArgument]

    func validate() throws {
        guard wait >= 0 else { throw ValidationError("--wait: \(wait): must be 0 or more seconds, or infinity") }
    }

    func run() throws {
        try Ending.guarding {
            let app = try AppSession(Connection.Address(options.bus))
            var found = try app.accessories(foundBy: items.map(\.descriptor))
            if found.isEmpty || another {
                var settings = PickerSettings()
                settings.waitForPicker = wait
                if let timeout { settings.discoveryTimeout = timeout }
                let added = try app.showPicker(items.map(\.item), settings, within: wait)
                found = try app.accessories.filter { each in added.contains(each.path) || found.contains { $0.path == each.path } }
            }
            Output.json(.array(found.map { .object($0.grantedJSON) }))
        }
    }
}

/// A session of the app that this process belongs to.
private final class AppSession {
    private let loop = MainLoop()
    private let connection: Connection
    private let path: ObjectPath
    /// The daemon's unique name.
    private let owner: String

    init(_ address: Connection.Address) throws(BusError) {
        connection = try Connection(address, loop: loop)
        let made = try connection.callAndWait(
            AccessoryBus.name, AccessoryBus.root, AccessoryBus.manager, "CreateSession", [.vardict([:])])
        path = made.first?.objectPathValue ?? "/"
        owner =
            try connection.callAndWait(Bus.name, Bus.path, Bus.name, "GetNameOwner", [.string(AccessoryBus.name)])
            .first?.stringValue ?? ""
        _ = try connection.callAndWait(AccessoryBus.name, path, AccessoryBus.session, "Activate")
    }

    /// The app's accessories. (Root sees others, too.)
    var accessories: [Inventory.Accessory] {
        get throws(BusError) {
            let granted = try connection.callAndWait(
                AccessoryBus.name, path, Bus.properties, "Get", [.string(AccessoryBus.session), .string("Accessories")])
            return try (granted.first?.unwrapped.arrayValue ?? []).compactMap(\.objectPathValue).map { path throws(BusError) in
                let properties = try connection.callAndWait(
                    AccessoryBus.name, path, Bus.properties, "GetAll", [.string(AccessoryBus.accessory)])
                return Inventory.Accessory(
                    path: path, properties: AccessoryProperties(wire: properties.first?.vardictValue ?? [:]), interface: "")
            }
        }
    }

    /// Authorized accessories that match one of the descriptors.
    func accessories(foundBy descriptors: [DBusValue]) throws(BusError) -> [Inventory.Accessory] {
        let wanted = try Set(
            descriptors.map { value throws(BusError) in try Self.search(DescriptorKeys.decode(value, "descriptor")) })
        return try accessories.filter { accessory in
            guard accessory.state == .authorized,
                let descriptor = try? DescriptorKeys.decode(.vardict(accessory.descriptor), "Descriptor")
            else { return false }
            return wanted.contains(Self.search(descriptor))
        }
    }

    /// The part of a descriptor that identifies accessories. Options of the pairing may come from another app, and the
    /// access is up to the grant that the app has.
    private static func search(_ descriptor: DiscoveryDescriptor) -> DiscoveryDescriptor {
        var search = descriptor
        search.supportedOptions = []
        search.range = .default
        if !search.isKind { search.access = .full }
        return search
    }

    /// Shows a picker until it is dismissed.
    ///
    /// - Returns: the accessories that were added.
    /// - Throws: an `ExitCode` where the reason was said.
    func showPicker(_ items: [DBusValue], _ settings: PickerSettings, within seconds: Double) throws -> [ObjectPath] {
        var added: [ObjectPath] = []
        var outcome: Result<Void, any Error>?
        func end(_ result: Result<Void, any Error>) {
            outcome = result
            loop.quit()
        }
        let events = connection.subscribe(
            sender: owner, path: path, interface: AccessoryBus.session, member: "Event"
        ) { message in
            guard let arguments = try? message.arguments(), let kind = arguments.first?.stringValue else { return }
            let details = EventDetails(wire: arguments.last?.vardictValue ?? [:])
            if kind == "accessoryAdded", let path = details.accessory { added.append(path) }
            guard kind == "pickerDidDismiss" else { return }
            end(details.error.map { .failure(BusError(name: $0, message: details.message ?? "")) } ?? .success(()))
        }
        let gone = { end(.failure(BusError.disconnected("it went away"))) }
        connection.onDisconnect = gone
        let watch = connection.watchName(AccessoryBus.name) { [owner] in if $0 != owner { gone() } }
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            loop.onSignal(signal) {
                end(.failure(Ending.cancelled))
                return false
            }
        }
        connection.call(
            AccessoryBus.name, path, AccessoryBus.session, "ShowPicker", [.array(of: "a{sv}", items), settings.wire],
            timeout: .seconds(min(seconds, Limits.pickerWait.upperBound * 20) + 60)
        ) { result in
            if case .failure(let error) = result { end(.failure(error)) }
        }
        loop.run()
        withExtendedLifetime((events, watch)) {}
        do {
            try outcome?.get()
        } catch let error as BusError where error.name.hasSuffix(".Invalidated") {
            // Only a daemon that ends takes a session away.
            throw BusError.disconnected("it went away")
        } catch let error as BusError where error.name.hasSuffix(".UserCancelled") {
            StandardOutput.errorLine("accessoryctl: the person cancelled")
            throw Ending.cancelled
        }
        return added
    }
}

extension Inventory.Accessory {
    /// As an app sees it: the address is that of the device.
    fileprivate var grantedJSON: [String: JSON] {
        var json = self.json
        json["apps"] = nil
        json["interface"] = nil
        json["problems"] = nil
        if self.address.isEmpty, let device = self.device.rawValue.split(separator: "/").last, device.hasPrefix("dev_") {
            json["address"] = JSON(String(device.dropFirst(4).map { $0 == "_" ? ":" : $0 }))
        }
        return json
    }
}
