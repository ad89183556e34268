"""From an expression's text to its fields, or to an error that says where it is wrong. Knows no zones."""

from __future__ import annotations

import re
from typing import Final

from tocsin.domain.fields import shown
from tocsin.domain.recurrence.day_items import read_day_of_month, read_day_of_week
from tocsin.domain.recurrence.days import DayRule, allowed_days
from tocsin.domain.recurrence.dialect import EXPRESSION_CHARS_MAX, FIELDS, MACROS, Field
from tocsin.domain.recurrence.fields import CronFields
from tocsin.domain.recurrence.gregorian import kinds_of_month
from tocsin.domain.recurrence.items import Text, read_item

_WORD: Final = re.compile(r"[^ \t]+")
_HASHED: Final = re.compile(r"(?:^|[ \t,])[Hh]")
_FOREIGN: Final = re.compile(r"[^\t\x20-\x7e]")
_FORM: Final = "give five fields (minute hour day-of-month month day-of-week), six with seconds first, or a macro"


def check_text(expression: object) -> str:
    """Return an expression that may be read: a text of bounded length, in ASCII.

    Raises:
        CronError: it is none.
    """
    text = Text(expression if isinstance(expression, str) else "", None)
    if not isinstance(expression, str):
        raise text.refuse("is not a text", _FORM, None)
    if len(expression) > EXPRESSION_CHARS_MAX:
        remedy = f"give at most {EXPRESSION_CHARS_MAX} characters"
        raise text.refuse(f"is longer than {EXPRESSION_CHARS_MAX} characters", remedy, EXPRESSION_CHARS_MAX)
    if match := _FOREIGN.search(expression):
        remedy = "use ASCII letters, digits and signs, separated by spaces or tabs"
        raise text.refuse(f"{shown(match[0])} has no meaning in an expression", remedy, match.start())
    return expression


def uses_job_id(expression: str) -> bool:
    """Tell whether an expression has an ``H``, so that its meaning depends on the job's id."""
    return _HASHED.search(expression) is not None


def parse_cron(expression: str, job_id: str | None) -> CronFields:
    """Return the fields of an expression.

    Args:
        expression: five fields, six with seconds first, or a macro.
        job_id: picks the numbers for ``H``; None where there is none.

    Raises:
        CronError: the expression is wrong, or no date satisfies it.
    """
    text = Text(check_text(expression), job_id)
    words = [(match.start(), match[0]) for match in _WORD.finditer(expression)]
    if words and words[0][1].startswith("@"):
        words = _expand(text, words)
    second, minute, hour, day, month, weekday = _six(text, words)
    day_fields = (day[1], weekday[1])
    fields = CronFields(
        seconds=_read(text, FIELDS[0], second),
        minutes=_read(text, FIELDS[1], minute),
        hours=_read(text, FIELDS[2], hour),
        months=_read(text, FIELDS[4], month),
        day_rule=DayRule(
            read_day_of_month(text, _items(day)),
            read_day_of_week(text, _items(weekday)),
            both=any(field == "?" or field.startswith("*") for field in day_fields),
        ),
        cadence=minute[1].startswith("*") or hour[1].startswith("*"),
    )
    if not _has_dates(fields):
        problem = "no date ever satisfies the day-of-month, month and day-of-week fields together"
        raise text.refuse(problem, "name a day that one of the months has", day[0])
    return fields


def _expand(text: Text, words: list[tuple[int, str]]) -> list[tuple[int, str]]:
    position, macro = words[0]
    meaning = MACROS.get(macro.lower())
    if meaning is None:
        remedy = f"give one of {', '.join(MACROS)}"
        if macro.lower() == "@every":
            remedy = "give every_s instead of cron"
        raise text.refuse(f"{shown(macro)} is not a macro", remedy, position)
    if len(words) > 1:
        raise text.refuse("a macro stands alone", "leave out what follows it", words[1][0])
    return [(position, word) for word in meaning.split()]


def _six(text: Text, words: list[tuple[int, str]]) -> list[tuple[int, str]]:
    if len(words) == 5:
        return [(words[0][0], "0"), *words]
    if len(words) == 6:
        return words
    if len(words) > 6:
        remedy = "leave out the year; start_at and end_at bound a schedule" if len(words) == 7 else _FORM
        raise text.refuse(f"has {len(words)} fields", remedy, words[6][0])
    problem = f"has {len(words)} field{'' if len(words) == 1 else 's'}" if words else "is empty"
    raise text.refuse(problem, _FORM, len(text.whole) if words else None)


def _items(word: tuple[int, str]) -> list[tuple[int, str]]:
    position, field = word
    items = []
    for item in field.split(","):
        items.append((position, item))
        position += len(item) + 1
    return items


def _read(text: Text, field: Field, word: tuple[int, str]) -> int:
    bits = 0
    for position, item in _items(word):
        bits |= read_item(text, field, item, position)
    return bits


def _has_dates(fields: CronFields) -> bool:
    days = allowed_days(fields.day_rule)
    return any(days[kind] for month in range(1, 13) if fields.months >> month & 1 for kind in kinds_of_month(month))
