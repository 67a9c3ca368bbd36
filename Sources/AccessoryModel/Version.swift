// SPDX-License-Identifier: Apache-2.0
// The version of this software, in one place.

/// What this software calls itself by.
public enum Version {
    /// Semantic version.
    public static let current = "0.1.0"
}
