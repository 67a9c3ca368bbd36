// SPDX-License-Identifier: Apache-2.0
// Links of one client, and its requests about attributes.

internal import AccessoryModel
internal import BlueZInterfaces
internal import BlueZObjects
internal import DBusKit
internal import ESPHomeAPI

extension ProxySession {
    /// A client's link to an accessory.
    struct Link {
        enum Phase {
            /// `Connect` is not answered.
            case connecting
            /// The link is up; the services do not have objects yet.
            case resolving
            /// Nil while they must be read anew.
            case connected(Attributes?)
            /// `Disconnect` is not answered.
            case disconnecting
        }

        let path: ObjectPath
        var phase = Phase.connecting
        /// Characteristics whose values the client gets; also before the answer, because values may precede it.
        var notifying: Set<ObjectPath> = []

        init(_ path: ObjectPath) { self.path = path }

        mutating func attributesChanged() {
            if case .connected = phase { phase = .connected(nil) }
        }

        /// The attributes; nil before the link is usable.
        mutating func attributes(_ tree: BlueZTree) -> Attributes? {
            guard case .connected(let known) = phase else { return nil }
            let attributes = known ?? Attributes(of: path, in: tree)
            phase = .connected(attributes)
            return attributes
        }

        /// The handle of a characteristic's value. In a path the declaration has the handle, which precedes it.
        func handle(of characteristic: ObjectPath) -> UInt32? { Attributes.valueHandle(characteristic) }
    }

    // MARK: Connecting

    mutating func connect(_ address: UInt64, _ tree: BlueZTree) -> [Effect] {
        switch links[address]?.phase {
        case .connected: return [.send(.connection(address: address, isConnected: true, mtu: mtu(address, tree), error: .none))]
        // The answer is on its way.
        case .connecting, .resolving: return []
        case .disconnecting: return refuse(address, .busy)
        case nil: break
        }
        guard let path = Self.device(address, tree) else { return refuse(address, .failedToEstablish) }
        guard links.count < gateway.maxLinks, !isBusy else { return refuse(address, .noResources) }
        links[address] = Link(path)
        let connect = call(Call(path: path, interface: Device1.interface, member: Device1.Member.connect), .connect(address))
        return [connect] + freeConnections
    }

    private func refuse(_ address: UInt64, _ error: GATTError) -> [Effect] {
        [.send(.connection(address: address, isConnected: false, mtu: 0, error: error))]
    }

    /// The object of an accessory: of several adapters', the one that hears it best.
    private static func device(_ address: UInt64, _ tree: BlueZTree) -> ObjectPath? {
        let objects = tree.devices.filter { tree.device($0)?.address?.value == address }
        return objects.sorted().max { (tree.device($0)?.rssi ?? -128) < (tree.device($1)?.rssi ?? -128) }
    }

    mutating func connected(_ address: UInt64, _ error: BusError?, _ tree: BlueZTree) -> [Effect] {
        guard let link = links[address], case .connecting = link.phase else { return [] }
        if let error { return end(address, GATTError(error)) }
        links[address]?.phase = .resolving
        return checkLink(address, tree)
    }

    /// Any device's state may have changed.
    mutating func checkLinks(_ tree: BlueZTree) -> [Effect] { links.keys.sorted().flatMap { checkLink($0, tree) } }

    /// The device's state may have changed.
    mutating func checkLink(_ address: UInt64, _ tree: BlueZTree) -> [Effect] {
        guard let link = links[address] else { return [] }
        guard let device = tree.device(link.path) else { return end(address, .terminatedByHost) }
        switch link.phase {
        case .connecting, .disconnecting: return []
        case .resolving:
            guard device.isConnected else { return end(address, .failedToEstablish) }
            guard device.areServicesResolved else { return [] }
            links[address]?.phase = .connected(nil)
            return [.send(.connection(address: address, isConnected: true, mtu: mtu(address, tree), error: .none))]
        case .connected: return device.isConnected ? [] : end(address, .terminatedByPeer)
        }
    }

    /// The smallest packet of LE without a characteristic that knows the link's.
    private func mtu(_ address: UInt64, _ tree: BlueZTree) -> Int { links[address].flatMap { tree.mtu(of: $0.path) } ?? 23 }

    mutating func disconnect(_ address: UInt64) -> [Effect] {
        guard let link = links[address] else { return refuse(address, .none) }
        if case .disconnecting = link.phase { return [] }
        links[address]?.phase = .disconnecting
        return [call(Call(path: link.path, interface: Device1.interface, member: Device1.Member.disconnect), .disconnect(address))]
    }

    mutating func disconnected(_ address: UInt64) -> [Effect] {
        guard case .disconnecting = links[address]?.phase else { return [] }
        return end(address, .none)
    }

    private mutating func end(_ address: UInt64, _ error: GATTError) -> [Effect] {
        links[address] = nil
        abandonCalls { $0.address == address }
        return refuse(address, error) + freeConnections
    }

