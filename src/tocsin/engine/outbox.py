"""What is committed but not yet acknowledged by the store.

Turns are acknowledged in any order; the watermark is the end of the unbroken run of acknowledged ones. Jobs stay in
memory until their rows are acknowledged, so nobody reads a row that is about to change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tocsin.domain.entries import Entry, Place
from tocsin.domain.jobs import Job
from tocsin.engine.shard_state import ShardState
from tocsin.ports.schedule_store import StoreWrites


@dataclass(slots=True)
class PendingTurn:
    """A turn's consequences. ``jobs_end`` is the offset after its last record in the jobs log."""

    writes: StoreWrites
    jobs: tuple[Job, ...]
    cursor: Place
    """As it was after the turn: with the turn's writes, the successors of all rows up to there are in the store."""
    deleted_upto: int | None = None
    """The minute before which, with the turn's writes, the index is deleted whole."""
    jobs_end: int | None = None
    acknowledged: bool = False


@dataclass(slots=True)
class Settled:
    """What an acknowledgement led to."""

    jobs_end: int | None = None
    """The new watermark, where it moved."""
    cursor: Place | None = None
    """Up to where successors are in the store now, where that moved."""
    deleted_upto: int | None = None
    marked: bool = False
    """The shard's mark was written."""
    deleted: list[Job] = field(default_factory=list)
    """Deleted jobs that have left the index and are still the latest: their tombstones are due."""

    def move_watermarks(self, state: ShardState) -> None:
        """Take over into the state how far the store is."""
        if self.jobs_end is not None:
            state.indexed_upto = self.jobs_end
        if self.cursor is not None:
            state.successors_upto = max(state.successors_upto, self.cursor)
        if self.deleted_upto is not None:
            state.deleted_upto = self.deleted_upto
        state.marked = state.marked or self.marked


class Outbox:
    """The unacknowledged turns of one shard, in order."""

    def __init__(self) -> None:
        self._turns: dict[int, PendingTurn] = {}
        self._bytes = 0
        self._jobs: dict[str, tuple[int, Job]] = {}
        """The latest snapshot of each job in memory, with the turn that must be acknowledged before it may go."""

    def __len__(self) -> int:
        return len(self._turns)

    @property
    def bytes(self) -> int:
        """About how many bytes of rows are unacknowledged."""
        return self._bytes

    def file(self, turn: int, job: Job) -> None:
        """Know a job's new snapshot from now on: the next command of the same turn may concern it."""
        self._jobs[job.job_id] = (turn, job)

    def add(
        self, turn: int, writes: StoreWrites, jobs: tuple[Job, ...], cursor: Place, deleted_upto: int | None = None
    ) -> None:
        """Remember what a turn has to write, the jobs that were filed in it, and the watermarks after it."""
        self._turns[turn] = PendingTurn(writes, jobs, cursor, deleted_upto)
        self._bytes += writes.size

    def committed(self, turn: int, jobs_end: int | None) -> StoreWrites:
        """The turn is in the log: return what may now be written, empty where there is nothing."""
        pending = self._turns.get(turn)
        if pending is None:
            return StoreWrites()
        pending.jobs_end = jobs_end
        return pending.writes

    def is_written(self, turn: int) -> bool:
        """Tell whether the writes of a turn, and of all before it, are acknowledged."""
        return next(iter(self._turns), turn + 1) > turn

    def job(self, job_id: str) -> Job | None:
        """Return the latest snapshot of a job, if it is still in memory."""
        known = self._jobs.get(job_id)
        return known[1] if known else None

    def unacknowledged_inserts(self, minute: int) -> Iterator[Entry]:
        """Yield the entries of a minute that a read of the store may not see yet, but for replaced versions."""
        for pending in self._turns.values():
            if pending.acknowledged:
                continue
            for entry in pending.writes.inserts:
                latest = self.job(entry.job_id)
                if entry.key.bucket_minute == minute and (latest is None or latest.version <= entry.version):
                    yield entry

    def acknowledge(self, turn: int) -> Settled:
        """All writes of a turn are acknowledged."""
        pending = self._turns.get(turn)
        settled = Settled()
        if pending is None:
            return settled
        pending.acknowledged = True
        while self._turns:
            first = next(iter(self._turns))
            if not self._turns[first].acknowledged:
                break
            done = self._turns.pop(first)
            self._bytes -= done.writes.size
            if done.jobs_end is not None:
                settled.jobs_end = done.jobs_end
            settled.cursor = done.cursor
            if done.deleted_upto is not None:
                settled.deleted_upto = done.deleted_upto
            settled.marked = settled.marked or done.writes.mark
            settled.deleted += self._let_go(first, done.jobs)
        return settled

    def _let_go(self, turn: int, jobs: tuple[Job, ...]) -> Iterator[Job]:
        for job in jobs:
            known = self._jobs.get(job.job_id)
            if known and known[0] == turn and known[1].version == job.version:
                del self._jobs[job.job_id]
                if job.state == "DELETED":
                    yield job
