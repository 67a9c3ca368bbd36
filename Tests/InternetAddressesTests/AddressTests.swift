// SPDX-License-Identifier: Apache-2.0
// Internet addresses and ranges: which texts are such, and which addresses lie within.

import InternetAddresses
import Testing

@Suite struct InternetAddressTests {
    @Test(
        arguments: [
            ("192.0.2.1", [192, 0, 2, 1], "192.0.2.1"), ("0.0.0.0", [0, 0, 0, 0], "0.0.0.0"),
            ("255.255.255.255", [255, 255, 255, 255], "255.255.255.255"),
            ("2001:DB8:0:0:0:0:0:1", [0x20, 1, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], "2001:db8::1"),
            ("::", [UInt8](repeating: 0, count: 16), "::"),
            // One of 4 bytes, also within IPv6, as sockets of both families report it.
            ("::ffff:192.0.2.1", [192, 0, 2, 1], "192.0.2.1"), ("::ffff:c000:201", [192, 0, 2, 1], "192.0.2.1"),
            // These are IPv6.
            ("::192.0.2.1", [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 192, 0, 2, 1], "::192.0.2.1"),
            ("64:ff9b::192.0.2.1", [0, 0x64, 0xFF, 0x9B, 0, 0, 0, 0, 0, 0, 0, 0, 192, 0, 2, 1], "64:ff9b::c000:201"),
        ] as [(String, [UInt8], String)])
    func texts(_ text: String, _ bytes: [UInt8], _ description: String) throws {
        let address = try #require(InternetAddress(text))
        #expect(address.bytes == bytes && address.description == description)
        #expect(InternetAddress(bytes: bytes) == address && InternetAddress(description) == address)
    }

    @Test(arguments: [
        "", " ", "192.0.2", "192.0.2.256", "192.0.2.1 ", " 192.0.2.1", "192.0.2.1.1", "192.0.2.01", "0x7f.0.0.1", "127.1", "1",
        "192.0.2.1/24", "2001:db8::1::2", ":::", "fe80::1%eth0", "[2001:db8::1]", "2001:db8::12345", "gateway", "localhost",
        "192.0.2.1\0", "192.0.2.1\0.example",
    ])
    func otherTexts(_ text: String) { #expect(InternetAddress(text) == nil) }

    @Test func otherNumbersOfBytes() {
        for count in 0...20 where count != 4 && count != 16 {
            #expect(InternetAddress(bytes: [UInt8](repeating: 1, count: count)) == nil)
        }
    }

    @Test func mappedBytesAreThoseOfIPv4() {
        let mapped: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 192, 0, 2, 1]
        #expect(InternetAddress(bytes: mapped) == InternetAddress(bytes: [192, 0, 2, 1]))
    }
}

