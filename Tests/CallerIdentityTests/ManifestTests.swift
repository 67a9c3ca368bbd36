// SPDX-License-Identifier: Apache-2.0
// Manifests: reading, problems, and matching with callers.

import AccessoryModel
@testable import AdminFiles
@testable import CallerIdentity
import DBusKit
import Foundation
import KeyFiles
import Logging
import TestSupport
import Testing

private let good = """
    [Application]
    Id=com.example.dice
    Name=Dice
    Unit=dice.service
    Executable=/usr/bin/dice;/opt/dice
    User=root

    [AccessorySetup]
    Supports=Bluetooth;WiFi;
    BluetoothServices=E56A082E-C49B-47CA-A2AB-389127B8ABE3;180F;
    BluetoothNames=Dice;
    BluetoothCompanyIdentifiers=FFFF;
    """

@Suite(.serialized) struct ManifestTests {
    private let directory: TemporaryDirectory
    private let log = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    init() throws {
        directory = try TemporaryDirectory()
    }

    private func problems(_ text: String, name: String = "com.example.dice.conf") throws -> [String] {
        let path = try directory.write(name, text)
        switch ManifestReader.read(path: path) {
        case .success: return []
        case .failure(let problems): return problems.list.map { $0.description.replacing(directory.path + "/", with: "") }
        }
    }

