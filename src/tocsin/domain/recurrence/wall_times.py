"""Finding matching wall times: integers in, integers out, no zones. This is the hot path of cron.

A wall time is a number of seconds since 1970-01-01T00:00 on the local clock. A search costs a few table look-ups for
the time of day, one bit operation for the day within its month, and one step for each month that has no match.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from typing import Final

from tocsin.domain.recurrence.calendars import Calendar, DaysByMonth
from tocsin.domain.recurrence.days import allowed_days
from tocsin.domain.recurrence.fields import CronFields
from tocsin.domain.recurrence.gregorian import MONTH_FIRST, MONTH_KIND, MONTH_NUMBER

_DAY_S: Final = 86_400
_MONTHS: Final = len(MONTH_FIRST)
_EACH_MONTH: Final = tuple(range(_MONTHS))
_ALL_MONTHS: Final = (1 << 13) - 2
NONE: Final = -1
"""In tables: there is no such value."""


@lru_cache(maxsize=4096)
def _at_or_after(mask: int, size: int) -> tuple[int, ...]:
    """Return for each value 0..size the smallest member of a set at or after it."""
    found = NONE
    table = [NONE] * (size + 1)
    for value in reversed(range(size)):
        if mask >> value & 1:
            found = value
        table[value] = found
    return tuple(table)


@lru_cache(maxsize=4096)
def _at_or_before(mask: int, size: int) -> tuple[int, ...]:
    """Return for each value 0..size-1 the largest member of a set at or before it, and at -1 (the end) none."""
    found = NONE
    table = [NONE] * (size + 1)
    for value in range(size):
        if mask >> value & 1:
            found = value
        table[value] = found
    return tuple(table)


@lru_cache(maxsize=4096)
def _month_steps(mask: int) -> tuple[tuple[bool, ...], tuple[int, ...], tuple[int, ...]]:
    """Return for each month number whether a set has it, and how many months it is to the next and last one it has."""
    allowed = tuple(bool(mask >> month & 1) for month in range(13))
    on = tuple(next(n for n in range(1, 13) if allowed[(month - 1 + n) % 12 + 1]) for month in range(13))
    back = tuple(next(n for n in range(1, 13) if allowed[(month - 1 - n) % 12 + 1]) for month in range(13))
    return allowed, on, back


class WallTimes:
    """The wall times that an expression matches, searched in both directions."""

    __slots__ = (
        "_back",
        "_days",
        "_first_of_day",
        "_first_of_hour",
        "_first_second",
        "_kinds",
        "_last_of_day",
        "_last_of_hour",
        "_last_second",
        "_months",
        "_next_hour",
        "_next_minute",
        "_next_second",
        "_on",
        "_prev_hour",
        "_prev_minute",
        "_prev_second",
    )

    def __init__(self, fields: CronFields, calendar: Calendar | None = None) -> None:
        if calendar is None:
            self._kinds = MONTH_KIND
            self._days: tuple[int, ...] | DaysByMonth = allowed_days(fields.day_rule)
            self._months, self._on, self._back = _month_steps(fields.months)
        else:
            # Each month is a kind of its own, and each is looked at: a shifted occurrence may fall into any.
            self._kinds = _EACH_MONTH
            self._days = DaysByMonth(fields, calendar)
            self._months, self._on, self._back = _month_steps(_ALL_MONTHS)
        self._next_second = _at_or_after(fields.seconds, 60)
        self._next_minute = _at_or_after(fields.minutes, 60)
        self._next_hour = _at_or_after(fields.hours, 24)
        self._prev_second = _at_or_before(fields.seconds, 60)
        self._prev_minute = _at_or_before(fields.minutes, 60)
        self._prev_hour = _at_or_before(fields.hours, 24)
        self._first_second = self._next_second[0]
        self._last_second = self._prev_second[59]
        self._first_of_hour = self._next_minute[0] * 60 + self._first_second
        self._last_of_hour = self._prev_minute[59] * 60 + self._last_second
        self._first_of_day = self._next_hour[0] * 3600 + self._first_of_hour
        self._last_of_day = self._prev_hour[23] * 3600 + self._last_of_hour

    def at_or_after(self, wall_s: int) -> int | None:
        """Return the first matching wall second at or after ``wall_s``, or None where the month table ends."""
        day, time_s = divmod(wall_s, _DAY_S)
        index = bisect_right(MONTH_FIRST, day) - 1
        if index < 0:
            day, time_s, index = MONTH_FIRST[0], 0, 0
        days = self._days
        if self._months[MONTH_NUMBER[index]]:
            bits = days[self._kinds[index]] >> (day - MONTH_FIRST[index])
            if bits & 1:
                found = self._time_at_or_after(time_s)
                if found != NONE:
                    return day * _DAY_S + found
            bits >>= 1
            if bits:
                return (day + (bits & -bits).bit_length()) * _DAY_S + self._first_of_day
        index += self._on[MONTH_NUMBER[index]]
        while index < _MONTHS:
            if bits := days[self._kinds[index]]:
                return (MONTH_FIRST[index] + (bits & -bits).bit_length() - 1) * _DAY_S + self._first_of_day
            index += self._on[MONTH_NUMBER[index]]
        return None

    def at_or_before(self, wall_s: int) -> int | None:
        """Return the last matching wall second at or before ``wall_s``, or None where the month table begins."""
        day, time_s = divmod(wall_s, _DAY_S)
        index = bisect_right(MONTH_FIRST, day) - 1
        if index < 0:
            return None
        days = self._days
        if self._months[MONTH_NUMBER[index]]:
            within = day - MONTH_FIRST[index]
            bits = days[self._kinds[index]]
            if bits >> within & 1:
                found = self._time_at_or_before(time_s)
                if found != NONE:
                    return day * _DAY_S + found
            bits &= (1 << within) - 1
            if bits:
                return (MONTH_FIRST[index] + bits.bit_length() - 1) * _DAY_S + self._last_of_day
        index -= self._back[MONTH_NUMBER[index]]
        while index >= 0:
            if bits := days[self._kinds[index]]:
                return (MONTH_FIRST[index] + bits.bit_length() - 1) * _DAY_S + self._last_of_day
            index -= self._back[MONTH_NUMBER[index]]
        return None

    def _time_at_or_after(self, time_s: int) -> int:
        hour, rest = divmod(time_s, 3600)
        if self._next_hour[hour] == hour:
            minute, second = divmod(rest, 60)
            if self._next_minute[minute] == minute:
                found = self._next_second[second]
                if found != NONE:
                    return time_s - second + found
            found = self._next_minute[minute + 1]
            if found != NONE:
                return hour * 3600 + found * 60 + self._first_second
        found = self._next_hour[hour + 1]
        return NONE if found == NONE else found * 3600 + self._first_of_hour

    def _time_at_or_before(self, time_s: int) -> int:
        hour, rest = divmod(time_s, 3600)
        if self._prev_hour[hour] == hour:
            minute, second = divmod(rest, 60)
            if self._prev_minute[minute] == minute:
                found = self._prev_second[second]
                if found != NONE:
                    return time_s - second + found
            found = self._prev_minute[minute - 1]
            if found != NONE:
                return hour * 3600 + found * 60 + self._last_second
        found = self._prev_hour[hour - 1]
        return NONE if found == NONE else found * 3600 + self._last_of_hour
