// SPDX-License-Identifier: Apache-2.0
// Reads an app's manifest. A file with any problem gives no app; every problem has file, line and key.

public import AccessoryModel
internal import Glibc
internal import InternetAddresses
public import KeyFiles
internal import SystemFiles

/// Reads manifests (Docs/Manifest.md).
public enum ManifestReader {
    private static let application = "Application"
    private static let setup = "AccessorySetup"
    private static let schema: [String: Set<String>] = [
        application: [
            "Id", "Name", "SecurityLabel", "Flatpak", "Snap", "Unit", "Executable", "User", "Socket", "SocketUser", "SocketGroup",
            "SocketMode", "Remote", "RemoteAddresses",
        ],
        setup: [
            "Supports", "BluetoothServices", "BluetoothNames", "BluetoothCompanyIdentifiers", "Networks", "Extension", "Wake",
            "InfoPlist",
        ],
    ]

    /// The app that a file declares, or all problems of the file.
    public static func read(path: String) -> Result<AppManifest, ManifestProblems> {
        var files = RememberedFiles()
        return read(path: path, &files)
    }

    /// The problems of some files.
    public static func problems(in paths: [String]) -> [KeyFileProblem] {
        paths.flatMap { path -> [KeyFileProblem] in
            switch read(path: path) {
            case .success: []
            case .failure(let found): found.list
            }
        }
    }

    /// - Parameter files: for reading the file, and the Info.plist that it names.
    static func read(path: String, _ files: inout RememberedFiles) -> Result<AppManifest, ManifestProblems> {
        do throws(KeyFileProblem) {
            return try read(try KeyFile(path: path, &files), &files)
        } catch {
            return .failure(ManifestProblems(list: [error]))
        }
    }

    private static func read(
        _ file: KeyFile, _ files: inout RememberedFiles
    ) throws(KeyFileProblem) -> Result<AppManifest, ManifestProblems> {
        var problems = file.unknown(besides: schema)
        let report = { (group: String, key: String, reason: String) in problems.append(file.problem(group, key, reason)) }

        let idText = try file.string(application, "Id") ?? ""
        let id = AppID(idText)
        if id == nil { report(application, "Id", idText.isEmpty ? "is missing" : "\(idText): not an identifier") }
        let stem = file.path.split(separator: "/").last.map { $0.hasSuffix(".conf") ? String($0.dropLast(5)) : String($0) } ?? ""
        if id != nil, stem != idText { report(application, "Id", "\(idText): the file must be named \(idText).conf") }
        let name = try file.string(application, "Name") ?? ""
        if let problem = ShownName.problem(with: name) { report(application, "Name", name.isEmpty ? "is missing" : problem) }

        var manifest = AppManifest(id: id ?? AppID("invalid")!, name: name, source: file.path)
        var identities = manifest.identities
        identities.units = Set(try file.list(application, "Unit"))
        identities.securityLabels = Set(try file.list(application, "SecurityLabel"))
        identities.flatpaks = Set(try file.list(application, "Flatpak"))
        identities.snaps = Set(try file.list(application, "Snap"))
        let executables = try file.list(application, "Executable")
        identities.executables = Set(executables)
        identities.users = Set(try file.list(application, "User"))
        manifest.identities = identities
        // In the order of the file: the same file must give equal problems, or each reading would signal a change.
        for executable in executables where !executable.hasPrefix("/") {
            report(application, "Executable", "\(executable): not an absolute path")
        }
        let restricted = [identities.executables, identities.flatpaks, identities.snaps, identities.securityLabels]
        manifest.socket = try socket(file, try remote(file) { report(application, $0, $1) }) { report(application, $0, $1) }
        if restricted.allSatisfy(\.isEmpty), identities.units.isEmpty, !file.has(application, "Socket"),
            !file.has(application, "Remote")
        {
            report(
                application, "Unit",
                "is missing, and so are Socket, Remote, SecurityLabel, Flatpak, Snap and Executable: no process could match this app"
            )
        }
        if !identities.users.isEmpty, restricted.allSatisfy(\.isEmpty) {
            report(application, "User", "needs Executable, Flatpak, Snap or SecurityLabel")
        }

        for technology in try file.list(setup, "Supports") {
            if let technology = Technology(rawValue: technology) {
                manifest.supports.insert(technology)
            } else {
                report(setup, "Supports", "\(technology): neither Bluetooth nor WiFi")
            }
        }
        let plist = try file.string(setup, "InfoPlist")
        if manifest.supports.isEmpty, !file.has(setup, "Supports"), plist == nil { report(setup, "Supports", "is missing") }
        for text in try file.list(setup, "BluetoothServices") {
            if let uuid = BluetoothUUID(text) {
                manifest.services.insert(uuid)
            } else {
                report(setup, "BluetoothServices", "\(text): not a UUID")
            }
        }
        for text in try file.list(setup, "BluetoothCompanyIdentifiers") {
            if let company = CompanyIdentifier(hexadecimal: text) {
                manifest.companies.insert(company)
            } else {
                report(setup, "BluetoothCompanyIdentifiers", "\(text): not four hexadecimal digits")
            }
        }
        manifest.names = Set(try file.list(setup, "BluetoothNames"))
        if file.has(setup, "Networks") {
            manifest.networks = []
            for text in try file.list(setup, "Networks") {
                if let network = network(text) {
                    manifest.networks?.insert(network)
                } else {
                    report(
                        setup, "Networks",
                        "\(text): must be a name of 1 to 32 bytes, or a prefix of \(AppManifest.Network.shortestPrefix) to 32 bytes with an asterisk"
                    )
                }
            }
        }
        let hasDirectory = manifest.socket != nil
        manifest.discoveryExtension = try place(file, "Extension", hasDirectory) { report(setup, "Extension", $0) }
        manifest.wakeSocket = try place(file, "Wake", hasDirectory) { report(setup, "Wake", $0) }
        if let plist { InfoPlist.read(plist, into: &manifest, &files) { report(setup, "InfoPlist", "\(plist): \($0)") } }
        return problems.isEmpty ? .success(manifest) : .failure(ManifestProblems(list: problems))
    }
}

