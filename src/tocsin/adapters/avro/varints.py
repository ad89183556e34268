"""Integers as Avro writes them."""

from __future__ import annotations


def zigzag_varint(number: int) -> bytes:
    """Return a non-negative integer as Avro writes an int or long."""
    n = number << 1
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)
