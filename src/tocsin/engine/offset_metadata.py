"""What a worker writes beside a committed offset: which offsets from it on are settled, and which have begun.

The text is base64 of a compact binary, below the broker's limit of 4,096 bytes in the worst case, and empty when
there is nothing to say. All offsets in it count from the committed one.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from itertools import pairwise
from typing import Final, NamedTuple

from tocsin.domain.errors import Undecodable

WINDOW_MAX: Final = 8_192
"""Offsets from the committed one on that can be spoken of."""
BEGUN_MAX: Final = 500
"""Begun offsets that can be listed."""
METADATA_BYTES_MAX: Final = 4_095
"""Brokers refuse more than 4,096 (``offset.metadata.max.bytes``)."""
TAKEOVERS_MAX: Final = 127
"""The count of takeovers stays here once it is reached."""

_VERSION: Final = 1
_WITH_DOUBT: Final = 2
"""As the other, with how far doubt reaches (eight bytes) before the bitmap."""
_DOUBT_BYTES: Final = 8
_TEXT_MAX: Final = 8 * METADATA_BYTES_MAX


class Marks(NamedTuple):
    """What the metadata of one partition says, in offsets relative to the committed one."""

    settled: frozenset[int] = frozenset()
    begun: frozenset[int] = frozenset()
    takeovers: int = 0
    """How many owners in a row took the partition over and settled nothing."""
    doubt: int = 0
    """Of so many offsets from the committed one on, those not settled may have begun, listed or not."""


NO_MARKS: Final = Marks()


def encode_marks(settled: Iterable[int], begun: Iterable[int], takeovers: int, doubt: int = 0) -> str:
    """Write marks as text.

    Args:
        settled: relative offsets, each below ``WINDOW_MAX``.
        begun: relative offsets, each below ``WINDOW_MAX``, at most ``BEGUN_MAX``.
        takeovers: capped at ``TAKEOVERS_MAX``.
        doubt: see ``Marks``.

    Raises:
        ValueError: an offset or the number of begun ones is out of bounds.
    """
    bitmap = _bitmap(settled)
    listed = sorted(begun)
    if not bitmap and not listed and not takeovers and not doubt:
        return ""
    if len(listed) > BEGUN_MAX:
        raise ValueError(f"{len(listed)} begun offsets; {BEGUN_MAX} can be listed")
    out = bytearray((_WITH_DOUBT if doubt else _VERSION, min(takeovers, TAKEOVERS_MAX)))
    if doubt:
        out += doubt.to_bytes(_DOUBT_BYTES, "big")
    out += len(bitmap).to_bytes(2, "big")
    out += bitmap
    for offset in listed:
        if not 0 <= offset < WINDOW_MAX:
            raise ValueError(f"{offset} lies outside the window")
        out += offset.to_bytes(2, "big")
    return base64.b64encode(out).decode()


def _bitmap(settled: Iterable[int]) -> bytes:
    """Return one bit per offset, lowest first, without trailing zero bytes."""
    bits = bytearray(WINDOW_MAX // 8)
    highest = -1
    for offset in settled:
        if not 0 <= offset < WINDOW_MAX:
            raise ValueError(f"{offset} lies outside the window")
        bits[offset >> 3] |= 1 << (offset & 7)
        highest = max(highest, offset)
    return bytes(bits[: (highest >> 3) + 1])


def decode_marks(text: str | None) -> Marks:
    """Read what a predecessor wrote.

    Raises:
        Undecodable: the text was not written by ``encode_marks``.
    """
    if not text:
        return NO_MARKS
    if len(text) > _TEXT_MAX:
        raise Undecodable("is longer than any metadata that tocsin writes")
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Undecodable(f"is not base64: {error}") from error
    start = 2 + (_DOUBT_BYTES if raw[:1] == bytes((_WITH_DOUBT,)) else 0)
    if len(raw) < start + 2 or raw[0] not in (_VERSION, _WITH_DOUBT):
        raise Undecodable("does not begin as metadata of a known version does")
    doubt, start = int.from_bytes(raw[2:start], "big"), start + 2
    length = int.from_bytes(raw[start - 2 : start], "big")
    bitmap, rest = raw[start : start + length], raw[start + length :]
    if length > WINDOW_MAX // 8 or len(bitmap) != length or len(rest) % 2 or len(rest) > 2 * BEGUN_MAX:
        raise Undecodable("has parts of impossible lengths")
    begun = [int.from_bytes(rest[at : at + 2], "big") for at in range(0, len(rest), 2)]
    if any(offset >= WINDOW_MAX for offset in begun) or any(a >= b for a, b in pairwise(begun)):
        raise Undecodable("lists impossible begun offsets")
    settled = frozenset(
        (index << 3) + bit for index, byte in enumerate(bitmap) if byte for bit in range(8) if byte >> bit & 1
    )
    if not settled.isdisjoint(begun):
        raise Undecodable("lists offsets as both settled and begun")
    return Marks(settled, frozenset(begun), raw[1], doubt)
