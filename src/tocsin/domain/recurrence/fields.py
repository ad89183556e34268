"""What an expression means, as values: the fields after parsing, all texts gone."""

from __future__ import annotations

from typing import NamedTuple

from tocsin.domain.recurrence.days import DayRule


class CronFields(NamedTuple):
    """A parsed expression. Expressions that mean the same are equal, however they are written.

    Attributes:
        seconds: bit s for each allowed second.
        minutes: bit m for each allowed minute.
        hours: bit h for each allowed hour.
        months: bit m for each allowed month, January as 1.
        day_rule: the two day fields.
        cadence: minute or hour begins with ``*``: the job follows real time through changes of the clock, where a job
            with a fixed time runs once for each wall time.
    """

    seconds: int
    minutes: int
    hours: int
    months: int
    day_rule: DayRule
    cadence: bool
