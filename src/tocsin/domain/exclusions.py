"""Reading a calendar: the dates that a schedule leaves out, from a caller's field and back."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Any, Final, Literal, cast

from tocsin.domain.fields import FieldReader
from tocsin.domain.recurrence import EXCLUDED_DATES_MAX, Calendar

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_EPOCH: Final = date(1970, 1, 1)
_YEARS: Final = range(1970, 2200)
_REMEDY: Final = 'give an object such as {"exclude": ["2026-12-25"], "on_excluded": "skip"}'
DATES_REMEDY: Final = f"give 1 to {EXCLUDED_DATES_MAX} dates in the years 1970 to 2199, such as 2026-12-25"


def parse_calendar(reader: FieldReader) -> Calendar | None:
    """Read ``calendar``; None where there is none, or where faults were recorded."""
    inner = reader.child("calendar", remedy=_REMEDY)
    if inner is None:
        return None
    inner.finish(("exclude", "on_excluded"), {})
    on_excluded = inner.choice("on_excluded", ("skip", "shift"), default="skip")
    days = _parse_dates(inner, inner.get("exclude"))
    if days is None or on_excluded is None:
        return None
    return Calendar(days, cast(Literal["skip", "shift"], on_excluded))


def calendar_mapping(calendar: Calendar | None) -> dict[str, Any] | None:
    """Return a calendar as the mapping that ``parse_calendar`` reads."""
    if calendar is None:
        return None
    return {"exclude": [text_of(day) for day in calendar.excluded], "on_excluded": calendar.on_excluded}


def text_of(day: int) -> str:
    """Return a day number as a date."""
    return (_EPOCH + timedelta(days=day)).isoformat()


def _parse_dates(inner: FieldReader, given: object) -> tuple[int, ...] | None:
    if not isinstance(given, list | tuple) or not 1 <= len(given) <= EXCLUDED_DATES_MAX:
        counted = f"{len(given)} dates" if isinstance(given, list | tuple) else given
        inner.fault("exclude", counted, "is not a list of dates, or has too few or too many", DATES_REMEDY)
        return None
    days = {_day_of(text) for text in given}
    if None in days:
        wrong = next(text for text in given if _day_of(text) is None)
        inner.fault("exclude", wrong, "is not a date", DATES_REMEDY)
        return None
    return tuple(sorted(day for day in days if day is not None))


def _day_of(text: object) -> int | None:
    if not isinstance(text, str) or _DATE.fullmatch(text) is None:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return (day - _EPOCH).days if day.year in _YEARS else None
