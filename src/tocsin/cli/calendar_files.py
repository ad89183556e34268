"""Calendars as people have them: an iCalendar file, or a list of dates, made into the dates that a job leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from itertools import islice
from typing import Any, Final

import icalendar
from dateutil.rrule import rrulestr

from tocsin.cli.exits import REFUSED, Failure
from tocsin.domain.recurrence import EXCLUDED_DATES_MAX

YEARS_AHEAD: Final = 10
"""Events that recur for ever are followed so far."""
EVENT_DAYS_MAX: Final = 400
EVENTS_MAX: Final = 5_000
TIMES_MAX: Final = 20_000
"""How often one event may recur before it is not followed any further."""
_REMEDY: Final = (
    "give an iCalendar file (RFC 5545) with events of whole days, or a text with a date such as 2026-12-25 a line"
)


def excluded_dates(text: str, today: date) -> list[str]:
    """Return the dates of a calendar file from today on, ascending, at most as many as a job may have.

    Args:
        text: an iCalendar file, of which every date that an event touches counts; or dates, one a line, ``#`` before
            remarks.
        today: dates before it are left out; what recurs is followed for ten years from it.

    Raises:
        Failure: it can be read as neither, or names no date to come.
    """
    found = _of_events(text, today) if "BEGIN:VCALENDAR" in text[:1000].upper() else _of_lines(text)
    dates = sorted(day for day in found if day >= today)
    if not dates:
        raise Failure(REFUSED, "--calendar: names no date from today on", _REMEDY)
    return [day.isoformat() for day in dates[:EXCLUDED_DATES_MAX]]


def _of_lines(text: str) -> set[date]:
    dates = set()
    for number, line in enumerate(text.splitlines(), 1):
        word = line.partition("#")[0].strip()
        if not word:
            continue
        try:
            dates.add(date.fromisoformat(word))
        except ValueError:
            raise Failure(REFUSED, f"--calendar: line {number} is not a date: {word[:64]!r}", _REMEDY) from None
    return dates


def _of_events(text: str, today: date) -> set[date]:
    try:
        events = list(islice(icalendar.Calendar.from_ical(text).walk("VEVENT"), EVENTS_MAX))
        return {day for event in events for first in _begins(event, today) for day in _days_from(event, first)}
    except Exception as error:
        # The library raises whatever its parsing runs into.
        problem = f"--calendar: is not an iCalendar file that can be read: {type(error).__name__}: {error}"[:300]
        raise Failure(REFUSED, problem, _REMEDY) from error


def _begins(event: Any, today: date) -> Iterator[date]:
    """Yield the dates on which an event begins, by its own clock, from some days before today on."""
    first = _date(event["DTSTART"].dt)
    left_out = {_date(stamp.dt) for stamp in _stamps(event, "EXDATE")}
    # A date may be said by the rule, or one by one; the first one counts always.
    dates = {first, *(_date(stamp.dt) for stamp in _stamps(event, "RDATE") if not isinstance(stamp.dt, tuple))}
    rule = event.get("RRULE")
    for one in rule if isinstance(rule, list) else [rule] if rule is not None else []:
        dates.update(_by_rule(one, first, today))
    yield from dates - left_out


def _by_rule(rule: Any, first: date, today: date) -> Iterator[date]:
    parts = dict(rule)
    # Whole days are what counts, so an end that is an instant counts as its day.
    if "UNTIL" in parts:
        parts["UNTIL"] = [datetime.combine(_date(parts["UNTIL"][0]), time(23, 59))]
    written: Any = icalendar.vRecur(parts)
    text = written.to_ical().decode()
    last = datetime(today.year + YEARS_AHEAD, today.month, 28)  # noqa: DTZ001 - dates have no zone
    for moment in islice(rrulestr(text, dtstart=datetime.combine(first, time())), TIMES_MAX):
        if moment > last:
            return
        yield moment.date()


def _stamps(event: Any, name: str) -> list[Any]:
    given = event.get(name, [])
    return [stamp for group in (given if isinstance(given, list) else [given]) for stamp in group.dts]


def _date(moment: date) -> date:
    return moment.date() if isinstance(moment, datetime) else moment


def _days_from(event: Any, first: date) -> list[date]:
    """Return every date that an event touches when it begins on a date; the end of an event is not part of it."""
    start = event["DTSTART"].dt
    if "DTEND" in event:
        end = event["DTEND"].dt
    elif "DURATION" in event:
        end = start + event["DURATION"].dt
    else:
        end = start if isinstance(start, datetime) else start + timedelta(days=1)
    last = _date(end - timedelta(microseconds=1)) if isinstance(end, datetime) else end - timedelta(days=1)
    count = min(max((last - _date(start)).days, 0) + 1, EVENT_DAYS_MAX)
    return [first + timedelta(days=n) for n in range(count)]
