"""What the arrays of the cross-language suite hold; the formula that every peer has in its own language (README.md)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np

#: The elements are the same again after so many.
PERIOD = 8191
INTEGERS = {1: lambda m: m, 2: lambda m: m * 8, 4: lambda m: m * 524288 + m, 8: lambda m: (m << np.uint64(51)) + m}


def array(dtype: str, shape: Sequence[int], seed: int, order: str) -> np.ndarray:
    """The array of this type and shape with this seed, laid out in this order."""
    kind = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64))
    n = np.arange(min(size, PERIOD), dtype=np.uint64)
    m = (n * 131 + seed * 29) % 8191
    if kind.kind == "b":
        flat = (m & 1).astype(bool)
    elif kind.kind in "iu":
        unsigned = INTEGERS[kind.itemsize](m).astype(f"u{kind.itemsize}")
        flat = unsigned if kind.kind == "u" else (unsigned ^ (1 << (8 * kind.itemsize - 1))).view(kind)
    elif kind.kind == "f":
        flat = _reals(m, kind)
    else:
        part = np.dtype(f"f{kind.itemsize // 2}")
        flat = np.stack([_reals(m, part), _reals((m * 7 + 3) % 8191, part)], axis=-1).reshape(-1).view(kind)
    if size > PERIOD:
        flat = np.resize(flat, size)
    return flat.reshape(shape).copy(order="C" if order == "row" else "F")


def _reals(m: np.ndarray, dtype: np.dtype) -> np.ndarray:
    numbers = (m.astype(dtype) - 4096) / 64
    if dtype.itemsize == 8:
        numbers += np.ldexp(m.astype(dtype), -40)
    limits = np.finfo(dtype)
    for place, special in enumerate([-0.0, np.inf, -np.inf, np.nan, limits.smallest_subnormal, limits.max]):
        numbers[m == place] = special
    return numbers.astype(dtype)


def digest(data: np.ndarray, order: str) -> str:
    """Adler-32 of the elements in this order, as 8 digits."""
    return f"{zlib.adler32(data.tobytes(order='C' if order == 'row' else 'F')):08x}"


def double(bits: str) -> float:
    """The double with these bits."""
    return float(struct.unpack(">d", bytes.fromhex(bits))[0])


def bits(double: float) -> str:
    """The bits of a double, as 16 digits."""
    return struct.pack(">d", double).hex()
