"""Reading compiled zone files (TZif, RFC 9636) into plain transitions. No files are opened here, only bytes read.

Python's ``zoneinfo`` answers "what is the offset at this instant"; recurrence needs the transitions themselves, to
which it gives no access.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from tocsin.domain.errors import Corrupt
from tocsin.domain.recurrence.posix_rule import rule_transitions

_HEADER: Final = struct.Struct(">4sc15x6l")


def read_transitions(data: bytes, from_s: int, to_s: int) -> list[tuple[int, int]]:
    """Return a zone's offsets between two instants.

    Args:
        data: a TZif file of version 2 or later.
        from_s: seconds since the epoch.
        to_s: seconds since the epoch; the rule in the file's footer is unrolled up to here.

    Returns:
        Pairs of (first second, offset from UTC in seconds), ascending. The first pair begins at ``from_s``, and
        neighbours have different offsets: changes of name only are left out.

    Raises:
        Corrupt: the bytes are no such file.
    """
    return unrolled(read_table(data, from_s), from_s, to_s)


class ZoneTable(NamedTuple):
    """What a zone file says of the time from an instant on.

    Attributes:
        initial: offset from UTC at that instant, seconds.
        changes: pairs of (second, offset from then on), ascending.
        rule: what holds after the last of them, as ``posix_rule`` reads it.
    """

    initial: int
    changes: tuple[tuple[int, int], ...]
    rule: str


def read_table(data: bytes, from_s: int) -> ZoneTable:
    """Return what a zone file says of the time from an instant on.

    Raises:
        Corrupt: the bytes are no such file.
    """
    try:
        times, offsets, initial, rule = _read(data)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise Corrupt(f"a zone file cannot be read: {error}") from error
    changes = list(zip(times, offsets, strict=True))
    past = [offset for at, offset in changes if at <= from_s]
    if not times or times[-1] < from_s:
        last = times[-1] if times else -1 << 62
        past += [offset for at, offset in rule_transitions(rule, from_s, from_s) if last < at <= from_s]
    return ZoneTable(past[-1] if past else initial, tuple(change for change in changes if change[0] > from_s), rule)


def unrolled(table: ZoneTable, from_s: int, to_s: int) -> list[tuple[int, int]]:
    """Return a zone's offsets between two instants; see ``read_transitions``."""
    last = table.changes[-1][0] if table.changes else from_s
    changes = [*table.changes, *(change for change in rule_transitions(table.rule, last, to_s) if change[0] > last)]
    segments = [(from_s, table.initial)]
    for at, offset in changes:
        if at >= to_s:
            break
        if at <= from_s:
            segments[0] = (from_s, offset)
        elif offset != segments[-1][1]:
            segments.append((at, offset))
    return segments


def _read(data: bytes) -> tuple[tuple[int, ...], list[int], int, str]:
    magic, version, *counts = _HEADER.unpack_from(data)
    if magic != b"TZif" or version < b"2":
        raise Corrupt("a zone file is not TZif of version 2 or later")
    is_ut, is_std, leaps, time_count, type_count, chars = counts
    # Version 1 data with 32-bit times stand first, for old readers; the same again with 64 bits follows.
    start = _HEADER.size + time_count * 5 + type_count * 6 + chars + leaps * 8 + is_std + is_ut
    _, _, is_ut, is_std, leaps, time_count, type_count, chars = _HEADER.unpack_from(data, start)
    at = start + _HEADER.size
    times = struct.unpack_from(f">{time_count}q", data, at)
    at += time_count * 8
    kinds = data[at : at + time_count]
    at += time_count
    offsets = [int(struct.unpack_from(">l", data, at + kind * 6)[0]) for kind in range(type_count)]
    at += type_count * 6 + chars + leaps * 12 + is_std + is_ut
    footer = data[at:].split(b"\n")[1].decode("ascii")
    return times, [offsets[kind] for kind in kinds], offsets[0], footer
