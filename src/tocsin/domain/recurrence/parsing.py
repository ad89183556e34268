"""From an expression's text to its fields, or to an error that says where it is wrong. Knows no zones.

``H`` is read with a pick (see ``hashing``); ``hashed`` has what concerns all picks, or writes one out.
"""

from __future__ import annotations

import re
from typing import Final

from tocsin.domain.fields import shown
from tocsin.domain.recurrence.day_items import read_day_of_month, read_day_of_week
from tocsin.domain.recurrence.days import DayRule, allowed_days
from tocsin.domain.recurrence.dialect import EXPRESSION_CHARS_MAX, FIELDS, MACROS, Field
from tocsin.domain.recurrence.fields import CronFields
from tocsin.domain.recurrence.gregorian import kinds_of_month
from tocsin.domain.recurrence.hashing import Pick
from tocsin.domain.recurrence.items import Text, read_item

Word = tuple[int, str]
"""A piece of an expression, with its position."""

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


def parse_cron(expression: str, pick: Pick | None) -> CronFields:
    """Return the fields of an expression.

    Args:
        expression: five fields, six with seconds first, or a macro.
        pick: picks the numbers for ``H``; None where there is no job to pick them.

    Raises:
        CronError: the expression is wrong, or no date satisfies it.
    """
    text = Text(check_text(expression), pick)
    second, minute, hour, day, month, weekday = six_words(text)
    fields = CronFields(
        seconds=read_plain(text, FIELDS[0], second),
        minutes=read_plain(text, FIELDS[1], minute),
        hours=read_plain(text, FIELDS[2], hour),
        months=read_plain(text, FIELDS[4], month),
        day_rule=read_days(text, day, weekday),
        cadence=minute[1].startswith("*") or hour[1].startswith("*"),
    )
    if not has_dates(fields.months, fields.day_rule):
        problem = "no date ever satisfies the day-of-month, month and day-of-week fields together"
        raise text.refuse(problem, "name a day that one of the months has", day[0])
    return fields


def six_words(text: Text) -> list[Word]:
    """Return the six fields of an expression as they are written, seconds first, each with its position.

    Raises:
        CronError: it has another number of fields, or is no macro.
    """
    words = [(match.start(), match[0]) for match in _WORD.finditer(text.whole)]
    if words and words[0][1].startswith("@"):
        words = _expand(text, words)
    return _six(text, words)


def read_days(text: Text, day: Word, weekday: Word) -> DayRule:
    """Return what the two day fields allow together.

    Raises:
        CronError: an item cannot be read.
    """
    return DayRule(
        read_day_of_month(text, items_of(day)),
        read_day_of_week(text, items_of(weekday)),
        both=any(field == "?" or field.startswith("*") for _, field in (day, weekday)),
    )


def _expand(text: Text, words: list[Word]) -> list[Word]:
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


def _six(text: Text, words: list[Word]) -> list[Word]:
    if len(words) == 5:
        return [(words[0][0], "0"), *words]
    if len(words) == 6:
        return words
    if len(words) > 6:
        remedy = "leave out the year; start_at and end_at bound a schedule" if len(words) == 7 else _FORM
        raise text.refuse(f"has {len(words)} fields", remedy, words[6][0])
    problem = f"has {len(words)} field{'' if len(words) == 1 else 's'}" if words else "is empty"
    raise text.refuse(problem, _FORM, len(text.whole) if words else None)


def items_of(word: Word) -> list[Word]:
    """Return the items of a field's list, each with its position."""
    position, field = word
    items = []
    for item in field.split(","):
        items.append((position, item))
        position += len(item) + 1
    return items


def read_plain(text: Text, field: Field, word: Word) -> int:
    """Return the values of a field other than the two day fields as bits.

    Raises:
        CronError: an item cannot be read.
    """
    bits = 0
    for position, item in items_of(word):
        bits |= read_item(text, field, item, position)
    return bits


def has_dates(months: int, day_rule: DayRule) -> bool:
    """Tell whether any date of any year satisfies months (bit m for month m) and day fields."""
    days = allowed_days(day_rule)
    return any(days[kind] for month in range(1, 13) if months >> month & 1 for kind in kinds_of_month(month))
