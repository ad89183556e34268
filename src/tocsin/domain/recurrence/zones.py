"""Time zones by name, from the pinned ``tzdata`` package: never from the files of the system a process runs on.

So all processes of a cluster agree, and an old container image does not fire at last year's hour. A caller's text never
becomes a path: it is looked up in the package's list of names first.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import lru_cache
from importlib import resources
from typing import Final

import tzdata

from tocsin.domain.recurrence.errors import CronError
from tocsin.domain.recurrence.gregorian import FIRST_YEAR, LAST_YEAR, days_before_year
from tocsin.domain.recurrence.timeline import Timeline
from tocsin.domain.recurrence.tzif import read_transitions

TZDATA_VERSION: Final[str] = tzdata.IANA_VERSION
"""Release of the zone database, such as ``2026a``."""

NAME_CHARS_MAX: Final = 64
_SUGGESTIONS: Final = 3
_DAY_S: Final = 86_400
_REMEDY: Final = "give a name of the IANA time zone database, such as Europe/Berlin or UTC"


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Return all names of the zone database, old ones such as ``Europe/Kiev`` included."""
    return frozenset(resources.files(tzdata).joinpath("zones").read_text(encoding="ascii").split())


def known_zone(name: object) -> bool:
    """Tell whether a name is one of the zone database, letter for letter."""
    return isinstance(name, str) and name in zone_names()


def require_zone(name: object) -> str:
    """Return a zone's name as it is.

    Raises:
        CronError: no zone has that name; the remedy names those that were perhaps meant.
    """
    if isinstance(name, str) and name in zone_names():
        return name
    if not isinstance(name, str):
        raise CronError("is not the name of a time zone", _REMEDY, None, "timezone", name)
    if not name:
        raise CronError("is empty", _REMEDY, None, "timezone", name)
    if len(name) > NAME_CHARS_MAX:
        raise CronError(f"is longer than {NAME_CHARS_MAX} characters", _REMEDY, NAME_CHARS_MAX, "timezone", name)
    meant = _suggestions(name)
    remedy = f"did you mean {' or '.join(meant)}?" if meant else _REMEDY
    raise CronError("is not a time zone that the zone database knows", remedy, None, "timezone", name)


def _suggestions(name: str) -> list[str]:
    wanted = name.strip().replace(" ", "_").lower()
    if not wanted.isascii():
        return []
    by_lower = {known.lower(): known for known in sorted(zone_names())}
    if wanted in by_lower:
        return [by_lower[wanted]]
    by_city = [known for lower, known in by_lower.items() if lower.rpartition("/")[2] == wanted]
    return by_city[:_SUGGESTIONS] or [
        by_lower[near] for near in get_close_matches(wanted, by_lower, _SUGGESTIONS, 0.75)
    ]


@lru_cache(maxsize=1024)
def zone_timeline(name: str) -> Timeline:
    """Return a zone's wall clock over the years in which schedules fall. There are fewer zones than the cache holds.

    Raises:
        CronError: no zone has that name.
    """
    return _timeline_of(zone_file(require_zone(name)))


def zone_file(name: str) -> bytes:
    """Return the compiled file of a zone that the package has."""
    return resources.files(tzdata).joinpath("zoneinfo", *name.split("/")).read_bytes()


@lru_cache(maxsize=1024)
def _timeline_of(data: bytes) -> Timeline:
    """Two names of one zone have the same bytes, and share what is made of them."""
    return Timeline(read_transitions(data, days_before_year(FIRST_YEAR) * _DAY_S, days_before_year(LAST_YEAR) * _DAY_S))
