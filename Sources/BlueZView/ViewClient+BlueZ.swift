// What a client says to org.bluez, on a connection of its own there: bluetoothd counts discoveries and notifications for each of its
// clients, and forgets them when one goes, so the app must be one. Calls and answers pass without being taken apart where they can.

internal import AccessoryModel
internal import CallerIdentity
internal import DBusKit
internal import Logging

extension ViewClient {
    func takeBlueZCall(_ message: Message) {
        if !isEngaged {
            // What it may reach is known before anything is followed for it.
            refresh()
            isEngaged = true
            view.followLinks()
        }
        guard callsWaiting < view.limits.callsInFlight else {
            return answer(message, .limitsExceeded("\(view.limits.callsInFlight) calls wait for org.bluez"), from: Bus.name)
        }
        callsWaiting += 1
        view.feed.whenReady { [weak self] in
            self?.callsWaiting -= 1
            self?.serveBlueZCall(message)
        }
    }

    private var service: String { view.feed.alias ?? Scope.service }

    private func serveBlueZCall(_ message: Message) {
        guard view.feed.alias != nil else {
            return answer(
                message, .standard("ServiceUnknown", "The name org.bluez was not provided by any .service files"), from: Bus.name)
        }
        if !isOpened || identity?.goesByExecutable == true && (try? pinned.check()) == nil { refresh() }
        if let exile { return answer(message, .accessDenied("\(exile)"), from: service) }
        guard let path = message.path, let member = message.member else { return }
        let verdict = scope.verdict(path: path, interface: message.interface, member: member)
        switch verdict {
        case .refused(let error): refuse(message, error)
        case .managedObjects: managedObjects(message)
        case .introspection: reply(message, [.string(ObjectTree.introspection(of: path, scope))], from: service)
        case .adapterProperty: adapterProperty(message)
        case .discovery: discovery(message, member)
        case .connect(let device): connect(message, device)
        case .disconnect(let device): disconnect(message, device)
        case .deviceProperty(let device): deviceProperty(message, path, device)
        case .passed(let device): pass(message, device)
        case .attribute(let device), .acquisition(let device):
            guard let app, view.links.holds(device, app) else { return refuse(message, .notConnected) }
            use(device, message.member ?? "")
            pass(message, device) { [weak self] reply throws(BusError) in
                guard let self else { return .later }
                return try self.attributeAnswered(reply, message, path, member)
            }
        }
    }

    private func refuse(_ message: Message, _ error: BusError) {
        view.log.debug(
            "call refused",
            metadata: [
                "client": "\(name)", "call": "\(message.member ?? "")", "path": "\(message.path ?? "/")", "error": "\(error.name)",
            ])
        answer(message, error, from: service)
    }

    private func use(_ device: ObjectPath, _ what: String) {
        guard let accessory = scope.devices[device], let app, used.insert(accessory).inserted else { return }
        view.authority.used(accessory, by: app, pinned, as: what)
    }

    // MARK: Passing on

    /// What becomes of an answer.
    enum Answer {
        case send(Message)
        /// It comes by other ways.
        case later
    }

    /// Passes a call on and its answer back.
    ///
    /// - Parameters:
    ///   - other: what is said in the call's place.
    ///   - adapting: looks at the answer first; what it returns is the answer.
    /// - Returns: false when it was refused at once.
    @discardableResult
    func pass(
        _ message: Message, _ device: ObjectPath?, as other: Message? = nil,
        adapting: ((Message) throws(BusError) -> Answer)? = nil
    ) -> Bool {
        guard let upstream, let copy = other ?? message.copy() else {
            refuse(message, .notReady)
            return false
        }
        guard calls.count < view.limits.callsInFlight else {
            refuse(message, .limitsExceeded("\(view.limits.callsInFlight) calls are not answered yet"))
            return false
        }
        // By its name: an answer can only come from its owner, and libdbus knows answers by their serial.
        copy.setDestination(Scope.service)
        // The app may not care for the answer; whether it worked matters here, and a call without one would count for ever.
        copy.expectReply()
        callsMade += 1
        let number = callsMade
        let serial = upstream.forward(copy) { [weak self] answer in
            guard let self, let call = self.calls.removeValue(forKey: number) else { return }
            if call.connects, let device = call.device, answer?.kind != .reply {
                self.view.links.handle(.connectAnswered(device, client: self.name))
            }
            do throws(BusError) {
                guard let answer else { throw .standard("NoReply", "org.bluez has gone") }
                switch try answer.kind == .error ? .send(answer) : adapting?(answer) ?? .send(answer) {
                case .send(let answer):
                    guard message.wantsReply, let copy = answer.copy(answering: message) else { return }
                    self.send(copy, from: self.service)
                case .later: break
                }
            } catch {
                self.answer(message, error, from: self.service)
            }
        }
        calls[number] = CallInFlight(message: message, device: device, serial: serial)
        return true
    }

