"""Instants as integers: microseconds since 1970-01-01T00:00:00Z, and their RFC 3339 form.

The hot paths compare and add instants millions of times; an integer does that at a twentieth of the cost of a
datetime and has no naive form to be confused with.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

Micros = int
"""An instant: microseconds since the epoch, UTC."""

MILLISECOND: Final = 1_000
SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
DAY: Final = 24 * 60 * MINUTE

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

EARLIEST: Final[Micros] = 0
LATEST: Final[Micros] = (datetime(2200, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND - 1
"""The allowed years are 1970 to 2199: beyond them neither zone data nor a 64-bit microsecond means much."""

_RFC3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:([0-9]{2})(?:\.([0-9]+))?"
    r"(?:([Zz])|([+-])([0-9]{2}):([0-9]{2}))?"
)
TEXTS_KEPT: Final = 1_024
_WALL_CHARS: Final = len("2026-10-11T02:00:00")
MAX_TEXT: Final = 40
"""No RFC 3339 instant that we accept is longer than this many characters."""


def parse_rfc3339(text: str) -> Micros:
    """Read an RFC 3339 instant with an offset.

    Fractions of any length are read; what is finer than a microsecond is rounded **up**, so that an instant
    is never taken to be earlier than it was written.

    Args:
        text: for example ``2026-10-11T02:00:00+05:30``.

    Returns:
        Microseconds since the epoch.

    Raises:
        ValueError: with a sentence that says what is wrong, and fits after "run_at: ".
    """
    if len(text) > MAX_TEXT:
        raise ValueError(f"is longer than {MAX_TEXT} characters")
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError("is not an RFC 3339 time with an offset")
    second, fraction, zulu, sign, offset_hour, offset_minute = match.groups()
    if second == "60":
        raise ValueError("names a leap second (:60), which has no place on the POSIX time line")
    if not zulu and not sign:
        raise ValueError("has no offset, so it names no instant")
    offset_s = 0
    if sign:
        if int(offset_hour) > 23 or int(offset_minute) > 59:
            raise ValueError("has an offset that is out of range")
        offset_s = (int(offset_hour) * 3600 + int(offset_minute) * 60) * (1 if sign == "+" else -1)
    try:
        wall = datetime.fromisoformat(text[:_WALL_CHARS] + "+00:00")
    except ValueError as error:
        raise ValueError(f"is not a date and time that exists ({error})") from None
    micros = (wall - _EPOCH) // _MICROSECOND - offset_s * SECOND
    if fraction:
        micros += -(-int(fraction) * SECOND // 10 ** len(fraction))
    if not EARLIEST <= micros <= LATEST:
        raise ValueError("is outside the years 1970 to 2199")
    return micros


@lru_cache(maxsize=TEXTS_KEPT)
def format_rfc3339(instant: Micros) -> str:
    """Write an instant in UTC, with a fraction only where it has one: ``2026-10-11T02:00:00Z``.

    Of one job the same instants are written again and again.
    """
    moment = _EPOCH + timedelta(microseconds=instant)
    return moment.isoformat().replace("+00:00", "Z")


def minute_of(instant: Micros) -> int:
    """Return the number of the minute since the epoch that holds the instant: an index bucket's name."""
    return instant // MINUTE


def month_of(instant: Micros) -> int:
    """Return the UTC month that holds the instant, as yyyymm: the name of a partition of history."""
    return _month_of_day(instant // DAY)


@lru_cache(maxsize=4_096)
def _month_of_day(day: int) -> int:
    date = _EPOCH + timedelta(days=day)
    return date.year * 100 + date.month


def months_back(newest: Micros, oldest: Micros) -> list[int]:
    """Return the months (yyyymm) from that of ``newest`` back to that of ``oldest``, both held to the allowed years."""
    month, last = month_of(min(newest, LATEST)), month_of(max(oldest, EARLIEST))
    months = []
    while month >= last:
        months.append(month)
        month = month - 1 if month % 100 > 1 else month - 89
    return months
