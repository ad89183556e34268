"""Dates on which a schedule does not run, and where their occurrences go: by rewriting which days of which month count.

Everything is worked out when a plan is compiled; a search costs no more with a calendar than without one.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from tocsin.domain.recurrence.days import allowed_days
from tocsin.domain.recurrence.fields import CronFields
from tocsin.domain.recurrence.gregorian import MONTH_FIRST, MONTH_KIND, MONTH_NUMBER

EXCLUDED_DATES_MAX: Final = 366
"""Dates of one calendar. They travel in every row of the index, so they are no place for a century."""


class Calendar(NamedTuple):
    """Dates that a schedule leaves out.

    Attributes:
        excluded: day numbers since 1970-01-01, ascending, each once.
        on_excluded: an occurrence on such a date is left out (``skip``), or runs at the same wall time on the next date
            that is not excluded (``shift``); where that date has that time anyway, once.
    """

    excluded: tuple[int, ...]
    on_excluded: Literal["skip", "shift"] = "skip"


def days_by_month(fields: CronFields, calendar: Calendar) -> tuple[int, ...]:
    """Return, for each month of ``gregorian``'s table, bit d-1 for each day d on which the schedule runs."""
    by_kind = allowed_days(fields.day_rule)
    days = [
        by_kind[kind] if fields.months >> month & 1 else 0 for kind, month in zip(MONTH_KIND, MONTH_NUMBER, strict=True)
    ]
    if calendar.on_excluded == "shift":
        targets = [
            last + 1 for first, last in _runs(calendar.excluded) if any(_has(days, d) for d in range(first, last + 1))
        ]
        for day in targets:
            index = _month_of(day)
            days[index] |= 1 << (day - MONTH_FIRST[index])
    for day in calendar.excluded:
        index = _month_of(day)
        days[index] &= ~(1 << (day - MONTH_FIRST[index]))
    return tuple(days)


def _runs(excluded: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the first and last date of each stretch of dates without a gap."""
    if not excluded:
        return []
    edges = [excluded[0]]
    for before, day in pairwise(excluded):
        if day != before + 1:
            edges += [before, day]
    edges.append(excluded[-1])
    return list(zip(edges[::2], edges[1::2], strict=True))


def _month_of(day: int) -> int:
    return bisect_right(MONTH_FIRST, day) - 1


def _has(days: list[int], day: int) -> bool:
    index = _month_of(day)
    return bool(days[index] >> (day - MONTH_FIRST[index]) & 1)
