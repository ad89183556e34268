"""Comparing the store with what the log implies, while a system runs or not. It reads, and changes nothing.

What is expected is taken at a barrier: the watermarks of a shard's committed state. All that they say is in the store
must be found there afterwards. Whatever is younger is not judged, and what differs counts only if it differs again at
a later barrier, for a look takes time and the system goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tocsin.domain.entries import Entry, EntryKey, Place
from tocsin.domain.errors import Undecodable
from tocsin.domain.ids import offset_of_version
from tocsin.domain.instants import minute_of
from tocsin.domain.jobs import Job, JobState
from tocsin.domain.sharding import shard_of
from tocsin.domain.timers import is_timer
from tocsin.engine.filing import Filing
from tocsin.engine.held import HeldEntries
from tocsin.engine.outbox import Outbox
from tocsin.engine.shard_state import ShardState
from tocsin.engine.work import Work
from tocsin.engine.zone_rules import ZoneRules
from tocsin.ports.codec import RecordCodec
from tocsin.ports.index_reader import IndexReader
from tocsin.ports.jobs_log import JobsLog, JobsRecord
from tocsin.ports.takeover import Takeover
from tocsin.roles.shard_states import committed_states

PAGE_RECORDS: Final = 2_000
INDEX: Final = "schedule_index"
JOBS: Final = "jobs"


class Difference(NamedTuple):
    """Something that the store does not hold as the log implies."""

    table: str
    what: str
    """missing, extra or different."""
    shard: int
    job_id: str
    """Empty: the shard's mark."""
    key: EntryKey | None = None


@dataclass(slots=True)
class Look:
    """What one look saw.

    Attributes:
        found: differences, by table, what, and job.
        barriers: by shard, how far its watermarks must be for another look to be a later one: cursor, and offset in
            the jobs log.
        jobs, rows: how many were expected.
        unreadable: snapshots in the log that nobody can decode.
    """

    found: dict[tuple[str, str, int, str], Difference] = field(default_factory=dict)
    barriers: dict[int, tuple[Place, int]] = field(default_factory=dict)
    jobs: int = 0
    rows: int = 0
    unreadable: int = 0

    def add(self, difference: Difference) -> None:
        self.found.setdefault(difference[:4], difference)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is certain after all looks.

    Attributes:
        differences: in the order of shards.
        jobs, rows, unreadable: see ``Look``.
        stood: shards whose watermarks did not move between looks: nobody seems to own them.
    """

    differences: tuple[Difference, ...]
    jobs: int
    rows: int
    unreadable: int
    stood: tuple[int, ...] = ()


class _View:
    """What one shard's log implies, at the watermarks of a committed state."""

    def __init__(self, state: ShardState, codec: RecordCodec) -> None:
        self.state = state
        self.cursor = state.cursor
        self.from_place = min(state.successors_upto, state.cursor)
        self.jobs: dict[str, int] = {}
        """Hashes of the snapshots, by job."""
        self.rows: dict[EntryKey, int] = {}
        self.unsettled: set[str] = set()
        """Jobs whose last snapshot may not be in the store yet."""
        self.jobs_end = 0
        self._filing = Filing(state, ZoneRules(state), Outbox(), HeldEntries(state), Work(state, codec), codec)

    def at(self, cursor: Place) -> _View:
        self.state.cursor = cursor
        return self

    def entries_of(self, job: Job) -> tuple[Entry, ...]:
        return self._filing.present_entries(job)

    def judges(self, job_id: str, version: int) -> bool:
        """Tell whether a row is old enough to be judged."""
        return job_id not in self.unsettled and offset_of_version(version) < self.state.commands_offset


