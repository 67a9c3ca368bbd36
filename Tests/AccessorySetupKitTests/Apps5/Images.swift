// SPDX-License-Identifier: Apache-2.0
// A file that imports UIKit alone, as views do, and one image of each kind that apps make.

import UIKit

public enum AppImages {
    public static func symbol() -> UIImage { UIImage(systemName: "dice.fill")! }
    public static func nothing() -> UIImage { UIImage() }
}
