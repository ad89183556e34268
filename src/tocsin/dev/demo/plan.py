"""What the demonstration asks for. Pure: the clock's reading is an argument."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tocsin.dev.demo.occurrences import Created, Kind
from tocsin.domain.instants import SECOND, Micros, format_rfc3339

SPREAD: Final = 24
"""One-offs due one after another, to be watched."""
SPREAD_FIRST_S: Final = 3.0
SPREAD_STEP_S: Final = 0.5
BURST: Final = 1_000
"""One-offs due in the same second, unless another number is asked for."""
BURST_AFTER_S_MIN: Final = 10.0
BURST_AFTER_S_MAX: Final = 45.0
BURST_MARGIN_S: Final = 4.0
"""Between the last create, as foreseen, and the second that they are due."""
CRON_EVERY_S: Final = 5
INTERVAL_S: Final = 3
INTERVAL_FIRST_S: Final = 2
MESSAGES_AFTER_S: Final = (6.0,)
"""Delayed messages to be watched, counted from the start."""
SLOW: Final = 40
"""Calls that take a while, among which the worker is killed."""
SLOW_CALL_S: Final = 1.0
SLOW_STEP_S: Final = 0.1
SLOW_AFTER_S: Final = 5.0
"""After the burst, so that this is over."""
BURST_FIRES_PER_S: Final = 500
"""As fast as even a small machine works a burst off, or it would still go on when the worker is killed."""
MESSAGES_AMONG_SLOW: Final = 4
MESSAGE_STEP_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Places:
    """Where the jobs' calls and messages go."""

    quick_url: str
    slow_url: str
    topic: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """A job to be created.

    Attributes:
        due_at: when it fires, or fires first, µs.
        step: how often it fires then, µs; 0: once.
    """

    name: str
    kind: Kind
    due_at: Micros
    step: Micros = 0

    def body(self, places: Places) -> dict[str, Any]:
        """Return what is sent to the gateway."""
        return {
            "name": self.name,
            "labels": {"demo": str(self.kind)},
            **self._schedule(),
            "target": dict(self._target(places)),
        }

    def _schedule(self) -> dict[str, Any]:
        if self.kind is Kind.CRON:
            # Overlapping runs are allowed, or those due while the worker is dead would be skipped: rightly, but dull.
            return {
                "schedule": {"cron": f"*/{CRON_EVERY_S} * * * * *", "timezone": "UTC"},
                "concurrency": "allow",
            }
        at = format_rfc3339(self.due_at)
        if self.kind is Kind.INTERVAL:
            return {"schedule": {"every_s": INTERVAL_S, "anchor_at": at}, "concurrency": "allow"}
        return {"run_at": at}

    def _target(self, places: Places) -> Mapping[str, Any]:
        if self.kind is Kind.MESSAGE:
            return {"type": "message", "topic": places.topic, "key": self.name, "value": {"hello": self.name}}
        return {"type": "http", "url": places.slow_url if self.kind is Kind.SLOW else places.quick_url}


def first_jobs(now: Micros) -> list[Wanted]:
    """Return the first jobs: one-offs, one after another from a few seconds ahead on, recurring ones, messages."""
    first, step = now + _micros(SPREAD_FIRST_S), _micros(SPREAD_STEP_S)
    jobs = [Wanted(f"spread-{number}", Kind.SPREAD, first + number * step) for number in range(SPREAD)]
    every = CRON_EVERY_S * SECOND
    jobs.append(Wanted(f"cron-every-{CRON_EVERY_S}-s", Kind.CRON, (now // every + 1) * every, every))
    anchor = (now // SECOND + INTERVAL_FIRST_S) * SECOND
    jobs.append(Wanted(f"interval-of-{INTERVAL_S}-s", Kind.INTERVAL, anchor, INTERVAL_S * SECOND))
    return jobs + messages([now + _micros(after_s) for after_s in MESSAGES_AFTER_S], "delayed")


def messages(due: list[Micros], name: str) -> list[Wanted]:
    """Return jobs that send a message each."""
    return [Wanted(f"{name}-message-{number}", Kind.MESSAGE, at) for number, at in enumerate(due, 1)]


def burst_jobs(now: Micros, creates_per_s: float, count: int = BURST) -> list[Wanted]:
    """Return the jobs due in one second, far enough ahead for all to be created before, at the rate measured."""
    ahead_s = BURST_MARGIN_S + count / max(creates_per_s, 1.0)
    ahead_s = min(BURST_AFTER_S_MAX, max(BURST_AFTER_S_MIN, ahead_s))
    due_at = -(-(now + _micros(ahead_s)) // SECOND) * SECOND
    return [Wanted(f"burst-{number}", Kind.BURST, due_at) for number in range(count)]


def slow_jobs(burst_at: Micros, burst: int) -> list[Wanted]:
    """Return the jobs among which the worker is killed, and messages due at the same time."""
    first = burst_at + _micros(SLOW_AFTER_S + burst / BURST_FIRES_PER_S)
    slow = [Wanted(f"slow-{number}", Kind.SLOW, first + number * _micros(SLOW_STEP_S)) for number in range(SLOW)]
    due = [first + number * _micros(MESSAGE_STEP_S) for number in range(1, MESSAGES_AMONG_SLOW + 1)]
    return slow + messages(due, "meanwhile")


def occurrences(job: Created, step: Micros, upto: Micros) -> list[Created]:
    """Return the occurrences that a recurring job owes: due after its create was answered, up to an instant."""
    # Those between the create and its answer may have fired too, or may lie before what the create made.
    passed = max(0, (job.answered_at - job.due_at) // step + 1)
    first = job.due_at + passed * step
    return [Created(job.job_id, at, job.kind, job.answered_at, job.decided) for at in range(first, upto + 1, step)]


def _micros(seconds: float) -> Micros:
    return round(seconds * SECOND)
