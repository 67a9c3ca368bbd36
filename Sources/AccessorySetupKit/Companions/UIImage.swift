// SPDX-License-Identifier: Apache-2.0
// The part of UIKit that AccessorySetupKit's own interface mentions: an image, as the bytes of its file. Nothing here
// decodes it; the picker program does.

internal import AccessoryModel
public import Foundation

/// A product image: a PNG, JPEG or SVG file, recognised by its first bytes. Immutable.
///
/// A picker refuses images of more than 1 MiB with ``ASError/Code/invalidRequest``.
///
/// Source: Apple's documentation of `UIImage`.
open class UIImage: NSObject, @unchecked Sendable {
    // @unchecked because a class that is not final cannot be checked: the one stored property is an immutable value of
    // a Sendable type. A subclass answers for its own.

    /// Nil for an empty image.
    private let image: ProductImage?

    /// An empty image. A picker shows an item that has it without a picture.
    ///
    /// Source: Apple's documentation of `UIImage`.
    public override init() {
        image = nil
    }

    /// An image that stands for a symbol. Linux has no SF Symbols: this is a drawing of coloured cells, a PNG of 120 by
    /// 120 pixels, the same for the same name. Nil for an empty name only.
    ///
    /// Source: Apple's documentation of `UIImage.init(systemName:)`.
    ///
    /// - Parameter name: the name of a symbol, for example `dice.fill`; whether there is such a symbol is not looked
    ///   at.
    public convenience init?(systemName name: String) {
        guard !name.isEmpty else { return nil }
        self.init(bytes: PlaceholderImage.png(for: name))
    }

    /// An image from the bytes of its file; nil when they are neither PNG, JPEG nor SVG.
    public convenience init?(data: Data) {
        self.init(bytes: [UInt8](data))
    }

    /// An image from a file; nil when it cannot be read, or is neither PNG, JPEG nor SVG.
    public convenience init?(contentsOfFile path: String) {
        guard let data = FileManager.default.contents(atPath: path) else { return nil }
        self.init(data: data)
    }

    /// An image that is installed with the app; nil when there is none.
    ///
    /// Looked for, in this order: in the main bundle's resource directory, in the executable's directory, in
    /// `Resources` beside the executable, and in `../share/NAME` seen from there, where NAME is the executable's.
    /// Without an extension `.png`, `.jpg`, `.jpeg` and `.svg` are tried.
    ///
    /// - Parameter name: a file's name, or a path below these directories.
    public convenience init?(named name: String) {
        guard !name.isEmpty else { return nil }
        for directory in Self.directories {
            for ending in ["", ".png", ".jpg", ".jpeg", ".svg"] {
                let path = directory.appendingPathComponent(name + ending).path
                guard let data = FileManager.default.contents(atPath: path), let image = ProductImage([UInt8](data)) else {
                    continue
                }
                self.init(image)
                return
            }
        }
        return nil
    }

    private convenience init?(bytes: [UInt8]) {
        guard let image = ProductImage(bytes) else { return nil }
        self.init(image)
    }

    private init(_ image: ProductImage) {
        self.image = image
    }

    /// The file; nil for an empty image.
    var bytes: [UInt8]? { image?.bytes }

    private static let directories: [URL] = {
        var directories: [URL] = []
        if let resources = Bundle.main.resourceURL { directories.append(resources) }
        if let executable = Bundle.main.executableURL?.resolvingSymlinksInPath() {
            let directory = executable.deletingLastPathComponent()
            directories.append(directory)
            directories.append(directory.appendingPathComponent("Resources"))
            directories.append(
                directory.deletingLastPathComponent().appendingPathComponent("share/\(executable.lastPathComponent)"))
        }
        return directories
    }()

    /// Equal when the files' bytes are; empty ones are equal.
    open override func isEqual(_ other: Any?) -> Bool {
        guard let other = other as? UIImage else { return false }
        return image == other.image
    }

    /// Goes with `isEqual`.
    open override var hash: Int { image.hashValue }

    /// The format and the size.
    open override var description: String { image.map { "\($0.format.rawValue), \($0.bytes.count) bytes" } ?? "empty" }
}
