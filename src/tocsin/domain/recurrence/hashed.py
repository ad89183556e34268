"""Expressions with ``H``: written out for one job, and checked for all jobs at once."""

from __future__ import annotations

from itertools import product
from typing import Final

from tocsin.domain.recurrence.dialect import FIELDS, Field
from tocsin.domain.recurrence.hashing import Pick, picked_by
from tocsin.domain.recurrence.items import Text, spelled_out
from tocsin.domain.recurrence.parsing import (
    Word,
    check_text,
    has_dates,
    items_of,
    parse_cron,
    read_days,
    read_plain,
    six_words,
    uses_job_id,
)

_EXTREMES: Final = (0, -1)
"""Of the days of a month only the last ones may be missing: with the lowest and highest pick all is said."""


def write_out(expression: str, job_id: str) -> str:
    """Return an expression with the numbers that a job's id picks in place of each ``H``.

    Jobs for which it comes out the same share a plan. It may be longer than what a caller may send.

    Raises:
        CronError: the expression is wrong.
    """
    if not uses_job_id(expression):
        return expression
    pick = picked_by(job_id)
    parse_cron(expression, pick)
    text = Text(check_text(expression), pick)
    words = six_words(text)
    fields = []
    for field, word in zip(FIELDS, words, strict=True):
        # A field picks one number for all of its items, so equal items stay equal.
        fields.append(",".join(dict.fromkeys(spelled_out(text, field, item) for _, item in items_of(word))))
    return " ".join(fields if len(expression.split()) == 6 else fields[1:])


def check_for_all(expression: str) -> None:
    """Make sure that an expression with ``H`` has dates whatever job it is given to.

    The steps are bounded: at most 168 combinations of picks for the three fields that make dates.

    Raises:
        CronError: it is wrong, or some jobs would never run.
    """
    text = Text(check_text(expression), _constant(0))
    second, minute, hour, day, month, weekday = six_words(text)
    for field, word in zip(FIELDS[:3], (second, minute, hour), strict=True):
        read_plain(text, field, word)
    month_picks = range(12) if _is_hashed(month) else (0,)
    day_picks = _EXTREMES if _is_hashed(day) else (0,)
    weekday_picks = range(7) if _is_hashed(weekday) else (0,)
    months = {read_plain(Text(expression, _constant(pick)), FIELDS[4], month) for pick in month_picks}
    rules = {
        read_days(Text(expression, _by_field(day_pick, weekday_pick)), day, weekday)
        for day_pick, weekday_pick in product(day_picks, weekday_picks)
    }
    if not all(has_dates(bits, rule) for bits, rule in product(months, rules)):
        problem = "for some of the values that H may take, no date ever satisfies the day and month fields together"
        remedy = "narrow H, as in H(1-28), or name a day that all of the months have"
        raise text.refuse(problem, remedy, day[0])


def _is_hashed(word: Word) -> bool:
    return uses_job_id(word[1])


def _constant(number: int) -> Pick:
    return lambda _field, count: number % count


def _by_field(day: int, weekday: int) -> Pick:
    def pick(field: Field, count: int) -> int:
        return (weekday if field is FIELDS[5] else day) % count

    return pick
