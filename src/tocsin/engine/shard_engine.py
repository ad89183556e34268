"""The owner's step: what a shard does next, given what has arrived and what time it is.

A step decides; it changes the state in memory and returns what must be made to last. The loop around it commits that
in one transaction, and only then hands the consequences to the store. If the commit is not known to have succeeded,
the state in memory is worth nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tocsin.domain.entries import Place
from tocsin.domain.instants import MILLISECOND, MINUTE, SECOND, Micros, minute_of
from tocsin.domain.jobs import Job, JobState
from tocsin.engine.actives import Actives, shared_by
from tocsin.engine.alert_gaps import AlertGaps
from tocsin.engine.alerts import alert_records
from tocsin.engine.arrivals import Arrivals, Backlog
from tocsin.engine.cancellations import Cancellations
from tocsin.engine.catch_up import CatchUps
from tocsin.engine.command_desk import CommandDesk
from tocsin.engine.dispatch_desk import DispatchDesk, Lanes
from tocsin.engine.effects import Step, blaming
from tocsin.engine.ended_jobs import EndedJobs
from tocsin.engine.endings import Endings
from tocsin.engine.engine_limits import EngineLimits
from tocsin.engine.filing import Filing
from tocsin.engine.firing_desk import FiringDesk
from tocsin.engine.held import HeldEntries
from tocsin.engine.horizon import Horizon
from tocsin.engine.index_mark import IndexMark
from tocsin.engine.index_rebuild import IndexRebuild
from tocsin.engine.job_commands import JobCommands
from tocsin.engine.job_ends import JobEnds
from tocsin.engine.job_rows import JobRows
from tocsin.engine.losses import Losses
from tocsin.engine.outbox import Outbox
from tocsin.engine.overlap import Overlaps
from tocsin.engine.own_commands import OwnCommands
from tocsin.engine.passed_buckets import PassedBuckets
from tocsin.engine.pauses import Pauses
from tocsin.engine.plain_fires import PlainFires
from tocsin.engine.rederivation import Rederivation
from tocsin.engine.redrives import Redrives
from tocsin.engine.report_desk import ReportDesk
from tocsin.engine.retry_pauses import RetryPauses
from tocsin.engine.returns import Returns
from tocsin.engine.set_asides import SetAsides
from tocsin.engine.shard_state import ShardState
from tocsin.engine.snapshots import SnapshotWriter, delta_records
from tocsin.engine.stops import Stops
from tocsin.engine.successors import Successors
from tocsin.engine.suspects import JOB, UNSUSPECTED, Suspect, Suspicion
from tocsin.engine.sweeps import Sweeps
from tocsin.engine.timers import Timers
from tocsin.engine.verdicts import Verdicts
from tocsin.engine.work import Room, Work
from tocsin.engine.zone_change import ZoneChange
from tocsin.engine.zone_rules import ZoneRules
from tocsin.ports.codec import RecordCodec
from tocsin.ports.schedule_store import BucketPage, Completion, JobRead, JobRow, StoreWrites, WritesDone
from tocsin.ports.shard_log import JOBS, NewRecord, ShardTurn

__all__ = ["Arrivals", "EngineLimits", "ShardEngine"]

SWEEP_EVERY: Micros = 10 * SECOND
"""How often voids and names that nothing can ask for any more are looked for; there may be many."""


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
        suspicion: Suspicion = UNSUSPECTED,
    ) -> None:
        self.state = state
        self._codec = codec
        self._limits = limits if suspicion.portion == 1 else limits.portion(suspicion.portion)
        self._one_by_one = suspicion.portion == 0
        self._culprits = culprits = suspicion.culprits
        self._outbox = Outbox()
        self._stored_upto = state.successors_upto
        """The successors of rows at or before it are in the store, and voids of such rows may be forgotten."""
        self._start = state.cursor
        self._horizon = Horizon(minute_of(min(state.successors_upto, state.cursor).run_at), limits.horizon)
        self._passed = PassedBuckets(state, limits.passed)
        self._mark = IndexMark(state)
        self._actives = Actives(state)
        self._work = Work(state, codec, culprits)
        retry_pauses = RetryPauses(state, self._actives, self._work, limits.retry_pause)
        self._dispatches = DispatchDesk(state.shard, self._actives, codec, lanes, retry_pauses)
        self._own = own = OwnCommands(state, codec)
        endings = Endings(state, self._actives, own, codec)
        stops = Stops(self._actives, self._dispatches, endings, codec)
        self._sweeps = Sweeps(state, self._actives, self._dispatches, stops, self._work)
        desks = (self._dispatches, self._sweeps)
        self._overlaps = Overlaps(
            state.shard, self._actives, *desks, codec, limits.overlap_queue_max, limits.overlap_allow_max
        )
        self._held = HeldEntries(state)
        self._zones = ZoneRules(state)
        self._filing = Filing(state, self._zones, self._outbox, self._held, self._work, codec)
        self._rebuild = IndexRebuild(state, self._work, self._outbox, self._filing, codec)
        self._successors = Successors(state, self._zones, codec)
        catch_ups = CatchUps(self._work, self._dispatches, self._overlaps, self._successors, codec, limits.catch_up)
        pauses = Pauses(self._filing, self._dispatches, self._successors, catch_ups)
        self._timers = Timers(state, self._dispatches, self._work, own)
        ends = JobEnds(self._filing, self._dispatches, self._work)
        self._zone_change = ZoneChange(state, self._work, self._zones, self._filing, own, codec)
        changes = (self._rebuild, pauses, ends, self._zone_change)
        job_commands = JobCommands(state, self._filing, self._dispatches, self._overlaps, self._sweeps, *changes, codec)
        rows = JobRows(codec, round(limits.parking.after_s * SECOND))
        self._ended = ended = EndedJobs(
            self._work, ends, rows, self._outbox, self._dispatches, limits.unwritten_bytes_max
        )
        self.commands = CommandDesk(
            state,
            self._outbox,
            job_commands,
            Redrives(state.shard, self._filing, self._dispatches, self._overlaps, self._work, codec),
            retry_pauses,
            Cancellations(self._actives, stops, codec),
            self._held,
            own,
            rows,
            ended,
            codec,
            outcome_partitions,
            limits.parking,
            culprits,
        )
        catch_ups.stand_behind(self.commands.parking)
        ended.stand_behind(self.commands.parking)
        losses = Losses(
            self._actives, self._dispatches, endings, stops, codec, Returns(limits.returned_per_s), limits.max_reaps
        )
        self._reports = ReportDesk(
            state, self._actives, self._dispatches, endings, stops, self._sweeps, losses, codec, retry_pauses, culprits
        )
        self._set_asides = SetAsides(self._dispatches, self._reports, own, culprits)
        parts = (self._dispatches, self.commands.parking, self._set_asides, self._successors)
        plain = PlainFires(state, self._actives, *parts, codec, limits.plain_fires_min)
        self._firing = FiringDesk(
            state, self._dispatches, self._overlaps, self._successors, catch_ups, self._horizon, self._held,
            self.commands.parking, self._set_asides, self._timers, plain,
            limits.owed_min,
        )  # fmt: skip
        self._verdicts = Verdicts(self._actives, self._reports, losses, stops, limits)
        self._snapshots = SnapshotWriter(codec, limits.delta_bytes_max, limits.ring)
        again = (self._set_asides, self._dispatches, self._successors, self._timers)
        self._rederived = Rederivation(state, self._held, *again)
        self._alert_gaps = AlertGaps(round(limits.alert_gap_s * SECOND))
        self._swept_at: Micros = 0
        self._last_delta_at: Micros = 0
        """0: the first step always makes a turn, which records the new owner before anything else happens."""
        state.owner = owner
        state.released = False

    def backlog(self) -> Backlog:
        """Return how much waits to be decided, or written."""
        return Backlog(len(self.commands), self.commands.bytes_waiting, len(self._reports), len(self._outbox))

    @property
    def index_is_lost(self) -> bool:
        """The index has lost this shard's rows; the cursor waits until they are rebuilt."""
        return self._mark.is_lost

    def holders(self) -> list[str]:
        """Return the processes that hold leases of this shard."""
        return self._actives.holders()

    def next_wake(self, now: Micros) -> Micros:
        """Return when the shard has something to do if nothing arrives."""
        persist = self._last_delta_at + int(self._limits.cursor_persist_s * SECOND)
        wakes = [persist, minute_of(now) * MINUTE + MINUTE, self._firing.next_due(), self._actives.next_wake()]
        wakes += [self._work.next_wake(), self._alert_gaps.next_wake()]
        return max(now, min(wake for wake in wakes if wake is not None))

    def adopt_jobs(self, snapshots: Sequence[tuple[Job, bytes]], jobs_end: int) -> StoreWrites:
        """Take over what the predecessor may not have written: the jobs log from ``indexed_upto`` on.

        Called once, before the first step; the writes may be begun at once: all of it is committed.

        Args:
            snapshots: decoded and encoded, in log order; without jobs whose tombstone follows.
            jobs_end: the end of the jobs log.

        Returns:
            The writes, to be begun as turn 0.
        """
        latest = {job.job_id: (job, snapshot) for job, snapshot in snapshots}
        step = Step(now=0, number=0)
        with blaming(self.state.shard, step):
            self._adopt(step, snapshots, latest)
        self._outbox.add(0, step.writes(), tuple(job for job, _ in latest.values()), self.state.successors_upto)
        return self._outbox.committed(0, jobs_end)

    def _adopt(
        self, step: Step, snapshots: Sequence[tuple[Job, bytes]], latest: Mapping[str, tuple[Job, bytes]]
    ) -> None:
        for job, _ in snapshots:
            step.deletes.extend(job.replaced)
        for job, snapshot in latest.values():
            step.at_hand = Suspect(JOB, job.job_id)
            self._outbox.file(0, job)
            row = snapshot if job.state is not JobState.DELETED else None
            step.job_rows.append(JobRow(job.job_id, job.version, row))
            if job.entry is not None and not self._set_asides.knows_job(job.job_id):
                entry = self._filing.row_of(job, job.entry)
                step.inserts.append(entry)
                self._rederived.take(step, [entry])

    def step(self, now: Micros, arrivals: Arrivals) -> Step:
        """Decide everything that can be decided now.

        Args:
            now: the instant; a step back is taken as standing still.
            arrivals: what has come since the last step.

        Raises:
            EngineFault: the state in memory is worth nothing any more; restore the shard from the log.
            StateGap: the shard must not go on.
        """
        step = Step(now, self.state.number + 1)
        with blaming(self.state.shard, step):
            self._firing.file_owed(step)
            self._zone_change.begin(step, self._limits.zone_change_after_s)
            self._take_in(step, arrivals)
            self._decide(step, arrivals)
            if not self._one_by_one:
                # What is wrong from here on may be anything that the step decided.
                step.at_hand = None
            self._watermarks(step)
            step.turn = step.turn or self._alert_gaps.has_due(now)
            if step.turn or now >= self._last_delta_at + int(self._limits.cursor_persist_s * SECOND):
                self._close_turn(step)
            else:
                self._firing.get_ready(now)
        return step

    def _take_in(self, step: Step, arrivals: Arrivals) -> None:
        for completion in arrivals.completions:
            self._take_completion(step, completion)
        self._set_asides.begin(step)
        if arrivals.jobs_page is not None:
            self._rebuild.page_read(arrivals.jobs_page)
            self._zone_change.page_read(arrivals.jobs_page)
        self._rederived.file(step)
        for record in arrivals.commands:
            self.commands.receive(record, step.now)
        if self._mark.is_lost:
            self.commands.rebuild_now(step)
        self._reports.receive(arrivals.reports)
        step.at_hand = None

    def _decide(self, step: Step, arrivals: Arrivals) -> None:
        """Decide in turn commands, reports, verdicts and fires; of a suspected shard one thing only."""
        limits = self._limits
        if len(self._outbox) < limits.unwritten_turns_max and self._outbox.bytes < limits.unwritten_bytes_max:
            self.commands.apply(step, limits.commands_max, limits.command_bytes_max)
        self._work.settle(step)
        if not (self._one_by_one and step.turn):
            self._reports.apply(step, limits.reports_max, limits.report_bytes_max)
        if not (self._one_by_one and step.turn):
            room = 1 if self._one_by_one else limits.report_bytes_max
            self._verdicts.decide(step, arrivals.reports_end, arrivals.reports_seen, arrivals.silent, room)
        self._look_ahead(step)
        if not (self._one_by_one and step.turn):
            self._fire(step)
        if not (self._one_by_one and step.turn):
            self._go_on(step)

    def release(self, now: Micros) -> Step:
        """Return a step that gives the shard up; nothing may follow it."""
        step = Step(now, self.state.number + 1)
        self.state.released = True
        step.alerts += self._alert_gaps.flush(now)
        self._close_turn(step)
        return step

    def turn(self, step: Step) -> ShardTurn:
        """Return what a step contributes to the transaction."""
        return ShardTurn(self.state.shard, step.number, step.records, step.jobs, self.state.commands_offset)

    def committed(self, step: Step, jobs_end: int | None) -> StoreWrites:
        """The step's turn is in the log: return what may now be written, empty where there is nothing."""
        return self._outbox.committed(step.number, jobs_end)

    def _take_completion(self, step: Step, completion: Completion) -> None:
        if isinstance(completion, BucketPage):
            self._rederived.take(step, (entry for entry in completion.entries if entry[:3] > self._stored_upto))
            self._firing.admit_rows(step, completion.entries)
            self._passed.read(completion.minute, len(completion.entries), completion.last)
            self._mark.page_read(completion, self._horizon, step.now)
        elif isinstance(completion, JobRead):
            if completion.snapshot is None and self._mark.is_lost:
                # No answer is no answer: the row may be among those that were lost.
                step.job_reads.append(completion.job_id)
                return
            step.at_hand = Suspect(JOB, completion.job_id)
            known_bad = self._set_asides.knows_job(completion.job_id)
            self.commands.row_read(completion.job_id, None if known_bad else completion.snapshot, step.now)
        elif isinstance(completion, WritesDone):
            settled = self._outbox.acknowledge(completion.turn)
            settled.move_watermarks(self.state)
            for job in settled.deleted:
                step.jobs.append(NewRecord(JOBS, self.state.shard, job.job_id, None))
                step.turn = True

    def _look_ahead(self, step: Step) -> None:
        """Begin the reads of coming minutes; what the store may not have yet comes from the outbox and this step."""
        self._firing.admit(entry for entry in step.inserts if self._horizon.has_begun(minute_of(entry.run_at)))
        step.bucket_reads = self._horizon.begin(step.now)
        self._mark.reads_begin(step.bucket_reads)
        for minute in step.bucket_reads:
            self._firing.admit(self._outbox.unacknowledged_inserts(minute))
            self._firing.admit(entry for entry in step.inserts if minute_of(entry.run_at) == minute)

    def _fire(self, step: Step) -> None:
        """Dispatch what waited long enough, and what is due; never past what is loaded."""
        limits = self._limits
        # Records carry whole milliseconds: only what is due by the millisecond fires, so that none looks early.
        upto = min(step.now - step.now % MILLISECOND, self._horizon.loaded_upto - 1)
        stamp = self._codec.stamp(1, step.number, 0)
        self._overlaps.release(step, limits.fires_max, limits.retry_bytes_max)
        released = self._dispatches.release(step, limits.fires_max, limits.retry_bytes_max, self._sweeps.takes)
        self._firing.fire(step, stamp, upto, limits.fires_max - released, limits.fire_bytes_max)

    def _go_on(self, step: Step) -> None:
        """Give work items their share, after what is due in time."""
        if self._work.awaits:
            self._wake_behind(step.ended)
            self._rebuild.acknowledged()
        self._ended.note_ended(step)
        before, ended = len(step.inserts), len(step.ended)
        self._work.go_on(step, Room(self._limits.work_portions_max, self._limits.work_bytes_max))
        self._wake_behind(step.ended[ended:])
        self._firing.admit(e for e in step.inserts[before:] if self._horizon.has_begun(minute_of(e.run_at)))

    def _wake_behind(self, ended: Iterable[str]) -> None:
        """Let work go on that waits for the end of executions."""
        for execution_id in ended:
            self._work.wake(shared_by(execution_id))

    def _watermarks(self, step: Step) -> None:
        """With nothing left to write, and all former owners' rows seen, the successors of all that fired are stored."""
        state = self.state
        if not len(self._outbox) and not step.writes():
            if self._horizon.loaded_upto > self._start.run_at:
                state.successors_upto = max(state.successors_upto, self._decided_upto())
            state.deleted_upto = self._passed.next
        if step.now >= self._swept_at + SWEEP_EVERY:
            self._swept_at = step.now
            state.forget_passed()

    def _decided_upto(self) -> Place:
        """Return the place up to which all is decided, and what follows it filed."""
        return self._firing.followed_upto(self._held.decided_upto(self.state.cursor))

    def _close_turn(self, step: Step) -> None:
        """Number the turn, and write what it changed."""
        state = self.state
        step.turn = True
        state.number = step.number
        self._snapshots.check_room(state)
        self._own.send_ends(step)
        self._last_delta_at = step.now
        self._passed.filed(step.inserts)
        step.buckets = self._passed.due(step.now)
        step.write_mark = step.write_mark or self._mark.is_due()
        writes = step.writes()
        if writes or step.jobs:
            known = self._horizon.loaded_upto > self._start.run_at
            self._outbox.add(
                step.number,
                writes,
                tuple(step.snapshots),
                self._decided_upto() if known else state.successors_upto,
                self._passed.next,
            )
        self._tell(step)
        step.records += delta_records(self._codec, state, step, self._limits.delta_bytes_max, self._limits.ring)
        if self._snapshots.due(state):
            self._snapshots.begin(state)
        if self._snapshots.busy:
            step.records += self._snapshots.next_records(state)

    def _tell(self, step: Step) -> None:
        """Alert people to what the step noted for them."""
        if step.alerts or self._alert_gaps.has_due(step.now):
            told = self._alert_gaps.sift(step.alerts, step.now)
            step.records += alert_records(self._codec, self.state.shard, told, self._limits.alerts_max)
            for alert in told:
                step.tally.alerts[alert.kind] = step.tally.alerts.get(alert.kind, 0) + alert.count
