// SPDX-License-Identifier: Apache-2.0
// Product images as pixels. PNG, JPEG and SVG are read by gdk-pixbuf, which is looked for when the first image comes: a
// gateway without it has a picker without images, and nothing else less.

internal import AccessoryModel
internal import Glibc
internal import TerminalGraphics

/// gdk-pixbuf, if this machine has it.
final class ImageDecoder {
    private typealias NewStream = @convention(c) (UnsafeRawPointer, Int, UnsafeRawPointer?) -> OpaquePointer?
    private typealias NewFromStream =
        @convention(c) (OpaquePointer, Int32, Int32, Int32, OpaquePointer?, UnsafeMutableRawPointer?) -> OpaquePointer?
    private typealias AddAlpha = @convention(c) (OpaquePointer, Int32, UInt8, UInt8, UInt8) -> OpaquePointer?
    private typealias GetNumber = @convention(c) (OpaquePointer) -> Int32
    private typealias ReadPixels = @convention(c) (OpaquePointer) -> UnsafePointer<UInt8>?
    private typealias Unref = @convention(c) (OpaquePointer) -> Void

    private let newStream: NewStream
    private let newFromStream: NewFromStream
    private let addAlpha: AddAlpha
    private let width: GetNumber
    private let height: GetNumber
    private let rowStride: GetNumber
    private let readPixels: ReadPixels
    private let unref: Unref

    /// A larger image is no product image, but an attempt to fill the memory.
    private static let largestSide = 4096

    init?() {
        guard let library = dlopen("libgdk_pixbuf-2.0.so.0", RTLD_NOW) else { return nil }
        // The types above are those of gdk-pixbuf's and GIO's reference manuals; the library's major version is in its
        // name.
        func function<Function>(_ name: String, _: Function.Type) -> Function? {
            dlsym(library, name).map { unsafeBitCast($0, to: Function.self) }
        }
        guard let newStream = function("g_memory_input_stream_new_from_data", NewStream.self),
            let newFromStream = function("gdk_pixbuf_new_from_stream_at_scale", NewFromStream.self),
            let addAlpha = function("gdk_pixbuf_add_alpha", AddAlpha.self),
            let width = function("gdk_pixbuf_get_width", GetNumber.self),
            let height = function("gdk_pixbuf_get_height", GetNumber.self),
            let rowStride = function("gdk_pixbuf_get_rowstride", GetNumber.self),
            let readPixels = function("gdk_pixbuf_read_pixels", ReadPixels.self),
            let unref = function("g_object_unref", Unref.self)
        else { return nil }
        (self.newStream, self.newFromStream, self.addAlpha) = (newStream, newFromStream, addAlpha)
        (self.width, self.height, self.rowStride) = (width, height, rowStride)
        (self.readPixels, self.unref) = (readPixels, unref)
    }

    /// The whole image, borders included, scaled into a box; nil for an image that cannot be read.
    func decode(_ bytes: [UInt8], into box: (width: Int, height: Int)) -> Bitmap? {
        guard let image = ProductImage(bytes), Self.isReasonable(image) else { return nil }
        return bytes.withUnsafeBytes { buffer -> Bitmap? in
            guard let start = buffer.baseAddress, let stream = newStream(start, buffer.count, nil) else { return nil }
            defer { unref(stream) }
            guard let scaled = newFromStream(stream, Int32(box.width), Int32(box.height), 1, nil, nil) else { return nil }
            defer { unref(scaled) }
            guard let pixels = addAlpha(scaled, 0, 0, 0, 0) else { return nil }
            defer { unref(pixels) }
            return copy(pixels)
        }
    }

    private func copy(_ pixels: OpaquePointer) -> Bitmap? {
        let (width, height, stride) = (Int(width(pixels)), Int(height(pixels)), Int(rowStride(pixels)))
        guard let start = readPixels(pixels) else { return nil }
        var rgba: [UInt8] = []
        rgba.reserveCapacity(width * height * 4)
        for row in 0..<height { rgba += UnsafeBufferPointer(start: start + row * stride, count: width * 4) }
        return Bitmap(width: width, height: height, rgba: rgba)
    }

    /// Whether a raster image is whole, and of a size that can be held in memory. (gdk-pixbuf shows the first part of a
    /// truncated image, and leaves the rest undefined.) An SVG has no size: it is drawn in ours.
    private static func isReasonable(_ image: ProductImage) -> Bool {
        let end: [UInt8] =
            switch image.format {
            case .png: [0x49, 0x45, 0x4E, 0x44, 0xAE, 0x42, 0x60, 0x82]
            case .jpeg: [0xFF, 0xD9]
            case .svg: []
            }
        guard image.bytes.suffix(end.count).elementsEqual(end) else { return false }
        let size: (width: Int, height: Int)? =
            switch image.format {
            case .png: image.bytes.count >= 24 ? (number(image.bytes[16..<20]), number(image.bytes[20..<24])) : nil
            case .jpeg: jpegSize(image.bytes)
            case .svg: (1, 1)
            }
        guard let size else { return false }
        return (1...largestSide).contains(size.width) && (1...largestSide).contains(size.height)
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> Int { bytes.reduce(0) { $0 << 8 | Int($1) } }

    /// From the first frame header (ITU T.81, B.2.2).
    private static func jpegSize(_ bytes: [UInt8]) -> (width: Int, height: Int)? {
        var index = 2
        while index + 9 < bytes.count, bytes[index] == 0xFF {
            let marker = bytes[index + 1]
            if (0xC0...0xCF).contains(marker), ![0xC4, 0xC8, 0xCC].contains(marker) {
                return (number(bytes[(index + 7)..<(index + 9)]), number(bytes[(index + 5)..<(index + 7)]))
            }
            index += 2 + number(bytes[(index + 2)..<(index + 4)])
        }
        return nil
    }
}
