"""The dialect's tables: fields with their bounds and names, and macros. What is not here is not accepted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

EXPRESSION_CHARS_MAX: Final = 256
"""Longer expressions are refused unread."""


class Field(NamedTuple):
    """One field of an expression.

    Attributes:
        name: as errors call it.
        low: the smallest number.
        high: the largest number, which is also the largest step.
        names: three-letter names, lower case, and their numbers.
        end: where ``*`` and ``a/n`` stop. Only in day-of-week it is not ``high``: 7 is another name of Sunday.
        hash_high: where ``H`` stops. Only in day-of-month it is not ``end``, so that a job has its day in each month.
        salt: tells one field's ``H`` from another's.
    """

    name: str
    low: int
    high: int
    names: Mapping[str, int]
    end: int
    hash_high: int
    salt: int


def _numbered(names: str, first: int) -> dict[str, int]:
    return {name: number for number, name in enumerate(names.split(), first)}


SECOND: Final = Field("second", 0, 59, {}, 59, 59, 0)
MINUTE: Final = Field("minute", 0, 59, {}, 59, 59, 1)
HOUR: Final = Field("hour", 0, 23, {}, 23, 23, 2)
DAY_OF_MONTH: Final = Field("day-of-month", 1, 31, {}, 31, 28, 3)
MONTH: Final = Field("month", 1, 12, _numbered("jan feb mar apr may jun jul aug sep oct nov dec", 1), 12, 12, 4)
DAY_OF_WEEK: Final = Field("day-of-week", 0, 7, _numbered("sun mon tue wed thu fri sat", 0), 6, 6, 5)

FIELDS: Final = (SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK)

MACROS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
