// SPDX-License-Identifier: Apache-2.0
// An app's declarations (the Linux form of the Info.plist keys) and its identities.

/// One app's manifest.
public struct AppManifest: Hashable, Sendable {
    /// `Id=`, which is the file's name too.
    public var id: AppID
    /// Shown to the person.
    public var name: String
    /// The file it came from.
    public var source: String
    /// Who may speak for it, besides clients of its socket.
    public var identities = Identities()
    /// `Socket=`: a socket of the app's own; nil without one.
    public var socket: AppSocket?

    /// `Extension=`: the socket of its discovery extension; nil without one.
    public var discoveryExtension: SocketPlace?
    /// `Wake=`: the socket that starts the app when an accessory that it observes appears; nil without one.
    public var wakeSocket: SocketPlace?

    /// `Supports=`: the radios that its descriptors may use; never empty in a manifest that was read.
    public var supports: Set<Technology> = []
    /// `BluetoothServices=`: the services that its descriptors may name.
    public var services: Set<BluetoothUUID> = []
    /// `BluetoothNames=`: the name substrings that its descriptors may have, compared to the letter.
    public var names: Set<String> = []
    /// `BluetoothCompanyIdentifiers=`: the companies that its descriptors may name.
    public var companies: Set<CompanyIdentifier> = []

    /// `Networks=`: the networks that its descriptors may name; nil without that key (`declares(networksOf:)`).
    public var networks: Set<Network>?

    /// The processes that may speak for an app; one match is enough.
    public struct Identities: Hashable, Sendable {
        /// `Unit=`: names of systemd system units, with their suffix.
        public var units: Set<String> = []
        /// Labels of the kernel's security modules, as the bus reports them.
        public var securityLabels: Set<String> = []
        /// `Flatpak=`: application identifiers. They need `users`.
        public var flatpaks: Set<String> = []
        /// `Snap=`: names of snaps.
        public var snaps: Set<String> = []
        /// `Executable=`: absolute paths.
        public var executables: Set<String> = []
        /// Restricts identities that a process can choose itself (see `AppMatching.Basis`) to these users (names or
        /// numbers). Empty means any user for `executables`, and none for the rest.
        public var users: Set<String> = []
    }

    /// The place of a socket on which a program of the app's listens.
    public enum SocketPlace: Hashable, Sendable, CustomStringConvertible {
        /// An absolute path.
        case path(String)
        /// The name of a file in the app's own directory.
        case file(String)
        /// The name of a socket unit of systemd's, which has the path.
        case unit(String)

        /// As in the manifest.
        public var description: String {
            switch self {
            case .path(let text), .file(let text), .unit(let text): text
            }
        }
    }

    /// One or more networks that an app declares.
    public enum Network: Hashable, Sendable, CustomStringConvertible {
        /// The one of this name.
        case name(SSID)
        /// All whose names begin so: `shortestPrefix` to 32 bytes.
        case prefix([UInt8])

        /// The least number of bytes of a prefix: with shorter ones an app could list all networks in range.
        public static let shortestPrefix = 3

        /// As the manifest has it.
        public var description: String {
            switch self {
            case .name(let name): name.description
            case .prefix(let prefix): String(decoding: prefix, as: UTF8.self) + "*"
            }
        }

        /// Whether descriptors with these names are among those declared here.
        func includes(ssid: [UInt8]?, prefix: [UInt8]?) -> Bool {
            switch self {
            case .name(let name): ssid == name.bytes
            case .prefix(let own): (ssid ?? prefix)?.starts(with: own) == true
            }
        }
    }

    /// Whether the networks of a descriptor are declared. Without `Networks=`, as for an Info.plist, which has no such
    /// key, every whole name is, and every prefix of at least `Network.shortestPrefix` bytes.
    public func declares(networksOf descriptor: DiscoveryDescriptor) -> Bool {
        guard let networks else { return descriptor.ssidPrefix.map { $0.count >= Network.shortestPrefix } ?? true }
        return networks.contains { $0.includes(ssid: descriptor.ssid, prefix: descriptor.ssidPrefix) }
    }

    /// A manifest without identities and declarations.
    ///
    /// - Parameter source: the path of its file.
    public init(id: AppID, name: String, source: String) {
        self.id = id
        self.name = name
        self.source = source
    }
}

