// SPDX-License-Identifier: Apache-2.0
// For files of apps that import NetworkExtension to join an accessory's network:
// the types for that, and no more. They live in AccessorySetupKit, as the networks are those of its accessories.

@_exported public import class AccessorySetupKit.NEHotspotConfiguration
@_exported public import Dispatch
@_exported public import Foundation
@_exported public import enum AccessorySetupKit.NEHotspotConfigurationError
@_exported public import let AccessorySetupKit.NEHotspotConfigurationErrorDomain
@_exported public import class AccessorySetupKit.NEHotspotConfigurationManager
