"""Zones for oracles: Python's own ``zoneinfo`` over the pinned package, sharing no code with what is tested."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from importlib import resources
from zoneinfo import ZoneInfo

import tzdata

DAY_S = 86_400

ODD_ZONES = (
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/El_Aaiun",
    "Africa/Juba",
    "Africa/Sao_Tome",
    "Africa/Windhoek",
    "America/Asuncion",
    "America/Caracas",
    "America/Havana",
    "America/New_York",
    "America/Nuuk",
    "America/Sao_Paulo",
    "America/Scoresbysund",
    "America/St_Johns",
    "America/Santiago",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Asia/Amman",
    "Asia/Beirut",
    "Asia/Dhaka",
    "Asia/Gaza",
    "Asia/Colombo",
    "Asia/Pyongyang",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Europe/Dublin",
    "Europe/Istanbul",
    "Europe/Lisbon",
    "Europe/London",
    "Europe/Moscow",
    "Europe/Volgograd",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Pacific/Easter",
    "Pacific/Fiji",
    "Pacific/Norfolk",
    "Pacific/Tongatapu",
)
"""Zones whose clocks do unusual things: half hours, whole days, midnight, Ramadan, negative summer time, new bases."""


@cache
def zone_file(name: str) -> ZoneInfo:
    """Return a zone read from the pinned package's file."""
    with resources.files(tzdata).joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def offset_s(zone: ZoneInfo, at_s: int) -> int:
    """Return how many seconds the zone's wall clock is ahead of UTC."""
    offset = datetime.fromtimestamp(at_s, UTC).astimezone(zone).utcoffset()
    assert offset is not None
    return offset.days * DAY_S + offset.seconds


@cache
def transitions(name: str, first_year: int = 2000, last_year: int = 2037) -> tuple[int, ...]:
    """Return the seconds at which a zone's offset changes, found by looking once a day and halving."""
    zone = zone_file(name)
    start = int(datetime(first_year, 1, 1, tzinfo=UTC).timestamp())
    end = int(datetime(last_year + 1, 1, 1, tzinfo=UTC).timestamp())
    found = []
    for day in range(start, end, DAY_S):
        low, high = day, day + DAY_S
        before = offset_s(zone, low)
        if offset_s(zone, high) == before:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            if offset_s(zone, middle) == before:
                low = middle
            else:
                high = middle
        found.append(high)
    return tuple(found)
