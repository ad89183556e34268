"""The loop of the message lane: poll, examine, settle in one transaction. See ``ports.message_log`` for why.

What was received stays in the backlog until its transaction is known to be committed; a partition that goes takes its
part of the backlog with it. So nothing is ever read again, and nothing is settled twice: after a transaction of unknown
outcome the committed offsets say what is left of the backlog.

Where the committed offsets themselves are lost, nothing below the end of the lane is written, for it may have been; it
is returned as not started. If it was written, its report stands before that in the log, and its owner takes no notice.

No thread, sleep or clock of its own: only the poll waits, and whoever drives the loop decides when it ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from tocsin.domain.errors import Unavailable, Undecodable
from tocsin.domain.executions import AttemptError, ReportKind, Started
from tocsin.domain.instants import Micros
from tocsin.engine.offset_metadata import decode_marks, encode_marks
from tocsin.ports.cancel_log import CancelLog
from tocsin.ports.clock import Clock
from tocsin.ports.codec import ExecutionCodec
from tocsin.ports.dispatch_log import Delivery, Start
from tocsin.ports.message_log import MessageLog, Report, Settlement, TransactionOutcome, TransactionResult
from tocsin.ports.meters import WorkerMeter
from tocsin.ports.targets import AttemptEnd
from tocsin.roles.worker.cancels import CANCELLED, Cancels
from tocsin.roles.worker.messages import Work, next_batch, read_work
from tocsin.roles.worker.reports import Reporter

log = structlog.get_logger()

RETRY_WAIT_MIN_S: Final = 0.01
OFFSETS_LOST: Final = "offsets_lost"
"""Why an execution is returned that may have been settled before."""
CANCELLED_ERROR: Final = AttemptError(CANCELLED, "its owner no longer wants it to be written")


@dataclass(frozen=True, slots=True)
class MessageLimits:
    """Bounds of the message lane.

    Attributes:
        batch_records_max: executions settled in one transaction.
        batch_bytes_max: of their messages and reports.
        poll_wait_max_s: how long an idle step waits for records.
        retry_wait_max_s: the longest pause between tries while transactions fail.
        cancels_kept_max: cancelled executions that are remembered.
    """

    batch_records_max: int = 500
    batch_bytes_max: int = 4_000_000
    poll_wait_max_s: float = 0.05
    retry_wait_max_s: float = 1.0
    cancels_kept_max: int = 500_000


class MessageLoop:
    """Turns the executions of the message lane into records of tenants' topics. Fulfils ``AssignmentListener``.

    Args:
        worker_id: names this process in reports.
        records: the lane.
        codec, clock, meter: ports.
        monotonic_s: seconds that never jump.
        limits: bounds.
        cancels: the log of what must not be written any more.
    """

    def __init__(
        self,
        worker_id: str,
        records: MessageLog,
        codec: ExecutionCodec,
        clock: Clock,
        monotonic_s: Callable[[], float],
        meter: WorkerMeter,
        limits: MessageLimits,
        cancels: CancelLog,
    ) -> None:
        self._cancels = Cancels(cancels, limits.cancels_kept_max)
        self._records = records
        self._codec = codec
        self._reporter = Reporter(codec, worker_id)
        self._clock = clock
        self._monotonic_s = monotonic_s
        self._meter = meter
        self._limits = limits
        self._owned: set[int] = set()
        self._paused: set[int] = set()
        self._doubtful_below: dict[int, int] = {}
        """By partition: records below that offset may have been settled before."""
        self._backlog: deque[Work] = deque()
        self._alone = 0
        """So many of the backlog are settled one by one: a culprit is among them."""
        self._fenced = False
        """No transaction of ours is of unknown outcome. At the start that takes a fence too."""
        self._joined = False
        self._wait_s = 0.0
        self._retry_wait_s = RETRY_WAIT_MIN_S

    # What the driver sees

    def join(self) -> None:
        """Learn what must not be written, and enter the group; call once, before the first step."""
        self._cancels.load()
        self._records.join(self)

    @property
    def is_member(self) -> bool:
        """The group has handed out partitions to this process, be it none, and transactions are possible."""
        return self._joined and self._fenced

    def close(self) -> None:
        """Leave the group. What is not settled goes to the next owner, as if it had never been received."""
        self._records.close()
        self._cancels.close()

    def step(self) -> None:
        """Poll once, and settle what is at hand in one transaction."""
        self._hold_back()
        deliveries = self._records.poll(self._limits.batch_records_max, self._wait_s)
        self._backlog.extend(self._read(delivery) for delivery in deliveries)
        try:
            settled = self._settle()
        except Unavailable as error:
            log.warning("the message lane waits", action="message_lane.waits", error=str(error))
            settled = False
        self._pace(settled)

    def _read(self, delivery: Delivery) -> Work:
        work = read_work(self._codec, delivery)
        work.in_doubt = delivery.offset < self._doubtful_below.get(delivery.partition, 0)
        return work

    def _hold_back(self) -> None:
        """Fetch only once everything that was received is settled."""
        if self._backlog:
            pause = self._owned - self._paused
            if pause:
                self._records.pause(pause)
                self._paused |= pause
        elif self._paused:
            self._records.resume(self._paused)
            self._paused = set()

    def _pace(self, settled: bool) -> None:
        if settled:
            self._retry_wait_s = RETRY_WAIT_MIN_S
            self._wait_s = 0.0 if self._backlog else self._limits.poll_wait_max_s
        else:
            self._wait_s = self._retry_wait_s
            self._retry_wait_s = min(self._limits.retry_wait_max_s, 2 * self._retry_wait_s)

    # One transaction

    def _settle(self) -> bool:
        """Settle the next batch; return whether there is nothing to wait for before the next one."""
        if not self._fenced:
            self._fence()
        if not self._backlog:
            return True
        records_max = 1 if self._alone else self._limits.batch_records_max
        batch = next_batch(self._backlog, records_max, self._limits.batch_bytes_max)
        started_at, started_at_s = self._clock.now(), self._monotonic_s()
        refusals = self._examine(batch)
        settlements = [self._settlement(work, refusals.get(work), started_at) for work in batch]
        result = self._records.transact(settlements)
        duration_s = self._monotonic_s() - started_at_s
        self._meter.commit(duration_s, result.outcome is not TransactionOutcome.COMMITTED)
        if result.outcome is TransactionOutcome.COMMITTED:
            self._passed(batch, settlements, refusals, duration_s)
            return True
        return self._failed(batch, result)

    def _fence(self) -> None:
        committed = self._records.fence(self._owned)
        self._fenced = True
        # What was committed of what is at hand was committed by us: the group lets nobody else settle it.
        self._keep(lambda work: work.delivery.offset >= (committed[work.delivery.partition] or 0))

    def _keep(self, condition: Callable[[Work], bool]) -> None:
        self._backlog = deque(work for work in self._backlog if condition(work))
        self._alone = min(self._alone, len(self._backlog))

    def _examine(self, batch: Sequence[Work]) -> dict[Work, AttemptError]:
        """Return what must not enter the transaction, and why."""
        self._cancels.read()
        refusals = {work: work.refusal for work in batch if work.refusal is not None}
        refusals |= {work: CANCELLED_ERROR for work in batch if self._is_cancelled(work)}
        others = [w for w in batch if w not in refusals and w.message is not None and not w.in_doubt]
        if others:
            verdicts = self._records.examine([work.message for work in others if work.message is not None])
            refusals |= {work: verdict for work, verdict in zip(others, verdicts, strict=True) if verdict is not None}
        return refusals

    def _is_cancelled(self, work: Work) -> bool:
        head = work.execution.head if work.execution is not None else None
        return head is not None and self._cancels.forbid(head.execution_id, head.token)

    def _settlement(self, work: Work, refusal: AttemptError | None, started_at: Micros) -> Settlement:
        partition, offset = work.delivery.partition, work.delivery.offset
        doubt = max(0, self._doubtful_below.get(partition, 0) - offset - 1)
        metadata = encode_marks((), (), 0, doubt)
        if work.execution is None:
            return Settlement(partition, offset, None, self._report_undecodable(work), metadata)
        job_id = work.execution.head.job_id
        if work.in_doubt:
            value = self._reporter.returned(work.execution, OFFSETS_LOST, None, self._clock.now(), Started.NO)
            return Settlement(partition, offset, None, Report(job_id, value), metadata)
        kind = ReportKind.SUCCEEDED if refusal is None else ReportKind.FAILED
        end = AttemptEnd(work, kind, started_at, self._clock.now(), refusal)
        report = Report(job_id, self._reporter.ended(work.execution, end))
        return Settlement(partition, offset, work.message if refusal is None else None, report, metadata)

    def _report_undecodable(self, work: Work) -> Report | None:
        _, _, key, value = work.delivery
        named = self._reporter.undecodable(key, value, work.problem, self._clock.now())
        return None if named is None else Report(*named)

    # What became of it

    def _passed(
        self,
        batch: Sequence[Work],
        settlements: Sequence[Settlement],
        refusals: dict[Work, AttemptError],
        duration_s: float,
    ) -> None:
        for _ in batch:
            self._backlog.popleft()
        self._alone = max(0, self._alone - len(batch))
        served = [work.execution for work in batch if work.execution is not None and not work.in_doubt]
        redelivered = sum(execution.head.losses > 0 for execution in served)
        self._meter.started(len(served) - redelivered, redelivered)
        refused = passed = 0
        for work, settlement in zip(batch, settlements, strict=True):
            if work.execution is None:
                self._say_undecodable(work, settlement.report is not None)
            elif work.in_doubt:
                self._meter.returned(OFFSETS_LOST, 1)
            elif work in refusals:
                refused += 1
            else:
                passed += 1
        for kind, count in ((ReportKind.FAILED, refused), (ReportKind.SUCCEEDED, passed)):
            if count:
                self._meter.finished(kind, [duration_s] * count)
        self._meter.reported(sum(settlement.report is not None for settlement in settlements))

    def _say_undecodable(self, work: Work, reported: bool) -> None:
        self._meter.undecodable()
        log.error(
            "an execution's record cannot be read",
            action="message_lane.undecodable",
            problem=work.problem,
            reported=reported,
            partition=work.delivery.partition,
            offset=work.delivery.offset,
        )

    def _failed(self, batch: Sequence[Work], result: TransactionResult) -> bool:
        """Prepare the next try; return whether it need not wait."""
        if result.outcome is TransactionOutcome.UNKNOWN:
            self._fenced = False
        if result.outcome is not TransactionOutcome.MOVED_ON:
            self._alone = max(self._alone, len(batch))
        if len(batch) == 1 and result.refusal is not None:
            batch[0].refusal = result.refusal
            return True
        return result.outcome is TransactionOutcome.ABORTED and len(batch) > 1

    # Called by the lane when partitions come and go; no transaction is open then

    def assigned(self, starts: Sequence[Start]) -> None:
        coming = {start.partition for start in starts}
        self._owned |= coming
        self._paused -= coming
        self._joined = True
        self._doubtful_below.update({start.partition: self._doubt_of(start) for start in starts})
        log.info(
            "partitions assigned",
            action="message_lane.assigned",
            partitions=sorted(coming),
            owned=len(self._owned),
        )

    def _doubt_of(self, start: Start) -> int:
        if start.offset is None:
            if start.end > 0:
                text = "what the group had committed is lost: all that is in the lane is returned to its owners"
                log.error(text, action="message_lane.offsets_lost", partition=start.partition, end=start.end)
            return start.end
        try:
            return start.offset + decode_marks(start.metadata).doubt
        except Undecodable as error:
            log.error(
                "what the last owner committed beside its offset cannot be read",
                action="message_lane.metadata_unreadable",
                partition=start.partition,
                problem=str(error),
            )
            return start.offset

    def revoked(self, partitions: Collection[int]) -> None:
        self._let_go(partitions, "partitions revoked", "message_lane.revoked")

    def lost(self, partitions: Collection[int]) -> None:
        self._let_go(partitions, "partitions lost", "message_lane.lost")

    def _let_go(self, partitions: Collection[int], text: str, action: str) -> None:
        going = set(partitions)
        self._owned -= going
        self._paused -= going
        self._keep(lambda work: work.delivery.partition not in going)
        log.info(text, action=action, partitions=sorted(going), owned=len(self._owned))
