"""What an expression means, before any job has it: in words, and the next times with what the clock does to them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tocsin.domain.coming import format_in_zone
from tocsin.domain.instants import Micros, format_rfc3339
from tocsin.domain.recurrence import TZDATA_VERSION, DstPolicy, compile_cron, uses_job_id, write_out
from tocsin.domain.recurrence.notes import notes_on
from tocsin.domain.recurrence.words import in_words

TIMES_MAX: Final = 100
KINDS: Final = {
    True: "cadence: it follows real time, whatever the clock does",
    False: "fixed time: once for each time that the clock is to show",
}


class Coming(NamedTuple):
    """An occurrence, µs, and what is to be said of it."""

    at: Micros
    notes: tuple[str, ...]


class Preview(NamedTuple):
    """What an expression comes to in a zone.

    Attributes:
        expression: with the numbers that a job's id picks in place of ``H``, where there is one.
        timezone: name of the zone.
        words: when it is due, for people.
        cadence: whether it follows real time through changes of the clock.
        times: the next occurrences; fewer than were asked for where there are no more up to 2199.
    """

    expression: str
    timezone: str
    words: str
    cadence: bool
    times: tuple[Coming, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it as doors show it."""
        return {
            "cron": self.expression,
            "timezone": self.timezone,
            "description": self.words,
            "kind": "cadence" if self.cadence else "fixed_time",
            "zone_data": TZDATA_VERSION,
            "times": [
                {
                    "at": format_in_zone(one.at, self.timezone),
                    "utc": format_rfc3339(one.at),
                    "notes": list(one.notes),
                }
                for one in self.times
            ],
        }


def preview(
    expression: str,
    timezone: str,
    after: Micros,
    count: int,
    dst: DstPolicy | None = None,
    job_id: str | None = None,
) -> Preview:
    """Return what an expression comes to.

    Args:
        expression: a cron expression.
        timezone: a name of the IANA zone database.
        after: the times are strictly after it, µs.
        count: how many, at most ``TIMES_MAX``.
        dst: policy of fixed-time jobs; the default where None.
        job_id: picks the numbers for ``H``, in full; without one, ``H`` is refused.

    Raises:
        CronError: the expression, the zone or the policy is wrong.
    """
    plan = compile_cron(expression, timezone, dst or DstPolicy(), job_id)
    if job_id is not None and uses_job_id(expression):
        expression = write_out(expression, job_id)
    times: list[Coming] = []
    asked_from, at = after, plan.next_after(after)
    while at is not None and len(times) < min(count, TIMES_MAX):
        times.append(Coming(at, tuple(notes_on(plan, at, asked_from))))
        asked_from, at = at, plan.next_after(at)
    return Preview(expression.strip(" \t"), timezone, in_words(expression), plan.fields.cadence, tuple(times))
