// SPDX-License-Identifier: Apache-2.0
// Stand-ins for names that the listings beside this file mention and Linux does not have: UIKit and SwiftUI, as small
// as the listings allow and without any function. Core Bluetooth is the package's own.

import AccessorySetupKit

// MARK: UIKit

@MainActor class UIViewController {
    func viewDidLoad() {}
}

@MainActor class UIButton {}

// MARK: SwiftUI

struct Text {
    init(_ content: String) {}
}

struct Button<Label> {
    init(action: @escaping () -> Void, label: () -> Label) {}
}

// MARK: Core Bluetooth

// Parts that the talk's listing leaves out: unwrapping an optional, and the brackets of a list. Apple's module has no
// such methods either.

extension CBCentralManager {
    func retrievePeripherals(withIdentifiers identifiers: [UUID?]) -> [CBPeripheral] {
        retrievePeripherals(withIdentifiers: identifiers.compactMap { $0 })
    }

    func connect(_ peripheral: CBPeripheral?) {
        if let peripheral { connect(peripheral, options: nil) }
    }
}

extension CBPeripheral {
    func discoverServices(_ service: CBUUID) { discoverServices([service]) }
}
