"""How many pieces a TIFF image is in, known before Pillow makes an object for each."""

import struct
from pathlib import Path

PLACES = (273, 279, 324, 325)
"""Tags that list where strips and tiles are, and how long."""
# By what follows the byte order: the formats of an offset, a number of tags, a tag; and where the
# first offset is.
VARIANTS = {42: ("I", "H", "HHI4x", 4), 43: ("Q", "Q", "HHQ8x", 8)}


def tiff_pieces(file: Path) -> int:
    """Strips or tiles of a TIFF file's first image; none of other files, and where it is damaged.

    What damages a header so that no pieces are found here keeps Pillow from finding any too.
    """
    with file.open("rb") as content:
        begin = content.read(16)
        order = {b"II": "<", b"MM": ">"}.get(begin[:2])
        if order is None or len(begin) < 16:
            return 0
        variant = VARIANTS.get(struct.unpack_from(f"{order}H", begin, 2)[0])
        if variant is None:
            return 0
        offset, count, tag, at = variant
        content.seek(min(struct.unpack_from(order + offset, begin, at)[0], 2**62))
        length = struct.calcsize(order + count)
        entries = int.from_bytes(content.read(length), "little" if order == "<" else "big")
        size = struct.calcsize(order + tag)
        listed = content.read(size * min(entries, 2**16))
        found = struct.iter_unpack(order + tag, listed[: len(listed) // size * size])
        return max((times for number, _, times in found if number in PLACES), default=0)
