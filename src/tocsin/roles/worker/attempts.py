"""What runs here, and what is said of it: leases, ends and returns, until each is acknowledged.

An attempt is tied to the partition that brought it only until a report about it is acknowledged. From a lease on it
belongs to this process, whatever the group does, and is not forgotten before its last report is acknowledged. Offsets
are settled here; marking and committing them is not this module's business.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple

import structlog

from tocsin.domain.errors import Undecodable
from tocsin.domain.executions import AttemptError, Execution, ReportKind, Started
from tocsin.domain.instants import SECOND, Micros
from tocsin.domain.targets import MessageTarget
from tocsin.ports.clock import Clock
from tocsin.ports.codec import ExecutionCodec
from tocsin.ports.meters import WorkerMeter
from tocsin.ports.report_sink import ReportSink
from tocsin.ports.targets import Attempt, AttemptEnd, TargetRunner
from tocsin.roles.worker.breakers import BREAKER, Breakers
from tocsin.roles.worker.cancels import CANCELLED, Cancels
from tocsin.roles.worker.fairness import CAP
from tocsin.roles.worker.limits import WorkerLimits
from tocsin.roles.worker.partitions import Item, Lease, Partition, Stage
from tocsin.roles.worker.reports import Reporter, named_execution, overdue_end

log = structlog.get_logger()

ACK_WAIT_S: Final = 0.02
"""Grain of the waits of a handover."""
LEASE_SHARE: Final = 2 / 3
"""How much of a handover may pass in wait for leases; the rest is for returning what got none."""
PREDECESSOR: Final = "predecessor"
"""Why a record on the begun list of the last owner is returned."""


# By the class they are looked up slowly, and they are named for each attempt.
_CANCELLED, _RETURNED = ReportKind.CANCELLED, ReportKind.RETURNED
_RUNNING, _REPORTED = Stage.RUNNING, Stage.REPORTED


class Asked(NamedTuple):
    """A report under way that asks for a lease. One that closes a dispatch is known by the item itself."""

    item: Item


class Attempts:
    """The attempts of a worker process, over all lanes.

    Args:
        reporter: encodes reports.
        runner, reports, codec, clock, meter: ports.
        monotonic_s: seconds that never jump; for limits, while ``clock`` is for time stamps.
        limits: bounds.
        cancels: what must not be started.
        breakers: what must not be started now.
    """

    def __init__(
        self,
        reporter: Reporter,
        runner: TargetRunner,
        reports: ReportSink,
        codec: ExecutionCodec,
        clock: Clock,
        monotonic_s: Callable[[], float],
        meter: WorkerMeter,
        limits: WorkerLimits,
        cancels: Cancels,
        breakers: Breakers,
    ) -> None:
        self._cancels = cancels
        self._breakers = breakers
        self._cancelled: set[str] = set()
        """Named by cancels that came since running attempts were last looked at."""
        self.running: dict[Item, None] = {}
        """An ordered set, as everything here that is iterated: the same seed must give the same run."""
        self.stuck: set[Item] = set()
        """Reported as ended, but they run on; they take no room, and too many of them end the process."""
        self._reporter = reporter
        self._runner = runner
        self._reports = reports
        self._codec = codec
        self._clock = clock
        self._monotonic_s = monotonic_s
        self._meter = meter
        self._limits = limits
        self._unacknowledged = 0
        self._durations: dict[ReportKind, list[float]] = {}
        """By kind, how long what has ended since the meter was told has lasted, s."""
        self._held: dict[bytes, Item] = {}
        """By record key, what is not over: it may come again, when its partition left and came back."""

    @property
    def is_drained(self) -> bool:
        """Nothing runs and every report is acknowledged."""
        return not self.running and not self._unacknowledged

    # Beginning

    def take(self, items: Sequence[Item]) -> None:
        """Start what an acknowledged commit has marked, and return what a predecessor had begun."""
        self._read_cancels()
        now, now_s = self._clock.now(), self._monotonic_s()
        lease_at_s, overdue_s = now_s + self._limits.lease_after_s, now_s + self._limits.overdue_s
        wary = bool(self._cancels or self._breakers.disturbed)
        held, decode, attempts, redelivered = self._held, self._codec.decode_execution, [], 0
        for item in items:
            if item.key in held and self._is_here_already(item):
                continue
            if item.inherited:
                self._give_back_unread(item)
                continue
            try:
                execution = decode(item.value)
            except Undecodable as error:
                self._set_aside(item, str(error))
                continue
            target = execution.target
            if isinstance(target, MessageTarget):
                self._set_aside(item, f"has a target of the type {target.type!r}, which does not run in this lane")
                continue
            if (wary or item.surplus) and self._keep_out(item, execution, now, now_s):
                continue
            timeout_s, again = target.timeout_s, execution.head.losses > 0
            item.stage, item.execution, item.value = _RUNNING, execution, None
            item.started_at, item.timeout_s = now, timeout_s
            item.lease_at_s, item.overdue_at_s = lease_at_s, overdue_s + timeout_s
            self.running[item] = None
            if item.key is not None:
                held[item.key] = item
            attempts.append(Attempt(item, execution, again))
            redelivered += again
        if attempts:
            self._runner.start(attempts)
            self._meter.started(len(attempts) - redelivered, redelivered)

    def _keep_out(self, item: Item, execution: Execution, now: Micros, now_s: float) -> bool:
        """Return what must not be started, or not now; tell whether that is so."""
        reason, wait_s = None, None
        if self._cancels.forbid(execution.head.execution_id, execution.head.token):
            reason = CANCELLED
        elif item.surplus:
            reason = CAP
        elif (wait_s := self._breakers.wait_s(item, execution, now_s)) is not None:
            reason = BREAKER
        if reason is None:
            return False
        not_before = None if wait_s is None else now + round(wait_s * SECOND)
        self._hold(item)
        self._return(item, execution, reason, Started.NO, not_before=not_before)
        return True

    def _hold(self, item: Item) -> None:
        if item.key is not None:
            self._held[item.key] = item

    def _is_here_already(self, item: Item) -> bool:
        """Tell whether this process has this dispatch in hand since an earlier assignment: then it is not a second one.

        Returned, it would end our own lease, which the owner would believe of its holder.
        """
        holder = None if item.key is None else self._held.get(item.key)
        if holder is None:
            return False
        if holder.lease is Lease.HELD:
            item.partition.settle(item)
        else:
            item.stage, item.value = Stage.REPORTED, None
            holder.heir = item
        return True

    def _give_back_unread(self, item: Item) -> None:
        """Return what a predecessor had begun, by its record's key: reading its value may be what killed it.

        Only where the key is none is the value looked at.
        """
        execution = named_execution(self._codec, item.key, None) or named_execution(self._codec, None, item.value)
        if execution is None:
            self._set_aside(item, "was begun by another worker, and names no execution")
            return
        self._hold(item)
        self._return(item, execution, PREDECESSOR)

    def _set_aside(self, item: Item, problem: str) -> None:
        """Deal with a record that cannot be read: its neighbours must not wait for it."""
        self._meter.undecodable()
        named = self._reporter.undecodable(item.key, item.value, problem, self._clock.now())
        log.error(
            "an execution's record cannot be read",
            action="worker.undecodable",
            problem=problem,
            reported=named is not None,
            partition=item.partition.number,
            offset=item.offset,
        )
        if named is None:
            item.partition.settle(item)
        else:
            self._hold(item)
            self._close(item, *named)

    # Reporting

    def collect(self, wait_s: float) -> int:
        """Report what has ended, settle what is acknowledged; return how many of both."""
        ends = self._runner.ended()
        if ends:
            self._on_ends(ends)
        self._tell_durations()
        acknowledged: list[Item | Asked] = self._reports.acknowledged(wait_s)
        if acknowledged:
            self._unacknowledged -= len(acknowledged)
            self._on_acknowledged(acknowledged)
            self._meter.reported(len(acknowledged))
        return len(ends) + len(acknowledged)

    def _on_acknowledged(self, sent: Sequence[Item | Asked]) -> None:
        held = self._held
        for one in sent:
            if isinstance(one, Asked):
                item = one.item
                item.lease = Lease.HELD
            else:
                item = one
                if item.key is not None and held.get(item.key) is item:
                    del held[item.key]
            item.partition.settle(item)
            if item.heir is not None:
                item.heir.partition.settle(item.heir)

    def _tell_durations(self) -> None:
        if self._durations:
            for kind, durations_s in self._durations.items():
                self._meter.finished(kind, durations_s)
            self._durations.clear()

    def _on_ends(self, ends: Sequence[AttemptEnd]) -> None:
        now_s = self._monotonic_s()
        for end in ends:
            item: Item = end.ref
            if self.stuck and item in self.stuck:
                self.stuck.discard(item)
                continue
            self.running.pop(item, None)
            self._close_ended(item, end, now_s)

    def _close_ended(self, item: Item, end: AttemptEnd, now_s: float) -> None:
        """Report an end, also of an attempt whose partition is gone: the owner knows whether it still counts."""
        execution = item.execution
        assert execution is not None
        kind = end.kind
        self._breakers.ended(item, execution, kind, end.error, now_s)
        if item.abandoned is not None and kind is _CANCELLED:
            self._return(item, execution, item.abandoned)
            return
        if kind is _RETURNED:
            self._return(item, execution, end.error.error_class if end.error else "", end.started, end.error)
            return
        self._close(item, execution.head.job_id, self._reporter.ended(execution, end))
        durations_s = self._durations.get(kind)
        if durations_s is None:
            durations_s = self._durations[kind] = []
        durations_s.append((end.finished_at - end.started_at) / SECOND)

    def _return(
        self,
        item: Item,
        execution: Execution,
        reason: str,
        started: Started = Started.MAYBE,
        error: AttemptError | None = None,
        not_before: Micros | None = None,
    ) -> None:
        now, started_at = self._clock.now(), item.started_at or None
        report = self._reporter.returned(execution, reason, started_at, now, started, error, not_before)
        self._close(item, execution.head.job_id, report)
        self._meter.returned(reason, 1)

    def _close(self, item: Item, job_id: str, report: bytes) -> None:
        item.stage = _REPORTED
        item.value = item.execution = None
        self._unacknowledged += 1
        self._reports.send(item, job_id, report)

    def lease(self, items: Iterable[Item]) -> None:
        """Report as RUNNING what runs and was not reported yet, nor told to stop."""
        count = 0
        for item in items:
            if item.stage is not Stage.RUNNING or item.lease is not Lease.NONE or item.abandoned is not None:
                continue
            execution = item.execution
            assert execution is not None
            item.lease = Lease.ASKED
            report = self._reporter.running(execution, item.started_at, item.timeout_s)
            self._unacknowledged += 1
            self._reports.send(Asked(item), execution.head.job_id, report)
            count += 1
        if count:
            self._meter.leased(count)

    # Ending

    def watch(self, now_s: float) -> None:
        """Stop what is cancelled, ask leases for what lasts, and give up what passed its limit."""
        self._stop_cancelled(now_s)
        self.lease([item for item in self.running if item.lease_at_s <= now_s])
        overdue = [item for item in self.running if item.overdue_at_s <= now_s]
        if overdue:
            self._give_up(overdue)
            self._runner.cancel(overdue)
        self._meter.running(len(self.running))

    def _stop_cancelled(self, now_s: float) -> None:
        """Stop what runs and is not wanted any more; it is reported as it ends, or as stuck."""
        self._read_cancels()
        if not self._cancelled:
            return
        unwanted = [item for item in self.running if item.abandoned is None and self._is_unwanted(item)]
        self._cancelled.clear()
        for item in unwanted:
            item.overdue_at_s = min(item.overdue_at_s, now_s + self._limits.overdue_s)
        if unwanted:
            self._runner.cancel(unwanted)

    def _is_unwanted(self, item: Item) -> bool:
        head = None if item.execution is None else item.execution.head
        named = head is not None and head.execution_id in self._cancelled
        return head is not None and named and self._cancels.forbid(head.execution_id, head.token)

    def _read_cancels(self) -> None:
        self._cancelled.update(cancel.execution_id for cancel in self._cancels.read())

    def _give_up(self, items: Sequence[Item]) -> None:
        """Close attempts that do not end though they should have."""
        for item in items:
            self.running.pop(item, None)
            self.stuck.add(item)
            execution = item.execution
            assert execution is not None
            log.error(
                "an attempt could not be stopped",
                action="worker.attempt_stuck",
                execution_id=execution.head.execution_id,
                stuck=len(self.stuck),
            )
            if item.abandoned is not None:
                self._return(item, execution, item.abandoned)
            else:
                end = overdue_end(item, item.timeout_s, item.started_at, self._clock.now())
                self._close_ended(item, end, self._monotonic_s())

    def hand_over(self, partitions: Collection[Partition], reason: str) -> None:
        """Wait, bounded, until nothing that was started still depends on these partitions.

        What runs asks for a lease, and goes on under it; what gets none in time is stopped and returned.
        """
        wait_s = self._limits.handover_wait_s
        until_s = self._monotonic_s() + wait_s
        self.collect(0.0)  # what has ended needs no lease
        self.lease([item for partition in partitions for item in partition.running()])
        self._wait_for(partitions, until_s - wait_s * (1 - LEASE_SHARE))
        self.abandon([item for partition in partitions for item in partition.running()], reason)
        self._wait_for(partitions, until_s)

    def _wait_for(self, partitions: Collection[Partition], until_s: float) -> None:
        # Counted too: whatever the clock does, a handover has an end.
        for _ in range(int(self._limits.handover_wait_s / ACK_WAIT_S) + 1):
            if not any(partition.in_hand for partition in partitions) or self._monotonic_s() >= until_s:
                return
            self.collect(ACK_WAIT_S)

    def abandon(self, items: Sequence[Item], reason: str) -> None:
        """Stop attempts; they are returned once they have ended, or if that takes too long."""
        overdue_at_s = self._monotonic_s() + self._limits.overdue_s
        fresh = [item for item in items if item.abandoned is None]
        for item in fresh:
            item.abandoned = reason
            item.overdue_at_s = min(item.overdue_at_s, overdue_at_s)
        if fresh:
            self._runner.cancel(fresh)

    def give_up_all(self) -> None:
        """Close what was told to stop and has not."""
        self._give_up(list(self.running))

    def close(self) -> None:
        self._runner.close()
        self._reports.close(self._limits.handover_wait_s)