    @Test func aGoodManifestIsRead() throws {
        let path = try directory.write("com.example.dice.conf", good)
        let manifest = try ManifestReader.read(path: path).get()
        #expect(
            manifest.name == "Dice" && manifest.identities.units == ["dice.service"]
                && manifest.identities.executables == ["/usr/bin/dice", "/opt/dice"])
        #expect(manifest.services == [BluetoothUUID("180F")!, BluetoothUUID("E56A082E-C49B-47CA-A2AB-389127B8ABE3")!])
        #expect(
            manifest.companies == [CompanyIdentifier(0xFFFF)] && manifest.names == ["Dice"]
                && manifest.supports == [.bluetooth, .wifi])
    }

    struct Mistake: Sendable {
        let from: String
        let to: String
        let says: String
    }

    @Test(arguments: [
        Mistake(from: "Name=Dice", to: "Nmae=Dice", says: "com.example.dice.conf:3: Nmae: unknown key"),
        Mistake(from: "Name=Dice", to: "", says: "Name: is missing"),
        Mistake(
            from: "Name=Dice", to: "Name=Di\u{202E}ce",
            says: "Name: has characters that are invisible or change the direction of text"),
        Mistake(
            from: "Name=Dice", to: "Name=\(String(repeating: "e", count: 257))", says: "Name: longer than 256 bytes"),
        Mistake(
            from: "Id=com.example.dice", to: "Id=com example", says: "com.example.dice.conf:2: Id: com example: not an identifier"),
        Mistake(from: "Id=com.example.dice", to: "Id=com.example.other", says: "must be named com.example.other.conf"),
        Mistake(from: "180F", to: "18", says: "com.example.dice.conf:10: BluetoothServices: 18: not a UUID"),
        Mistake(from: "FFFF", to: "XYZ", says: "com.example.dice.conf:12: BluetoothCompanyIdentifiers: XYZ"),
        Mistake(from: "WiFi", to: "Zigbee", says: "com.example.dice.conf:9: Supports: Zigbee"),
        Mistake(
            from: "[AccessorySetup]", to: "[AccessorySetupp]", says: "com.example.dice.conf:8: [AccessorySetupp]: unknown section"),
        Mistake(from: "/usr/bin/dice", to: "dice", says: "com.example.dice.conf:5: Executable: dice: not an absolute path"),
        Mistake(from: "Name=Dice", to: "just words", says: "com.example.dice.conf:3"),
    ])
    func mistakesAreNamed(_ mistake: Mistake) throws {
        let found = try problems(good.replacingOccurrences(of: mistake.from, with: mistake.to))
        #expect(found.contains { $0.contains(mistake.says) }, "\(found)")
    }

    // MARK: Apps elsewhere

    /// A manifest of an app elsewhere alone; `SocketUser=` takes the place of the door's package.
    private static let elsewhere = """
        [Application]
        Id=com.example.dice
        Name=Dice
        Remote=/etc/accessory-setup/keys/dice.key
        SocketUser=nobody

        [AccessorySetup]
        Supports=Bluetooth;
        BluetoothServices=180F;
        """

    @Test func anAppElsewhereHasASocketForTheDoor() throws {
        let path = try directory.write(
            "com.example.dice.conf",
            Self.elsewhere.replacingOccurrences(
                of: "SocketUser", with: "RemoteAddresses=192.0.2.0/24;2001:DB8:0::/48;192.0.2.7;::ffff:198.51.100.1;\nSocketUser"))
        let socket = try #require(try ManifestReader.read(path: path).get().socket)
        #expect(
            socket.remote
                == RemoteApp(
                    keyFile: "/etc/accessory-setup/keys/dice.key",
                    addresses: ["192.0.2.0/24", "2001:db8::/48", "192.0.2.7/32", "198.51.100.1/32"]))
        #expect(socket.user == getpwnam("nobody").pointee.pw_uid)
    }

    /// Beside programs of this machine.
    @Test func anAppHereAndElsewhere() throws {
        let path = try directory.write(
            "com.example.dice.conf",
            good.replacingOccurrences(of: "User=root", with: "User=root\nRemote=/k\nSocket=yes\nSocketUser=nobody"))
        let manifest = try ManifestReader.read(path: path).get()
        #expect(manifest.socket?.remote == RemoteApp(keyFile: "/k") && manifest.identities.executables.count == 2)
        let local = try ManifestReader.read(path: try directory.write("com.example.dice.conf", good)).get()
        #expect(local.socket == nil)
    }

    @Test(arguments: [
        ("Remote=keys/dice.key", "4: Remote: keys/dice.key: not an absolute path of a file with the app's key"),
        ("Remote=", "4: Remote: : not an absolute path of a file with the app's key"),
        ("Remote=/k\nRemoteAddresses=", "5: RemoteAddresses: is empty"),
        (
            "Remote=/k\nRemoteAddresses=192.0.2.0/24;192.0.2.1/24;",
            "5: RemoteAddresses: 192.0.2.1/24: neither an address nor a range such as 192.0.2.0/24"
        ),
        ("Remote=/k\nRemoteAddresses=gateway;", "5: RemoteAddresses: gateway: neither an address nor a range"),
        ("Remote=/k\nRemoteAddresses=192.0.2.0/33;", "5: RemoteAddresses: 192.0.2.0/33: neither an address nor a range"),
        (
            "Remote=/k\nRemoteAddresses=::ffff:192.0.2.0/24;",
            "5: RemoteAddresses: ::ffff:192.0.2.0/24: neither an address nor a range"
        ),
        ("RemoteAddresses=192.0.2.0/24;", "4: RemoteAddresses: needs Remote"),
        ("Remote=/k\nSocket=no", "5: Socket: no: an app with Remote has a socket for the door"),
        ("Remote=/k\nSocketMode=888", "5: SocketMode: 888: not an octal number"),
        ("Remot=/k", "4: Remot: unknown key"),
    ])
    func mistakesAboutAppsElsewhere(_ lines: String, _ says: String) throws {
        let found = try problems(
            Self.elsewhere.replacingOccurrences(of: "Remote=/etc/accessory-setup/keys/dice.key", with: lines))
        #expect(found.contains { $0.hasPrefix("com.example.dice.conf:" + says) }, "\(found)")
    }

    /// Only where the package is missing, as on a machine that builds this.
    @Test func theDoorsUserIsNeeded() throws {
        let text = Self.elsewhere.replacingOccurrences(of: "SocketUser=nobody\n", with: "")
        let says =
            "com.example.dice.conf:4: Remote: there is no user accessory-door: install the package of that name, or set SocketUser"
        #expect(try problems(text) == (getpwnam("accessory-door") == nil ? [says] : []))
    }

    @Test func noProcessMatches() throws {
        let text = good.split(separator: "\n").filter { !$0.hasPrefix("Unit") && !$0.hasPrefix("Exec") && !$0.hasPrefix("User") }
        #expect(try problems(text.joined(separator: "\n")).contains { $0.contains("no process could match") })
    }

    /// Problems in another order are not signalled as new ones.
    @Test func problemsStandInTheOrderOfTheFile() throws {
        let names = (1...20).map { "relative\($0)" }
        let text = good + "\n[Application]\nExecutable=" + names.joined(separator: ";") + "\n"
        #expect(try problems(text).compactMap { line in names.first { line.contains("\($0):") } } == names)
    }

    @Test func theAdminsFileOverridesAndABadOneDisablesOnlyItself() throws {
        try directory.write("vendor/com.example.dice.conf", good)
        try directory.write("vendor/com.example.bad.conf", "[Application]\nId=com.example.bad\n")
        try directory.write(
            "admin/com.example.dice.conf", good.replacingOccurrences(of: "Name=Dice", with: "Name=Dice of the admin"))
        let store = ManifestStore(directories: [directory.path + "/vendor", directory.path + "/admin"], loop: MainLoop(), log: log)
        #expect(store.apps[AppID("com.example.dice")!]?.name == "Dice of the admin")
        #expect(store.apps.count == 1 && store.problems.keys.map { ($0 as NSString).lastPathComponent } == ["com.example.bad.conf"])
    }

    @Test func changesAreNoticed() throws {
        let loop = MainLoop()
        let store = ManifestStore(directories: [directory.path + "/apps"], loop: loop, log: log)
        #expect(store.apps.isEmpty)
        // Not even the directory was there.
        try directory.write("apps/com.example.dice.conf", good)
        #expect(loop.run(until: { store.apps.count == 1 }, timeout: .hang))
        try directory.write("apps/com.example.dice.conf", good.replacingOccurrences(of: "Name=Dice", with: "Name=Renamed"))
        #expect(loop.run(until: { store.apps.values.first?.name == "Renamed" }, timeout: .hang))
        try FileManager.default.removeItem(atPath: directory.path + "/apps/com.example.dice.conf")
        #expect(loop.run(until: { store.apps.isEmpty }, timeout: .hang))
    }

    private typealias Label = Caller.SecurityLabel

    private func caller(uid: UInt32 = 0, executable: String?, unit: String? = nil) -> Caller {
        var caller = Caller(uid: uid, pid: 1)
        caller.executable = executable
        caller.unit = unit
        return caller
    }

    @Test func callersFitByUnitOrByExecutableAndUser() throws {
        try directory.write("apps/com.example.dice.conf", good)
        let store = ManifestStore(directories: [directory.path + "/apps"], loop: MainLoop(), log: log)
        #expect(try AppMatching.match(caller(executable: "/opt/dice"), in: store).app.name == "Dice")
        #expect(
            try AppMatching.match(caller(uid: 5, executable: "/usr/bin/python3", unit: "dice.service"), in: store).app.name
                == "Dice")
        for stranger in [
            caller(uid: 5, executable: "/opt/dice"), caller(executable: "/opt/dice2"), caller(executable: nil),
            caller(executable: "/bin/sh", unit: "other.service"),
        ] {
            #expect { try AppMatching.match(stranger, in: store) } throws: {
                "\($0)".contains("no manifest matches") && "\($0)".contains("uid")
            }
        }
    }

    @Test func whoIsHiddenIsToldSo() throws {
        try directory.write("apps/com.example.dice.conf", good)
        let store = ManifestStore(directories: [directory.path + "/apps"], loop: MainLoop(), log: log)
        var hidden = caller(uid: 5, executable: nil)
        hidden.unreadable = .process
        #expect { try AppMatching.match(hidden, in: store) } throws: {
            ["executable unreadable", "could not be read", "Unit=", "identify-by-executable.conf"].allSatisfy("\($0)".contains)
        }
        // systemd's word is enough.
        hidden.unit = "dice.service"
        #expect(try AppMatching.match(hidden, in: store).app.name == "Dice")
    }

    @Test func twoManifestsForOneCallerAreRefused() throws {
        try directory.write("apps/com.example.dice.conf", good)
        try directory.write(
            "apps/com.example.twin.conf", good.replacingOccurrences(of: "com.example.dice", with: "com.example.twin"))
        let store = ManifestStore(directories: [directory.path + "/apps"], loop: MainLoop(), log: log)
        #expect { try AppMatching.match(caller(executable: "/opt/dice"), in: store) } throws: {
            "\($0)".contains("more than one manifest")
        }
    }

    @Test(arguments: [
        ("0::/system.slice/dice.service\n", "dice.service"), ("0::/system.slice/dice.service/payload\n", "dice.service"),
        ("0::/system.slice/system-dice.slice/dice@1.service\n", "dice@1.service"),
        ("0::/system.slice/_dice.service\n", "dice.service"),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/dice.service\n", nil), ("0::/\n", nil), ("", nil),
        ("1:name=systemd:/system.slice/dice.service\n", nil), ("0::/dice.service\n", nil),
    ])
    func unitsComeFromControlGroups(text: String, unit: String?) { #expect(ProcessFacts.unit(cgroup: text) == unit) }

    @Test(arguments: [
        (
            "0::/machine.slice/libpod-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope/container\n",
            "podman 0123456789ab"
        ),
        ("0::/system.slice/docker-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope\n", "docker 0123456789ab"),
        (
            "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope\n",
            "containerd 0123456789ab"
        ),
        ("0::/machine.slice/machine-dice.scope/payload\n", "machine dice"), ("0::/lxc.payload.dice/init.scope\n", "LXC dice"),
        ("0::/lxc.payload.dice\n", "LXC dice"), ("0::/system.slice/dice.service\n", nil), ("", nil),
        // The second name is the container's own choice.
        (
            "0::/machine.slice/libpod-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope/docker-1.scope\n",
            "podman 0123456789ab"
        ),
        // Below user.slice the users choose the names.
        (
            "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope\n",
            nil
        ),
    ])
    func containersComeFromControlGroups(text: String, container: String?) {
        #expect(ProcessFacts.container(cgroup: text) == container)
    }

    // MARK: Sandboxes

    /// A directory like /proc with one process in it.
    private func procfs(_ pid: Int32, cgroup: String = "0::/\n", flatpak: String? = nil) throws -> String {
        let path = directory.path + "/proc"
        try FileManager.default.createDirectory(atPath: "\(path)/\(pid)/root", withIntermediateDirectories: true)
        try directory.write("proc/\(pid)/cgroup", cgroup)
        try directory.write("proc/\(pid)/status", "Name:\tx\nGid:\t7 7 7 7\nGroups:\t8 9\n")
        if let flatpak { try directory.write("proc/\(pid)/root/.flatpak-info", flatpak) }
        return path
    }

    private func look(_ pid: Int32, _ procfs: String, label: String? = nil) throws -> Caller {
        var caller = Caller(uid: 0, pid: pid)
        caller.securityLabel = Label(label)
        try ProcessFacts.read(pid, into: &caller, procfs: procfs)
        return caller
    }

    @Test func aFlatpakIsKnownByItsRoot() throws {
        let path = try procfs(5, flatpak: "[Application]\nname=org.example.Dice\nruntime=x\n")
        #expect(try look(5, path).flatpak == "org.example.Dice")
        #expect(try look(6, try procfs(6)).flatpak == nil)
        #expect(try look(6, path).groups == [7, 8, 9])
        // An unreadable file does not mean that there is no Flatpak.
        for (pid, text) in [(Int32(7), "[Application]\n"), (8, "name"), (9, String(repeating: "#\n", count: 40_000))] {
            #expect(throws: IdentityFailure.self) { try look(pid, try procfs(pid, flatpak: text)) }
        }
        try FileManager.default.createDirectory(
            atPath: try procfs(10) + "/10/root/.flatpak-info", withIntermediateDirectories: true)
        #expect(throws: IdentityFailure.self) { try look(10, path) }
        // A link out of the sandbox is not followed.
        try FileManager.default.createSymbolicLink(
            atPath: try procfs(11) + "/11/root/.flatpak-info", withDestinationPath: path + "/5/root/.flatpak-info")
        #expect(throws: IdentityFailure.self) { try look(11, path) }
        #expect(throws: IdentityFailure.self) { try look(12, path) }
    }

    @Test func whoIsInAFlatpakThatMayNotBeReadIsNoOtherAppByItsExecutable() throws {
        try directory.write("apps/com.example.dice.conf", good)
        let store = ManifestStore(directories: [directory.path + "/apps"], loop: MainLoop(), log: log)
        var hidden = caller(executable: "/opt/dice")
        #expect(try AppMatching.match(hidden, in: store).basis == .executable)
        hidden.unreadable = .flatpak
        #expect { try AppMatching.match(hidden, in: store) } throws: {
            ["Flatpak unreadable", "Flatpak=NAME and User=", "identify-by-flatpak.conf"].allSatisfy("\($0)".contains)
        }
        // systemd's word is enough.
        hidden.unit = "dice.service"
        #expect(try AppMatching.match(hidden, in: store).basis == .unit)
    }

    @Test func anExecutableIsTheFileThatItsNameIsHere() throws {
        let path = try procfs(5)
        try FileManager.default.createSymbolicLink(atPath: path + "/5/exe", withDestinationPath: "/bin/sh")
        #expect(try look(5, path).executable == "/bin/sh")
        // Replaced, or nowhere to be seen from here.
        _ = try procfs(6)
        try FileManager.default.createSymbolicLink(atPath: path + "/6/exe", withDestinationPath: "/bin/sh (deleted)")
        #expect(try look(6, path).executable == nil)
    }

    @Test(arguments: [
        ("0::/\n", "snap.dice.daemon", "dice"), ("0::/\n", "snap.dice", nil), ("0::/\n", "system_u:system_r:dice_t:s0", nil),
        // Any user can make a control group of this name below their own slice.
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/snap.dice.play-1234.scope\n", nil, nil),
        ("0::/user.slice/user-1000.slice/user@1000.service/snap.dice.daemon.service\n", nil, nil),
        ("0::/system.slice/snap.dice.daemon.service\n", nil, "dice"), ("0::/system.slice/dice.service\n", nil, nil),
    ])
    func snapsAreKnownByLabelOrSystemService(cgroup: String, label: String?, snap: String?) throws {
        #expect(try look(5, try procfs(5, cgroup: cgroup), label: label).snap.name == snap)
    }

    @Test func labelsLoseTheirMode() {
        #expect(ProcessFacts.label("snap.dice.play (enforce)") == "snap.dice.play")
        #expect(ProcessFacts.label("unconfined") == nil && ProcessFacts.label("") == nil)
        #expect(ProcessFacts.label("system_u:system_r:dice_t:s0") == "system_u:system_r:dice_t:s0")
    }

    @Test func theStrongestWordCountsAndASandboxIsNothingElse() throws {
        let manifest = { (line: String, id: String) in
            "[Application]\nId=\(id)\nName=x\n\(line)\n[AccessorySetup]\nSupports=Bluetooth;\n"
        }
        for (id, line) in [
            ("by.exe", "Executable=/opt/dice"), ("by.unit", "Unit=dice.service"), ("by.flatpak", "Flatpak=org.example.Dice"),
            ("by.snap", "Snap=dice"), ("by.label", "SecurityLabel=dice_t"),
        ] { try directory.write("apps/\(id).conf", manifest(line, id)) }
        let store = ManifestStore(directories: [directory.path + "/apps"], loop: MainLoop(), log: log)
        var caller = caller(executable: "/opt/dice")
        func app() throws -> String { try AppMatching.match(caller, in: store).app.id.rawValue }
        #expect(try app() == "by.exe")
        caller.unit = "dice.service"
        #expect(try app() == "by.unit")
        // Evidence from systemd is stronger than evidence that a process can set itself.
        caller.flatpak = "org.example.Dice"
        #expect(try app() == "by.unit")
        caller.snap.name = "dice"
        #expect(try app() == "by.snap")
        caller.securityLabel = Label("dice_t")
        #expect(try app() == "by.label")
    }

    /// Evidence that a process can set itself excludes a match by executable, and matches only for users in the
    /// manifest.
    @Test func whatAProcessCanMakeItselfGivesItNothing() throws {
        let manifest = { (line: String, id: String) in
            "[Application]\nId=\(id)\nName=x\n\(line)\n[AccessorySetup]\nSupports=Bluetooth;\n"
        }
        for (id, line) in [
            ("by.exe", "Executable=/opt/dice"), ("any.flatpak", "Flatpak=org.example.Any"), ("any.snap", "Snap=any"),
            ("any.label", "SecurityLabel=any_label"), ("my.flatpak", "Flatpak=org.example.Mine\nUser=5"),
            ("my.snap", "Snap=mine\nUser=5"),
            ("my.label", "SecurityLabel=my_label\nUser=5"),
        ] { try directory.write("apps/\(id).conf", manifest(line, id)) }
        let store = ManifestStore(directories: [directory.path + "/apps"], loop: MainLoop(), log: log)
        func app(_ change: (inout Caller) -> Void) -> String? {
            var caller = caller(uid: 5, executable: "/opt/dice")
            change(&caller)
            return try? AppMatching.match(caller, in: store).app.id.rawValue
        }
        #expect(app { _ in } == "by.exe")
        #expect(app { $0.flatpak = "org.example.Any" } == nil && app { $0.snap.isInScope = true } == nil)
        #expect(app { ($0.snap.name, $0.securityLabel) = ("any", Label("snap.any.x", isChosen: true)) } == nil)
        #expect(app { $0.securityLabel = Label("any_label", isChosen: true) } == "by.exe")
        #expect(app { $0.securityLabel = Label("any_label") } == "any.label")
        #expect(app { $0.flatpak = "org.example.Mine" } == "my.flatpak")
        #expect(app { ($0.flatpak, $0.uid) = ("org.example.Mine", 6) } == nil)
        #expect(app { ($0.snap.name, $0.securityLabel) = ("mine", Label("snap.mine.x", isChosen: true)) } == "my.snap")
        #expect(app { $0.securityLabel = Label("my_label", isChosen: true) } == "my.label")
        #expect(app { ($0.securityLabel, $0.uid) = (Label("my_label", isChosen: true), 6) } == "by.exe")
        var flatpak = caller(uid: 5, executable: "/opt/dice")
        flatpak.flatpak = "org.example.Any"
        #expect { try AppMatching.match(flatpak, in: store) } throws: { "\($0)".contains("without User=") }
    }

    @Test(arguments: [("Y\n", "0\n", true), ("Y\n", "1\n", false), ("Y\n", nil, true), ("N\n", nil, false), (nil, nil, false)])
    func appArmorLabelsAreChosenUnlessTheKernelRestrictsIt(enabled: String?, restricted: String?, chosen: Bool) throws {
        if let enabled { try directory.write("modules/apparmor/parameters/enabled", enabled) }
        if let restricted { try directory.write("procfs/sys/kernel/apparmor_restrict_unprivileged_unconfined", restricted) }
        #expect(ProcessFacts.labelsAreChosen(directory.path + "/procfs", modules: directory.path + "/modules") == chosen)
    }

    // MARK: Info.plist

    @Test func anInfoPlistAddsToTheManifest() throws {
        let plist = try directory.write(
            "Info.plist",
            """
            <?xml version="1.0" encoding="UTF-8"?>
            <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
            <plist version="1.0"><!-- as Xcode writes it --><dict>
            <key>CFBundleName</key><string>Dice &amp; more</string><key>LSRequiresIPhoneOS</key><true/>
            <key>UIDeviceFamily</key><array><integer>1</integer></array><key>Nested</key><dict><key>x</key><real>1.5</real></dict>
            <key>NSAccessorySetupKitSupports</key><array><string>Bluetooth</string></array>
            <key>NSAccessorySetupBluetoothServices</key><array><string>180F</string></array>
            <key>NSAccessorySetupBluetoothNames</key><array><string>Dice</string></array>
            <key>NSAccessorySetupBluetoothCompanyIdentifiers</key><array><string>FFFF</string><integer>76</integer></array>
            </dict></plist>
            """)
        let text = "[Application]\nId=a\nName=x\nUnit=a.service\n[AccessorySetup]\nInfoPlist=\(plist)\nBluetoothNames=Die;\n"
        let manifest = try ManifestReader.read(path: try directory.write("a.conf", text)).get()
        #expect(manifest.supports == [.bluetooth] && manifest.services == [BluetoothUUID("180F")!])
        #expect(manifest.names == ["Dice", "Die"] && manifest.companies == [CompanyIdentifier(0xFFFF), CompanyIdentifier(0x4C)])
    }

    /// The same list as Xcode, plutil and editors on other systems write it.
    @Test func anInfoPlistInAnyForm() throws {
        let body = """
            <?xml version="1.0" encoding="%"?>
            <plist version="1.0"><dict>
              <key>Large</key><integer>18446744073709551615</integer><key>Hexadecimal</key><integer>0X1F</integer>
              <key>Negative</key><integer>-3</integer><key>Real</key><real>1.5</real><key>On</key><true/>
              <key>NSAccessorySetupSupports</key><array><string>Bluetooth</string></array>
              <key>NSAccessorySetupBluetoothNames</key><array><string>Würfel</string></array>
              <key>NSAccessorySetupBluetoothCompanyIdentifiers</key><array><integer>76</integer></array>
            </dict></plist>
            """
        let wide = Array(body.replacing("%", with: "UTF-16").utf16)
        let big = wide.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xFF)] }
        let little = wide.flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] }
        let object = try PropertyListSerialization.propertyList(from: Data(body.replacing("%", with: "UTF-8").utf8), format: nil)
        let binary = try PropertyListSerialization.data(fromPropertyList: object, format: .binary, options: 0)
        for (name, bytes) in [
            ("UTF-8 with a mark", [0xEF, 0xBB, 0xBF] + Array(body.replacing("%", with: "UTF-8").utf8)),
            ("UTF-16, big-endian", [0xFE, 0xFF] + big), ("UTF-16, little-endian", [0xFF, 0xFE] + little),
            ("UTF-16 without a mark", little), ("binary", Array(binary)),
        ] as [(String, [UInt8])] {
            let plist = try directory.write("Info.plist", "")
            try Data(bytes).write(to: URL(fileURLWithPath: plist))
            let text = "[Application]\nId=a\nName=x\nUnit=a.service\n[AccessorySetup]\nInfoPlist=\(plist)\n"
            let manifest = try ManifestReader.read(path: try directory.write("a.conf", text)).get()
            #expect(manifest.supports == [.bluetooth] && manifest.names == ["Würfel"], "\(name)")
            #expect(manifest.companies == [CompanyIdentifier(0x4C)], "\(name)")
        }
    }

    /// A binary list that is cut short, or whose bytes were changed, ends with a reason or is another list.
    @Test func aBinaryInfoPlistIsCheckedByteByByte() throws {
        let object: [String: Any] = ["a": ["b": [1, "text", "ü", 1.5, Data([1, 2])]], "c": [String: Any]()]
        let good = [UInt8](try PropertyListSerialization.data(fromPropertyList: object, format: .binary, options: 0))
        for length in good.indices { _ = try? PropertyList.read(Array(good[..<length])) }
        for index in 8..<good.count {
            for value in [0, 1, 0x0F, 0x7F, 0x80, 0xAF, 0xDF, 0xFF] as [UInt8] {
                var bad = good
                bad[index] = value
                _ = try? PropertyList.read(bad)
            }
        }
        // An array that holds itself.
        let loop =
            Array("bplist00".utf8) + [0xA1, 0, 8] + [UInt8](repeating: 0, count: 6) + [1, 1]
            + [0, 0, 0, 0, 0, 0, 0, 1] + [UInt8](repeating: 0, count: 8) + [0, 0, 0, 0, 0, 0, 0, 10]
        #expect(throws: PropertyListProblem.self) { try PropertyList.read(loop) }
    }

    @Test(arguments: [
        ("<dict><key>NSAccessorySetupSupports</key><string>Bluetooth</string></dict>", "NSAccessorySetupSupports: not an array"),
        ("<dict><key>NSAccessorySetupSupports</key><array><string>USB</string></array></dict>", "USB: neither"),
        ("<dict></dict>", "NSAccessorySetupSupports: is missing"), ("<array></array>", "not a property list with a dictionary"),
        ("<dict>", "not a property list: line 1: "),
        ("<dict>\n<string>x</string></dict>", "line 2: <dict> has keys without values"),
        ("<dict><key>a</key>\n<key>b</key></dict>", "line 2: <key>b</key> is out of place"),
        ("<dict><key>a</key>\n\n<wrong/></dict>", "line 3: <wrong> is not an element"),
        ("<dict><key>a</key><integer>x</integer></dict>", "line 1: <integer>x</integer> is not a number"),
        (String(repeating: "<array>", count: 100) + String(repeating: "</array>", count: 100), "not a property"),
        ("<dict/><dict/>", "<plist> has 2 values instead of one"),
        (
            "<dict><key>NSAccessorySetupSupports</key><array/><key>NSAccessorySetupBluetoothServices</key><array><string>x</string></array></dict>",
            "NSAccessorySetupBluetoothServices: x: not a UUID"
        ),
    ])
    func aBadInfoPlistIsAProblemOfTheManifest(body: String, says: String) throws {
        let plist = try directory.write("Bad.plist", "<?xml version=\"1.0\"?><plist version=\"1.0\">\(body)</plist>")
        let text = "[Application]\nId=a\nName=x\nUnit=a.service\n[AccessorySetup]\nInfoPlist=\(plist)\n"
        let found = try problems(text, name: "a.conf")
        #expect(found.contains { $0.hasPrefix("a.conf:6: InfoPlist:") && $0.contains(says) }, "\(found)")
    }
}
