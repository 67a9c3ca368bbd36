// SPDX-License-Identifier: Apache-2.0
// What Apple's umbrella header brings along: a file that imports CoreBluetooth and nothing else has these too.

@_exported public import Dispatch
@_exported public import Foundation
@_exported public import Observation