    private func attributeAnswered(
        _ reply: Message, _ call: Message, _ path: ObjectPath, _ member: String
    ) throws(BusError) -> Answer {
        switch member {
        case "StartNotify": notifying.insert(path)
        case "StopNotify": notifying.remove(path)
        case "AcquireWrite", "AcquireNotify": return try relayed(reply, call, path)
        default: break
        }
        return .send(reply)
    }

    /// Keeps the descriptor, and gives the app one that can be taken away.
    private func relayed(_ reply: Message, _ call: Message, _ path: ObjectPath) throws(BusError) -> Answer {
        guard let arguments = try? reply.arguments(), arguments.count == 2, let descriptor = arguments[0].fileDescriptorValue,
            let mtu = arguments[1].integerValue.flatMap({ UInt16(exactly: $0) })
        else { throw .failed("org.bluez did not answer with a descriptor") }
        guard relays.count < view.limits.relays else {
            throw .limitsExceeded("a connection may hold \(view.limits.relays) descriptors")
        }
        guard let (relay, end) = DescriptorRelay.make(for: descriptor, loop: peer.loop) else {
            throw .bluez("NotSupported", "this kind of descriptor cannot be relayed")
        }
        relay.onEnd = { [weak self, weak relay] in self?.relays.removeAll { $0.relay === relay } }
        relays.append(Relay(characteristic: path, relay: relay))
        return .send(try call.reply([.fileDescriptor(end), .uint16(mtu)]))
    }

    // MARK: Links

    /// An app that connects holds the link from then on, whoever else does.
    private func connect(_ message: Message, _ device: ObjectPath) {
        guard let app else { return }
        use(device, "Connect")
        let me = LinkShares.Client(name: name, app: app)
        guard view.links.handle(.connectRequested(device, me)) == .forward else { return reply(message, [], from: service) }
        let isForwarded = pass(message, device) { [weak self] answer in
            guard let self else { return .later }
            self.view.links.handle(.connectAnswered(device, client: self.name))
            // Whether it is up is asked on the connection that is told of changes: nothing older can come after the answer.
            self.view.feed.readLink(device) { [weak self] in
                guard let self else { return }
                let isGranted = self.scope.devices[device] != nil && self.app == app
                switch self.view.links.handle(.connectConfirmed(device, me, isGranted: isGranted)) {
                case .held:
                    self.view.followLinks()
                    guard let copy = answer.copy(answering: message), message.wantsReply else { return }
                    self.send(copy, from: self.service)
                case .broken: self.refuse(message, .bluez("Failed", "the link broke at once"))
                default: self.refuse(message, .unknownObject(device))
                }
            }
            return .later
        }
        if !isForwarded { view.links.handle(.connectAnswered(device, client: name)) }
    }

    /// An app that disconnects gives its share of the link back; the last one ends it.
    private func disconnect(_ message: Message, _ device: ObjectPath) {
        guard let app else { return }
        switch view.links.handle(.disconnectRequested(device, app)) {
        case .released: reply(message, [], from: service)
        case .notConnected: refuse(message, .bluez("NotConnected", "Not Connected"))
        default: pass(message, device)
        }
    }

    /// What the app sees of a link: it is up when it is, and the app holds it.
    func link(_ device: ObjectPath) -> LinkShares.State { view.links.state(of: device, seenBy: app) }

    /// Tells the client what has changed of a link, and takes away what only a link gives.
    func linkChanged(_ device: ObjectPath) {
        guard isEngaged, scope.devices[device] != nil else { return }
        let old = shownLinks[device] ?? LinkShares.State()
        let new = link(device)
        guard new != old else { return }
        shownLinks[device] = new
        if !new.isConnected {
            letGo(device)
        }
        var changes: [String: DBusValue] = [:]
        if new.isConnected != old.isConnected { changes["Connected"] = .boolean(new.isConnected) }
        if new.areServicesResolved != old.areServicesResolved { changes["ServicesResolved"] = .boolean(new.areServicesResolved) }
        propertiesChanged(device, Scope.deviceInterface, changes)
    }

    /// Ends notifications and descriptors of a device.
    private func letGo(_ device: ObjectPath) {
        for relay in relays where relay.characteristic.isBelow(device) { relay.relay.close() }
        relays.removeAll { $0.characteristic.isBelow(device) }
        for path in notifying.sorted() where path.isBelow(device) {
            notifying.remove(path)
            upstream?.call(Scope.service, path, Scope.characteristicInterface, "StopNotify") { _ in }
        }
    }

