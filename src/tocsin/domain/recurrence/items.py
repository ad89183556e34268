"""Reading one item of a field's list: values, ranges, steps and ``H``, which all fields share.

The forms that only the day fields have are read in ``day_items``.
"""

from __future__ import annotations

import re
from typing import Final

from tocsin.domain.fields import shown
from tocsin.domain.recurrence.dialect import Field
from tocsin.domain.recurrence.errors import CronError
from tocsin.domain.recurrence.hashing import Pick

_VALUE: Final = "[0-9]+|[A-Za-z]+"
_ITEM: Final = re.compile(rf"(?:\*|(?P<first>{_VALUE})(?:-(?P<last>{_VALUE}))?)(?P<slash>/(?P<step>[0-9]+))?")
_HASHED: Final = re.compile(r"[Hh](?:\((?P<low>[0-9]+)-(?P<high>[0-9]+)\))?(?:/(?P<step>[0-9]+))?")


class Text:
    """An expression while it is read: knows the whole, to say where a fault is."""

    __slots__ = ("pick", "whole")

    def __init__(self, whole: str, pick: Pick | None) -> None:
        """Take the expression, and what picks the numbers for ``H``; None where nothing can."""
        self.whole: Final = whole
        self.pick: Final = pick

    def refuse(self, problem: str, remedy: str, position: int | None) -> CronError:
        """Return the error to raise."""
        return CronError(problem, remedy, position, "cron", self.whole)


def takes(field: Field) -> str:
    """Return what a field accepts, for a remedy."""
    names = f" or {'-'.join((*field.names,)[:: len(field.names) - 1]).upper()}" if field.names else ""
    return (
        f"a {field.name} is {field.low}-{field.high}{names}, written as *, a, a-b, */n, a-b/n, a/n or a list of these"
    )


def read_value(text: Text, field: Field, word: str, position: int) -> int:
    """Return the number that a word stands for in a field.

    Raises:
        CronError: it is no number or name of the field, or out of range.
    """
    if word.isdigit():
        number = int(word)
        if not field.low <= number <= field.high:
            raise text.refuse(f"{field.name} {word} is out of range", takes(field), position)
        return number
    named = field.names.get(word.lower())
    if named is None:
        raise text.refuse(f"{shown(word)} is not a {field.name}", takes(field), position)
    return named


def read_step(text: Text, field: Field, digits: str, position: int) -> int:
    """Return a step.

    Raises:
        CronError: it is 0, or larger than any number of the field.
    """
    step = int(digits)
    if not 1 <= step <= field.high:
        raise text.refuse(
            f"step {digits} is out of range for a {field.name}",
            f"give a step of 1-{field.high}; a larger one would never be taken",
            position,
        )
    return step


def read_item(text: Text, field: Field, item: str, position: int) -> int:
    """Return the values of one item as bits.

    Raises:
        CronError: it is none of the forms that all fields share.
    """
    if match := _HASHED.fullmatch(item):
        return _read_hashed(text, field, match, position)
    match = _ITEM.fullmatch(item)
    if match is None:
        raise _unreadable(text, field, item, position)
    step = read_step(text, field, match["step"], position + match.start("step")) if match["slash"] else 1
    if match["first"] is None:
        low, high = field.low, field.end
    else:
        low = read_value(text, field, match["first"], position)
        high = _read_high(text, field, match, low, position)
    return sum(1 << number for number in range(low, high + 1, step))


def _read_high(text: Text, field: Field, match: re.Match[str], low: int, position: int) -> int:
    if match["last"] is None:
        return max(low, field.end) if match["slash"] else low
    high = read_value(text, field, match["last"], position + match.start("last"))
    if high < low:
        raise text.refuse(
            f"range {match['first']}-{match['last']} runs backwards",
            f"write {match['first']}-{field.high},{field.low}-{match['last']} to go over the end"
            if field.name != "day-of-week"
            else "write 7 for a Sunday at the end of a range, or list the days",
            position,
        )
    return high


def _read_hashed(text: Text, field: Field, match: re.Match[str], position: int) -> int:
    first, high, step = _picked(text, field, match, position)
    return sum(1 << number for number in range(first, high + 1, step))


def spelled_out(text: Text, field: Field, item: str) -> str:
    """Return an item that was read before, with the numbers that its ``H`` stands for in their place."""
    match = _HASHED.fullmatch(item)
    if match is None:
        return item
    first, high, step = _picked(text, field, match, 0)
    return str(first) if first + step > high else f"{first}-{high}/{step}"


def _picked(text: Text, field: Field, match: re.Match[str], position: int) -> tuple[int, int, int]:
    """Return the first and last value that an ``H`` may stand for, and the step between them."""
    if text.pick is None:
        raise text.refuse("H needs a job id to be picked by", "give a job_id, or a number instead of H", position)
    low, high = field.low, field.hash_high
    if match["low"] is not None:
        low = read_value(text, field, match["low"], position + match.start("low"))
        high = read_value(text, field, match["high"], position + match.start("high"))
        if high < low:
            raise text.refuse("the range of H runs backwards", "put the smaller number first", position)
    count = high - low + 1
    if match["step"] is None:
        only = low + text.pick(field, count)
        return only, only, 1
    step = read_step(text, field, match["step"], position + match.start("step"))
    return low + text.pick(field, min(step, count)), high, step


def _unreadable(text: Text, field: Field, item: str, position: int) -> CronError:
    if not item:
        return text.refuse(f"the {field.name} field has an empty item", "leave out the needless comma", position)
    if item == "?":
        return text.refuse("? stands only for a whole day-of-month or day-of-week field", "write * instead", position)
    readable = re.match(rf"(?:(?:\*|(?:{_VALUE})(?:-(?:{_VALUE}))?)(?:/[0-9]+)?)?", item)
    at = position + min(readable.end() if readable else 0, len(item) - 1)  # where reading stopped
    return text.refuse(f"{shown(item)} is not a value, range or step of the {field.name} field", takes(field), at)
