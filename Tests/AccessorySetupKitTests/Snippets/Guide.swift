// SPDX-License-Identifier: Apache-2.0
// The listings of a guide to AccessorySetupKit, unchanged but for the functions and types around them: descriptors, the
// session, the picker, events, the next steps with Core Bluetooth and Wi-Fi, migration, and common mistakes. The
// mistakes compile too; this file does not test their effects at run time.

// The listings keep their own format.
// swift-format-ignore-file

import AccessorySetupKit
import CoreBluetooth
import Foundation
import NetworkExtension

// MARK: Discovery descriptors

func bluetoothDescriptor() {
    var descriptor = ASDiscoveryDescriptor()
    descriptor.bluetoothServiceUUID = CBUUID(string: "12345678-1234-1234-1234-123456789ABC")
    descriptor.bluetoothNameSubstring = "MyDevice"
    descriptor.bluetoothRange = .immediate // Only nearby devices
}

func wifiDescriptor() {
    var descriptor = ASDiscoveryDescriptor()
    descriptor.ssid = "MyAccessory-Network"
    // OR use a prefix:
    // descriptor.ssidPrefix = "MyAccessory-"
}

func supportOptions(_ descriptor: ASDiscoveryDescriptor) {
    descriptor.supportedOptions = [.bluetoothPairingLE, .bluetoothTransportBridging]
}

// MARK: Presenting the picker

final class AccessoryManager {
    private let session = ASAccessorySession()
    func start() {
        session.activate(on: .main) { [weak self] event in
            self?.handleEvent(event)
        }
    }
    private func handleEvent(_ event: ASAccessoryEvent) {
        switch event.eventType {
        case .activated:
            // Session ready. Check session.accessories for previously paired devices.
            break
        case .accessoryAdded:
            guard let accessory = event.accessory else { return }
            handleAccessoryAdded(accessory)
        case .accessoryChanged:
            // Accessory properties changed (e.g., display name updated in Settings)
            break
        case .accessoryRemoved:
            // Accessory removed by user or app
            break
        case .invalidated:
            // Session invalidated, cannot be reused
            break
        default:
            break
        }
    }

    // Ours: the listing calls it.
    private func handleAccessoryAdded(_ accessory: ASAccessory) {}

    func showAccessoryPicker() {
        var descriptor = ASDiscoveryDescriptor()
        descriptor.bluetoothServiceUUID = CBUUID(string: "ABCD1234-0000-1000-8000-00805F9B34FB")
        guard let image = UIImage(named: "my-accessory") else { return }
        let item = ASPickerDisplayItem(
            name: "My Bluetooth Accessory",
            productImage: image,
            descriptor: descriptor
        )
        session.showPicker(for: [item]) { error in
            if let error {
                print("Picker failed: \(error.localizedDescription)")
            }
        }
    }
}

func setupOptions(image: UIImage, descriptor: ASDiscoveryDescriptor) {
    var item = ASPickerDisplayItem(
        name: "My Accessory",
        productImage: image,
        descriptor: descriptor
    )
    item.setupOptions = [.rename, .confirmAuthorization]
}

// MARK: Event handling

final class DismissalManager {
    private var pendingAccessory: ASAccessory?
    private func handleEvent(_ event: ASAccessoryEvent) {
        switch event.eventType {
        case .accessoryAdded:
            pendingAccessory = event.accessory
        case .pickerDidDismiss:
            if let accessory = pendingAccessory {
                pendingAccessory = nil
                beginCustomSetup(accessory)
            }
        default:
            break
        }
    }

    // Ours: the listing calls it.
    private func beginCustomSetup(_ accessory: ASAccessory) {}
}

// MARK: Bluetooth and Wi-Fi accessories

public final class CommunicationManager: NSObject, CBCentralManagerDelegate {
    // Ours: the listing shows the steps after it.
    public func centralManagerDidUpdateState(_ central: CBCentralManager) {}

    public func handleAccessoryAdded(_ accessory: ASAccessory) {
        guard let btIdentifier = accessory.bluetoothIdentifier else { return }
        // Create CBCentralManager — no Bluetooth permission prompt appears
        let centralManager = CBCentralManager(delegate: self, queue: nil)
        // After poweredOn, retrieve the peripheral
        let peripherals = centralManager.retrievePeripherals(
            withIdentifiers: [btIdentifier]
        )
        guard let peripheral = peripherals.first else { return }
        centralManager.connect(peripheral, options: nil)
    }

