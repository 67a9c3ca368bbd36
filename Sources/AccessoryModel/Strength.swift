// SPDX-License-Identifier: Apache-2.0
// How near something is, as far as its signal says.

/// Strengths of signals, dBm; nil when unknown.
public enum Strength {
    /// Whether `a` is the nearer of two; one that is unknown is farther than any.
    public static func isNearer(_ a: Int?, than b: Int?) -> Bool {
        switch (a, b) {
        case (let a?, let b?): a > b
        case (_?, nil): true
        case (nil, _): false
        }
    }
}
