// SPDX-License-Identifier: Apache-2.0
// The version of this software, in one place.

/// This software's version.
public enum Version {
    /// Semantic version.
    public static let current = "0.1.0"
}
