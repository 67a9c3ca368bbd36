// SPDX-License-Identifier: Apache-2.0
// The accessories that an app's extension has reported in a run.

internal import AccessoryCore
internal import AccessoryModel

struct ReportedItems {
    struct Reported {
        var item: ReportedItem
        let place: OfferNumbering.Place
    }

    private let manifest: AppManifest
    private var present: [String: Reported] = [:]
    /// An accessory that returns keeps its place.
    private var places: [String: OfferNumbering.Place] = [:]
    /// Reports not yet forgotten at this time, in monotonic seconds: `reportsPerSecond` are, each second. A slow
    /// machine takes a flood slowly, and must see it too.
    private var recent = (at: 0.0, count: 0.0)

    init(_ manifest: AppManifest) { self.manifest = manifest }

    /// In the order of appearance.
    var all: [Reported] { present.values.sorted { $0.place.number < $1.place.number } }

    subscript(_ identity: ReportedIdentity?) -> ReportedItem? { identity.flatMap { present[$0.identifier]?.item } }

    /// Networks that accessories are found by, or reached by besides.
    var networks: [SSID] { all.compactMap(\.item.ssid) }
    var wantsBluetooth: Bool { present.values.contains { $0.item.peripheral != nil } }

    /// Whether an accessory in range is among those present.
    ///
    /// - Parameter accessory: the stored accessory that it is.
    func names(_ candidate: AccessoryCandidate, _ accessory: AccessoryID?) -> Bool {
        present.values.contains { reported in
            switch reported.item.peripheral {
            case .address(let value)?: candidate.advertisement?.address.value == value
            case .identifier(let id)?: accessory == id
            case nil: reported.item.ssid != nil && candidate.network?.ssid == reported.item.ssid
            }
        }
    }

    /// Traits of Bluetooth devices that the app has declared, each as an item by itself: a reported device must show
    /// one.
    var declared: [DisplayItem] { manifest.supports.contains(.bluetooth) ? manifest.declaredItems : [] }

    /// - Throws: `InvalidRequest` past the limits, and for a radio or a network that the app has not declared.
    mutating func take(_ report: ExtensionReport, now: Double) throws(SetupError) {
        recent = (now, max(0, recent.count - (now - recent.at) * Limits.reportsPerSecond) + 1)
        guard recent.count <= Double(Limits.reportsPerPicker) else {
            throw SetupError(
                .invalidRequest,
                "extension: more than \(Limits.reportsPerPicker) reports, and \(Int(Limits.reportsPerSecond)) a second")
        }
        switch report {
        case .present(let item): try put(item)
        case .lost(let identifier): present[identifier] = nil
        case .started, .other, .ended: break
        }
    }

    private mutating func put(_ item: ReportedItem) throws(SetupError) {
        if item.peripheral != nil, declared.isEmpty {
            throw SetupError(
                .invalidRequest, "extension: bluetoothIdentifier: \(manifest.source) declares no Bluetooth service or company")
        }
        if let ssid = item.ssid {
            do throws(SetupError) {
                try DescriptorRules.check(ssid, declaredBy: manifest)
            } catch {
                throw SetupError(error.code, "extension: \(error.message)")
            }
        }
        let identifier = item.identity.identifier
        guard places.count < Limits.reportsPerPicker || places[identifier] != nil else {
            throw SetupError(.invalidRequest, "extension: more than \(Limits.reportsPerPicker) accessories in one picker")
        }
        let bytes = present.reduce(item.image?.bytes.count ?? 0) { sum, other in
            other.key == identifier ? sum : sum + (other.value.item.image?.bytes.count ?? 0)
        }
        guard bytes <= Limits.imageBytesPerPicker else {
            throw SetupError(.invalidRequest, "extension: more than \(Limits.imageBytesPerPicker) bytes of images in one picker")
        }
        let place = places[identifier] ?? OfferNumbering.Place(number: places.count + 1, identifier: .random())
        places[identifier] = place
        present[identifier] = Reported(item: item, place: place)
    }
}
