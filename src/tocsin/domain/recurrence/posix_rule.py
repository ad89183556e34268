"""The rule at the end of a zone file (a POSIX ``TZ`` string, as extended by RFC 9636), unrolled into transitions.

Arithmetic on days since the epoch only; no clock, and no datetime, which ends where rules do not.
"""

from __future__ import annotations

import re
from typing import Final

from tocsin.domain.errors import Corrupt
from tocsin.domain.recurrence.gregorian import days_before_year, is_leap, month_first_day, month_length, weekday_of

_NAME: Final = r"(?:<[A-Za-z0-9+-]+>|[A-Za-z]+)"
_TIME: Final = r"[+-]?[0-9]{1,3}(?::[0-9]{2}){0,2}"
_DATE: Final = rf"(?:M[0-9]+\.[0-9]+\.[0-9]+|J?[0-9]+)(?:/{_TIME})?"
_RULE: Final = re.compile(rf"{_NAME}({_TIME})(?:{_NAME}({_TIME})?,({_DATE}),({_DATE}))?")
_DAY_S: Final = 86_400


def rule_transitions(rule: str, from_s: int, to_s: int) -> list[tuple[int, int]]:
    """Return the changes of offset that a rule makes.

    Args:
        rule: for example ``EST5EDT,M3.2.0,M11.1.0``; empty for none.
        from_s: seconds since the epoch; the list begins with the year before it.
        to_s: seconds since the epoch; the list ends with the year after it.

    Returns:
        Pairs of (second, offset from then on in seconds), ascending.

    Raises:
        Corrupt: the rule cannot be read.
    """
    if not rule:
        return []
    match = _RULE.fullmatch(rule)
    if match is None:
        raise Corrupt(f"a zone's rule cannot be read: {rule!r}")
    standard_text, summer_text, begin, end = match.groups()
    standard = -_seconds(standard_text)
    if begin is None:
        return [(from_s, standard)]
    summer = -_seconds(summer_text) if summer_text else standard + 3600
    changes = []
    for year in range(_year_about(from_s) - 1, _year_about(to_s) + 2):
        changes.append((_local_s(begin, year) - standard, 1, summer))
        changes.append((_local_s(end, year) - summer, 0, standard))
    # Where summer time ends at the instant at which it begins again, it goes on: the later one counts.
    return list({at: offset for at, _, offset in sorted(changes)}.items())


def _seconds(text: str) -> int:
    sign = -1 if text[0] == "-" else 1
    hours, minutes, seconds = (*(int(part) for part in text.lstrip("+-").split(":")), 0, 0)[:3]
    return sign * (hours * 3600 + minutes * 60 + seconds)


def _year_about(at_s: int) -> int:
    return 1970 + at_s // (365 * _DAY_S + 20_952)  # 365.2425 days, near enough: a year is added on both sides


def _local_s(date: str, year: int) -> int:
    """Return a rule's date in a year, as seconds on the local clock."""
    day_text, _, time_text = date.partition("/")
    time_s = _seconds(time_text) if time_text else 2 * 3600
    if day_text[0] == "M":
        month, week, weekday = (int(part) for part in day_text[1:].split("."))
        first = month_first_day(year, month)
        day = first + (weekday - weekday_of(first)) % 7 + (week - 1) * 7
        if day >= first + month_length(year, month):  # week 5 means the last
            day -= 7
    elif day_text[0] == "J":  # 1-365, 29 February never counted
        number = int(day_text[1:])
        day = days_before_year(year) + number - 1 + (is_leap(year) and number >= 60)
    else:
        day = days_before_year(year) + int(day_text)
    return day * _DAY_S + time_s
