"""Comparing closed minutes of the index with history.

A minute is closed once its shard's cursor has passed it: then each of its rows was fired, skipped, set aside, or
belongs to a version of its job that was replaced before. A replaced row leaves the index with the turn that replaced
it. So what is still there, when the store has all that was committed by then, must stand in history, as a run or in a
range that was skipped; provided that the projectors have filed all that was decided.

Each look takes the states first, then waits for the projectors, then reads. What it misses counts only if a second look
misses it too, from states of which the store has taken all that the first ones knew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from tocsin.domain.entries import Entry, EntryKey, Place
from tocsin.domain.errors import NotFound, Unavailable, Undecodable
from tocsin.domain.instants import DAY, minute_of
from tocsin.ports.codec import RecordCodec
from tocsin.ports.index_reader import IndexReader
from tocsin.ports.projection_progress import ProjectionProgress
from tocsin.ports.takeover import Takeover
from tocsin.ports.views import ViewReader
from tocsin.roles.reconciler.rows import Expectation, Standing
from tocsin.roles.shard_states import committed_states

RANGE_DAYS: Final = 366
RANGE_ROWS_MAX: Final = 100
"""A row that has no run of its own may be in a skipped range that began so long before it, so many runs ago at most."""

Minutes = Mapping[int, Collection[int]]
"""By shard, the minutes since the epoch that are looked at."""


class Missing(NamedTuple):
    """An occurrence that was due and decided, and that history does not have."""

    shard: int
    key: EntryKey
    tenant_id: str
    execution_id: str


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a look.

    Attributes:
        reads_max: runs read at once.
        waits_max: how often it waits for the projectors, and for the owners to go on.
    """

    reads_max: int = 64
    waits_max: int = 600


