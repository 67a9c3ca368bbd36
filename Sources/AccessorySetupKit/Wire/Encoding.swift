// SPDX-License-Identifier: Apache-2.0
// From the classes of the module to the requests of the session API. Nothing is judged here: the daemon refuses wrong
// values, and names them.

internal import AccessoryBus
internal import AccessoryModel
internal import DBusKit
internal import Foundation

extension ASPickerDisplayItem {
    /// The items of `ShowPicker` and `UpdatePicker`, `aa{sv}`.
    static func wire(_ items: [ASPickerDisplayItem], isUpdate: Bool) -> DBusValue {
        // A bus lets only so many descriptors into one message (16 by default); the images after these go as bytes.
        var descriptors = 16
        let wires = items.map { item in
            // An empty image is none: the picker shows the name alone.
            let image = item.productImage.bytes.map { bytes -> DBusValue in
                guard descriptors > 0, let file = FileDescriptor.sealed(bytes, name: "product-image") else { return .bytes(bytes) }
                descriptors -= 1
                return .fileDescriptor(file)
            }
            return isUpdate ? item.updateWire(image) : item.wire(image)
        }
        return .array(of: "a{sv}", wires)
    }

    private func updateWire(_ image: DBusValue?) -> DBusValue {
        var keys = DiscoveredItemKeys()
        keys.name = name
        keys.image = image
        keys.identifier = (self as? ASDiscoveredDisplayItem)?.accessory.identifier
        return keys.wire
    }

    private func wire(_ image: DBusValue?) -> DBusValue {
        var keys = ItemKeys()
        keys.name = name
        keys.image = image
        keys.descriptor = descriptor.sent
        keys.setupOptions = AccessoryModel.SetupOptions(rawValue: Int(bitPattern: setupOptions.rawValue))
        keys.renameOptions = renameOptions.model
        keys.end = accessEnd.flatMap { EndRule($0.text) }
        keys.endChoices = accessEndChoices.compactMap { EndChoice($0.text) }
        if let migration = self as? ASMigrationDisplayItem {
            keys.peripheral = migration.peripheralIdentifier?.uuidString ?? migration.peripheralAddress
            keys.hotspotSSID = migration.hotspotSSID.map { Array($0.utf8) }
            keys.awareDevice = migration.wifiAwarePairedDeviceID == 0 ? nil : migration.wifiAwarePairedDeviceID
        }
        return keys.wire
    }
}

extension ASAccessory.RenameOptions {
    var model: RenameOptions { RenameOptions(rawValue: Int(bitPattern: rawValue)) }
}
