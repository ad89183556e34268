"""The calendar as integers: days since 1970-01-01, weekdays with Sunday as 0, and a table of months.

A month is wholly described by its length and the weekday of its first day: 28 kinds, numbered
``(length - 28) * 7 + weekday``. A rule about days needs to be worked out for 28 kinds, never for a date.
"""

from __future__ import annotations

from typing import Final

_LENGTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAYS_TO_1970: Final = 719_162
FIRST_YEAR: Final = 1968
LAST_YEAR: Final = 2201
"""The years of the month table: those that a schedule may fall in, and some room for offsets at both ends."""
MONTH_KINDS: Final = 28


def is_leap(year: int) -> bool:
    """Tell whether a year has 366 days."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def month_length(year: int, month: int) -> int:
    """Return the number of days of a month; months count from 1."""
    return _LENGTHS[month - 1] + (month == 2 and is_leap(year))


def days_before_year(year: int) -> int:
    """Return the day number of a year's 1 January."""
    before = year - 1
    return before * 365 + before // 4 - before // 100 + before // 400 - _DAYS_TO_1970


def month_first_day(year: int, month: int) -> int:
    """Return the day number of a month's first day; months count from 1."""
    return days_before_year(year) + sum(_LENGTHS[: month - 1]) + (month > 2 and is_leap(year))


def weekday_of(day: int) -> int:
    """Return the weekday of a day number, Sunday as 0."""
    return (day + 4) % 7


def month_kind(length: int, first_weekday: int) -> int:
    """Return the number of a kind of month."""
    return (length - 28) * 7 + first_weekday


def kinds_of_month(month: int) -> range:
    """Return the kinds that a month of the year takes over the years; each of them occurs between 1970 and 2199."""
    shortest = _LENGTHS[month - 1]
    longest = shortest + (month == 2)
    return range(month_kind(shortest, 0), month_kind(longest, 6) + 1)


_MONTHS: Final = [(year, month) for year in range(FIRST_YEAR, LAST_YEAR + 1) for month in range(1, 13)]
MONTH_FIRST: Final = tuple(month_first_day(year, month) for year, month in _MONTHS)
"""Day number of the first day of each month of the table, ascending."""
MONTH_NUMBER: Final = tuple(month for _, month in _MONTHS)
MONTH_KIND: Final = tuple(
    month_kind(month_length(year, month), weekday_of(month_first_day(year, month))) for year, month in _MONTHS
)
