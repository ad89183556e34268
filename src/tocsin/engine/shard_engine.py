"""The owner's step: what a shard does next, given what has arrived and what time it is.

A step decides; it changes the state in memory and returns what must be made to last. The loop around it commits that
in one transaction, and only then hands the consequences to the store. If the commit fails, the state in memory is
worth nothing and its owner must go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tocsin.domain.entries import Entry, Place
from tocsin.domain.executions import dispatch_key
from tocsin.domain.instants import MILLISECOND, MINUTE, SECOND, Micros, minute_of
from tocsin.domain.jobs import Job, JobState
from tocsin.domain.shard_records import Active
from tocsin.domain.sharding import lane_partition
from tocsin.engine.command_desk import CommandDesk
from tocsin.engine.effects import Step
from tocsin.engine.horizon import Horizon, HorizonLimits
from tocsin.engine.outbox import Outbox
from tocsin.engine.report_desk import ReportDesk
from tocsin.engine.ring import DELTA_RING
from tocsin.engine.shard_state import ShardState
from tocsin.engine.snapshots import SnapshotWriter, delta_records
from tocsin.engine.time_wheel import TimeWheel
from tocsin.ports.codec import RecordCodec
from tocsin.ports.schedule_store import BucketPage, Completion, JobRead, JobRow, StoreWrites, WritesDone
from tocsin.ports.shard_log import JOBS, LogRecord, NewRecord, ShardTurn, executions


@dataclass(frozen=True, slots=True)
class Lanes:
    """How executions are spread: partitions of each lane, and how many of them serve one tenant."""

    partitions: Mapping[str, int]
    tenant_spread: int = 8


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """Bounds of one step of one shard.

    Attributes:
        fires_max: executions dispatched in one step.
        fire_bytes_max: their bytes, roughly.
        commands_max: commands decided in one step.
        unwritten_turns_max: with so many turns unacknowledged by the store, commands wait.
        delta_bytes_max: size of a part of a delta, and of a chunk of a snapshot.
        cursor_persist_s: an idle shard writes its cursor this often.
        horizon: how far ahead the index is read.
        ring: deltas kept; changed only by tests.
    """

    fires_max: int = 5_000
    fire_bytes_max: int = 16_000_000
    commands_max: int = 1_000
    unwritten_turns_max: int = 500
    delta_bytes_max: int = 512_000
    cursor_persist_s: float = 10.0
    horizon: HorizonLimits = field(default_factory=HorizonLimits)
    ring: int = DELTA_RING


class ShardEngine:
    """One shard, as its present owner drives it."""

    def __init__(
        self,
        state: ShardState,
        owner: str,
        codec: RecordCodec,
        lanes: Lanes,
        limits: EngineLimits,
        outcome_partitions: int,
    ) -> None:
        self.state = state
        self._codec = codec
        self._lanes = lanes
        self._limits = limits
        self._wheel = TimeWheel()
        self._outbox = Outbox()
        self._horizon = Horizon(minute_of(state.cursor.run_at), limits.horizon)
        self._commands = CommandDesk(state, self._outbox, codec, outcome_partitions)
        self._reports = ReportDesk(state, codec)
        self._snapshots = SnapshotWriter(codec, limits.delta_bytes_max, limits.ring)
        self._last_delta_at: Micros = 0
        """0: the first step always makes a turn, which records the new owner before anything else happens."""
        state.owner = owner
        state.released = False

    @property
    def commands_waiting(self) -> int:
        return len(self._commands)

    @property
    def unwritten_turns(self) -> int:
        return len(self._outbox)

    def next_wake(self, now: Micros) -> Micros:
        """Return when the shard has something to do if nothing arrives."""
        due = self._wheel.next_due()
        persist = self._last_delta_at + int(self._limits.cursor_persist_s * SECOND)
        return max(now, min(persist, due if due is not None else persist, minute_of(now) * MINUTE + MINUTE))

    def adopt_jobs(self, snapshots: Sequence[tuple[Job, bytes]], jobs_end: int) -> StoreWrites:
        """Take over what the predecessor may not have written: the jobs log from ``indexed_upto`` on.

        Called once, before the first step, and the writes may be begun at once: all of it is committed.

        Args:
            snapshots: decoded and encoded, in log order; without jobs whose tombstone follows.
            jobs_end: the end of the jobs log.

        Returns:
            The writes, to be begun as turn 0.
        """
        latest = {job.job_id: (job, snapshot) for job, snapshot in snapshots}
        step = Step(now=0, number=0)
        for job, _ in snapshots:
            step.deletes.extend(job.replaced)
        for job, snapshot in latest.values():
            self._outbox.file(0, job)
            row = snapshot if job.state is not JobState.DELETED else None
            step.job_rows.append(JobRow(job.job_id, job.version, row))
            if job.entry is not None:
                step.inserts.append(self._commands.entry_of(job, job.entry))
        self._outbox.add(0, step.writes(), tuple(job for job, _ in latest.values()))
        return self._outbox.committed(0, jobs_end)

    def step(
        self,
        now: Micros,
        commands: Sequence[LogRecord] = (),
        reports: Sequence[LogRecord] = (),
        completions: Sequence[Completion] = (),
    ) -> Step:
        """Decide everything that can be decided now.

        Args:
            now: the instant; never less than at an earlier step by the same owner is assumed.
            commands: newly read, in order.
            reports: newly read, in order.
            completions: of the store.
        """
        step = Step(now, self.state.number + 1)
        for completion in completions:
            self._take_completion(step, completion)
        for record in commands:
            self._commands.receive(record)
        if len(self._outbox) < self._limits.unwritten_turns_max:
            self._commands.apply(step, self._limits.commands_max)
        self._admit(entry for entry in step.inserts if self._horizon.has_begun(minute_of(entry.run_at)))
        self._reports.apply(step, list(reports))
        self._look_ahead(step)
        self._fire(step)
        if step.turn or now >= self._last_delta_at + int(self._limits.cursor_persist_s * SECOND):
            self._close_turn(step)
        return step

    def turn(self, step: Step) -> ShardTurn:
        """Return what a step contributes to the transaction."""
        return ShardTurn(self.state.shard, step.number, step.records, step.jobs, self.state.commands_offset)

    def committed(self, step: Step, jobs_end: int | None) -> StoreWrites:
        """The step's turn is in the log: return what may now be written, empty where there is nothing."""
        return self._outbox.committed(step.number, jobs_end) if step.snapshots else StoreWrites()

    def _take_completion(self, step: Step, completion: Completion) -> None:
        if isinstance(completion, BucketPage):
            self._admit(completion.entries)
            if completion.last:
                self._horizon.loaded(completion.minute)
        elif isinstance(completion, JobRead):
            self._commands.row_read(completion.job_id, completion.snapshot)
        elif isinstance(completion, WritesDone):
            settled = self._outbox.acknowledge(completion.turn)
            if settled.jobs_end is not None:
                self.state.indexed_upto = settled.jobs_end
            for job in settled.deleted:
                step.jobs.append(NewRecord(JOBS, self.state.shard, job.job_id, None))
                step.turn = True

    def _admit(self, entries: Iterable[Entry]) -> None:
        """Put entries into the wheel, but for what is decided already: the store keeps fired rows for a while."""
        cursor = self.state.cursor
        self._wheel.add(entry for entry in entries if entry[:3] > cursor)

    def _look_ahead(self, step: Step) -> None:
        """Begin the reads of coming minutes; what the store may not have yet comes from the outbox and this step."""
        step.bucket_reads = self._horizon.begin(step.now)
        for minute in step.bucket_reads:
            self._admit(self._outbox.unacknowledged_inserts(minute))
            self._admit(entry for entry in step.inserts if minute_of(entry.run_at) == minute)

    def _fire(self, step: Step) -> None:
        """Dispatch what is due, in order, and move the cursor past it; never past what is loaded."""
        state, limits = self.state, self._limits
        horizon_end = self._horizon.loaded_upto
        # Records carry whole milliseconds: only what is due by the millisecond fires, so that none looks early.
        upto = min(step.now - step.now % MILLISECOND, horizon_end - 1)
        due = self._wheel.drain(upto, limits.fires_max)
        restamp = self._codec.restamp
        stamp = self._codec.stamp(1, step.number, 0)
        voids, active = state.voids, state.active
        records, dispatched, lateness = step.records, step.dispatched, step.tally.lateness
        topics = {lane: executions(lane) for lane in self._lanes.partitions}
        room = limits.fire_bytes_max
        done = 0
        for entry in due:
            if room <= 0 and entry[:3] != due[done - 1][:3]:
                break
            done += 1
            void = voids.get(entry.job_id)
            if void is not None and entry.version < void.version:
                continue
            value = restamp(entry.execution, stamp)
            lane = entry.lane
            partition = lane_partition(
                entry.tenant_id, entry.job_id, self._lanes.partitions[lane], self._lanes.tenant_spread
            )
            key = dispatch_key(entry.tenant_id, entry.execution_id, 1, step.number)
            records.append(NewRecord(topics[lane], partition, key, value))
            dispatched.append(value)
            active[entry.execution_id] = Active(value, step.now)
            lateness.append(step.now - entry.run_at)
            room -= len(value)
        if done < len(due):
            self._wheel.add(due[done:])
        if done < len(due) or done >= limits.fires_max:
            state.cursor = max(state.cursor, Place(*due[done - 1][:3]))
        else:
            state.cursor = max(state.cursor, Place.before(upto + 1))
        state.drop_passed_voids()
        step.turn = step.turn or bool(dispatched)

    def _close_turn(self, step: Step) -> None:
        """Number the turn, and write what it changed."""
        state = self.state
        step.turn = True
        state.number = step.number
        self._last_delta_at = step.now
        if step.snapshots:
            self._outbox.add(step.number, step.writes(), tuple(step.snapshots))
        step.records += delta_records(
            self._codec,
            state,
            step.now,
            step.dispatched,
            step.ended,
            step.voids,
            self._limits.delta_bytes_max,
            self._limits.ring,
        )
        if self._snapshots.due(state):
            self._snapshots.begin(state)
        if self._snapshots.busy:
            step.records += self._snapshots.next_records(state)
