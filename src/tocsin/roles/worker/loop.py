"""The worker's loop: poll, collect, mark, commit, start. See the package for the two rules that it keeps.

A step never waits for an attempt, and only the poll waits at all. Whoever drives it decides when it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import structlog

from tocsin.domain.errors import Undecodable
from tocsin.ports.clock import Clock
from tocsin.ports.codec import ExecutionCodec
from tocsin.ports.dispatch_log import CommitOutcome, DispatchLog
from tocsin.ports.meters import WorkerMeter
from tocsin.ports.report_sink import ReportSink
from tocsin.ports.targets import Attempt, AttemptEnd, TargetRunner
from tocsin.roles.worker.lane import Lane
from tocsin.roles.worker.limits import WorkerLimits
from tocsin.roles.worker.partitions import Item, Partition, Stage
from tocsin.roles.worker.reports import end_report, overdue_end, undecodable_report

log = structlog.get_logger()

ACK_WAIT_S = 0.02
"""Grain of the waits of a handover."""
WATCH_EVERY_S = 1.0
"""How often overdue attempts are looked for."""
IDLE_WAIT_MIN_S = 0.001


class WorkerLoop:
    """Runs what its lanes deliver.

    Args:
        worker_id: names this process in reports.
        lanes: the log of each lane by name.
        runner, reports, codec, clock, meter: ports.
        monotonic_s: seconds that never jump; for limits, while ``clock`` is for time stamps.
        limits: bounds.
    """

    def __init__(
        self,
        worker_id: str,
        lanes: Mapping[str, DispatchLog],
        runner: TargetRunner,
        reports: ReportSink,
        codec: ExecutionCodec,
        clock: Clock,
        monotonic_s: Callable[[], float],
        meter: WorkerMeter,
        limits: WorkerLimits,
    ) -> None:
        self._worker_id = worker_id
        self._runner = runner
        self._reports = reports
        self._codec = codec
        self._clock = clock
        self._monotonic_s = monotonic_s
        self._meter = meter
        self._limits = limits
        self._lanes = [Lane(name, records, limits, self._hand_over, self._abandon) for name, records in lanes.items()]
        self._running: set[Item] = set()
        self._stuck: set[Item] = set()
        """Reported as timed out, but they run on; they take no room, and too many of them end the process."""
        self._unacknowledged = 0
        self._suspect_since_s: float | None = None
        self._stopping = False
        self._wait_s = 0.0
        self._watch_at_s = 0.0

    # What the driver sees

    def join(self) -> None:
        """Enter the groups; call once, before the first step."""
        for lane in self._lanes:
            lane.records.join(lane)

    @property
    def is_member(self) -> bool:
        """Every lane's group has handed out partitions to this process, be it none."""
        return all(lane.joined for lane in self._lanes)

    @property
    def must_recycle(self) -> bool:
        """Too many attempts could not be stopped: only a new process frees what they hold."""
        return len(self._stuck) >= self._limits.stuck_attempts_max

    @property
    def is_drained(self) -> bool:
        """Nothing runs and every report is acknowledged."""
        return not self._running and not self._unacknowledged

    def stop_taking(self) -> None:
        """Start nothing from now on; further steps only let what runs end, and settle it."""
        self._stopping = True
        for lane in self._lanes:
            lane.stop()

    def close(self) -> None:
        """Hand the partitions over and leave the groups; then release everything."""
        for lane in self._lanes:
            lane.records.close()
        self._runner.close()
        self._reports.close(self._limits.handover_wait_s)

    # One step

    def step(self) -> None:
        """Poll, collect, mark, commit, start."""
        wait_s = self._wait_s / len(self._lanes)
        moved = sum([lane.receive(wait_s) for lane in self._lanes])
        moved += self._collect(0.0)
        self._mark()
        for lane in self._lanes:
            moved += self._commit_and_start(lane)
        self._watch()
        self._wait_s = self._next_wait_s(moved > 0)

    def _next_wait_s(self, moved: bool) -> float:
        """Ends and acknowledgements do not wake the poll: while any may come, waits grow from short ones."""
        if moved:
            return 0.0
        longest = self._limits.poll_wait_max_s
        if self.is_drained:
            return longest
        return min(longest, max(IDLE_WAIT_MIN_S, 2 * self._wait_s))

    def _collect(self, wait_s: float) -> int:
        """Report what has ended, settle what is acknowledged; return how many of both."""
        ends = self._runner.ended()
        for end in ends:
            self._on_end(end)
        acknowledged = self._reports.acknowledged(wait_s)
        self._unacknowledged -= len(acknowledged)
        for item in acknowledged:
            item.partition.settle(item)
        self._meter.reported(len(acknowledged))
        return len(ends) + len(acknowledged)

    def _on_end(self, end: AttemptEnd) -> None:
        item: Item = end.ref
        if item in self._stuck:
            self._stuck.discard(item)
            return
        self._running.discard(item)
        if item.partition.live:
            self._report_end(item, end)

    def _report_end(self, item: Item, end: AttemptEnd) -> None:
        execution = item.execution
        assert execution is not None
        redelivered = item.inherited or execution.head.losses > 0
        report = end_report(self._codec, self._worker_id, execution, end, redelivered)
        self._send(item, execution.head.job_id, report)
        self._meter.finished(end.kind, (end.finished_at - end.started_at) / 1e6)

    def _send(self, item: Item, job_id: str, report: bytes) -> None:
        item.stage = Stage.REPORTED
        item.value = item.execution = None
        self._unacknowledged += 1
        self._reports.send(item, job_id, report)

    def _mark(self) -> None:
        if self._stopping:
            return
        room = self._limits.running_max - len(self._running) - sum(len(lane.marked) for lane in self._lanes)
        for lane in self._lanes:
            before = len(lane.marked)
            lane.mark(room)
            room -= len(lane.marked) - before

    def _commit_and_start(self, lane: Lane) -> int:
        if not lane.has_changes():
            return 0
        sent_at_s = self._monotonic_s()
        outcome = self._commit(lane)
        if outcome is CommitOutcome.ACCEPTED and lane.marked:
            if self._monotonic_s() - sent_at_s > self._limits.commit_fresh_s:
                # This process slept, or the broker is slow; the group may have moved on meanwhile. What counts is
                # an acknowledgement after the sleep. If commits are always that slow, one answer must do.
                for item in lane.marked:
                    item.partition.changed = item.partition.live
                outcome = self._commit(lane)
            if outcome is CommitOutcome.ACCEPTED:
                self._start(lane.take_marked())
        return 1 if outcome is CommitOutcome.ACCEPTED else 0

    def _commit(self, lane: Lane) -> CommitOutcome:
        sent_at_s = self._monotonic_s()
        outcome = lane.commit()
        self._meter.commit(self._monotonic_s() - sent_at_s, outcome is not CommitOutcome.ACCEPTED)
        if lane.suspect and self._suspect_since_s is None:
            self._suspect_since_s = sent_at_s
        return outcome

    def _start(self, items: Sequence[Item]) -> None:
        now, now_s = self._clock.now(), self._monotonic_s()
        attempts = []
        for item in items:
            try:
                execution = self._codec.decode_execution(item.value)
            except Undecodable as error:
                self._set_aside(item, str(error))
                continue
            item.stage = Stage.RUNNING
            item.execution = execution
            item.started_at = now
            item.overdue_at_s = now_s + execution.target.timeout_s + self._limits.overdue_s
            self._running.add(item)
            attempts.append(Attempt(item, execution, item.inherited or execution.head.losses > 0))
        if attempts:
            self._runner.start(attempts)
            redelivered = sum(attempt.redelivered for attempt in attempts)
            self._meter.started(len(attempts) - redelivered, redelivered)

    def _set_aside(self, item: Item, problem: str) -> None:
        """Deal with a record that cannot be read: its neighbours must not wait for it."""
        self._meter.undecodable()
        place = {"partition": item.partition.number, "offset": item.offset}
        named = undecodable_report(self._codec, self._worker_id, item.key, item.value, problem, self._clock.now())
        log.error(
            "an execution's record cannot be read",
            action="worker.undecodable",
            problem=problem,
            reported=named is not None,
            **place,
        )
        if named is None:
            item.partition.settle(item)
        else:
            self._send(item, *named)

    # Attempts that overstay, and lanes in doubt

    def _watch(self) -> None:
        now_s = self._monotonic_s()
        if now_s < self._watch_at_s:
            return
        self._watch_at_s = now_s + WATCH_EVERY_S
        overdue = [item for item in self._running if item.overdue_at_s <= now_s]
        for item in overdue:
            self._give_up(item)
        if overdue:
            self._runner.cancel(overdue)
        self._rejoin_where_in_doubt(now_s)
        self._meter.running(len(self._running))
        self._meter.unsettled(sum(p.window.unsettled for lane in self._lanes for p in lane.partitions.values()))

    def _give_up(self, item: Item) -> None:
        """Report and settle an attempt that passed its limit and does not end."""
        self._running.discard(item)
        self._stuck.add(item)
        log.error(
            "an attempt could not be stopped",
            action="worker.attempt_stuck",
            execution_id=item.execution.head.execution_id if item.execution else None,
            stuck=len(self._stuck),
        )
        if item.partition.live and item.execution is not None:
            self._report_end(item, overdue_end(item, item.execution, item.started_at, self._clock.now()))

    def _rejoin_where_in_doubt(self, now_s: float) -> None:
        if not any(lane.suspect for lane in self._lanes):
            self._suspect_since_s = None
            return
        since_s = self._suspect_since_s if self._suspect_since_s is not None else now_s
        for lane in self._lanes:
            idle = not any(partition.in_hand for partition in lane.partitions.values())
            if lane.suspect and (idle or now_s - since_s >= self._limits.suspect_max_s):
                log.warning("joining the group anew", action="worker.rejoining", lane=lane.name)
                lane.records.rejoin()

    # Called by lanes when partitions go

    def _hand_over(self, partitions: Collection[Partition]) -> None:
        """Wait, bounded, until what was started has ended and its reports are acknowledged."""
        until_s = self._monotonic_s() + self._limits.handover_wait_s
        rounds = int(self._limits.handover_wait_s / ACK_WAIT_S) + 1
        for _ in range(rounds):
            if not any(partition.in_hand for partition in partitions) or self._monotonic_s() >= until_s:
                return
            self._collect(ACK_WAIT_S)

    def _abandon(self, items: Sequence[Item]) -> None:
        """Stop attempts whose assignment is over; they report nothing, and hold their places until they end."""
        overdue_at_s = self._monotonic_s() + self._limits.overdue_s
        for item in items:
            item.overdue_at_s = min(item.overdue_at_s, overdue_at_s)
        if items:
            self._runner.cancel(items)
