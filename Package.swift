// swift-tools-version:6.2
// SPDX-License-Identifier: Apache-2.0
// The package: one target where an import must be impossible, folders elsewhere. Docs/Architecture.md draws the data
// flow.
import PackageDescription

// CI sets ACCESSORY_WERROR, so that a newer compiler's new warning does not break a user's build.
let strict: [SwiftSetting] = Context.environment["ACCESSORY_WERROR"] == nil ? [] : [.treatAllWarnings(as: .error)]

let settings: [SwiftSetting] =
    [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("InternalImportsByDefault"),
    ] + strict

// Tests import their dependencies explicitly.
let testSettings: [SwiftSetting] =
    [.enableUpcomingFeature("ExistentialAny"), .enableUpcomingFeature("MemberImportVisibility")] + strict

let log: Target.Dependency = .product(name: "Logging", package: "swift-log")
let arguments: Target.Dependency = .product(name: "ArgumentParser", package: "swift-argument-parser")

let package = Package(
    name: "accessorysetupd",
    products: [
        .executable(name: "accessorysetupd", targets: ["accessorysetupd"]),
        .executable(name: "accessoryctl", targets: ["accessoryctl"]),
        .executable(name: "accessory-sim", targets: ["accessory-sim"]),
        .executable(name: "accessory-door", targets: ["accessory-door"]),
        .executable(name: "accessory-fleet", targets: ["accessory-fleet"]),
        .library(name: "AccessorySetupKit", targets: ["AccessorySetupKit"]),
        .library(name: "AccessoryStreams", targets: ["AccessoryStreams"]),
        .library(name: "CoreBluetooth", targets: ["CoreBluetooth"]),
        .library(name: "DeviceDiscoveryExtension", targets: ["DeviceDiscoveryExtension"]),
        // For files of apps that import these by name; each is a part of AccessorySetupKit or DeviceDiscoveryExtension.
        .library(name: "NetworkExtension", targets: ["NetworkExtension"]),
        .library(name: "UIKit", targets: ["UIKit"]),
        .library(name: "UniformTypeIdentifiers", targets: ["UniformTypeIdentifiers"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-log", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.5.0"),
    ],
    targets: [
        // The wire.
        .systemLibrary(name: "CDBus", pkgConfig: "dbus-1", providers: [.apt(["libdbus-1-dev"])]),
        .systemLibrary(name: "CGLib", pkgConfig: "glib-2.0", providers: [.apt(["libglib2.0-dev"])]),
        .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        .systemLibrary(name: "CSodium", pkgConfig: "libsodium", providers: [.apt(["libsodium-dev"])]),
        .systemLibrary(name: "CMosquitto", pkgConfig: "libmosquitto", providers: [.apt(["libmosquitto-dev"])]),
        .systemLibrary(name: "CSystem"),
        // The effects that a debug build reports, and at which a test may kill it.
        .target(name: "Effects", swiftSettings: settings),
        // With library evolution, a module that imports DBusKit needs no C modules, even where another package imports
        // it by `canImport` (Docs/Decisions/0038).
        .target(
            name: "DBusKit", dependencies: ["CDBus", "CGLib", "CSystem", "Effects", log],
            swiftSettings: settings + [.unsafeFlags(["-enable-library-evolution"])]),

        // org.bluez as its clients see it. The simulator has its own.
        .target(name: "BlueZInterfaces", dependencies: ["AccessoryModel", "DBusKit"], swiftSettings: settings),

        // The objects of org.bluez for its clients: apps, and the door. The daemon has readers of its own.
        .target(name: "BlueZObjects", dependencies: ["AccessoryModel", "BlueZInterfaces", "DBusKit"], swiftSettings: settings),

        // All calls that the daemon makes to other services.
        .target(name: "CallsOut", dependencies: ["BlueZInterfaces", "DBusKit"], swiftSettings: settings),

        // Files by path, without Foundation.
        .target(name: "SystemFiles", dependencies: ["CSystem", "Effects"], swiftSettings: settings),

        // JSON for the tools.
        .target(name: "JSONText", swiftSettings: settings),

        // Internet addresses and their ranges.
        .target(name: "InternetAddresses", swiftSettings: settings),

        // Key files (manifests, configuration), read by GLib.
        .target(name: "KeyFiles", dependencies: ["CGLib"], swiftSettings: settings),

        // Words and decisions: no bus, no disk, no clock.
        .target(name: "AccessoryModel", swiftSettings: settings),
        .target(name: "AccessoryCore", dependencies: ["AccessoryModel", "CGLib"], swiftSettings: settings),
        .target(
            name: "AccessoryEngine", dependencies: ["AccessoryCore", "AccessoryModel", log], swiftSettings: settings),

        // Edges.
        .target(
            name: "BlueZRadio",
            dependencies: ["AccessoryCore", "AccessoryEngine", "AccessoryModel", "BlueZInterfaces", "CallsOut", "DBusKit", log],
            swiftSettings: settings),
        .target(
            name: "WiFiRadio",
            dependencies: ["AccessoryEngine", "AccessoryModel", "CallsOut", "DBusKit", "SystemFiles", log],
            swiftSettings: settings),
        .target(
            name: "GrantStore",
            dependencies: ["AccessoryCore", "AccessoryEngine", "AccessoryModel", "CSQLite", "Effects", "SystemFiles", log],
            swiftSettings: settings),
        // Files of the admin and of packages: manifests and policy.
        .target(
            name: "AdminFiles",
            dependencies: [
                "AccessoryCore", "AccessoryModel", "CGLib", "CSystem", "DBusKit", "InternetAddresses", "KeyFiles", "SystemFiles",
                log,
            ], swiftSettings: settings),
        // Who calls, and whose app that is.
        .target(
            name: "CallerIdentity",
            dependencies: ["AccessoryModel", "AdminFiles", "CSystem", "CallsOut", "DBusKit", "KeyFiles", "SystemFiles"],
            swiftSettings: settings),
        .target(
            name: "AccessoryBus", dependencies: ["AccessoryModel", "DBusKit"],
            resources: [
                .embedInCode("Interfaces/org.accessorysetup1.Accessory.xml"),
                .embedInCode("Interfaces/org.accessorysetup1.Admin.xml"),
                .embedInCode("Interfaces/org.accessorysetup1.App.xml"),
                .embedInCode("Interfaces/org.accessorysetup1.Extension.xml"),
                .embedInCode("Interfaces/org.accessorysetup1.Grant.xml"),
                .embedInCode("Interfaces/org.accessorysetup1.Manager.xml"),
                .embedInCode("Interfaces/org.accessorysetup1.Network.xml"),
                .embedInCode("Interfaces/org.accessorysetup1.Picker.xml"),
                .embedInCode("Interfaces/org.accessorysetup1.Session.xml"),
                .embedInCode("Interfaces/org.accessorysetup1.View.xml"),
            ], swiftSettings: settings),
        // The data path: org.bluez as one app may see it.
        .target(
            name: "BlueZView",
            dependencies: [
                "AccessoryModel", "BlueZInterfaces", "CSystem", "CallerIdentity", "CallsOut", "DBusKit", "InternetAddresses", log,
            ],
            swiftSettings: settings),
        .target(
            name: "AccessoryService",
            dependencies: [
                "AccessoryBus", "AccessoryCore", "AccessoryEngine", "AccessoryModel", "AdminFiles", "CallerIdentity", "CallsOut",
                "DBusKit", "KeyFiles", log,
            ],
            swiftSettings: settings),

        // Apps elsewhere: encryption, ESPHome's native API, and the server that offers it.
        .target(name: "NoiseProtocol", dependencies: ["CSodium"], swiftSettings: settings),
        .target(name: "ESPHomeAPI", swiftSettings: settings),
        .target(
            name: "AccessoryDoor",
            dependencies: [
                "AccessoryModel", "BlueZInterfaces", "BlueZObjects", "CSystem", "DBusKit", "ESPHomeAPI", "InternetAddresses",
                "KeyFiles",
                "NoiseProtocol", "SystemFiles",
                log,
            ], swiftSettings: settings),

        // Many gateways: an MQTT connection, the words of a fleet, and the agent on each gateway.
        .target(name: "MQTTClient", dependencies: ["CMosquitto", "DBusKit", "InternetAddresses"], swiftSettings: settings),
        .target(name: "FleetProtocol", dependencies: ["CSodium", "JSONText"], swiftSettings: settings),
        .target(
            name: "FleetAgent",
            dependencies: [
                "AccessoryBus", "AccessoryModel", "AdminFiles", "CSystem", "DBusKit", "Effects", "FleetProtocol", "JSONText",
                "KeyFiles",
                "MQTTClient", "SystemFiles", log,
            ], swiftSettings: settings),

        // The other half of the air. Never BlueZRadio here: a shared bug would hide.
        .target(
            name: "RadioSimulator", dependencies: ["AccessoryModel", "DBusKit", "JSONText", "SystemFiles", log],
            swiftSettings: settings),

        // The modules for apps: Apple's names over the D-Bus interface.
        .target(
            name: "CoreBluetooth", dependencies: ["AccessoryModel", "BlueZInterfaces", "BlueZObjects", "DBusKit"],
            swiftSettings: settings),
        .target(
            name: "AccessorySetupKit", dependencies: ["AccessoryBus", "AccessoryModel", "CoreBluetooth", "DBusKit"],
            swiftSettings: settings),
        .target(
            name: "AccessoryStreams", dependencies: ["AccessorySetupKit", "CoreBluetooth"], swiftSettings: settings),
        .target(name: "NetworkExtension", dependencies: ["AccessorySetupKit"], swiftSettings: settings),
        .target(name: "UIKit", dependencies: ["AccessorySetupKit"], swiftSettings: settings),
        .target(
            name: "DeviceDiscoveryExtension", dependencies: ["AccessoryBus", "AccessoryModel", "DBusKit"],
            swiftSettings: settings),
        .target(name: "UniformTypeIdentifiers", dependencies: ["DeviceDiscoveryExtension"], swiftSettings: settings),

        // Programs.
        .target(
            name: "ProgramSupport", dependencies: ["AccessoryModel", "CGLib", "CSystem", "DBusKit", log], swiftSettings: settings),
        .executableTarget(
            name: "accessory-door",
            dependencies: [
                "AccessoryDoor", "AccessoryModel", "DBusKit", "KeyFiles", "NoiseProtocol", "ProgramSupport", "SystemFiles", log,
            ], swiftSettings: settings),
        .executableTarget(
            name: "accessory-fleet",
            dependencies: ["AccessoryModel", "DBusKit", "FleetAgent", "KeyFiles", "ProgramSupport", log],
            exclude: ["start-order.txt"],
            swiftSettings: settings),
        .executableTarget(
            name: "accessorysetupd",
            dependencies: [
                "AccessoryBus", "AccessoryCore", "AccessoryEngine", "AccessoryModel", "AccessoryService", "AdminFiles",
                "BlueZRadio", "BlueZView", "CallerIdentity", "DBusKit", "GrantStore", "KeyFiles", "ProgramSupport",
                "SystemFiles", "WiFiRadio", log,
            ], exclude: ["start-order.txt"], swiftSettings: settings),
        // Images for the terminal picker.
        .target(name: "TerminalGraphics", dependencies: ["CGLib"], swiftSettings: settings),
        .executableTarget(
            name: "accessoryctl",
            dependencies: [
                "AccessoryBus", "AccessoryCore", "AccessoryModel", "AdminFiles", "CSystem", "CallerIdentity", "DBusKit",
                "FleetProtocol",
                "JSONText", "KeyFiles", "MQTTClient", "ProgramSupport", "RadioSimulator", "SimulatorProgram", "SystemFiles",
                "TerminalGraphics", log, arguments,
            ],
            swiftSettings: settings),
        .target(
            name: "SimulatorProgram",
            dependencies: [
                "AccessoryBus", "AccessoryModel", "AdminFiles", "CSystem", "DBusKit", "KeyFiles", "ProgramSupport",
                "RadioSimulator", "SystemFiles", log, arguments,
            ], swiftSettings: settings),
        .executableTarget(name: "accessory-sim", dependencies: ["SimulatorProgram", arguments], swiftSettings: settings),
        // The yardstick of `make bench`, in C on purpose.
        .target(name: "BaselineSupport", dependencies: ["CDBus"]),
        .executableTarget(name: "advert-baseline", dependencies: ["BaselineSupport", "CDBus"]),
        .executableTarget(name: "gatt-baseline", dependencies: ["CDBus"]),
        .executableTarget(name: "gatt-central", dependencies: ["CoreBluetooth"], swiftSettings: strict),
        .executableTarget(name: "relay-baseline"),
        .executableTarget(name: "scan-baseline", dependencies: ["BaselineSupport", "CDBus"]),
        .executableTarget(
            name: "dice", dependencies: ["AccessorySetupKit", "CoreBluetooth"], exclude: ["Info.plist", "com.example.dice.conf"],
            swiftSettings: strict),

        // The lab's app: without a product, so that it is in no package.
        .executableTarget(
            name: "central-probe", dependencies: ["CoreBluetooth"], path: "Tests/Lab/apps/central-probe",
            swiftSettings: strict),

        // An extension that plays the devices of a file, for the tests of the module.
        .executableTarget(
            name: "played-extension", dependencies: ["DeviceDiscoveryExtension", "UniformTypeIdentifiers"],
            path: "Tests/AccessorySetupKitTests/PlayedExtension", swiftSettings: strict),

        // The app of README.md.
        .executableTarget(
            name: "readme-app", dependencies: ["AccessorySetupKit"], path: "Tests/Readme", swiftSettings: strict),

        // The list of calls, printed; in no package either.
        .executableTarget(
            name: "list-calls", dependencies: ["CallsOut", "DBusKit"], path: "Tests/Answers/list-calls", swiftSettings: settings),

        // A fleet in one process, in no package.
        .executableTarget(
            name: "fleet-simulation", dependencies: ["DBusKit", "FleetAgent", "FleetProtocol", "JSONText", "MQTTClient"],
            path: "Tests/FleetSimulation/Program", swiftSettings: settings),

        // The tables of the page for Cockpit, printed.
        .executableTarget(
            name: "page-tables", dependencies: ["AccessoryBus", "DBusKit"], path: "Tests/Web/page-tables", swiftSettings: settings),

        // Tests, from the words outwards to the whole daemon.
        .target(name: "TestSupport", dependencies: ["CSodium", "DBusKit"], path: "Tests/TestSupport", swiftSettings: settings),
        .testTarget(name: "DBusKitTests", dependencies: ["DBusKit", "TestSupport"], swiftSettings: testSettings),
        .testTarget(name: "KeyFilesTests", dependencies: ["KeyFiles", "TestSupport"], swiftSettings: testSettings),
        .testTarget(name: "AccessoryModelTests", dependencies: ["AccessoryModel"], swiftSettings: testSettings),
        .testTarget(
            name: "AccessoryCoreTests", dependencies: ["AccessoryCore", "AccessoryModel", "TestSupport"],
            swiftSettings: testSettings),
        .testTarget(
            name: "EngineTests", dependencies: ["AccessoryCore", "AccessoryEngine", "AccessoryModel", "TestSupport", log],
            swiftSettings: testSettings),
        .testTarget(name: "TerminalGraphicsTests", dependencies: ["TerminalGraphics"], swiftSettings: testSettings),
        // SQLite's disk, for a test that cuts its power.
        .target(name: "CPowerCut", dependencies: ["CSQLite"], path: "Tests/CPowerCut"),
        .testTarget(
            name: "GrantStoreTests",
            dependencies: [
                "AccessoryCore", "AccessoryEngine", "AccessoryModel", "CPowerCut", "CSQLite", "GrantStore", "SystemFiles",
                "TestSupport",
                log,
            ], exclude: ["Stores"], swiftSettings: testSettings),
        .testTarget(name: "SystemFilesTests", dependencies: ["SystemFiles", "TestSupport"], swiftSettings: testSettings),
        .testTarget(
            name: "CallerIdentityTests",
            dependencies: ["AccessoryModel", "AdminFiles", "CallerIdentity", "DBusKit", "KeyFiles", "TestSupport", log],
            swiftSettings: testSettings),
        .testTarget(
            name: "AccessoryBusTests", dependencies: ["AccessoryBus", "AccessoryModel", "DBusKit", "TestSupport"],
            swiftSettings: testSettings),
        .testTarget(
            name: "AccessoryServiceTests",
            dependencies: [
                "AccessoryBus", "AccessoryCore", "AccessoryEngine", "AccessoryModel", "AccessoryService", "AdminFiles",
                "CallerIdentity",
                "DBusKit",
                "TestSupport", log,
            ], swiftSettings: testSettings),
        .testTarget(
            name: "BlueZInterfacesTests",
            dependencies: ["AccessoryModel", "BlueZInterfaces", "DBusKit", "RadioSimulator"], swiftSettings: testSettings),
        .testTarget(
            name: "BlueZRadioTests",
            dependencies: [
                "AccessoryCore", "AccessoryEngine", "AccessoryModel", "BlueZInterfaces", "BlueZRadio", "DBusKit", "TestSupport",
                "accessory-sim", log,
            ], swiftSettings: testSettings),
        .testTarget(
            name: "RadioSimulatorTests", dependencies: ["AccessoryModel", "RadioSimulator", "TestSupport"],
            swiftSettings: testSettings),
        .testTarget(
            name: "WiFiRadioTests",
            dependencies: ["AccessoryEngine", "AccessoryModel", "DBusKit", "TestSupport", "WiFiRadio", log],
            swiftSettings: testSettings),
        .testTarget(
            name: "BlueZViewTests",
            dependencies: ["AccessoryModel", "BlueZInterfaces", "BlueZView", "DBusKit", "TestSupport", log],
            swiftSettings: testSettings),
        .testTarget(
            name: "NoiseProtocolTests", dependencies: ["CSodium", "NoiseProtocol"], exclude: ["make-vectors", "vectors.json"],
            swiftSettings: testSettings),
        .testTarget(
            name: "ESPHomeAPITests", dependencies: ["ESPHomeAPI", "TestSupport"], exclude: ["messages.json"],
            swiftSettings: testSettings),
        .testTarget(name: "JSONTextTests", dependencies: ["JSONText"], swiftSettings: testSettings),
        .testTarget(
            name: "FleetProtocolTests", dependencies: ["FleetProtocol", "JSONText"], swiftSettings: testSettings),
        .testTarget(
            name: "FleetAgentTests", dependencies: ["FleetAgent", "FleetProtocol", "JSONText", "MQTTClient"],
            swiftSettings: testSettings),
        .testTarget(name: "InternetAddressesTests", dependencies: ["InternetAddresses"], swiftSettings: testSettings),
        .testTarget(
            name: "AccessoryDoorTests",
            dependencies: [
                "AccessoryDoor", "AccessoryModel", "BlueZInterfaces", "BlueZObjects", "DBusKit", "ESPHomeAPI", "NoiseProtocol",
                "TestSupport",
            ], swiftSettings: testSettings),
        // Apple's own listings, kept as they are: they warn (variables never changed, errors never used), and that is
        // theirs to do.
        .target(
            name: "AccessorySetupKitSnippets", dependencies: ["AccessorySetupKit", "CoreBluetooth", "NetworkExtension"],
            path: "Tests/AccessorySetupKitTests/Snippets", swiftSettings: [.unsafeFlags(["-suppress-warnings"])]),
        // Apps as they are written elsewhere: in Swift 5 without a warning, in Swift 6 with those that Apple's
        // framework brings too.
        .target(
            name: "AccessorySetupKitApps5", dependencies: ["AccessorySetupKit", "UIKit"],
            path: "Tests/AccessorySetupKitTests/Apps5", swiftSettings: strict + [.swiftLanguageMode(.v5)]),
        .target(
            name: "AccessorySetupKitApps6", dependencies: ["AccessorySetupKit", "NetworkExtension", "UIKit"],
            path: "Tests/AccessorySetupKitTests/Apps6",
            swiftSettings: [.enableUpcomingFeature("MemberImportVisibility"), .unsafeFlags(["-suppress-warnings"])]),
        .testTarget(
            name: "AccessorySetupKitTests",
            dependencies: [
                "AccessoryBus", "AccessoryModel", "AccessorySetupKit", "AccessorySetupKitApps5", "AccessorySetupKitApps6",
                "AccessorySetupKitSnippets", "AccessoryStreams", "CSystem", "DBusKit", "DeviceDiscoveryExtension", "TestSupport",
                "accessory-sim", "accessoryctl",
                "accessorysetupd", "dice", "played-extension",
            ], exclude: ["Apps5", "Apps6", "PlayedExtension", "Snippets"], swiftSettings: testSettings),
        .testTarget(
            name: "CoreBluetoothTests",
            dependencies: [
                "AccessoryModel", "AccessorySetupKit", "AccessorySetupKitSnippets", "AccessoryStreams", "BlueZInterfaces",
                "CoreBluetooth", "DBusKit",
                "TestSupport", "accessory-sim",
                "accessoryctl", "accessorysetupd",
            ], swiftSettings: testSettings),
    ],
    swiftLanguageModes: [.v6]
)

// Built by Tests/Fuzz/run only, with all dependencies under the sanitizers.
if Context.environment["ACCESSORY_FUZZ"] != nil {
    package.targets.append(
        .executableTarget(
            name: "fuzz",
            dependencies: [
                "AccessoryBus", "AccessoryCore", "AccessoryDoor", "AccessoryEngine", "AccessoryModel", "AccessoryService",
                "AccessorySetupKit", "AdminFiles", "BlueZInterfaces", "BlueZObjects", "BlueZRadio", "BlueZView", "CDBus",
                "CSQLite", "CallerIdentity", "CoreBluetooth", "DBusKit", "ESPHomeAPI", "FleetAgent", "FleetProtocol", "GrantStore",
                "JSONText", "KeyFiles", "MQTTClient", "NoiseProtocol", "RadioSimulator", "SystemFiles", "TestSupport", "WiFiRadio",
                log,
            ], path: "Tests/Fuzz/Targets", swiftSettings: settings))
}
