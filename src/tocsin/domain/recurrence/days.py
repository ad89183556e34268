"""Which days of a month a pair of day fields allows, worked out once for each of the 28 kinds of month."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from tocsin.domain.recurrence.gregorian import MONTH_KINDS

_SUNDAY = 0
_SATURDAY = 6


class DayOfMonth(NamedTuple):
    """What a day-of-month field allows; the parts of a list are joined.

    Attributes:
        days: bit d for each day d.
        nearest: bit d for each ``dW``: the working day nearest to d in the same month.
        last: ``L``, the last day.
        last_working: ``LW``, the last working day.
    """

    days: int = 0
    nearest: int = 0
    last: bool = False
    last_working: bool = False

    def bits(self, length: int, first_weekday: int) -> int:
        """Return bit d-1 for each allowed day d of a month."""
        allowed = self.days >> 1
        if self.last:
            allowed |= 1 << (length - 1)
        if self.last_working:
            allowed |= 1 << (_nearest_working_day(length, length, first_weekday) - 1)
        for day in range(1, length + 1):
            if self.nearest >> day & 1:
                allowed |= 1 << (_nearest_working_day(day, length, first_weekday) - 1)
        return allowed & ((1 << length) - 1)


class DayOfWeek(NamedTuple):
    """What a day-of-week field allows; the parts of a list are joined.

    Attributes:
        weekdays: bit w for each weekday w, Sunday as 0.
        nth: pairs (w, k): the k-th weekday w of the month.
        last: bit w for each ``wL``: the last weekday w of the month.
    """

    weekdays: int = 0
    nth: frozenset[tuple[int, int]] = frozenset()
    last: int = 0

    def bits(self, length: int, first_weekday: int) -> int:
        """Return bit d-1 for each allowed day d of a month."""
        allowed = 0
        for day in range(1, length + 1):
            weekday = (first_weekday + day - 1) % 7
            in_last_week = day > length - 7
            if (
                self.weekdays >> weekday & 1
                or (in_last_week and self.last >> weekday & 1)
                or (weekday, (day + 6) // 7) in self.nth
            ):
                allowed |= 1 << (day - 1)
        return allowed


class DayRule(NamedTuple):
    """Both day fields together.

    Attributes:
        of_month: the day-of-month field.
        of_week: the day-of-week field.
        both: a day must satisfy both fields; else one is enough. Vixie cron decides that by whether either field's
            text begins with ``*``.
    """

    of_month: DayOfMonth
    of_week: DayOfWeek
    both: bool


def _nearest_working_day(day: int, length: int, first_weekday: int) -> int:
    weekday = (first_weekday + day - 1) % 7
    if weekday == _SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == _SUNDAY:
        return day + 1 if day < length else day - 2
    return day


@lru_cache(maxsize=4096)
def allowed_days(rule: DayRule) -> tuple[int, ...]:
    """Return, for each kind of month (see ``gregorian``), bit d-1 for each allowed day d."""
    masks = []
    for kind in range(MONTH_KINDS):
        length, first_weekday = 28 + kind // 7, kind % 7
        of_month, of_week = rule.of_month.bits(length, first_weekday), rule.of_week.bits(length, first_weekday)
        masks.append(of_month & of_week if rule.both else of_month | of_week)
    return tuple(masks)
