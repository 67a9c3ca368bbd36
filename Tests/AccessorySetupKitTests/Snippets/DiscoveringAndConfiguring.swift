// SPDX-License-Identifier: Apache-2.0
// The listings of Apple's article “Discovering and configuring accessories”, unchanged but for the types around
// them. Where a listing does not compile anywhere, a line of ours is marked as such.

// The listings keep their own format.
// swift-format-ignore-file

import AccessorySetupKit
import Foundation

let MY_ACCESSORY_UUID_STRING = "E56A082E-C49B-47CA-A2AB-389127B8ABE3"
let MY_ACCESSORY_IMAGE_NAME = "my-accessory"

// The cases of the listing hold comments only, and Swift wants a statement in each: every `break` is ours.
class ActivatingViewController: UIViewController {
    let session = ASAccessorySession()
    override func viewDidLoad() {
        super.viewDidLoad()

        session.activate(on: DispatchQueue.main) { [weak self] event in
            guard let self else { return }

            switch event.eventType {
            case .activated:
                // Use previously-discovered accessories in
                // session.accessories, if necessary.
                break
            case .accessoryAdded:
                // Handle addition of an accessory by person using the app.
                break
            case .accessoryRemoved, .accessoryChanged:
                // Handle removal or change of previously-added
                // accessory, if necessary.
                break
            case .invalidated:
                // The session is now invalid and you can't use it further.
                break
            case .migrationComplete:
                // Handle migration.
                break
            case .pickerDidPresent:
                // Update state for picker appearing, if necessary.
                break
            case .pickerDidDismiss:
                // Update state for picker disappearing, if necessary.
                break
            case .unknown:
                // Handle unknown event type, if appropriate.
                break
            @unknown default:
                // Reserve this space for yet-to-be-defined event types.
                break
            }
        }
    }
}

class PickerViewController: UIViewController {
    let session = ASAccessorySession()

    private func showMyPicker() {
        var descriptor = ASDiscoveryDescriptor()
        descriptor.bluetoothServiceUUID = CBUUID(string: MY_ACCESSORY_UUID_STRING) // If using Wi-Fi, set descriptor.ssid instead.

        let displayName = "My Accessory"
        guard let productImage = UIImage(named: MY_ACCESSORY_IMAGE_NAME) else { return }

        var items: [ASPickerDisplayItem] = []
        items.append (ASPickerDisplayItem(name: displayName,
                                          productImage: productImage,
                                          descriptor: descriptor))

        // Create additional picker items if you support multiple accessories
        // with different Wi-Fi SSIDs or Bluetooth service UUIDs.

        session.showPicker(for: items) { error in
            if let error {
                // Handle error.
            } else {
                // Perform any post-picker cleanup.
                // If the picker finished by selecting an item, the event
                // handler receives it as an event of type `.accessoryAdded`.
            }
        }
    }
}

func useFilterDiscoveryResults(in session: ASAccessorySession) {
    let settings = ASPickerDisplaySettings.default
    settings.discoveryTimeout = .unbounded
    settings.options.insert(.filterDiscoveryResults)
    session.pickerDisplaySettings = settings
}

func myShouldDisplayAccessory(advertisement: [AnyHashable: Any]?, rssi: Int?) -> Bool { true }

// The listing's `switch` has one case of many: the `default` is ours.
class FilteringViewController: UIViewController {
    func begin(_ session: ASAccessorySession) {
        session.activate(on: .main) { [weak self] event in
            guard let strongSelf = self else { return }
            switch event.eventType {
            case .accessoryDiscovered:
                if let accessory = event.accessory as? ASDiscoveredAccessory {
                    if myShouldDisplayAccessory(advertisement: accessory.bluetoothAdvertisementData,
                                                rssi: accessory.bluetoothRSSI) {
                        let item = ASDiscoveredDisplayItem(name: "More Specific Product Name",
                                                           productImage: UIImage(named: "AssetPreparedJustInTime")!,
                                                           accessory: accessory)
                        session.updatePicker(showing: [item]) { error in
                            print(error)
                        }
                    }
                }
            default: break
            }
        }
    }
}

class PickedAccessoryController {
    private var pickedAccessory: ASAccessory?

    // The listing is two cases of a `switch`: the `switch` and its `default` are ours.
    func handle(_ event: ASAccessoryEvent) {
        switch event.eventType {
        case .accessoryAdded:
            self.pickedAccessory = event.accessory
        case .pickerDidDismiss:
            guard let accessory = self.pickedAccessory else { return }
            self.pickedAccessory = nil
            self.handleAccessoryAdded(accessory)
        default: break
        }
    }

    private func handleAccessoryAdded(_ accessory: ASAccessory) {
        if let btIdentifier = accessory.bluetoothIdentifier {
            // Use Core Bluetooth to communicate with and configure the accessory.
        }
        else if let ssid = accessory.ssid {
            // Create a `NEHotspotConfiguration` with this SSID to configure.
        }
    }
}
