// SPDX-License-Identifier: Apache-2.0
// What the listings beside this file mention and Linux does not have: UIKit, SwiftUI and Core Bluetooth, as small as
// the listings allow. Nothing here does anything.

import AccessorySetupKit
import Foundation

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

protocol CBCentralManagerDelegate: AnyObject {}
protocol CBPeripheralDelegate: AnyObject {}

class CBCentralManager {
    enum State { case unknown, poweredOff, poweredOn }

    var state: State { .unknown }
    init(delegate: (any CBCentralManagerDelegate)?, queue: DispatchQueue?) {}
    /// Optional identifiers and peripherals, as one of the listings leaves the unwrapping out.
    func retrievePeripherals(withIdentifiers identifiers: [UUID?]) -> [CBPeripheral] { [] }
    func connect(_ peripheral: CBPeripheral?, options: [String: Any]? = nil) {}
}

class CBPeripheral {
    let identifier = UUID()
    weak var delegate: (any CBPeripheralDelegate)?
    /// One service instead of a list of them, as the listing has it.
    func discoverServices(_ service: CBUUID) {}
}
