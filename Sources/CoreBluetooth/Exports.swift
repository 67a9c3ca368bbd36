// SPDX-License-Identifier: Apache-2.0
// The module's surface is Apple's: the source of each public declaration is Apple's documentation of the same name,
// unless its comment names another. Like Apple's umbrella header, the module re-exports these.

@_exported public import Dispatch
@_exported public import Foundation
@_exported public import Observation
