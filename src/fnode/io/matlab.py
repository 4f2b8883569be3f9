"""MATLAB's MAT files of version 5 (what `save -v6` and `save -v7` write), read without trusting them.

A file is 128 bytes of header and then elements: a tag with a type and a size, and the data; `miCOMPRESSED` ones hold
another, deflated. An array is a `miMATRIX` element of four: flags (with its class), dimensions, name, values. Every
size is checked against the bytes that are there: damaged files have crashed compiled readers. Structures, cells and
sparse arrays are passed over.
"""

import dataclasses
import math
import struct
import zlib

import numpy as np

from fnode.errors import InputError

HEADER = 128
COMPRESSED, MATRIX = 15, 14
KINDS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8", 16: "u1", 17: "u2"}
CHARACTERS, FIRST_NUMBER, LAST_NUMBER = 4, 6, 15  # classes of arrays: texts, and the numbers from double to uint64
COMPLEX = 8  # a bit of the flags
LARGEST = 1_000_000_000  # bytes of one inflated element


class Damaged(ValueError):
    """The bytes are not those of a MAT file."""


@dataclasses.dataclass
class Elements:
    """The elements of a stretch of bytes, one after the other."""

    data: memoryview
    order: str  # of bytes: "<" or ">"
    place: int = 0

    def __bool__(self) -> bool:
        return self.place + 8 <= len(self.data)

    def following(self) -> tuple[int, memoryview]:
        """The type and the data of the element that comes now."""
        if not self:
            raise Damaged("it ends in the middle of an array")
        kind, size = struct.unpack_from(self.order + "II", self.data, self.place)
        begin, end = self.place + 8, self.place + 8 + size
        if kind >> 16:  # up to four bytes stand in the tag itself
            kind, size = kind & 0xFFFF, kind >> 16
            begin, end = self.place + 4, self.place + 4 + size
            if size > 4:
                raise Damaged(f"a short element claims {size} bytes")
            self.place += 8
        else:
            self.place = end if kind == COMPRESSED else end + (-size) % 8
        if end > len(self.data):
            raise Damaged("it ends in the middle of an array")
        return kind, self.data[begin:end]


def read_arrays_of_mat(content: bytes) -> dict[str, np.ndarray]:
    """The arrays of numbers and the texts of a MAT file, by name."""
    if len(content) < HEADER:
        raise Damaged("it is shorter than the header of a MAT file")
    mark = content[126:128]
    if mark not in (b"IM", b"MI"):
        raise Damaged("it is not a MAT file of version 5 to 7: save it with '-v7'")
    order = "<" if mark == b"IM" else ">"
    (version,) = struct.unpack_from(order + "H", content, 124)
    if version >> 8 == 2:
        raise InputError("a MAT file of version 7.3 is an HDF5 file: save it with '-v7', or name it .h5")
    elements, found = Elements(memoryview(content)[HEADER:], order), {}
    while elements:
        kind, data = elements.following()
        if kind == COMPRESSED:
            unpacked = zlib.decompressobj().decompress(data, LARGEST)
            kind, data = Elements(memoryview(unpacked), order).following()
        if kind == MATRIX:
            found |= _array(Elements(data, order))
    return found


def _array(parts: Elements) -> dict[str, np.ndarray]:
    """An array by its name; nothing when it holds neither numbers nor text."""
    flags = _numbers(*parts.following(), parts.order)
    if len(flags) < 1:
        raise Damaged("an array has no class")
    kind, is_complex = int(flags[0]) & 0xFF, int(flags[0]) >> 8 & COMPLEX
    if kind != CHARACTERS and not FIRST_NUMBER <= kind <= LAST_NUMBER:
        return {}
    shape = tuple(int(size) for size in _numbers(*parts.following(), parts.order))
    name = bytes(_numbers(*parts.following(), parts.order).astype(np.uint8)).decode("latin-1")
    if is_complex:
        raise InputError(f"'{name}' holds complex numbers: need real ones")
    values = _numbers(*parts.following(), parts.order)
    if len(shape) < 2 or min(shape) < 0 or math.prod(shape) != len(values):
        raise Damaged(f"'{name}' has {len(values)} values for a shape of {shape}")
    values = values.reshape(shape, order="F")
    if kind == CHARACTERS:
        codes = np.where(values.astype(np.uint32) > 0xD7FF, 0xFFFD, values.astype(np.uint32))
        return {name: np.array(["".join(map(chr, row)).rstrip() for row in codes.reshape(shape[0], -1).tolist()])}
    return {name: values}


def _numbers(kind: int, data: memoryview, order: str) -> np.ndarray:
    if kind not in KINDS:
        raise Damaged(f"it has numbers of an unknown type {kind}")
    dtype = np.dtype(order + KINDS[kind])
    values = np.frombuffer(data, dtype, count=len(data) // dtype.itemsize)
    return values.astype(KINDS[kind])
