"""Integers as Avro writes them."""

from __future__ import annotations

from functools import lru_cache


def zigzag_varint(number: int) -> bytes:
    """Return an integer of at most 64 bits as Avro writes an int or long.

    Of times, most of it is the same for a second; that part is kept.
    """
    n = number << 1 ^ number >> 63
    if n < 0x200000:
        return _varint(n)
    low = n & 0x1FFFFF  # arithmetic on small integers is cheaper
    return bytes((low & 0x7F | 0x80, low >> 7 & 0x7F | 0x80, low >> 14 | 0x80)) + _varint_kept(n >> 21)


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


_varint_kept = lru_cache(1_024)(_varint)