    // MARK: Properties

    private func deviceProperty(_ message: Message, _ path: ObjectPath, _ device: ObjectPath) {
        guard let arguments = try? message.arguments(), let interface = arguments.first?.stringValue else {
            return refuse(message, .invalidArguments("\(message.member ?? "") takes an interface, not (\(message.signature))"))
        }
        guard Scope.shown.contains(interface) else { return refuse(message, .unknownInterface(interface)) }
        guard interface == Scope.deviceInterface else {
            pass(message, device)
            return
        }
        let link = link(device)
        if message.member == "Get" {
            switch arguments.dropFirst().first?.stringValue {
            case "Connected": return reply(message, [.variant(.boolean(link.isConnected))], from: service)
            case "ServicesResolved": return reply(message, [.variant(.boolean(link.areServicesResolved))], from: service)
            default:
                pass(message, device)
                return
            }
        }
        pass(message, device) { [weak self] answer throws(BusError) in
            guard let self, let properties = try answer.arguments().first?.vardictValue else { return .send(answer) }
            return .send(try message.reply([.vardict(self.shownDevice(properties, device))]))
        }
    }

    /// A device's properties with this app's view of the link.
    func shownDevice(_ properties: [String: DBusValue], _ device: ObjectPath) -> [String: DBusValue] {
        var shown = properties
        let link = link(device)
        if shown["Connected"] != nil { shown["Connected"] = .boolean(link.isConnected) }
        if shown["ServicesResolved"] != nil { shown["ServicesResolved"] = .boolean(link.areServicesResolved) }
        return shown
    }

    private func adapterProperty(_ message: Message) {
        guard let arguments = try? message.arguments(), let interface = arguments.first?.stringValue else {
            return refuse(message, .invalidArguments("\(message.member ?? "") takes an interface, not (\(message.signature))"))
        }
        guard interface == Scope.adapterInterface else { return refuse(message, .unknownInterface(interface)) }
        let properties = adapterProperties
        guard message.member == "Get" else { return reply(message, [.vardict(properties)], from: service) }
        let key = arguments.dropFirst().first?.stringValue ?? ""
        guard let value = properties[key] else { return refuse(message, .invalidArguments("No such property '\(key)'")) }
        reply(message, [.variant(value)], from: service)
    }

    /// The adapter as the client sees it: without an accessory it has no power and no address; whether it searches is the client's own.
    var adapterProperties: [String: DBusValue] {
        guard let adapter = scope.adapter else { return [:] }
        guard !scope.isEmpty, var properties = view.feed.adapters[adapter] else {
            return [
                "Address": .string("00:00:00:00:00:00"), "AddressType": .string("public"), "Name": .string("BlueZ"),
                "Alias": .string("BlueZ"), "Class": .uint32(0), "Powered": .boolean(false), "Discoverable": .boolean(false),
                "DiscoverableTimeout": .uint32(0), "Pairable": .boolean(false), "PairableTimeout": .uint32(0),
                "Discovering": .boolean(false), "UUIDs": .strings([]), "Roles": .strings(["central"]),
            ]
        }
        properties["Discovering"] = .boolean(isDiscovering)
        return properties
    }

    // MARK: Discovery

    private func discovery(_ message: Message, _ member: String) {
        guard !scope.isEmpty, adapterProperties["Powered"]?.booleanValue == true else { return refuse(message, .notReady) }
        if member == "SetDiscoveryFilter" { return setFilter(message) }
        guard member == "StartDiscovery", let app else { return passDiscovery(message, member) }
        let inputs = Set(scope.devices.filter { view.authority.isInput($0.value) }.keys)
        // A short search must not be over before what hides the devices is down.
        view.links.handle(.discoveryRequested(Array(scope.devices.keys), app, inputs: inputs)) { [weak self] in
            self?.passDiscovery(message, member)
        }
    }

    private func setFilter(_ message: Message) {
        do throws(BusError) {
            guard message.signature == "a{sv}" else {
                throw .invalidArguments("SetDiscoveryFilter takes (a{sv}), not (\(message.signature))")
            }
            guard let path = message.path else { return }
            let filter = try DiscoveryFilter(try message.arguments().first)
            let call = try Message.call(
                to: Scope.service, path: path, interface: Scope.adapterInterface, member: "SetDiscoveryFilter",
                [.vardict(filter.values)])
            pass(message, nil, as: call)
        } catch {
            refuse(message, error)
        }
    }

