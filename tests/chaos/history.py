"""What happened in a run, as values: what was asked, published, ended, skipped and called. Nothing is judged here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

SECOND = 1_000_000
"""In µs, as all instants here."""


@dataclass(frozen=True)
class Duty:
    """What tocsin owes for one job that it accepted.

    Attributes:
        job_id: as it is kept.
        first: of a one-off its time; of a recurring job the first window that certainly counts.
        last: the last window that certainly counts; of a one-off, ``first``.
        every: the distance of windows; 0 of a one-off.
        may_skip: whether the job's policies allow that a window is passed over, with an event that says so.
    """

    job_id: str
    first: int
    last: int
    every: int = 0
    may_skip: bool = False

    def windows(self) -> range:
        """Return the nominal times that are owed."""
        return range(self.first, self.last + 1, self.every or 1)


class Dispatch(NamedTuple):
    """One committed record of a lane."""

    execution_id: str
    job_id: str
    scheduled_for: int
    due_at: int
    attempt: int
    token: int
    losses: int
    appended_at: int
    """By the clock of the trigger that produced it."""


class Return(NamedTuple):
    """A worker gave a dispatch back without having started it: the same attempt may be dispatched again."""

    execution_id: str
    attempt: int
    token: int


class Call(NamedTuple):
    """One request at the target."""

    execution_id: str
    attempt: int
    token: int
    redelivered: bool
    scheduled_for: int
    at: int
    ended_at: int = 0
    """When it was answered; 0: not yet."""
    port: int = 0
    """The caller's, so that one can tell whose call it was."""


class Report(NamedTuple):
    """What a worker said of a dispatch."""

    execution_id: str
    attempt: int
    token: int
    kind: str
    reason: str | None


class Change(NamedTuple):
    """An event: what became of an execution by a dispatch of it."""

    execution_id: str
    attempt: int
    token: int
    state: str


class Skip(NamedTuple):
    """An event that says that windows of a job were passed over."""

    job_id: str
    first: int
    last: int


class Fault(NamedTuple):
    """A fault and when it was at work; ``what`` says to whom it was done."""

    name: str
    what: str
    began_at: int
    ended_at: int
    ports: frozenset[int] = frozenset()
    """From which its victims, workers, called when it struck."""


@dataclass
class History:
    """Everything that a run left."""

    duties: list[Duty] = field(default_factory=list)
    dispatches: list[Dispatch] = field(default_factory=list)
    returns: list[Return] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    """Of one execution in the order of the log."""
    ends: dict[str, list[str]] = field(default_factory=dict)
    """States in which an execution ended, in order; more than one is a fault."""
    skips: list[Skip] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
