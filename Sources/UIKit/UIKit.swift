// SPDX-License-Identifier: Apache-2.0
// For files of apps that import UIKit for its images: that one class, and no more.
// A module by itself, so that `canImport(UIKit)` is true only for a package that asks for it.

@_exported public import class AccessorySetupKit.UIImage
@_exported public import Dispatch
@_exported public import Foundation