    private func passDiscovery(_ message: Message, _ member: String) {
        pass(message, nil) { [weak self] answer in
            if member == "StartDiscovery" || member == "StopDiscovery" {
                self?.isDiscovering = member == "StartDiscovery"
                self?.tellAdapter()
            }
            return .send(answer)
        }
    }

    /// Tells what has changed of the adapter in the client's eyes.
    func tellAdapter() {
        let old = shownAdapter
        let new = adapterProperties
        shownAdapter = new
        guard let adapter = scope.adapter, !old.isEmpty else { return }
        propertiesChanged(adapter, Scope.adapterInterface, new.filter { old[$0.key] != $0.value })
    }

    // MARK: Everything at once

    private func managedObjects(_ message: Message) {
        shownAdapter = adapterProperties
        guard !scope.isEmpty else { return reply(message, [ObjectTree.value(ownObjects)], from: service) }
        pass(message, nil) { [weak self] answer throws(BusError) in
            guard let self else { return .later }
            var objects = self.ownObjects
            for (path, interfaces) in try self.shownObjects(answer) { objects[path] = interfaces }
            return .send(try message.reply([ObjectTree.value(objects)]))
        }
    }

    /// What is answered from here: the adapter.
    private var ownObjects: [ObjectPath: [String: DBusValue]] {
        guard let adapter = scope.adapter else { return [:] }
        return [
            adapter: [
                Scope.adapterInterface: .vardict(adapterProperties), Bus.properties: .vardict([:]),
                Bus.introspectable: .vardict([:]),
            ]
        ]
    }

    /// The client's part of what `GetManagedObjects` answered.
    func shownObjects(_ answer: Message) throws(BusError) -> [ObjectPath: [String: DBusValue]] {
        var objects: [ObjectPath: [String: DBusValue]] = [:]
        for entry in try answer.arguments(limits: .generous).first?.entries ?? [] {
            guard let path = entry.key.objectPathValue else { continue }
            let shown = shownInterfaces(path, entry.value.dictionary)
            if !shown.isEmpty { objects[path] = shown }
        }
        return objects
    }

    private func shownInterfaces(_ path: ObjectPath, _ interfaces: [String: DBusValue]) -> [String: DBusValue] {
        guard let device = scope.device(of: path) else { return [:] }
        var shown = interfaces.filter { Scope.shown.contains($0.key) }
        if let properties = shown[Scope.deviceInterface]?.vardictValue {
            shown[Scope.deviceInterface] = .vardict(shownDevice(properties, device))
        }
        return shown
    }

    // MARK: What is told

    func objectsAdded(_ path: ObjectPath, _ interfaces: [String: DBusValue]) {
        guard isEngaged, scope.device(of: path) != nil else { return }
        announce(path, shownInterfaces(path, interfaces))
    }

    func announce(_ path: ObjectPath, _ interfaces: [String: DBusValue]) {
        guard !interfaces.isEmpty else { return }
        emit("/", Bus.objectManager, "InterfacesAdded", [.objectPath(path), ObjectTree.value(interfaces)])
    }

    func objectsRemoved(_ path: ObjectPath, _ interfaces: [String]) {
        guard isEngaged, scope.device(of: path) != nil else { return }
        let shown = interfaces.filter { Scope.shown.contains($0) }
        if !shown.isEmpty { emit("/", Bus.objectManager, "InterfacesRemoved", [.objectPath(path), .strings(shown)]) }
    }

    private func propertiesChanged(_ path: ObjectPath, _ interface: String, _ changes: [String: DBusValue]) {
        guard !changes.isEmpty else { return }
        emit(path, Bus.properties, "PropertiesChanged", [.string(interface), .vardict(changes), .strings([])])
    }

    private func emit(_ path: ObjectPath, _ interface: String, _ member: String, _ arguments: [DBusValue]) {
        guard let message = try? Message.signal(path: path, interface: interface, member: member, arguments) else { return }
        broadcast(message, from: [Scope.service, service], as: service)
    }

    /// A property of a device's has changed, or of what is below it.
    private func heard(_ message: Message, _ device: ObjectPath) {
        guard let interface = message.firstText, Scope.shown.contains(interface) else { return }
        if interface == Scope.deviceInterface {
            guard let arguments = try? message.arguments(), arguments.count == 3, var changes = arguments[1].vardictValue else {
                return
            }
            // The feed tells of those, as far as they are the app's.
            changes["Connected"] = nil
            changes["ServicesResolved"] = nil
            return propertiesChanged(device, interface, changes)
        }
        guard let app, view.links.holds(device, app), let copy = message.copy() else { return }
        broadcast(copy, from: [Scope.service, service], as: service)
    }

    // MARK: The edge moves

