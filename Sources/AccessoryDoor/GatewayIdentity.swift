// SPDX-License-Identifier: Apache-2.0
// How clients recognise this gateway: ESPHome identifies a device by a MAC address. The machine's own addresses would
// disclose the machine to strangers, and change with its adapters.

internal import DBusKit
internal import Glibc
internal import NoiseProtocol

/// The gateway's name and address.
public enum GatewayIdentity {
    /// `AA:BB:CC:DD:EE:FF`, from the machine's identifier, locally administered (IEEE 802, 8.2). The same after each
    /// start, and without a way back to the identifier.
    public static var address: String {
        var bytes = Digest.sha256(Array("accessory-door:\(Bus.machineID)".utf8)).prefix(6)
        bytes[0] = bytes[0] & 0xFC | 0x02
        return bytes.map { byte in
            let digits = String(byte, radix: 16, uppercase: true)
            return digits.utf8.count == 1 ? "0\(digits)" : digits
        }
        .joined(separator: ":")
    }

    /// The host's name as ESPHome allows names: lower-case letters, digits and hyphens.
    public static var hostName: String {
        var buffer = [CChar](repeating: 0, count: 256)
        gethostname(&buffer, buffer.count - 1)
        let name = buffer.prefix { $0 != 0 && $0 != 0x2E }.map { UInt8(bitPattern: $0) }
        let letters = String(decoding: name, as: UTF8.self).lowercased().utf8.map { isPermitted($0) ? $0 : UInt8(ascii: "-") }
        return letters.isEmpty ? "gateway" : String(decoding: letters.prefix(31), as: UTF8.self)
    }

    /// Whether a byte may be in a name.
    static func isPermitted(_ byte: UInt8) -> Bool {
        (0x61...0x7A).contains(byte) || (0x30...0x39).contains(byte) || byte == UInt8(ascii: "-")
    }
}
