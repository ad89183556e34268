"""Saying in words when an expression is due. For people; nothing is decided by it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import product
from typing import Final

from tocsin.domain.recurrence.dialect import DAY_OF_MONTH, DAY_OF_WEEK, HOUR, MINUTE, MONTH, SECOND, Field
from tocsin.domain.recurrence.items import Text
from tocsin.domain.recurrence.parsing import Word, items_of, six_words

_WEEKDAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    "", "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_COUNTS: Final = ("", "first", "second", "third", "fourth", "fifth")
_CLOCK_TIMES_MAX: Final = 8
"""So many times of day are written out one by one."""
_ITEM: Final = re.compile(r"(?P<first>\*|\w+)(?:-(?P<last>\w+))?(?:/(?P<step>[0-9]+))?")
_HASHED: Final = re.compile(r"[Hh](?:\((?P<range>[0-9]+-[0-9]+)\))?(?:/(?P<step>[0-9]+))?")


def in_words(expression: str) -> str:
    """Return what an accepted expression says, as a sentence without a full stop.

    Args:
        expression: one that compiles; an ``H`` is said to be picked, or is written out beforehand.
    """
    words = six_words(Text(expression, None))
    second, minute, hour, day, month, weekday = (word[1] for word in words)
    parts = [_times(second, minute, hour), _days(day, weekday)]
    if not _is_open(month):
        parts.append(f"in {_list(words[4], MONTH, _month)}")
    text = ", ".join(part for part in parts if part)
    return text[0].upper() + text[1:]


def _times(second: str, minute: str, hour: str) -> str:
    fields = [field.split(",") for field in (hour, minute, second)]
    if all(item.isdigit() for field in fields for item in field):
        clock = sorted({tuple(map(int, time)) for time in product(*fields)})
        if len(clock) <= _CLOCK_TIMES_MAX:
            shown = [f"{h:02}:{m:02}" + (f":{s:02}" if second != "0" else "") for h, m, s in clock]
            return f"at {_and(shown)}"
    said = []
    if second != "0":
        said.append(_every(second, SECOND))
    if second == "0" or minute != "*":
        said.append(_every(minute, MINUTE))
    if hour != "*":
        said.append(_every(hour, HOUR))
    elif minute != "*" and not _evenly(minute, MINUTE):
        said.append("of every hour")
    return " ".join(said) if said[-1] == "of every hour" else ", ".join(said)


def _every(text: str, field: Field) -> str:
    if text == "*":
        return f"every {field.name}"
    step = _evenly(text, field)
    if step:
        return f"every {step} {field.name}s"
    said = _list((0, text), field, str)
    if re.search(r"[*/Hh]", text):
        return said
    place = "in" if field is HOUR else "at"
    return f"{place} {field.name}{'' if text.isdigit() else 's'} {said}"


def _evenly(text: str, field: Field) -> int:
    """Return the step of a field that begins anew without a shorter one at the end, 0 where it is none."""
    match = re.fullmatch(r"\*/([0-9]+)", text)
    step = int(match[1]) if match else 0
    return step if step > 1 and (field.high + 1) % step == 0 else 0


def _days(day: str, weekday: str) -> str:
    of_month = "" if _is_open(day) else f"on {_and([_day_item(item) for _, item in items_of((0, day))])}"
    of_week = "" if _is_open(weekday) else f"on {_and([_weekday_item(item) for _, item in items_of((0, weekday))])}"
    if not of_month or not of_week:
        return of_month or of_week
    both = day.startswith(("*", "?")) or weekday.startswith(("*", "?"))
    return f"{of_month}, if that is also {of_week}" if both else f"{of_month} or {of_week}"


def _day_item(item: str) -> str:
    upper = item.upper()
    if upper == "L":
        return "the last day of the month"
    if upper == "LW":
        return "the last working day of the month"
    if upper.endswith("W"):
        return f"the working day nearest to the {_ordinal(int(item[:-1]))}"
    return _item(item, DAY_OF_MONTH, lambda number: f"the {_ordinal(number)}")


def _weekday_item(item: str) -> str:
    name, _, count = item.partition("#")
    if count:
        return f"the {_COUNTS[int(count)]} {_weekday(_number(name, DAY_OF_WEEK))} of the month"
    if len(item) > 1 and item[-1] in "Ll":
        return f"the last {_weekday(_number(item[:-1], DAY_OF_WEEK))} of the month"
    return _item(item, DAY_OF_WEEK, _weekday)


def _list(word: Word, field: Field, name: Callable[[int], str]) -> str:
    return _and([_item(item, field, name) for _, item in items_of(word)])


def _item(item: str, field: Field, name: Callable[[int], str]) -> str:
    if hashed := _HASHED.fullmatch(item):
        inside = f" from {hashed['range'].replace('-', ' to ')}" if hashed["range"] else ""
        step = f", then every {_ordinal(int(hashed['step']))}" if hashed["step"] else ""
        article = "an" if field is HOUR else "a"
        return f"{article} {field.name.replace('-', ' ')}{inside} that the job's id picks{step}"
    match = _ITEM.fullmatch(item)
    assert match is not None, "only what compiles is said in words"
    first, last, step = match["first"], match["last"], match["step"]
    if step is None:
        if first == "*":
            return f"every {field.name}"
        low = name(_number(first, field))
        return low if last is None else f"{low} to {name(_number(last, field))}"
    start = name(field.low if first == "*" else _number(first, field))
    end = f" to {name(_number(last, field))}" if last is not None else ""
    return f"every {_ordinal(int(step))} {field.name.replace('-', ' ')} from {start}{end}"


def _number(word: str, field: Field) -> int:
    return int(word) if word.isdigit() else field.names[word.lower()]


def _weekday(number: int) -> str:
    return _WEEKDAYS[number]


def _month(number: int) -> str:
    return _MONTHS[number]


def _is_open(text: str) -> bool:
    return text in ("*", "?")


def _ordinal(number: int) -> str:
    ending = "th" if number // 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
