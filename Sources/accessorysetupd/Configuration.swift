// What an admin sets in accessorysetupd.conf; everything has a default, and a mistake is an error at start, not a guess.

internal import KeyFiles

struct Configuration {
    /// `[Bluetooth] Adapter=`: the adapter to use (`hci1`); none means the first with power.
    var adapter: String?
    /// `[Bluetooth] ImmediateRSSI=`: what `immediate` means, dBm, −100…0.
    var immediateRSSI = -55

    static let standardPath = "/etc/accessory-setup/accessorysetupd.conf"
    private static let group = "Bluetooth"

    init() {}

    /// - Throws: the first problem, with file, line and key.
    init(path: String) throws(KeyFileProblem) {
        let file = try KeyFile(path: path)
        if let problem = file.unknown(besides: [Self.group: ["Adapter", "ImmediateRSSI"]]).first { throw problem }
        adapter = try file.string(Self.group, "Adapter")
        if let value = try file.integer(Self.group, "ImmediateRSSI") {
            guard (-100...0).contains(value) else { throw file.problem(Self.group, "ImmediateRSSI", "\(value): must be −100 to 0") }
            immediateRSSI = value
        }
    }
}