    func handleWiFiAccessoryAdded(_ accessory: ASAccessory) {
        guard let ssid = accessory.ssid else { return }
        let configuration = NEHotspotConfiguration(ssid: ssid)
        NEHotspotConfigurationManager.shared.apply(configuration) { error in
            if let error {
                print("Wi-Fi join failed: \(error.localizedDescription)")
            }
        }
    }
}

// MARK: Migration from Core Bluetooth

final class MigrationManager {
    let session = ASAccessorySession()
    let existingPeripheralUUID = UUID()

    func migrateExistingAccessories() {
        guard let image = UIImage(named: "my-accessory") else { return }
        var descriptor = ASDiscoveryDescriptor()
        descriptor.bluetoothServiceUUID = CBUUID(string: "ABCD1234-0000-1000-8000-00805F9B34FB")
        let migrationItem = ASMigrationDisplayItem(
            name: "My Accessory",
            productImage: image,
            descriptor: descriptor
        )
        // Set the peripheral identifier from CoreBluetooth
        migrationItem.peripheralIdentifier = existingPeripheralUUID
        // For Wi-Fi accessories:
        // migrationItem.hotspotSSID = "MyAccessory-WiFi"
        session.showPicker(for: [migrationItem]) { error in
            if let error {
                print("Migration failed: \(error.localizedDescription)")
            }
        }
    }
}

// MARK: Common mistakes

final class Mistakes: NSObject, CBCentralManagerDelegate {
    // Ours: the listing shows the steps before it.
    func centralManagerDidUpdateState(_ central: CBCentralManager) {}

    func undeclared(session: ASAccessorySession, item: ASPickerDisplayItem) {
        // WRONG — service UUID not in NSAccessorySetupBluetoothServices
        var descriptor = ASDiscoveryDescriptor()
        descriptor.bluetoothServiceUUID = CBUUID(string: "UNDECLARED-UUID")
        session.showPicker(for: [item]) { _ in } // Crash
    }

    func declared() {
        // CORRECT — declare all UUIDs in Info.plist first
        // Info.plist: NSAccessorySetupBluetoothServices = ["ABCD1234-..."]
        var descriptor = ASDiscoveryDescriptor()
        descriptor.bluetoothServiceUUID = CBUUID(string: "ABCD1234-...")
    }

    func both() {
        // WRONG — crashes at runtime
        var descriptor = ASDiscoveryDescriptor()
        descriptor.ssid = "MyNetwork"
        descriptor.ssidPrefix = "My" // Cannot set both
    }

    func one() {
        // CORRECT — use one or the other
        var descriptor = ASDiscoveryDescriptor()
        descriptor.ssid = "MyNetwork"
    }

    func tooEarly(session: ASAccessorySession, migrationItem: ASMigrationDisplayItem) {
        // WRONG — migration fails, picker does not appear
        let central = CBCentralManager(delegate: self, queue: nil)
        session.showPicker(for: [migrationItem]) { error in
            // error is non-nil
        }
    }

    func inTime(session: ASAccessorySession) {
        // CORRECT — wait for .migrationComplete before using CoreBluetooth
        session.activate(on: .main) { event in
            if event.eventType == .migrationComplete {
                let central = CBCentralManager(delegate: self, queue: nil)
            }
        }
    }

    func reuse(session: ASAccessorySession, items: [ASPickerDisplayItem]) {
        // WRONG — session is dead after invalidation
        session.showPicker(for: items) { _ in } // No effect
    }

    func renew() {
        // CORRECT — create a new session
        let newSession = ASAccessorySession()
        newSession.activate(on: .main) { event in
            // Handle events
        }
    }
}

class UnwantedPickerController: UIViewController {
    let session = ASAccessorySession()
    let items: [ASPickerDisplayItem] = []

    // WRONG — picker appears unexpectedly on app launch
    override func viewDidLoad() {
        super.viewDidLoad()
        session.showPicker(for: items) { _ in }
    }
}

class WantedPickerController: UIViewController {
    let session = ASAccessorySession()
    let items: [ASPickerDisplayItem] = []

    // CORRECT — bind picker to a user action
    @IBAction func addAccessoryTapped(_ sender: UIButton) {
        session.showPicker(for: items) { _ in }
    }
}