extension ManifestReader {
    /// The place of a socket; the parts of its path, and a unit, are checked when it is used. Without a directory of
    /// the app's own, the name of a socket unit is one.
    private static func place(
        _ file: KeyFile, _ key: String, _ hasDirectory: Bool, report: (String) -> Void
    ) throws(KeyFileProblem) -> AppManifest.SocketPlace? {
        guard let text = try file.string(setup, key) else { return nil }
        if !hasDirectory, SocketUnit.isName(text) { return .unit(text) }
        let isPath = text.hasPrefix("/")
        guard isPath || !text.utf8.contains(UInt8(ascii: "/")), (1...107).contains(text.utf8.count),
            !["bus", ".", ".."].contains(text)
        else {
            report("\(text): neither an absolute path of at most 107 bytes nor a file name, nor the name of a socket unit")
            return nil
        }
        if !isPath, !hasDirectory { report("\(text): a file name needs Socket=yes, and a socket unit's name ends in .socket") }
        return isPath ? .path(text) : .file(text)
    }

    /// A name, or a prefix of names, followed by an asterisk.
    private static func network(_ text: String) -> AppManifest.Network? {
        guard text.hasSuffix("*") else { return SSID(text).map { .name($0) } }
        let prefix = Array(text.utf8.dropLast())
        return (AppManifest.Network.shortestPrefix...SSID.length.upperBound).contains(prefix.count) ? .prefix(prefix) : nil
    }

    /// The user of the door, which serves apps elsewhere by their sockets.
    private static let doorUser = "accessory-door"

    /// The app on another machine that a manifest declares.
    private static func remote(_ file: KeyFile, report: (String, String) -> Void) throws(KeyFileProblem) -> RemoteApp? {
        let texts = try file.list(application, "RemoteAddresses")
        guard let keyFile = try file.string(application, "Remote") else {
            if file.has(application, "RemoteAddresses") { report("RemoteAddresses", "needs Remote") }
            return nil
        }
        if !keyFile.hasPrefix("/") { report("Remote", "\(keyFile): not an absolute path of a file with the app's key") }
        if file.has(application, "RemoteAddresses"), texts.isEmpty { report("RemoteAddresses", "is empty") }
        var remote = RemoteApp(keyFile: keyFile)
        for text in texts {
            if let range = AddressRange(text) {
                remote.addresses.append(range.description)
            } else {
                report("RemoteAddresses", "\(text): neither an address nor a range such as 192.0.2.0/24")
            }
        }
        return remote
    }

    /// The socket that a manifest declares; an app elsewhere has one for the door unless the manifest says otherwise.
    private static func socket(
        _ file: KeyFile, _ remote: RemoteApp?, report: (String, String) -> Void
    ) throws(KeyFileProblem) -> AppSocket? {
        let declared = try file.string(application, "Socket") ?? (remote == nil ? "no" : "yes")
        guard ["yes", "no"].contains(declared) else {
            report("Socket", "\(declared): neither yes nor no")
            return nil
        }
        var socket = AppSocket()
        socket.remote = remote
        if let user = try file.string(application, "SocketUser") {
            if let number = UInt32(user) ?? getpwnam(user).map({ $0.pointee.pw_uid }) {
                socket.user = number
            } else {
                report("SocketUser", "\(user): no such user")
            }
        }
        if remote != nil, !file.has(application, "SocketUser") {
            if let door = getpwnam(doorUser) {
                socket.user = door.pointee.pw_uid
            } else {
                report("Remote", "there is no user \(doorUser): install the package of that name, or set SocketUser")
            }
        }
        if remote != nil, declared == "no" { report("Socket", "no: an app with Remote has a socket for the door") }
        if let group = try file.string(application, "SocketGroup") {
            socket.group = UInt32(group) ?? getgrnam(group).map { $0.pointee.gr_gid }
            if socket.group == nil { report("SocketGroup", "\(group): no such group") }
        }
        if let mode = try file.string(application, "SocketMode") {
            if let number = UInt16(mode, radix: 8), number <= 0o777 {
                socket.mode = number
            } else {
                report("SocketMode", "\(mode): not an octal number from 0 to 777")
            }
        }
        for key in ["SocketUser", "SocketGroup", "SocketMode"] where declared == "no" && file.has(application, key) {
            report(key, "needs Socket=yes")
        }
        return declared == "yes" ? socket : nil
    }
}

extension KeyFile {
    /// - Throws: if the file cannot be read or is not a key file.
    convenience init(path: String, _ files: inout RememberedFiles) throws(KeyFileProblem) {
        try self.init(contents: String(decoding: try Self.contents(path, &files), as: UTF8.self), path: path)
    }

    /// The bytes of a file, for `init(contents:path:)`.
    ///
    /// - Throws: if it cannot be read.
    static func contents(_ path: String, _ files: inout RememberedFiles) throws(KeyFileProblem) -> [UInt8] {
        do throws(SystemFileError) {
            return try files.contents(of: path)
        } catch {
            throw KeyFileProblem(file: path, line: 0, key: "", reason: error.reason)
        }
    }
}

/// All problems of one file.
public struct ManifestProblems: Error, Hashable, Sendable {
    /// Never empty.
    public let list: [KeyFileProblem]
}
