// SPDX-License-Identifier: Apache-2.0
// The app of README.md, below in README.md's own words (Tests/API/test_readme.py compares and runs it).

import AccessorySetupKit
let session = ASAccessorySession()
let dice = ASDiscoveryDescriptor()
dice.bluetoothServiceUUID = CBUUID(string: "E56A082E-C49B-47CA-A2AB-389127B8ABE3")
let item = ASPickerDisplayItem(name: "Pink Dice", productImage: UIImage(systemName: "dice")!, descriptor: dice)
session.activate(on: .main) { event in
    print(event.eventType)
    if event.eventType == .activated { session.showPicker(for: [item]) { _ in } }
    if event.eventType == .pickerDidDismiss { exit(0) }
}
dispatchMain()
