// SPDX-License-Identifier: Apache-2.0
// The modules that Apple's umbrella header brings along: a file that imports AccessorySetupKit alone gets these, too.

@_exported public import CoreBluetooth
@_exported public import Dispatch
@_exported public import Foundation
@_exported public import Observation
