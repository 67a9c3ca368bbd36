// SPDX-License-Identifier: Apache-2.0
// A file that imports NetworkExtension alone.

import NetworkExtension

public func apply(_ name: String) async throws {
    try await NEHotspotConfigurationManager.shared.apply(NEHotspotConfiguration(ssid: name))
}
