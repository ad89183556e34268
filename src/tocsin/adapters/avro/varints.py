"""Integers as Avro writes them."""

from __future__ import annotations

from functools import lru_cache

_LAST = 14
_LAST_MASK = (1 << _LAST) - 1
_LAST_BYTES = [bytes((low | 0x80, high | 0x80)) for high in range(0x80) for low in range(0x80)]
"""The first two bytes of a number that has more, by its last bits."""


def zigzag_varint(number: int) -> bytes:
    """Return an integer of at most 64 bits as Avro writes an int or long.

    Of times of now, most of it is the same for some milliseconds; that part is kept, and the rest is looked up.
    """
    n = number << 1 ^ number >> 63
    if n <= _LAST_MASK:
        return _varint(n)
    return _LAST_BYTES[n & _LAST_MASK] + _varint_kept(n >> _LAST)


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


_varint_kept = lru_cache(1_024)(_varint)