@dataclass(slots=True)
class Look:
    """What one look saw.

    Attributes:
        missing: by key.
        closed: by shard, the minute up to which all are closed.
        cursors: by shard.
        rows: how many were looked for in history.
        unreadable: rows that nobody can read; owners set them aside as dead letters.
        open: (shard, minute) with rows that are decided and still in motion; they cannot be judged yet.
    """

    missing: dict[EntryKey, Missing] = field(default_factory=dict)
    closed: dict[int, int] = field(default_factory=dict)
    cursors: dict[int, Place] = field(default_factory=dict)
    rows: int = 0
    unreadable: int = 0
    open: set[tuple[int, int]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Findings:
    """What is certain.

    Attributes:
        missing: in the order of time.
        stood: shards of which something is missed that is not certain: their owners did not go on meanwhile.
        Others: see ``Look``.
    """

    missing: tuple[Missing, ...]
    closed: Mapping[int, int]
    rows: int
    unreadable: int
    open: frozenset[tuple[int, int]]
    stood: tuple[int, ...] = ()


class Reconciler:
    """Looks at the shards of one cluster.

    Args:
        takeover: reads states.
        index, views: the store's two sides.
        progress: of the projectors.
        codec: decodes states and rows.
        wait: passes a little time.
        limits: see there.
    """

    def __init__(
        self,
        takeover: Takeover,
        index: IndexReader,
        views: ViewReader,
        progress: ProjectionProgress,
        codec: RecordCodec,
        wait: Callable[[], None],
        limits: Limits,
    ) -> None:
        self._takeover = takeover
        self._index = index
        self._views = views
        self._progress = progress
        self._codec = codec
        self._wait = wait
        self._limits = limits

    def reconcile(self, minutes: Minutes) -> Findings:
        """Return what history lacks of these minutes, as far as they are closed.

        Raises:
            Unavailable: log, store or projectors do not answer, or the projectors are too far behind.
            StateGap, Undecodable: a state cannot be read.
        """
        first = self.look(minutes)
        if not first.missing:
            return _findings(first, ())
        suspects: dict[int, set[int]] = {}
        for missing in first.missing.values():
            suspects.setdefault(missing.shard, set()).add(missing.key.bucket_minute)
        stood = self._until_moved(sorted(suspects), first.cursors)
        second = self.look({shard: found for shard, found in suspects.items() if shard not in stood})
        twice = [missing for key, missing in second.missing.items() if key in first.missing]
        certain = [missing for missing in twice if not self._was_replaced(missing.key)]
        return _findings(first, certain, stood)

    def look(self, minutes: Minutes) -> Look:
        """Compare once."""
        look = Look()
        states = committed_states(self._takeover, sorted(minutes), self._codec)
        self._await_projectors()
        with asyncio.Runner() as runner:
            for shard, state in states.items():
                expectation = Expectation(state, self._codec)
                look.closed[shard], look.cursors[shard] = minute_of(state.cursor.run_at), state.cursor
                for minute in sorted(minutes[shard]):
                    if (state.deleted_upto or 0) <= minute < look.closed[shard]:
                        self._compare(look, runner, expectation, shard, minute)
        return look

    def _await_projectors(self) -> None:
        """Return when everything that is decided by now is filed."""
        behind = self._progress.ends()
        for _ in range(self._limits.waits_max):
            behind = self._progress.behind(behind)
            if not behind:
                return
            self._wait()
        (topic, partition), _ = min(behind.items())
        told = f"{topic}[{partition}], and {len(behind) - 1} other partitions" if len(behind) > 1 else topic
        raise Unavailable("projector", f"it has not filed what was decided meanwhile ({told}): is one running?")

    def _compare(self, look: Look, runner: asyncio.Runner, expectation: Expectation, shard: int, minute: int) -> None:
        for rows in _portions(self._index.rows(shard, minute), self._limits.reads_max):
            standing = {row: expectation.of(row) for row in rows}
            expected = [row for row, found in standing.items() if found is Standing.EXPECTED]
            look.rows += len(expected)
            look.unreadable += sum(found is Standing.UNREADABLE for found in standing.values())
            if Standing.IN_MOTION in standing.values():
                look.open.add((shard, minute))
            for row in runner.run(self._not_found(expected)):
                look.missing[row.key] = Missing(shard, row.key, row.tenant_id, row.execution_id)

    async def _not_found(self, rows: Sequence[Entry]) -> list[Entry]:
        found = await asyncio.gather(*(self._has_run(row) for row in rows))
        left = [row for row, has_run in zip(rows, found, strict=True) if not has_run]
        return [row for row in left if not await self._is_in_skipped_range(row)]

    async def _has_run(self, row: Entry) -> bool:
        try:
            return bool(await self._views.read_run(row.execution_id))
        except NotFound:
            return False

    async def _is_in_skipped_range(self, row: Entry) -> bool:
        at = row.scheduled_for
        runs = await self._views.list_runs(row.job_id, at, max(0, at - RANGE_DAYS * DAY), RANGE_ROWS_MAX)
        return any(run.skipped_upto is not None and run.skipped_upto >= at for run in runs)

    def _was_replaced(self, key: EntryKey) -> bool:
        """Tell whether a row's job had a later version before the row was due: left behind, it did not fire."""
        snapshot = self._index.job(key.job_id)
        try:
            job = None if snapshot is None else self._codec.decode_job(snapshot)
        except Undecodable:
            return False
        return job is not None and job.version > key.version and job.updated_at <= key.run_at

    def _until_moved(self, shards: Sequence[int], cursors: Mapping[int, Place]) -> tuple[int, ...]:
        """Wait until the store has all that was committed by the last look; return the shards where it has not."""
        left = tuple(shards)
        for _ in range(self._limits.waits_max):
            states = committed_states(self._takeover, left, self._codec)
            left = tuple(s for s in left if s in states and states[s].successors_upto.run_at <= cursors[s].run_at)
            if not left:
                break
            self._wait()
        return left


def _portions(rows: Iterable[Entry], size: int) -> Iterator[list[Entry]]:
    rest = iter(rows)
    while portion := list(islice(rest, size)):
        yield portion


def _findings(look: Look, certain: Iterable[Missing], stood: tuple[int, ...] = ()) -> Findings:
    missing = tuple(sorted(certain, key=lambda one: (one.key, one.shard)))
    return Findings(missing, look.closed, look.rows, look.unreadable, frozenset(look.open), stood)
