// SPDX-License-Identifier: Apache-2.0
// From the dictionaries of requests to the model: every key known, every type right, every limit held, or an error that
// names the key and the value, before anything else happens.

public import AccessoryModel
public import DBusKit

extension BusError {
    fileprivate init(_ problem: WireProblem, in place: String) {
        let place = problem.within(place).path
        let error = problem.value.map { SetupError.invalid(place, $0, problem.reason) }
        self.init(error ?? SetupError(.invalidRequest, "\(place): \(problem.reason)"))
    }
}

extension WireRequest {
    /// - Parameter place: where the dictionary stands, for messages: `items[0]`.
    fileprivate static func decode(_ value: DBusValue, _ place: String) throws(BusError) -> Checked {
        do { return try Self(request: value).checked() } catch { throw BusError(error, in: place) }
    }
}

/// The dictionaries that apps and picker programs send.
public enum WireDecoding {
    /// The options of `CreateSession`.
    public static func empty(_ value: DBusValue, _ context: String) throws(BusError) {
        _ = try SessionKeys.decode(value, context)
    }

    /// The capabilities of `RegisterPicker`.
    public static func pickerCapabilities(_ value: DBusValue) throws(BusError) -> PickerCapabilities {
        try PickerCapabilities.decode(value, "capabilities")
    }

    /// The items of `ShowPicker`.
    public static func items(_ value: DBusValue) throws(BusError) -> [DisplayItem] {
        guard value.arrayValue?.isEmpty == false else { throw BusError(WireProblem("[]", "is empty"), in: "items") }
        return try items(value, ItemKeys.self, image: \.image)
    }

    /// The items of `UpdatePicker`.
    public static func discoveredItems(_ value: DBusValue) throws(BusError) -> [DiscoveredItem] {
        try items(value, DiscoveredItemKeys.self, image: \.image)
    }

    private static func items<Item: WireRequest>(
        _ value: DBusValue, _ type: Item.Type, image: KeyPath<Item.Checked, ProductImage?>
    ) throws(BusError) -> [Item.Checked] {
        let values = value.arrayValue ?? []
        guard values.count <= Limits.itemsPerPicker else {
            throw BusError(WireProblem("\(values.count) items", "more than \(Limits.itemsPerPicker)"), in: "items")
        }
        var items: [Item.Checked] = []
        var imageBytes = 0
        for (index, value) in values.enumerated() {
            let item = try Item.decode(value, "items[\(index)]")
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

    /// The options of `JoinNetwork`. The passphrase is never part of an error.
    public static func joinOptions(_ value: DBusValue) throws(BusError) -> JoinOptions {
        try JoinOptions.decode(value, "options")
    }

    /// The options of `RenameAccessory`.
    public static func renameOptions(_ value: DBusValue) throws(BusError) -> RenameOptions {
        try RenameKeys.decode(value, "options")
    }

    /// The settings of `FinishAuthorization`.
    public static func authorizationSettings(_ value: DBusValue) throws(BusError) -> AuthorizationSettings {
        try AuthorizationKeys.decode(value, "settings")
    }

    /// A descriptor; the rules among its keys are the engine's to check.
    ///
    /// - Throws: `InvalidRequest` for an unknown key, a wrong type, or a value that no descriptor can have.
    public static func descriptor(_ value: DBusValue, _ context: String) throws(BusError) -> DiscoveryDescriptor {
        try DescriptorKeys.decode(value, context)
    }

    /// The settings of `ShowPicker`.
    public static func settings(_ value: DBusValue) throws(BusError) -> PickerSettings {
        try PickerSettings.decode(value, "settings")
    }

    /// The answer to a prompt: exactly one of `accept` b, `passkey` u, `pin` s.
    public static func answer(_ value: DBusValue) throws(BusError) -> PromptAnswer {
        try AnswerKeys.decode(value, "answer")
    }

    /// A display name, see `ShownName`.
    public static func checkName(_ name: String, _ key: String) throws(BusError) {
        if let problem = nameProblem(name) { throw BusError(problem, in: key) }
    }

    @Sendable static func nameProblem(_ name: String) -> WireProblem? {
        ShownName.problem(with: name).map {
            WireProblem(name.utf8.count > Limits.nameBytes ? "\(name.utf8.count) bytes" : name.debugDescription, $0)
        }
    }

    static func productImage(_ value: DBusValue?) throws(WireProblem) -> ProductImage? {
        guard let value else { return nil }
        let key = "productImage"
        guard let bytes = value.bytesValue ?? value.fileDescriptorValue?.readFile(limit: Limits.imageBytes) else {
            throw WireProblem(
                "descriptor", "must be sealed memory or a readable file on a local disk, of at most \(Limits.imageBytes) bytes",
                at: key)
        }
        guard bytes.count <= Limits.imageBytes else {
            throw WireProblem("\(bytes.count) bytes", "more than \(Limits.imageBytes)", at: key)
        }
        guard let image = ProductImage(bytes) else {
            throw WireProblem("\(bytes.count) bytes", "neither PNG, JPEG nor SVG", at: key)
        }
        return image
    }
}
