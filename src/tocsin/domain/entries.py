"""Entries: the rows of the schedule index, and their place on the time line.

A row is immutable and its key is never used again; what a job does next is always a new row.
"""

from __future__ import annotations

from typing import NamedTuple

from tocsin.domain.instants import minute_of


class EntryKey(NamedTuple):
    """The full key of an index row inside its shard."""

    run_at: int
    """When it fires: µs since the epoch. Equal to ``scheduled_for`` unless it was filed late."""
    job_id: str
    version: int
    scheduled_for: int
    """The nominal time, µs since the epoch."""

    @property
    def bucket_minute(self) -> int:
        """The minute since the epoch whose index partition holds the row."""
        return minute_of(self.run_at)

    @property
    def place(self) -> Place:
        """Where the row stands in the order in which the cursor passes rows."""
        return Place(self.run_at, self.job_id, self.scheduled_for)


class Place(NamedTuple):
    """A full sort key. A cursor is a place: everything at or before it is decided."""

    run_at: int
    job_id: str
    scheduled_for: int

    @classmethod
    def before(cls, instant: int) -> Place:
        """Return the place that precedes every row due at or after ``instant``: no job id is empty."""
        return cls(instant, "", 0)


class Entry(NamedTuple):
    """One due occurrence, ready to fire. Its first three fields are its place, so entries sort in firing order."""

    run_at: int
    job_id: str
    scheduled_for: int
    version: int
    execution_id: str
    tenant_id: str
    lane: str
    execution: bytes
    """The encoded ``Execution`` record: firing stamps attempt and token into it, and sends it."""
    plan: str = ""
    """The job's schedule and policies, see ``domain.firing``; empty for a one-off with default policies."""

    @property
    def key(self) -> EntryKey:
        return EntryKey(self.run_at, self.job_id, self.version, self.scheduled_for)
