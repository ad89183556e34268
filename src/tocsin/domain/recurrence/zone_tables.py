"""All zones of a release in a text small enough to keep: what is needed to know later when jobs were due by it.

Once a process has another release, nothing else can tell at which times rows were filed before. Only what comes after
``TABLES_FROM_S`` is kept: rows of the distant past are decided.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from tocsin.domain.errors import Undecodable
from tocsin.domain.recurrence.gregorian import LAST_YEAR, days_before_year
from tocsin.domain.recurrence.timeline import Timeline
from tocsin.domain.recurrence.tzif import ZoneTable, read_table, unrolled
from tocsin.domain.recurrence.zones import zone_file, zone_names

_DAY_S: Final = 86_400
TABLES_FROM_S: Final = days_before_year(2025) * _DAY_S
_TO_S: Final = days_before_year(LAST_YEAR) * _DAY_S
TEXT_BYTES_MAX: Final = 1_000_000
"""No text is written out to more: of two million transitions no zone file is made."""


@lru_cache(maxsize=1)
def present_tables() -> dict[str, ZoneTable]:
    """Return the zones of the package that this process has, by name."""
    return {name: read_table(zone_file(name), TABLES_FROM_S) for name in sorted(zone_names())}


@lru_cache(maxsize=1)
def present_text() -> str:
    """Return the zones of the package that this process has, as ``read_tables`` reads them: about 9 KB."""
    return write_tables(present_tables())


def write_tables(tables: Mapping[str, ZoneTable]) -> str:
    """Write zones as a text."""
    return b64encode(zlib.compress(json.dumps(tables, separators=(",", ":")).encode(), 9)).decode()


def read_tables(text: str) -> dict[str, ZoneTable]:
    """Read what ``write_tables`` wrote.

    Raises:
        Undecodable: it is damaged.
    """
    try:
        found = json.loads(zlib.decompressobj().decompress(b64decode(text), TEXT_BYTES_MAX))
        return {name: _table(fields) for name, fields in found.items()}
    except (ValueError, TypeError, KeyError, AttributeError, zlib.error) as error:
        raise Undecodable(f"tables of zones cannot be read: {error}") from error


def _table(fields: Any) -> ZoneTable:
    initial, changes, rule = fields
    return ZoneTable(int(initial), tuple((int(at), int(offset)) for at, offset in changes), str(rule))


@lru_cache(maxsize=8)
def differing(text: str, from_s: int) -> dict[str, ZoneTable]:
    """Return, of tables that were written, those that this process has otherwise, from a second of UTC on.

    Zones that it does not have are left out: nobody can tell what they have become.
    """
    present = present_tables()
    return {
        name: table
        for name, table in read_tables(text).items()
        if name in present and table != present[name] and _after(table, from_s) != _after(present[name], from_s)
    }


@lru_cache(maxsize=1024)
def timeline_of(table: ZoneTable) -> Timeline:
    """Return the wall clock of a table."""
    return Timeline(unrolled(table, TABLES_FROM_S, _TO_S))


def _after(table: ZoneTable, from_s: int) -> list[tuple[int, int]]:
    segments = unrolled(table, TABLES_FROM_S, _TO_S)
    first = max((n for n, (at, _) in enumerate(segments) if at <= from_s), default=0)
    return [(max(at, from_s), offset) for at, offset in segments[first:]]
