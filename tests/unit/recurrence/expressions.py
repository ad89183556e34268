"""Expressions with their meaning, made together: the oracle need not parse what it is to judge."""

from __future__ import annotations

import calendar
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

DatePredicate = Callable[[date], bool]
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")


@dataclass(frozen=True)
class Expression:
    """A text, and what it must mean."""

    text: str
    seconds: frozenset[int]
    minutes: frozenset[int]
    hours: frozenset[int]
    has_date: DatePredicate
    cadence: bool

    def has_dates(self) -> bool:
        """Tell whether any date satisfies the day fields: forty years hold every kind of month."""
        return any(self.has_date(date(2000, 1, 1) + timedelta(days=day)) for day in range(40 * 366))


def weekday(day: date) -> int:
    """Return the weekday with Sunday as 0."""
    return day.isoweekday() % 7


def last_day(day: date) -> int:
    """Return the number of days of the date's month."""
    return calendar.monthrange(day.year, day.month)[1]


def nearest_working_day(day: date) -> date:
    """Return the working day nearest to a date, within its month."""
    near = [day + timedelta(days=delta) for delta in (0, -1, 1, -2, 2)]
    return next(other for other in near if other.month == day.month and weekday(other) not in (0, 6))


def number_field(rng: random.Random, low: int, high: int, likely: list[int]) -> tuple[str, frozenset[int]]:
    """Return a field of numbers that tends to hold the likely ones."""
    kind = rng.randrange(8)
    some = rng.choice(likely) if rng.random() < 0.8 else rng.randint(low, high)
    other = rng.randint(some, high)
    step = rng.choice((1, 2, 3, 4, 5, 7, 10, 15, 20, 30))
    step = min(step, high)
    if kind == 0:
        return "*", frozenset(range(low, high + 1))
    if kind == 1:
        return f"*/{step}", frozenset(range(low, high + 1, step))
    if kind == 2:
        return f"{some}-{other}", frozenset(range(some, other + 1))
    if kind == 3:
        return f"{some}-{other}/{step}", frozenset(range(some, other + 1, step))
    if kind == 4:
        return f"{some}/{step}", frozenset(range(some, high + 1, step))
    if kind == 5:
        members = sorted({some, other, rng.choice(likely)})
        return ",".join(str(member) for member in members), frozenset(members)
    return str(some), frozenset({some})


def day_of_month_field(rng: random.Random, near: date) -> tuple[str, DatePredicate]:
    """Return a day-of-month field that tends to hold the date."""
    kind = rng.randrange(16)
    day = near.day
    if kind == 0:
        return f"{day}", lambda d: d.day == day
    if kind == 1:
        return f"{max(day - 2, 1)}-{day}", lambda d: max(day - 2, 1) <= d.day <= day
    if kind == 2:
        step = rng.choice((2, 3, 10))
        return f"*/{step}", lambda d: (d.day - 1) % step == 0
    if kind == 3:
        return "L", lambda d: d.day == last_day(d)
    if kind == 4:
        return "LW", lambda d: d == nearest_working_day(d.replace(day=last_day(d)))
    if kind == 5:
        return f"{day}W", lambda d: day <= last_day(d) and d == nearest_working_day(d.replace(day=day))
    if kind == 6:
        return f"{day},L", lambda d: d.day in (day, last_day(d))
    if kind == 7:
        return "?", lambda d: True
    return "*", lambda d: True


def day_of_week_field(rng: random.Random, near: date) -> tuple[str, DatePredicate]:
    """Return a day-of-week field that tends to hold the date."""
    kind = rng.randrange(16)
    day = weekday(near)
    if kind == 0:
        name = rng.choice((str(day), _WEEKDAYS[day], _WEEKDAYS[day].lower(), "7" if day == 0 else str(day)))
        return name, lambda d: weekday(d) == day
    if kind == 1:
        return "MON-FRI", lambda d: 1 <= weekday(d) <= 5
    if kind == 2:
        return "6,7", lambda d: weekday(d) in (0, 6)
    if kind == 3:
        step = rng.choice((2, 3, 7))
        return f"*/{step}", lambda d: weekday(d) % step == 0
    if kind == 4:
        nth = (near.day + 6) // 7
        return f"{day}#{nth}", lambda d: weekday(d) == day and (d.day + 6) // 7 == nth
    if kind == 5:
        return f"{_WEEKDAYS[day]}L", lambda d: weekday(d) == day and d.day + 7 > last_day(d)
    if kind == 6:
        return f"{day},{day}#1", lambda d: weekday(d) == day
    return "*", lambda d: True


def month_field(rng: random.Random, near: date) -> tuple[str, frozenset[int]]:
    """Return a month field that tends to hold the date."""
    if rng.random() < 0.7:
        return "*", frozenset(range(1, 13))
    if rng.random() < 0.3:
        return _MONTHS[near.month - 1], frozenset({near.month})
    return number_field(rng, 1, 12, [near.month])


def expression(rng: random.Random, walls_s: list[int], with_seconds: bool = False) -> Expression:
    """Return an expression that tends to match near the given wall times (seconds since 1970 on the local clock)."""
    focus_s = rng.choice(walls_s)
    # Half of them aim at one wall time, the others mix hours and minutes of all.
    near = [wall % 86_400 for wall in ([focus_s] if rng.random() < 0.5 else [*walls_s, 0, 1800])]
    date_near = date(1970, 1, 1) + timedelta(days=focus_s // 86_400)
    second_text, seconds = number_field(rng, 0, 59, [0, 30]) if with_seconds else ("", frozenset({0}))
    minute_text, minutes = number_field(rng, 0, 59, [wall // 60 % 60 for wall in near])
    hour_text, hours = number_field(rng, 0, 23, [wall // 3600 for wall in near])
    month_text, months = month_field(rng, date_near)
    day_text, of_month = day_of_month_field(rng, date_near)
    weekday_text, of_week = day_of_week_field(rng, date_near)
    both = day_text[0] in "*?" or weekday_text[0] in "*?"

    def has_date(day: date) -> bool:
        in_month, in_week = of_month(day), of_week(day)
        return day.month in months and (in_month and in_week if both else in_month or in_week)

    text = f"{second_text} {minute_text} {hour_text} {day_text} {month_text} {weekday_text}".strip()
    cadence = minute_text.startswith("*") or hour_text.startswith("*")
    return Expression(text, seconds, minutes, hours, has_date, cadence)