/// `Remote=` and `RemoteAddresses=`: an app on another machine, which the door lets in by its key.
public struct RemoteApp: Hashable, Sendable {
    /// The file of the pre-shared key, an absolute path. The daemon does not read it.
    public var keyFile: String
    /// Addresses and ranges that the app may connect from; empty for anywhere.
    public var addresses: [String]

    public init(keyFile: String, addresses: [String] = []) {
        self.keyFile = keyFile
        self.addresses = addresses
    }
}

/// A socket that belongs to one app: every program that connects to it is that app, so the socket has permissions.
public struct AppSocket: Hashable, Sendable {
    /// `SocketUser=`: a user who may connect; root without it.
    public var user: UInt32 = 0
    /// `SocketGroup=`: a group whose members may.
    public var group: UInt32?
    /// `SocketMode=`: permission bits for that user, that group and others; connecting takes the write bit.
    public var mode: UInt16 = 0o660
    /// `Remote=`: how the app connects from another machine, by the door; nil for an app on this one.
    public var remote: RemoteApp?

    /// For root alone.
    public init() {}
}

/// A program on the bus, as the daemon sees it: resolved once per connection, from the kernel.
public struct Caller: Hashable, Sendable {
    /// The user that it runs as, effective.
    public var uid: UInt32
    /// Its groups, the primary one among them; empty when they are not known.
    public var groups: Set<UInt32>
    /// The process's number. It may be reused after the process; a pidfd detects that.
    public var pid: Int32
    /// The executable's path; nil when it could not be read.
    public var executable: String?
    /// The systemd unit, from the control group.
    public var unit: String?
    /// The app whose own socket it came by: it is that app, whatever else it is.
    public var socket: AppID?
    /// The container that it runs in, by its control group where root made that: the engine and the container's number
    /// or name.
    public var container: String?
    /// The label of the kernel's security module (AppArmor, SELinux); nil when nothing confines it.
    public var securityLabel: SecurityLabel?
    /// The identifier of the Flatpak that it runs in.
    public var flatpak: String?
    /// The snap that it runs in.
    public var snap = Snap()
    /// The part that the daemon may not read; nil when it has read all.
    public var unreadable: Unreadable?
    /// It is in a user, mount or pid namespace that is not the machine's, or that cannot be excluded: its uid is not
    /// that of a person at the machine.
    public var isContained = false

    /// The label of a process.
    public struct SecurityLabel: Hashable, Sendable {
        /// Without AppArmor's mode.
        public var text: String
        /// Only the process itself says so, of the label and of the snap by it: it may choose its label, as an
        /// unconfined process may under AppArmor.
        public var isChosen: Bool

        /// Nil without a text.
        public init?(_ text: String?, isChosen: Bool = false) {
            guard let text else { return nil }
            self.text = text
            self.isChosen = isChosen
        }
    }

    /// The snap of a process.
    public struct Snap: Hashable, Sendable {
        /// Nil for a process that runs in none.
        public var name: String?
        /// systemd says so: it runs in a system service of the snap's.
        public var isService = false
        /// Its control group has a snap's name, which any process may create: its executable identifies no other app.
        public var isInScope = false
    }

    /// A part of a process that the daemon may not read.
    public enum Unreadable: Hashable, Sendable {
        /// The whole process: executable and Flatpak are unknown.
        case process
        /// It runs in a Flatpak, or says so; in which is unknown.
        case flatpak
    }

    /// A caller of whom nothing more is known.
    public init(uid: UInt32, groups: Set<UInt32> = [], pid: Int32) {
        self.uid = uid
        self.groups = groups
        self.pid = pid
    }

    /// As an admin reads it in the audit trail.
    public var program: String {
        "\(container ?? flatpak ?? snap.name ?? unit ?? executable ?? "unknown program"), uid \(uid), pid \(pid)"
    }

    /// As a developer reads it in a refusal.
    public var summary: String {
        var parts = ["uid \(uid)", "executable \(executable ?? "unreadable")", "unit \(unit ?? "none")"]
        if let socket { parts.insert("socket of \(socket)", at: 0) }
        if let container { parts.append("container \(container)") }
        if let flatpak { parts.append("Flatpak \(flatpak)") }
        if unreadable == .flatpak { parts.append("Flatpak unreadable") }
        if let name = snap.name { parts.append("snap \(name)") }
        if let securityLabel { parts.append("security label \(securityLabel.text)") }
        if isContained { parts.append("in a container") }
        return parts.joined(separator: ", ")
    }
}
