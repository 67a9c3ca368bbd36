// SPDX-License-Identifier: Apache-2.0
// The daemon's limits (rule 19 of Docs/Rules.md). Docs/Limits.md lists them, and others that stand beside their
// subjects.

/// Limits on requests of peers, and on data from the air.
public enum Limits {
    /// Sessions that one user may have of one app at a time.
    public static let sessionsPerUser = 8
    /// Connections that may wait for their identity, or be known, at a time.
    public static let clients = 4096
    /// The share of one user.
    public static let clientsPerUser = 256
    /// Requests of one connection that wait for its identity.
    public static let waitingRequestsPerClient = 64
    /// Items of one picker.
    public static let itemsPerPicker = 256
    /// Accessories that one filtered picker discloses to its app.
    public static let discoveredPerPicker = 512
    /// Accessories that an extension may report in one picker, and reports at once.
    public static let reportsPerPicker = 512
    /// Reports of an extension in a second, besides `reportsPerPicker` at once.
    public static let reportsPerSecond = 64.0
    /// Seconds that an extension has to begin, from the connection to the answer of `StartDiscovery`.
    public static let extensionAnswer = 10.0
    /// Offers shown at a time; the nearest are kept.
    public static let offersShown = 64
    /// Bytes of one product image.
    public static let imageBytes = 1 << 20
    /// Bytes of all product images of one picker.
    public static let imageBytesPerPicker = 16 << 20
    /// Bytes of a display name.
    public static let nameBytes = 256
    /// Bytes of a name substring or regular expression.
    public static let nameSubstringBytes = 248
    /// Bytes of any other text.
    public static let textBytes = 4096
    /// Bytes of a data blob: the longest payload of an extended advert.
    public static let dataBytes = 1650
    /// Entries of one dictionary.
    public static let dictionaryEntries = 64
    /// Registered pickers.
    public static let pickers = 16
    /// Seconds for which a picker program may register.
    public static let pickerLease: ClosedRange<UInt32> = 5...3600
    /// Seconds for which a removal can be delayed.
    public static let removalDelay: ClosedRange<UInt32> = 1...60
    /// Seconds of a grant that ends: up to ten years.
    public static let grantDuration = 1...315_360_000
    /// Days without a use after which a grant may end.
    public static let idleDays = 1...3650
    /// Seconds before the end of a grant at which its app is warned.
    public static let endWarning = 1.0...3600.0
    /// Ends that an item or a rule offers.
    public static let endChoices = 16
    /// Devices tracked during discovery; the ones not heard for longest go first.
    public static let trackedDevices = 2048
    /// Devices of one kind that an app may hear at a time.
    public static let heardDevices = 1...1024
    /// The same for a kind without `maxDevices`.
    public static let usualHeardDevices = 64
    /// Names of devices in range that an offer for a kind has.
    public static let namesOfKind = 8
    /// Entries of a descriptor's list of characteristics.
    public static let characteristics = 64
    /// The place of a characteristic among those with its UUIDs; 0 for all.
    public static let characteristicInstance = 0...65_535
    /// Devices that can be excluded from one kind.
    public static let excludedDevices = 256
    /// Service UUIDs, service data and manufacturer data entries kept for one device.
    public static let advertEntriesPerDevice = 32
    /// Service UUIDs, and companies, that an accessory is remembered by.
    public static let traitsPerAccessory = 96
    /// A PIN has 1–16 bytes (Core 5.4, Vol 3, Part C, 3.2.3.3).
    public static let pinBytes = 1...16
    /// A passkey has six decimal digits.
    public static let passkey: ClosedRange<UInt32> = 0...999_999
    /// Seconds a discovery may be given: up to a day, or unbounded.
    public static let discoveryTimeout = 0.1...86_400.0
    /// Seconds that a request may wait for a picker program: up to a day, or unbounded.
    public static let pickerWait = 0...86_400.0
    /// Entries of one claim list.
    public static let entriesPerClaimList = 1000
    /// Seconds from a failed set-up by a claim list to the next one of the same accessory.
    public static let claimRetry: Int64 = 10
    /// Seconds between two looks at a claim list for which a request waits.
    public static let claimListReview = 60.0
    /// Requests that wait for a picker.
    public static let waitingRequests = 32
    /// The share of one user; each app has at most one.
    public static let waitingRequestsPerUser = 8
    /// Seconds for which an app that was refused a picker because of another's comes before those that had one since.
    public static let pickerClaim = 5.0
    /// Seconds from a person's cancel to the app's next picker: after the first, and at most, doubled by each in a row.
    public static let pickerPause = 2.0...20
    /// Seconds without a cancel after which the next one is the first again.
    public static let pickerPauseMemory = 60.0
    /// Grants whose accessories are observed.
    public static let observedGrants = 256
    /// Beginnings and ends of observations that one app may ask for in a minute.
    public static let observationsPerMinute = 20
    /// Seconds of a discovery window for observed accessories: an advert comes every 10.24 s at least (Core 5.4, Vol 6,
    /// Part B, 4.4.2.2).
    public static let presenceWindow = 1.3...10.24
    /// Seconds between two windows out of turn, such as after the end of a link.
    public static let presenceEarlyWindow = 60.0
    /// Seconds from one wake of an app to the next: after the first, and at most, doubled by each that the app does not
    /// follow by a session.
    public static let wakePause = 60.0...3600
}
