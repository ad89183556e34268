"""Other zone data: releases in which one zone's clock is otherwise, and what jobs of that zone owe by them.

A release is what code has, so all owners have one: those that had another are killed as it changes. What a shard goes
by, its turns say: the release that it has adopted, and from when on that counts.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

from tocsin.domain import firing
from tocsin.domain.firing import FiringPlan
from tocsin.domain.instants import SECOND, Micros
from tocsin.domain.recurrence import TZDATA_VERSION, CronPlan, compiling, zone_tables
from tocsin.domain.recurrence.timeline import Timeline
from tocsin.domain.recurrence.tzif import ZoneTable
from tocsin.engine import command_desk, zone_change, zone_rules

ZONE: Final = "Asia/Kolkata"
BASE: Final = TZDATA_VERSION
CLOCKS: Final = {BASE: "<T>-5:30", "sim.1": "<T>-5:30:40", "sim.2": "<T>-5:29:10"}
CRONS: Final = ("*/15 0-59 0-23 * * *", "0 0-59 0-23 * * *", "10,50 0-59 0-23 * * *", "*/20 * * * * *")
"""All but the last go by the wall clock: each of its times is due once."""
_TIMELINE: Final = compiling.zone_timeline
_TABLES: Final = zone_tables.present_tables
_CACHES: Final = (
    compiling._compile,
    compiling._plan,
    compiling._with_calendar,
    firing.plan_of,
    firing._plan_of_class,
    zone_tables.present_text,
    zone_tables.differing,
)


class Change(NamedTuple):
    """From when on a shard goes by a release."""

    at: Micros
    release: str


def present() -> str:
    """Return the release that processes have."""
    return zone_rules.TZDATA_VERSION


def install(release: str) -> None:
    """Let all processes have a release. None may be running."""
    if release == present():
        return
    tables = {**_TABLES(), ZONE: _table(release)}
    for module in (command_desk, zone_rules, zone_change):
        module.TZDATA_VERSION = release  # type: ignore[misc]
    compiling.zone_timeline = lambda name: _clock(release) if name == ZONE else _TIMELINE(name)  # type: ignore[assignment]
    zone_tables.present_tables = lambda: tables  # type: ignore[assignment]
    if release == BASE:
        compiling.zone_timeline, zone_tables.present_tables = _TIMELINE, _TABLES
    for cache in _CACHES:
        cache.cache_clear()


def zoned(plan: FiringPlan, changes: list[Change]) -> FiringPlan:
    """Return a plan by what its shard goes by, whatever data it was read with."""
    cron = plan.recurrence
    if not isinstance(cron, CronPlan) or cron.timezone != ZONE:
        return plan
    clock = _joined(tuple(changes))
    return replace(plan, recurrence=CronPlan(cron.fields, ZONE, clock, cron.dst, cron.calendar))


def _table(release: str) -> ZoneTable:
    hours, minutes, seconds = (*map(int, CLOCKS[release].partition("-")[2].split(":")), 0)[:3]
    return ZoneTable(hours * 3_600 + minutes * 60 + seconds, (), CLOCKS[release])


def _clock(release: str) -> Timeline:
    return _TIMELINE(ZONE) if release == BASE else zone_tables.timeline_of(_table(release))


@lru_cache(maxsize=64)
def _joined(changes: tuple[Change, ...]) -> Timeline:
    clock = _clock(BASE)
    for at, release in changes:
        clock = clock.joined(_clock(release), at // SECOND)
    return clock