@Suite struct AddressRangeTests {
    private func address(_ text: String) throws -> InternetAddress { try #require(InternetAddress(text)) }

    /// A range, addresses within and beside it.
    @Test(
        arguments: [
            ("192.0.2.0/24", ["192.0.2.0", "192.0.2.255", "::ffff:192.0.2.7"], ["192.0.1.255", "192.0.3.0", "2001:db8::1"]),
            ("192.0.2.128/25", ["192.0.2.128", "192.0.2.255"], ["192.0.2.127", "192.0.3.128"]),
            ("192.0.2.4/30", ["192.0.2.4", "192.0.2.7"], ["192.0.2.3", "192.0.2.8"]),
            ("192.0.2.5/32", ["192.0.2.5"], ["192.0.2.4", "192.0.2.6"]), ("192.0.2.5", ["192.0.2.5"], ["192.0.2.4"]),
            ("10.0.0.0/7", ["10.1.2.3", "11.255.255.255"], ["9.255.255.255", "12.0.0.0"]),
            ("128.0.0.0/1", ["128.0.0.0", "255.255.255.255"], ["127.255.255.255"]),
            ("0.0.0.0/0", ["0.0.0.0", "255.255.255.255", "::ffff:1.2.3.4"], ["::", "2001:db8::1"]),
            ("2001:db8::/32", ["2001:db8::", "2001:db8:ffff::1"], ["2001:db9::", "2001:db7:ffff::", "192.0.2.1"]),
            ("2001:db8:0:8000::/49", ["2001:db8:0:8000::", "2001:db8:0:ffff::"], ["2001:db8:0:7fff::", "2001:db8:1:8000::"]),
            ("2001:db8::1", ["2001:db8::1"], ["2001:db8::2", "2001:db8::"]),
            ("fe80::/10", ["fe80::1", "febf::"], ["fec0::", "fe7f::"]),
            // IPv4 has its own ranges.
            ("::/0", ["::", "ffff::"], ["0.0.0.0", "::ffff:1.2.3.4"]), ("::ffff:192.0.2.5", ["192.0.2.5"], ["192.0.2.6"]),
        ] as [(String, [String], [String])])
    func within(_ text: String, _ inside: [String], _ outside: [String]) throws {
        let range = try #require(AddressRange(text))
        for each in inside { #expect(range.contains(try address(each)), "\(each)") }
        for each in outside { #expect(!range.contains(try address(each)), "\(each)") }
        #expect(AddressRange(range.description) == range, "\(range)")
    }

    @Test(arguments: [
        ("192.0.2.5", "192.0.2.5/32"), ("2001:DB8:0::/48", "2001:db8::/48"), ("2001:db8::1", "2001:db8::1/128"),
        ("192.0.2.0/024", "192.0.2.0/24"),
    ])
    func descriptions(_ text: String, _ description: String) { #expect(AddressRange(text)?.description == description) }

    @Test(arguments: [
        "", "/", "/24", "192.0.2.0/", "192.0.2.0/33", "192.0.2.0/-1", "192.0.2.0/+24", "192.0.2.0/ 24", "192.0.2.0/24 ",
        "192.0.2.0/24/24", "192.0.2.0//24", "192.0.2.0/a", "192.0.2.0/0x18", "192.0.2.0/255.255.255.0", "192.0.2/24",
        "192.0.2.0/99999999999999999999", "192.0.2.0/２４", "2001:db8::/129", "2001:db8::/-0", "192.0.2.*", "192.0.2.0-192.0.2.255",
        "*",
        // Bits after the prefix: the person who wrote it meant another range, or an address.
        "192.0.2.1/24", "192.0.2.128/24", "192.0.2.5/31", "0.0.0.1/0", "2001:db8::1/64", "2001:db8::/28", "::1/0",
        // IPv4 within IPv6: 24 of 128 bits, or of 32?
        "::ffff:192.0.2.0/24", "::ffff:192.0.2.0/120", "::ffff:192.0.2.5/128", "::ffff:0:0/96", "::ffff:0:0/0",
    ])
    func otherTexts(_ text: String) { #expect(AddressRange(text) == nil) }

    /// Every prefix: the last address within and the first beside.
    @Test func everyPrefix() throws {
        for (count, bits) in [(4, 32), (16, 128)] {
            let ones = try #require(InternetAddress(bytes: [UInt8](repeating: 0xA5, count: count)))
            for prefix in 0...bits {
                let base = try #require(InternetAddress(bytes: ones.bytes.masked(prefix)))
                let range = try #require(AddressRange("\(base)/\(prefix)"))
                #expect(range.prefix == prefix && range.base == base && range.contains(ones) && range.contains(base))
                for bit in 0..<bits {
                    var other = ones.bytes
                    other[bit / 8] ^= 0x80 >> UInt8(bit % 8)
                    #expect(range.contains(try #require(InternetAddress(bytes: other))) == (bit >= prefix))
                }
            }
        }
    }
}

extension [UInt8] {
    fileprivate func masked(_ prefix: Int) -> [UInt8] {
        enumerated().map { index, byte in (0..<8).reduce(0) { index * 8 + $1 < prefix ? $0 | byte & (0x80 >> UInt8($1)) : $0 } }
    }
}