    /// The service has come or gone.
    func serviceChanged() {
        let new = view.feed.alias
        guard new != knownService else { return refresh() }
        let old = knownService
        knownService = new
        fail(calls: { _ in true }, .standard("NoReply", "org.bluez has gone"))
        closeUpstream()
        shownLinks = [:]
        shownAdapter = [:]
        ownerChanged(Scope.service, from: old ?? "", to: new ?? "")
        refresh()
    }

    /// Asks what is granted now, and moves the edge: what is no longer granted is cut before this returns.
    func refresh() {
        do throws(IdentityFailure) {
            if exile == nil { identity = try view.authority.app(of: pinned) }
        } catch {
            exile = error
            view.authority.refused(pinned, why: "the view: \(error)")
            view.log.warning("client of the view refused", metadata: ["client": "\(name)", "reason": "\(error)"])
            identity = nil
        }
        let old = scope
        scope = Scope(adapter: view.authority.adapter, granted: app.map { view.authority.devices(of: $0) } ?? [])
        guard isEngaged else { return }
        let isFirst = !isOpened
        isOpened = view.feed.alias != nil
        if scope != old {
            let lost = old.devices.keys.filter { scope.devices[$0] == nil }.sorted()
            for device in lost { revoke(device) }
            if scope.isEmpty { closeUpstream() }
        }
        openUpstream()
        if scope != old {
            let gained = scope.devices.keys.filter { old.devices[$0] == nil }
            if !gained.isEmpty, !isFirst { announceGained(Set(gained)) }
        }
        if adapterLostPower { isDiscovering = false }
        tellAdapter()
    }

    private var adapterLostPower: Bool {
        scope.isEmpty || scope.adapter.flatMap { view.feed.adapters[$0]?["Powered"]?.booleanValue } == false
    }

    private func announceGained(_ devices: Set<ObjectPath>) {
        upstream?.call(Scope.service, "/", Bus.objectManager, "GetManagedObjects", limits: .generous) { [weak self] result in
            guard let self else { return }
            for entry in (try? result.get())?.first?.entries ?? [] {
                guard let path = entry.key.objectPathValue, let device = self.scope.device(of: path), devices.contains(device)
                else { continue }
                self.announce(path, self.shownInterfaces(path, entry.value.dictionary))
            }
        }
    }

    /// Cuts a device off: calls, notifications, descriptors, the link, and then the objects.
    private func revoke(_ device: ObjectPath) {
        fail(calls: { $0.device == device }, .unknownObject(device))
        view.links.handle(.clientCutOff(device, client: name))
        letGo(device)
        subscriptions.removeValue(forKey: device)?.cancel()
        // In the order in which a device that is removed goes.
        if shownLinks.removeValue(forKey: device)?.isConnected == true {
            propertiesChanged(
                device, Scope.deviceInterface, ["Connected": .boolean(false), "ServicesResolved": .boolean(false)])
        }
        let gone = view.feed.objects.filter { $0.key == device || $0.key.isBelow(device) }
        for (path, interfaces) in gone.sorted(by: { $1.key < $0.key }) {
            emit("/", Bus.objectManager, "InterfacesRemoved", [.objectPath(path), .strings(interfaces.sorted())])
        }
    }

    private func fail(calls which: (CallInFlight) -> Bool, _ error: BusError) {
        for (number, call) in calls where which(call) {
            calls[number] = nil
            upstream?.forget(call.serial)
            // bluetoothd would go on connecting, for nobody.
            if let device = call.device, call.connects {
                view.links.handle(.connectAbandoned(device, client: name))
            }
            answer(call.message, error, from: service)
        }
    }

    private func openUpstream() {
        guard !scope.isEmpty, view.feed.alias != nil else { return }
        if upstream == nil {
            do throws(BusError) {
                let connection = try Connection(view.bus, loop: peer.loop)
                connection.onDisconnect = { [weak self] in self?.closeUpstream() }
                upstream = connection
            } catch {
                return view.log.error("no connection for a client of the view", metadata: ["reason": "\(error)"])
            }
        }
        guard let upstream, let owner = view.feed.owner else { return }
        for device in scope.devices.keys where subscriptions[device] == nil {
            subscriptions[device] = upstream.subscribe(
                sender: owner, below: device, interface: Bus.properties, member: "PropertiesChanged"
            ) { [weak self] in self?.heard($0, device) }
        }
    }

    func closeUpstream() {
        fail(calls: { _ in true }, .notReady)
        for subscription in subscriptions.values { subscription.cancel() }
        subscriptions = [:]
        notifying = []
        isDiscovering = false
        upstream = nil
    }
}
