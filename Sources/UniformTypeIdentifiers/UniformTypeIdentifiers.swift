// SPDX-License-Identifier: Apache-2.0
// For files of extensions that import UniformTypeIdentifiers for the protocols of devices: that one type, and no more.

@_exported public import struct DeviceDiscoveryExtension.UTType
