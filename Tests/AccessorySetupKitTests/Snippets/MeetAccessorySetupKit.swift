// SPDX-License-Identifier: Apache-2.0
// The listings of Apple's session “Meet AccessorySetupKit” (WWDC 2024), unchanged but for the functions and types
// around them.

// The listings keep their own format.
// swift-format-ignore-file

import AccessorySetupKit
import Foundation

func registerEventHandler() {
    // Create a session

    var session = ASAccessorySession()

    // Activate session with event handler

    session.activate(on: DispatchQueue.main, eventHandler: handleSessionEvent(event:))

    // Handle event

    func handleSessionEvent(event: ASAccessoryEvent) {
        switch event.eventType {
        case .activated:
            print("Session is activated and ready to use")
            print(session.accessories)
        default:
            print("Received event type \(event.eventType)")
        }
    }
}

final class Dice {
    let session = ASAccessorySession()
    let pinkUUID = CBUUID(string: "E56A082E-C49B-47CA-A2AB-389127B8ABE3")
    let blueUUID = CBUUID(string: "0B8F5F5D-3B6C-4D29-8B0F-0E3C1B8A52D7")

    func createPickerDisplayItems() {
        // Create descriptor for pink dice

        let pinkDescriptor = ASDiscoveryDescriptor()
        pinkDescriptor.bluetoothServiceUUID = pinkUUID

        // Create descriptor for blue dice

        let blueDescriptor = ASDiscoveryDescriptor()
        blueDescriptor.bluetoothServiceUUID = blueUUID

        // Create picker display items

        let pinkDisplayItem = ASPickerDisplayItem(
            name: "Pink Dice",
            productImage: UIImage(named: "pink")!,
            descriptor: pinkDescriptor
        )
        let blueDisplayItem = ASPickerDisplayItem(
            name: "Blue Dice",
            productImage: UIImage(named: "blue")!,
            descriptor: blueDescriptor
        )
    }

    func showPicker(_ pinkDisplayItem: ASPickerDisplayItem, _ blueDisplayItem: ASPickerDisplayItem) {
        let session = session
        // Invoke accessory picker

        Button {
            session.showPicker(for: [pinkDisplayItem, blueDisplayItem]) { error in
                if let error {
                    // Handle error
                }
            }
        } label: {
            Text("Add Dice")
        }
    }

    func handleEvents() {
        // Handle event

        func handleSessionEvent(event: ASAccessoryEvent) {
            switch event.eventType {

            case .accessoryAdded:
                let newDice: ASAccessory = event.accessory!

            case .accessoryChanged:
                print("Accessory properties changed")

            case .accessoryRemoved:
                print("Accessory removed from system")

            default:
                print("Received event with type: \(event.eventType)")
            }
        }
    }

    func migrate(_ pinkDescriptor: ASDiscoveryDescriptor, _ pinkPeripheral: CBPeripheral) {
        // Create migration items

        let pinkMigration = ASMigrationDisplayItem(name: "Pink Dice", productImage: UIImage(named: "pink")!, descriptor: pinkDescriptor)
        pinkMigration.peripheralIdentifier = pinkPeripheral.identifier

        // Present picker with migration items

        session.showPicker(for: [pinkMigration]) { error in
            if let error {
                // Handle error
            }
        }
    }
}

public final class DiceCommunication: NSObject, CBCentralManagerDelegate, CBPeripheralDelegate {
    // Ours, up to the listing: the values that it uses, and the handler that receives its result.
    let pinkUUID = CBUUID(string: "E56A082E-C49B-47CA-A2AB-389127B8ABE3")
    private let newDice: ASAccessory
    private let event: ASAccessoryEvent
    private let onServices: ([CBUUID]) -> Void
    private var kept: CBPeripheral?
    private var keptManager: CBCentralManager?

    public init(_ event: ASAccessoryEvent, onServices: @escaping ([CBUUID]) -> Void) {
        newDice = event.accessory!
        self.event = event
        self.onServices = onServices
    }

    public func begin() {
        // Connect to accessory using CoreBluetooth

        let central = CBCentralManager(delegate: self, queue: nil)
        keptManager = central  // Ours.
    }

    public func centralManagerDidUpdateState(_ central: CBCentralManager) {
        switch central.state {
        case .poweredOn:
            // state will only be updated to poweredOn when you have paired accessories
            let peripheral = central.retrievePeripherals(withIdentifiers: [newDice.bluetoothIdentifier]).first
            central.connect(peripheral)
            kept = peripheral  // Ours.
        default:
            print("Received event type \(event.eventType)")
        }
    }

    public func centralManager(_ central: CBCentralManager, didConnect peripheral: CBPeripheral) {
        peripheral.delegate = self
        peripheral.discoverServices(pinkUUID)
    }

    // Ours: the listing ends before it.
    public func peripheral(_ peripheral: CBPeripheral, didDiscoverServices error: (any Error)?) {
        onServices((peripheral.services ?? []).map(\.uuid))
    }
}
