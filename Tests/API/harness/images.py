# SPDX-License-Identifier: Apache-2.0
"""Product images, as an app sends them."""

import struct
import zlib


def png(width, height, pixel):
    """A PNG whose pixels `pixel(x, y)` says, as (red, green, blue, alpha)."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"".join(bytes(pixel(x, y)) for x in range(width)) for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


# A pink square with a transparent border, of the size that a picker shows.
PRODUCT = png(180, 120, lambda x, y: (255, 0, 128, 255) if 60 <= x < 120 and 30 <= y < 90 else (0, 0, 0, 0))
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="180" height="120"><rect width="180" height="120" fill="#ff0080"/></svg>'
