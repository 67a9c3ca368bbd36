// SPDX-License-Identifier: Apache-2.0
// From the dictionaries of requests to the model: every key known, every type right, every limit held, or an error that
// names the key and the value, before anything else happens.

public import AccessoryModel
public import DBusKit

/// A dictionary that an app or a picker program sends.
public protocol WireRequest: WireRecord {
    /// The daemon's form.
    associatedtype Checked = Self
    /// The value for the daemon, after the checks that concern several keys.
    func checked() throws(WireProblem) -> Checked
}

extension WireRequest where Checked == Self {
    public func checked() -> Self { self }
}

extension WireRequest {
    /// - Parameter place: where the dictionary stands, for messages.
    /// - Throws: `InvalidRequest` for an unknown key, a wrong type, or a value that is never valid.
    @discardableResult
    public static func decode(_ value: DBusValue, _ place: String = recordName) throws(BusError) -> Checked {
        do { return try Self(request: value).checked() } catch { throw BusError(error, in: place) }
    }

    fileprivate static func items(_ value: DBusValue, image: KeyPath<Checked, ProductImage?>) throws(BusError) -> [Checked] {
        let values = value.arrayValue ?? []
        guard values.count <= Limits.itemsPerPicker else {
            throw BusError(WireProblem("\(values.count) items", "more than \(Limits.itemsPerPicker)"), in: "items")
        }
        var items: [Checked] = []
        var imageBytes = 0
        for (index, value) in values.enumerated() {
            let item = try decode(value, "items[\(index)]")
            imageBytes += item[keyPath: image]?.bytes.count ?? 0
            guard imageBytes <= Limits.imageBytesPerPicker else {
                throw BusError(
                    WireProblem("\(imageBytes) bytes in total", "more than \(Limits.imageBytesPerPicker)"),
                    in: "items[\(index)].productImage")
            }
            items.append(item)
        }
        return items
    }

    func required<Value>(_ value: Value?, _ key: String) throws(WireProblem) -> Value {
        guard let value else { throw WireProblem("", "is missing", at: key) }
        return value
    }

    func productImage(_ value: DBusValue?) throws(WireProblem) -> ProductImage? {
        guard let value else { return nil }
        let limit = Limits.imageBytes
        func problem(_ value: String, _ reason: String) -> WireProblem { WireProblem(value, reason, at: "productImage") }
        guard let bytes = value.bytesValue ?? value.fileDescriptorValue?.readFile(limit: limit) else {
            throw problem(
                "descriptor", "must be sealed memory or a readable file on a local disk, of at most \(limit) bytes")
        }
        guard bytes.count <= limit else { throw problem("\(bytes.count) bytes", "more than \(limit)") }
        guard let image = ProductImage(bytes) else { throw problem("\(bytes.count) bytes", "neither PNG, JPEG nor SVG") }
        return image
    }
}

extension ItemKeys {
    /// The items of `ShowPicker`; none for the app's extension.
    public static func items(_ value: DBusValue) throws(BusError) -> [DisplayItem] { try items(value, image: \.image) }
}

extension DiscoveredItemKeys {
    /// The items of `UpdatePicker`.
    public static func items(_ value: DBusValue) throws(BusError) -> [DiscoveredItem] { try items(value, image: \.image) }
}

extension ShownName {
    /// - Throws: `InvalidRequest` for a name that may not be shown.
    public static func check(_ name: String, _ key: String) throws(BusError) {
        if let problem = refusal(of: name) { throw BusError(problem, in: key) }
    }

    @Sendable static func refusal(of name: String) -> WireProblem? {
        problem(with: name).map {
            WireProblem(name.utf8.count > Limits.nameBytes ? "\(name.utf8.count) bytes" : name.debugDescription, $0)
        }
    }
}

extension EndChoice {
    /// - Throws: `InvalidRequest` for a text that is neither an end nor `none`.
    public static func decode(_ text: String, _ key: String) throws(BusError) -> EndChoice {
        if let choice = EndChoice(text) { return choice }
        throw BusError(refusal(of: text) ?? WireProblem(text, "not an end"), in: key)
    }
}

extension AccessLimit {
    /// - Throws: `InvalidRequest` for a text that is no access.
    public static func decode(_ text: String, _ key: String) throws(BusError) -> AccessLimit {
        if let access = AccessLimit(text) { return access }
        throw BusError(refusal(of: text) ?? WireProblem(text, "not an access"), in: key)
    }
}

extension BusError {
    fileprivate init(_ problem: WireProblem, in place: String) {
        let place = problem.within(place).path
        let error = problem.value.map { SetupError.invalid(place, $0, problem.reason) }
        self.init(error ?? SetupError(.invalidRequest, "\(place): \(problem.reason)"))
    }
}
