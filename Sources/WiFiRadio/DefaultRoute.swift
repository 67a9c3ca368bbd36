// SPDX-License-Identifier: Apache-2.0
// Which interfaces carry the machine's own traffic: read from the kernel's tables when an interface has to be chosen.

internal import SystemFiles

enum DefaultRoute {
    /// The interfaces that a default route leads out of.
    ///
    /// - Parameter directory: the directory of the tables `route` and `ipv6_route`, `/proc/1/net`. An unreadable table
    ///   has no routes.
    static func interfaces(in directory: String) -> Set<String> {
        var found: Set<String> = []
        // Interface, destination, gateway, flags, references, use, metric, mask; numbers in hexadecimal, in the
        // machine's order.
        for row in rows(directory + "/route").dropFirst() where row.count >= 8 && isZero(row[1]) && isZero(row[7]) {
            found.insert(row[0])
        }
        // Destination, its prefix length, source, its prefix length, next hop, metric, references, use, flags,
        // interface. The kernel's own "no route" stands on lo.
        for row in rows(directory + "/ipv6_route") where row.count >= 10 && isZero(row[0]) && isZero(row[1]) && row[9] != "lo" {
            found.insert(row[9])
        }
        return found
    }

    private static func isZero(_ digits: String) -> Bool { digits.allSatisfy { $0 == "0" } }

    private static func rows(_ path: String) -> [[String]] {
        guard let text = try? SystemFile.text(path) else { return [] }
        return text.split(separator: "\n").map { $0.split(whereSeparator: \.isWhitespace).map(String.init) }
    }
}