    /// The report of free links, to a client that wants it.
    var freeConnections: [Effect] {
        guard isSubscribedToLinks else { return [] }
        let limit = gateway.maxLinks
        return [.send(.freeConnections(free: limit - links.count, limit: limit, allocated: links.keys.sorted()))]
    }

    // MARK: Attributes

    mutating func services(of address: UInt64, _ tree: BlueZTree) -> [Effect] {
        guard let attributes = links[address]?.attributes(tree) else { return failed(address, 0, .notConnected) }
        let messages = attributes.services.map { ServerMessage.services(address: address, [$0]) }
        // A hostile accessory's service with thousands of characteristics.
        guard messages.allSatisfy({ $0.body.count <= ServerMessage.maxBytes }) else { return failed(address, 0, .noResources) }
        return messages.map { .send($0) } + [.send(.servicesDone(address: address))]
    }

    func failed(_ address: UInt64, _ handle: UInt32, _ error: GATTError) -> [Effect] {
        [.send(.failed(address: address, handle: handle, error))]
    }

    /// The attribute of a request, or the reason why there is none.
    private mutating func target(_ address: UInt64, _ handle: UInt32, _ tree: BlueZTree) -> Result<Attributes.Target, GATTError> {
        guard let attributes = links[address]?.attributes(tree) else { return .failure(.notConnected) }
        guard let target = attributes.target(handle) else { return .failure(.invalidHandle) }
        return isBusy ? .failure(.busy) : .success(target)
    }

    mutating func read(_ address: UInt64, _ handle: UInt32, _ tree: BlueZTree) -> [Effect] {
        switch target(address, handle, tree) {
        case .failure(let error): return failed(address, handle, error)
        case .success(.characteristic(let path)):
            let call = Call(
                path: path, interface: GattCharacteristic1.interface, member: GattCharacteristic1.Member.readValue,
                arguments: [.vardict([:])])
            return [self.call(call, .read(address, handle))]
        case .success(.descriptor(let path)):
            let call = Call(
                path: path, interface: GattDescriptor1.interface, member: GattDescriptor1.Member.readValue,
                arguments: [.vardict([:])])
            return [self.call(call, .read(address, handle))]
        case .success(.configuration(of: let path)):
            let isOn = links[address]?.notifying.contains(path) == true
            return [.send(.read(address: address, handle: handle, [isOn ? 1 : 0, 0]))]
        }
    }

    mutating func write(
        _ address: UInt64, _ handle: UInt32, _ value: [UInt8], needsResponse: Bool, _ tree: BlueZTree
    ) -> [Effect] {
        switch target(address, handle, tree) {
        case .failure(let error): return failed(address, handle, error)
        case .success(.characteristic(let path)):
            let call = Call(
                path: path, interface: GattCharacteristic1.interface, member: GattCharacteristic1.Member.writeValue,
                arguments: [.bytes(value), .vardict(["type": .string(needsResponse ? "request" : "command")])])
            return [self.call(call, .write(address, handle))]
        case .success(.descriptor(let path)):
            let call = Call(
                path: path, interface: GattDescriptor1.interface, member: GattDescriptor1.Member.writeValue,
                arguments: [.bytes(value), .vardict([:])])
            return [self.call(call, .write(address, handle))]
        case .success(.configuration(of: let path)):
            return setNotifying(address, handle, path, (value.first ?? 0) & 3 != 0, isWrite: true)
        }
    }

    mutating func notify(_ address: UInt64, _ handle: UInt32, _ isEnabled: Bool, _ tree: BlueZTree) -> [Effect] {
        switch target(address, handle, tree) {
        case .failure(let error): return failed(address, handle, error)
        case .success(.characteristic(let path)): return setNotifying(address, handle, path, isEnabled, isWrite: false)
        case .success: return failed(address, handle, .invalidHandle)
        }
    }

    /// bluetoothd writes the configuration by itself, so that a client's own write finds it done.
    private mutating func setNotifying(
        _ address: UInt64, _ handle: UInt32, _ path: ObjectPath, _ isOn: Bool, isWrite: Bool
    ) -> [Effect] {
        let interface = GattCharacteristic1.interface
        if isOn == links[address]?.notifying.contains(path) {
            return notifyingSet(address, handle, isWrite: isWrite)
        }
        if isOn {
            links[address]?.notifying.insert(path)
            let start = Call(path: path, interface: interface, member: GattCharacteristic1.Member.startNotify)
            return [call(start, .startNotify(address, handle, path, isWrite: isWrite))]
        }
        links[address]?.notifying.remove(path)
        let stop = Call(path: path, interface: interface, member: GattCharacteristic1.Member.stopNotify)
        return [call(stop, .stopNotify(address, handle, isWrite: isWrite))]
    }
    /// The answer to a client that has turned notifications on or off, by writing their configuration or by a request.
    func notifyingSet(_ address: UInt64, _ handle: UInt32, isWrite: Bool) -> [Effect] {
        [.send(isWrite ? .wrote(address: address, handle: handle) : .notify(address: address, handle: handle))]
    }
}
