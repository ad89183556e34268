"""The worker's loop: poll, collect, mark, commit, start. See the package for the rules that it keeps.

A step never waits for an attempt, and only the poll waits at all. Whoever drives it decides when it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain

import structlog

from tocsin.ports.cancel_log import CancelLog
from tocsin.ports.clock import Clock
from tocsin.ports.codec import ExecutionCodec
from tocsin.ports.dispatch_log import CommitOutcome, DispatchLog
from tocsin.ports.meters import WorkerMeter
from tocsin.ports.report_sink import ReportSink
from tocsin.ports.targets import TargetRunner
from tocsin.roles.worker.attempts import Attempts
from tocsin.roles.worker.breakers import Breakers
from tocsin.roles.worker.cancels import Cancels
from tocsin.roles.worker.fairness import Shares
from tocsin.roles.worker.lane import STOP, Lane
from tocsin.roles.worker.limits import WorkerLimits
from tocsin.roles.worker.reports import Reporter

log = structlog.get_logger()

WATCH_EVERY_S = 1.0
"""How often attempts are looked for that last long, or too long."""
DRAIN_WAIT_S = 0.05
IDLE_WAIT_MIN_S = 0.001
IDLE_WAIT_GROWTH = 1.25
"""Of each wait over the one before it: what ends meanwhile is seen late by a tenth of its own time or so."""


class WorkerLoop:
    """Runs what its lanes deliver.

    Args:
        worker_id: names this process in reports.
        lanes: the log of each lane by name.
        runner, reports, codec, clock, meter: ports.
        monotonic_s: seconds that never jump; for limits, while ``clock`` is for time stamps.
        limits: bounds.
        cancels: the log of what must not be started any more; None: nothing ever is.
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
        cancels: CancelLog | None = None,
    ) -> None:
        self._cancels = Cancels(cancels, limits.cancels_kept_max)
        self._monotonic_s = monotonic_s
        self._meter = meter
        self._limits = limits
        reporter, breakers = Reporter(codec, worker_id), Breakers(limits.breaker, meter, limits.breakers_kept_max)
        self._attempts = Attempts(
            reporter, runner, reports, codec, clock, monotonic_s, meter, limits, self._cancels, breakers
        )
        hand_over, abandon = self._attempts.hand_over, self._attempts.abandon
        self._lanes = [
            Lane(name, records, limits, meter, monotonic_s, hand_over, abandon) for name, records in lanes.items()
        ]
        self._shares = Shares(limits.running_max, limits.tenant_running_max)
        self._suspect_since_s: float | None = None
        self._wait_s = 0.0
        self._watch_at_s = 0.0

    # What the driver sees

    def join(self) -> None:
        """Learn what must not be started, and enter the groups; call once, before the first step."""
        self._cancels.load()
        for lane in self._lanes:
            lane.records.join(lane)

    @property
    def is_member(self) -> bool:
        """Every lane's group has handed out partitions to this process, be it none."""
        return all(lane.joined for lane in self._lanes)

    @property
    def must_recycle(self) -> bool:
        """Too many attempts could not be stopped: only a new process frees what they hold."""
        return len(self._attempts.stuck) >= self._limits.stuck_attempts_max

    @property
    def is_drained(self) -> bool:
        """Nothing runs and every report is acknowledged."""
        return self._attempts.is_drained

    def leave(self) -> None:
        """Leave the groups: what has not begun is the next owner's, what runs goes on under a lease.

        From now on only ``drain``, ``return_rest``, ``give_up_rest`` and ``close`` may be called.
        """
        leaving, self._lanes = self._lanes, []
        for lane in leaving:
            lane.stop()
        for lane in leaving:
            lane.records.close()

    def drain(self) -> None:
        """After ``leave``: let what runs end, and report it."""
        self._attempts.collect(DRAIN_WAIT_S)
        self._watch()

    def return_rest(self) -> None:
        """After ``leave``: stop what still runs, to be returned as it ends."""
        self._attempts.abandon(list(self._attempts.running), STOP)

    def give_up_rest(self) -> None:
        """After ``return_rest``: return also what could not be stopped."""
        self._attempts.give_up_all()

    def close(self) -> None:
        """Release everything; leave first, if that was not done."""
        self.leave()
        self._attempts.close()
        self._cancels.close()

    # One step

    def step(self) -> None:
        """Poll, collect, mark, commit, start."""
        moved = self._receive_and_collect()
        self._mark()
        for lane in self._lanes:
            moved += self._commit_and_start(lane)
            self._attempts.lease(lane.holding_up())
        self._watch()
        self._wait_s = self._next_wait_s(moved > 0)

    def _receive_and_collect(self) -> int:
        """Wait for records where they are wanted. Where enough wait already, a poll does not wait, so what it takes is
        no reason to turn again at once: then acknowledgements are waited for, and attempts have the processor."""
        wait_s = self._wait_s / len(self._lanes)
        moved, left_s = 0, 0.0
        for lane in self._lanes:
            if lane.has_room:
                moved += lane.receive(wait_s)
            else:
                lane.receive(0.0)
                left_s += wait_s
        return moved + self._attempts.collect(left_s)

    def _next_wait_s(self, moved: bool) -> float:
        """Ends and acknowledgements do not wake the poll: while any may come, waits grow from short ones."""
        if moved:
            return 0.0
        longest = self._limits.poll_wait_max_s
        if self.is_drained:
            return longest
        return min(longest, max(IDLE_WAIT_MIN_S, IDLE_WAIT_GROWTH * self._wait_s))

    def _mark(self) -> None:
        self._shares.count(chain(self._attempts.running, *[lane.marked for lane in self._lanes]))
        for lane in self._lanes:
            lane.mark(self._shares)

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
                self._attempts.take(lane.take_marked())
        return 1 if outcome is CommitOutcome.ACCEPTED else 0

    def _commit(self, lane: Lane) -> CommitOutcome:
        sent_at_s = self._monotonic_s()
        outcome = lane.commit()
        if lane.suspect and self._suspect_since_s is None:
            self._suspect_since_s = sent_at_s
        return outcome

    # Once in a while

    def _watch(self) -> None:
        now_s = self._monotonic_s()
        if now_s < self._watch_at_s:
            return
        self._watch_at_s = now_s + min(WATCH_EVERY_S, self._limits.lease_after_s / 4)
        self._attempts.watch(now_s)
        self._rejoin_where_in_doubt(now_s)
        self._meter.unsettled(sum(p.window.unsettled for lane in self._lanes for p in lane.partitions.values()))

    def _rejoin_where_in_doubt(self, now_s: float) -> None:
        """Leave groups whose last commit is in doubt, once leases have freed what runs from its partition."""
        if not any(lane.suspect for lane in self._lanes):
            self._suspect_since_s = None
            return
        since_s = self._suspect_since_s if self._suspect_since_s is not None else now_s
        for lane in self._lanes:
            if not lane.suspect:
                continue
            self._attempts.lease(lane.unleased())
            idle = not any(partition.in_hand for partition in lane.partitions.values())
            if idle or now_s - since_s >= self._limits.suspect_max_s:
                log.warning("joining the group anew", action="worker.rejoining", lane=lane.name)
                lane.records.rejoin()
