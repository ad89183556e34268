"""Reading the two day fields: what all fields have, and ``?``, ``L``, ``LW``, ``nW``, ``nL`` and ``n#k``."""

from __future__ import annotations

import re
from typing import Final

from tocsin.domain.recurrence.days import DayOfMonth, DayOfWeek
from tocsin.domain.recurrence.dialect import DAY_OF_MONTH, DAY_OF_WEEK
from tocsin.domain.recurrence.items import Text, read_item, read_value

_NEAREST: Final = re.compile(r"([0-9]+)[Ww]")
_NTH: Final = re.compile(r"([0-9]+|[A-Za-z]{3})#([0-9]+)")
_LAST_WEEKDAY: Final = re.compile(r"([0-9]+|[A-Za-z]{3})[Ll]")
_LAST_REVERSED: Final = re.compile(r"[Ll]([0-7])")
_WEEKDAYS: Final = (1 << 7) - 1
_DAYS: Final = (1 << 32) - 2
_OF_THE_LAST: Final = re.compile(r"[Ll]-[0-9]+")


def read_day_of_month(text: Text, items: list[tuple[int, str]]) -> DayOfMonth:
    """Return what a day-of-month field allows.

    Args:
        text: the expression.
        items: the field's items, each with its position.

    Raises:
        CronError: an item cannot be read.
    """
    if len(items) == 1 and items[0][1] == "?":
        return DayOfMonth(days=_DAYS)
    days = nearest = 0
    last = last_working = False
    for position, item in items:
        if item in ("L", "l"):
            last = True
        elif item.lower() == "lw":
            last_working = True
        elif match := _NEAREST.fullmatch(item):
            nearest |= 1 << read_value(text, DAY_OF_MONTH, match[1], position)
        elif _OF_THE_LAST.fullmatch(item):
            raise text.refuse("days counted from the end of a month are not in the dialect", "give L or LW", position)
        else:
            days |= read_item(text, DAY_OF_MONTH, item, position)
    return DayOfMonth(days, nearest, last, last_working)


def read_day_of_week(text: Text, items: list[tuple[int, str]]) -> DayOfWeek:
    """Return what a day-of-week field allows.

    Args:
        text: the expression.
        items: the field's items, each with its position.

    Raises:
        CronError: an item cannot be read.
    """
    if len(items) == 1 and items[0][1] == "?":
        return DayOfWeek(_WEEKDAYS)
    weekdays = last = 0
    nth: set[tuple[int, int]] = set()
    for position, item in items:
        if item.lower() == "l":
            raise text.refuse("L alone names no weekday", "write 5L for the last Friday of the month", position)
        if match := _LAST_REVERSED.fullmatch(item):
            remedy = f"write {match[1]}L for the last one of the month"
            raise text.refuse(f"{item} has the L on the wrong side", remedy, position)
        if match := _NTH.fullmatch(item):
            weekday = read_value(text, DAY_OF_WEEK, match[1], position) % 7
            count = int(match[2])
            if not 1 <= count <= 5:
                at = position + match.start(2)
                raise text.refuse(f"no month has a weekday number {count}", "give n#1 to n#5, or nL", at)
            nth.add((weekday, count))
        elif match := _LAST_WEEKDAY.fullmatch(item):
            last |= 1 << read_value(text, DAY_OF_WEEK, match[1], position) % 7
        else:
            bits = read_item(text, DAY_OF_WEEK, item, position)
            weekdays |= (bits | bits >> 7) & _WEEKDAYS
    return DayOfWeek(weekdays, frozenset(nth), last)
