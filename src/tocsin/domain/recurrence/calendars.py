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


class DaysByMonth:
    """The days on which a schedule runs, asked by the number of a month in ``gregorian``'s table.

    Only months that a calendar changes are kept; all others follow from their kind.
    """

    __slots__ = ("_by_kind", "_changed", "_months")

    def __init__(self, fields: CronFields, calendar: Calendar) -> None:
        self._by_kind: Final = allowed_days(fields.day_rule)
        self._months: Final = fields.months
        changed: dict[int, int] = {}
        if calendar.on_excluded == "shift":
            for first, last in _runs(calendar.excluded):
                if any(self._has(day) for day in range(first, last + 1)):
                    index = _month_of(last + 1)
                    changed[index] = changed.get(index, self._plain(index)) | _bit(index, last + 1)
        for day in calendar.excluded:
            index = _month_of(day)
            changed[index] = changed.get(index, self._plain(index)) & ~_bit(index, day)
        self._changed: Final = changed

    def __getitem__(self, index: int) -> int:
        """Return bit d-1 for each day d of a month on which the schedule runs."""
        bits = self._changed.get(index)
        return self._plain(index) if bits is None else bits

    def _plain(self, index: int) -> int:
        return self._by_kind[MONTH_KIND[index]] if self._months >> MONTH_NUMBER[index] & 1 else 0

    def _has(self, day: int) -> bool:
        index = _month_of(day)
        return bool(self._plain(index) & _bit(index, day))


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


def _bit(index: int, day: int) -> int:
    return 1 << (day - MONTH_FIRST[index])
