// SPDX-License-Identifier: Apache-2.0
// The patterns by which controllers recognize accessories: no advert that matches a descriptor is without one, unless
// the descriptor says so.

import AccessoryCore
import AccessoryModel
import Testing

@Suite struct AdvertPatternTests {
    private func descriptor(_ body: (inout DiscoveryDescriptor) -> Void) -> DiscoveryDescriptor {
        var descriptor = DiscoveryDescriptor()
        body(&descriptor)
        return descriptor
    }

    private func fields(_ descriptor: DiscoveryDescriptor) -> [[UInt8]] {
        AdvertPattern.patterns(of: descriptor).patterns.map { [$0.start, $0.type] + $0.content }
    }

    @Test func aCompanyIsComplete() throws {
        let company = descriptor { $0.companyIdentifier = CompanyIdentifier(0x0499) }
        #expect(fields(company) == [[0, 0xFF, 0x99, 0x04]])
        #expect(AdvertPattern.patterns(of: company).areComplete)
        // Only whole bytes count, up to the first that does not.
        var data = company
        data.manufacturerData = try MaskedData(blob: [5, 0x10, 7], mask: [0xFF, 0xF0, 0xFF])
        #expect(fields(data) == [[0, 0xFF, 0x99, 0x04, 5]])
        data.serviceUUID = BluetoothUUID(short: 0x180F)
        #expect(fields(data).count == 1)
    }

    @Test func aServiceMayBeTheSecondInItsList() throws {
        var service = descriptor { $0.serviceUUID = BluetoothUUID(short: 0x180F) }
        #expect(fields(service) == [[0, 0x02, 0x0F, 0x18], [0, 0x03, 0x0F, 0x18], [0, 0x16, 0x0F, 0x18]])
        #expect(!AdvertPattern.patterns(of: service).areComplete)
        service.serviceData = try MaskedData(blob: [1], mask: [0xFF])
        #expect(fields(service) == [[0, 0x16, 0x0F, 0x18, 1]])
        #expect(AdvertPattern.patterns(of: service).areComplete)
    }

    @Test func longServices() throws {
        let short = descriptor { $0.serviceUUID = BluetoothUUID(short: 0x0102_0304) }
        #expect(fields(short) == [0x04, 0x05, 0x20].map { [0, $0, 4, 3, 2, 1] })
        let long = descriptor { $0.serviceUUID = BluetoothUUID("00112233-4455-6677-8899-aabbccddeeff") }
        let bytes: [UInt8] = [
            0xFF, 0xEE, 0xDD, 0xCC, 0xBB, 0xAA, 0x99, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00,
        ]
        #expect(fields(long) == [0x06, 0x07, 0x21].map { [0, $0] + bytes })
    }

    @Test func aPatternFitsIntoAnAdvert() throws {
        var long = descriptor { $0.companyIdentifier = CompanyIdentifier(1) }
        long.manufacturerData = try MaskedData(blob: [UInt8](repeating: 1, count: 40), mask: [UInt8](repeating: 0xFF, count: 40))
        #expect(AdvertPattern.patterns(of: long).patterns[0].content.count == 31)
        #expect(AdvertPattern.patterns(of: descriptor { $0.ssid = [65] }).patterns.isEmpty)
    }
}