class IndexAudit:
    """Looks at the shards of one cluster.

    Args:
        takeover, jobs_log: the log's side.
        reader: the store's.
        codec: decodes both.
        shards: how many the cluster has.
        wait: passes a little time.
    """

    def __init__(
        self,
        takeover: Takeover,
        jobs_log: JobsLog,
        reader: IndexReader,
        codec: RecordCodec,
        shards: int,
        wait: Callable[[], None],
    ) -> None:
        self._takeover = takeover
        self._jobs_log = jobs_log
        self._reader = reader
        self._codec = codec
        self._shards = shards
        self._wait = wait

    def verify(self, shards: Sequence[int], waits_max: int) -> Verdict:
        """Return what differs for certain.

        Args:
            shards: which to look at.
            waits_max: how often to wait for the watermarks to move, before looking again at what stands.
        """
        first = self.look(shards)
        if not first.found:
            return Verdict((), first.jobs, first.rows, first.unreadable)
        suspects = sorted({difference.shard for difference in first.found.values()})
        stood = self._until_moved(suspects, first.barriers, waits_max)
        second = self.look(suspects)
        certain = [difference for key, difference in second.found.items() if key in first.found]
        return Verdict(tuple(sorted(certain, key=_order)), first.jobs, first.rows, first.unreadable, stood)

    def look(self, shards: Sequence[int]) -> Look:
        """Compare once."""
        look = Look()
        states = committed_states(self._takeover, shards, self._codec)
        views = {shard: _View(state, self._codec) for shard, state in states.items()}
        for shard, view in views.items():
            view.at(view.from_place)
            for record in self._snapshots(shard):
                self._expect(look, view, record)
            look.barriers[shard] = view.cursor, view.jobs_end
            look.jobs += len(view.jobs)
            look.rows += len(view.rows)
            if view.state.marked and not self._reader.has_mark(shard):
                look.add(Difference(INDEX, "missing", shard, ""))
        self._compare_jobs(look, views)
        self._compare_rows(look, views)
        return look

    def _snapshots(self, shard: int) -> Iterator[JobsRecord]:
        at = 0
        while True:
            self._jobs_log.begin_read(shard, at, PAGE_RECORDS)
            while not (pages := self._jobs_log.completed()):
                self._wait()
            for page in pages:
                yield from page.records
                at = page.next
                if page.next >= page.end:
                    return

    def _expect(self, look: Look, view: _View, record: JobsRecord) -> None:
        view.jobs_end = record.offset + 1
        if record.offset >= view.state.indexed_upto:
            view.unsettled.add(record.job_id)
            return
        try:
            job = self._codec.decode_job(record.snapshot)
        except Undecodable:
            look.unreadable += 1
            view.unsettled.add(record.job_id)
            return
        if job.state is not JobState.DELETED:
            view.jobs[job.job_id] = hash(record.snapshot)
            view.rows.update((entry.key, hash(entry)) for entry in view.entries_of(job))

    def _compare_jobs(self, look: Look, views: Mapping[int, _View]) -> None:
        for row in self._reader.jobs():
            shard = shard_of(row.job_id, self._shards)
            view = views.get(shard)
            if view is None:
                continue
            expected = view.jobs.pop(row.job_id, None)
            if not view.judges(row.job_id, row.version):
                continue
            if expected is None:
                look.add(Difference(JOBS, "extra", shard, row.job_id))
            elif expected != hash(row.snapshot):
                look.add(Difference(JOBS, "different", shard, row.job_id))
        for shard, view in views.items():
            for job_id in view.jobs:
                look.add(Difference(JOBS, "missing", shard, job_id))

    def _compare_rows(self, look: Look, views: Mapping[int, _View]) -> None:
        unexpected: list[tuple[int, Entry]] = []
        for minute, shard in self._reader.buckets():
            view = views.get(shard)
            if view is None or minute < minute_of(view.from_place.run_at):
                continue
            for entry in self._reader.rows(shard, minute):
                if entry[:3] <= view.from_place or not view.judges(entry.job_id, entry.version):
                    continue
                expected = view.rows.pop(entry.key, None)
                if expected is None:
                    unexpected.append((shard, entry))
                elif expected != hash(entry) and not self._is_alike(view, entry):
                    look.add(Difference(INDEX, "different", shard, entry.job_id, entry.key))
        for shard, view in views.items():
            for key in view.rows:
                if key.job_id not in view.unsettled:
                    look.add(Difference(INDEX, "missing", shard, key.job_id, key))
        self._judge_unexpected(look, unexpected)

    def _judge_unexpected(self, look: Look, unexpected: Sequence[tuple[int, Entry]]) -> None:
        """Rows past the barrier are successors; past the cursor as it is after the look, a job has but one."""
        states = committed_states(self._takeover, sorted({shard for shard, _ in unexpected}), self._codec)
        views = {shard: _View(state, self._codec) for shard, state in states.items()}
        for shard, entry in unexpected:
            view = views[shard]
            if is_timer(entry):
                continue  # a look for a job's end, whose place only its owner chose
            if entry[:3] > view.cursor and not self._is_present(view, entry):
                look.add(Difference(INDEX, "extra", shard, entry.job_id, entry.key))

    def _is_present(self, view: _View, entry: Entry) -> bool:
        job = self._job(entry.job_id)
        return job is not None and any(entry.key == present.key for present in view.entries_of(job))

    def _is_alike(self, view: _View, entry: Entry) -> bool:
        """Tell whether a row only differs in how an older version of the program wrote the same."""
        job = self._job(entry.job_id)
        wanted = next((e for e in view.entries_of(job) if e.key == entry.key), None) if job else None
        if wanted is None or wanted._replace(execution=b"") != entry._replace(execution=b""):
            return False
        try:
            one, other = (self._codec.decode_execution(e.execution) for e in (wanted, entry))
        except Undecodable:
            return False
        return (one.head, one.target, one.retry) == (other.head, other.target, other.retry)

    def _job(self, job_id: str) -> Job | None:
        snapshot = self._reader.job(job_id)
        try:
            return None if snapshot is None else self._codec.decode_job(snapshot)
        except Undecodable:
            return None

    def _until_moved(
        self, shards: Sequence[int], barriers: Mapping[int, tuple[Place, int]], waits_max: int
    ) -> tuple[int, ...]:
        """Wait until the watermarks have passed the last look's; return the shards whose have not."""
        left = tuple(shards)
        for _ in range(waits_max):
            states = committed_states(self._takeover, left, self._codec)
            left = tuple(shard for shard in left if shard in states and not _has_passed(states[shard], barriers[shard]))
            if not left:
                break
            self._wait()
        return left


def _has_passed(state: ShardState, barrier: tuple[Place, int]) -> bool:
    cursor, jobs_end = barrier
    return state.successors_upto >= cursor and state.indexed_upto >= jobs_end


def _order(difference: Difference) -> tuple[int, str, str, str]:
    return difference.shard, difference.table, difference.what, difference.job_id
