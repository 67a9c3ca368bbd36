// SPDX-License-Identifier: Apache-2.0
// The simulated kernel's list of input devices: a directory that looks like /sys/class/input, with an entry for every
// bonded and connected accessory that the scenario calls an input device.

internal import AccessoryModel
internal import SystemFiles

final class InputDirectory {
    private let path: String?
    private var entries: [String: Int] = [:]
    private var made = 0

    /// - Parameter path: nil for none.
    init(_ path: String?) {
        self.path = path
    }

    func add(_ accessory: AirAccessory) {
        guard let path, entries[accessory.scenario.id] == nil else { return }
        let entry = "\(path)/input\(made)"
        do {
            try SystemFile.makeDirectory(entry)
            try SystemFile.write("\(accessory.scenario.address.description.lowercased())\n".utf8, to: entry + "/uniq")
            entries[accessory.scenario.id] = made
            made += 1
        } catch {
            // As with the real one: a device that cannot be made is not there.
        }
    }

    func remove(_ accessory: AirAccessory) {
        guard let path, let number = entries.removeValue(forKey: accessory.scenario.id) else { return }
        try? SystemFile.remove("\(path)/input\(number)/uniq")
        try? SystemFile.remove("\(path)/input\(number)")
    }
}
