"""What a step leads to: collected while deciding, carried out by the owner's loop afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tocsin.domain.alerts import Alert
from tocsin.domain.entries import Entry, EntryKey
from tocsin.domain.errors import EngineFault, StateGap
from tocsin.domain.instants import Micros
from tocsin.domain.jobs import Job
from tocsin.domain.shard_records import Active, EndNote, NamedSuccessor, ParkedCommand, Void, WorkItem
from tocsin.engine.suspects import ENTRY, Suspect
from tocsin.ports.schedule_store import JobRow, StoreWrites
from tocsin.ports.shard_log import NewRecord


@dataclass(slots=True)
class Tally:
    """What a step did, for the meters; nothing is decided by it."""

    lateness: list[Micros] = field(default_factory=list)
    """Of each fire: now less due, µs."""
    commands: list[tuple[str, bool]] = field(default_factory=list)
    """Of each decided command: its kind (an unknown one as ``unknown``), and whether it was accepted."""
    completed: dict[str, int] = field(default_factory=dict)
    stale_reports: int = 0
    redelivered: int = 0
    dead_letters: dict[str, int] = field(default_factory=dict)
    alerts: dict[str, int] = field(default_factory=dict)
    reports: int = 0
    forwarded: int = 0


@dataclass(slots=True)
class Step:
    """A step under construction, and then its result.

    Attributes:
        now: the instant of the step.
        number: of the turn, if one comes of it; also the token of what it dispatches.
        turn: a transaction is needed; without it the step changed nothing that must last.
        records, jobs: see ``ports.shard_log.ShardTurn``.
        bucket_reads: minutes whose reads are to begin.
        job_reads: jobs whose rows are to be read.
        ask_reports_end: the end of the shard's reports, as an uncommitted reader sees it, is wanted.
        at_hand: what is being decided; where a step fails, that is under suspicion. An entry stands for the suspect
            that it would be: making one for each fire costs as much as deciding it.
        bytes: of executions that go into records or the delta, roughly; first fires are counted elsewhere.
    """

    now: Micros
    number: int
    turn: bool = False
    records: list[NewRecord] = field(default_factory=list)
    jobs: list[NewRecord] = field(default_factory=list)
    bucket_reads: list[int] = field(default_factory=list)
    job_reads: list[str] = field(default_factory=list)
    ask_reports_end: bool = False
    tally: Tally = field(default_factory=Tally)
    dispatched: list[bytes] = field(default_factory=list)
    dispatched_last: list[bytes] = field(default_factory=list)
    """Those dispatched that are the last of their jobs."""
    changed: dict[str, Active] = field(default_factory=dict)
    """By execution: dispatched again, leased or set to wait; the last change of the step counts."""
    ended: list[str] = field(default_factory=list)
    voids: list[Void] = field(default_factory=list)
    named: list[NamedSuccessor] = field(default_factory=list)
    parked: list[ParkedCommand] = field(default_factory=list)
    unparked: list[int] = field(default_factory=list)
    work: list[WorkItem] = field(default_factory=list)
    """Work items that were begun or went on; of those with one id the last counts."""
    work_done: list[str] = field(default_factory=list)
    snapshots: list[Job] = field(default_factory=list)
    alerts: list[Alert] = field(default_factory=list)
    """What people are told; summed up when the turn is closed."""
    inserts: list[Entry] = field(default_factory=list)
    deletes: list[EntryKey] = field(default_factory=list)
    job_rows: list[JobRow] = field(default_factory=list)
    buckets: list[int] = field(default_factory=list)
    """Minutes of the index that are deleted whole."""
    ends: list[EndNote] = field(default_factory=list)
    """Jobs that are to be finished or removed; one command is made of them when the turn is closed."""
    write_mark: bool = False
    jobs_page: int | None = None
    """The page of the jobs log that is to be read: its offset."""
    at_hand: Suspect | Entry | None = None
    bytes: int = 0

    @property
    def suspect(self) -> Suspect | None:
        """Return what is under suspicion if the step fails now."""
        at_hand = self.at_hand
        return Suspect(ENTRY, at_hand) if isinstance(at_hand, Entry) else at_hand

    def mark(self) -> tuple[int, ...]:
        """Return how much is in the step, for ``back_to``."""
        return tuple(map(len, self._parts()))

    def back_to(self, mark: tuple[int, ...]) -> None:
        """Take out what was put in after a mark: a command that failed half way leaves nothing."""
        for part, length in zip(self._parts(), mark, strict=True):
            del part[length:]

    def _parts(self) -> tuple[list[Any], ...]:
        return (
            self.records, self.jobs, self.dispatched, self.dispatched_last, self.voids, self.snapshots,
            self.inserts, self.deletes, self.job_rows, self.named, self.parked, self.unparked, self.work,
            self.work_done, self.alerts, self.ends,
        )  # fmt: skip

    @property
    def size(self) -> int:
        """About how many bytes the step puts into its transaction."""
        return sum([len(record.value or b"") for record in self.records]) + sum(
            [len(record.value or b"") for record in self.jobs]
        )

    def writes(self) -> StoreWrites:
        """Return what is to be written to the store once the turn is committed."""
        return StoreWrites(
            tuple(self.inserts), tuple(self.deletes), tuple(self.job_rows), tuple(self.buckets), self.write_mark
        )


@contextmanager
def blaming(shard: int, step: Step) -> Iterator[None]:
    """Say of what fails in a step what was at hand.

    Raises:
        EngineFault: it is nothing that may fail.
    """
    try:
        yield
    except (EngineFault, StateGap, MemoryError):
        raise
    except Exception as error:
        raise EngineFault(shard, step.suspect, error) from error
