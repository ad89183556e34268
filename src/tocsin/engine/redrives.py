"""Runs a dead execution again: it waits like any retry, and is dispatched when it is due.

What it runs is the job's definition as it is now: whoever mended it wants that. Its owner knows of an execution only as
long as it is active, so that it is dead is the sender's word; what would run twice by an honest mistake is refused.
"""

from __future__ import annotations

from typing import Final

from tocsin.domain.commands import OutcomeDetail
from tocsin.domain.errors import Fault
from tocsin.domain.executions import AttemptHead, ExecutionEvent, ExecutionState
from tocsin.domain.fields import shown
from tocsin.domain.jobs import Job
from tocsin.domain.redrives import parse_redrive
from tocsin.domain.shard_records import Active, Phase
from tocsin.engine.dispatch_desk import DispatchDesk
from tocsin.engine.effects import Step
from tocsin.engine.filing import Filing
from tocsin.engine.job_commands import Answer, Order
from tocsin.engine.overlap import REFUSED, Overlaps, Way, told_of
from tocsin.engine.work import Work
from tocsin.ports.codec import RecordCodec
from tocsin.ports.shard_log import EVENTS, NewRecord

REDRIVEN: Final = "redriven"
"""Why an execution that was dead waits for an attempt."""
REMEMBERED_MAX: Final = 10_000
"""Redrives that are remembered, so that one is not carried out twice by a sender whose view lags."""


class Redrives:
    """The redrives of one shard."""

    def __init__(
        self,
        shard: int,
        filing: Filing,
        dispatches: DispatchDesk,
        overlaps: Overlaps,
        work: Work,
        codec: RecordCodec,
    ) -> None:
        self._done: dict[str, int] = {}
        """By execution: how many attempts it had before it was redriven last. In memory only, against haste."""
        self._overlaps = overlaps
        self._shard = shard
        self._filing = filing
        self._dispatches = dispatches
        self._work = work
        self._codec = codec

    def redrive(self, step: Step, order: Order, job: Job) -> Answer:
        """Have an execution attempted again, at once or when the command says.

        Raises:
            InvalidInput: the command names no execution of the job, or does not say what came before.
        """
        asked = parse_redrive(order.command, job.job_id, order.at)
        if asked.created_version != job.created_version:
            problem, remedy = "belongs to an earlier job of this id", "trigger the job instead"
            fault = Fault("execution_id", shown(asked.execution_id), problem, remedy)
            return Answer(False, OutcomeDetail.NOT_FOUND, faults=(fault,))
        if self._work.has_job(job.job_id) or not self._filing.is_decided(job.job_id, asked.scheduled_for):
            problem, remedy = "may still be run by its schedule", "redrive it once history shows it as DEAD"
            fault = Fault("execution_id", shown(asked.execution_id), problem, remedy)
            return Answer(False, OutcomeDetail.RUNNING, faults=(fault,))
        if self._dispatches.is_active(asked.execution_id):
            fault = Fault("execution_id", shown(asked.execution_id), "is active", "wait until it has ended")
            return Answer(False, OutcomeDetail.RUNNING, faults=(fault,))
        if asked.attempts_before <= self._done.get(asked.execution_id, 0):
            problem, remedy = "was redriven after that attempt already", "look at its run, whose view may lag"
            fault = Fault("attempts_before", shown(asked.attempts_before), problem, remedy)
            return Answer(False, OutcomeDetail.RUNNING, faults=(fault,))
        due_at = max(step.now, asked.not_before or 0)
        head = AttemptHead(
            asked.attempts_before + 1,
            0,  # It is not dispatched yet, so that every dispatch comes after this.
            0,
            asked.execution_id,
            job.job_id,
            job.tenant_id,
            job.version,
            asked.scheduled_for,
            due_at,
        )
        execution = self._codec.encode_execution(
            head,
            job.definition.target,
            job.definition.retry,
            attempts_before=asked.attempts_before,
            redrives=asked.redrives,
            delivery=job.definition.delivery,
            max_duration_s=job.definition.max_duration_s,
            alert_on=job.definition.alert_on,
        )
        snapshot = self._codec.encode_job(job)
        way = self._overlaps.admit(step, asked.execution_id, job.definition.overlap)
        if way in REFUSED:
            fault = Fault("execution_id", shown(asked.execution_id), told_of(way), "wait until it has ended")
            return Answer(False, OutcomeDetail.RUNNING, faults=(fault,))
        self._remember(asked.execution_id, asked.attempts_before)
        if way is Way.BEHIND:
            self._overlaps.put_behind(
                step, asked.execution_id, execution, attempt=head.attempt, not_before=asked.not_before or 0,
                redrives=asked.redrives,
            )  # fmt: skip
            return Answer(True, OutcomeDetail.REDRIVEN, job, snapshot, asked.execution_id)
        waiting = Active(execution, step.now, Phase.WAITING, due_at, head.attempt, 0)
        self._dispatches.change(step, asked.execution_id, waiting)
        event = ExecutionEvent(
            head, ExecutionState.RETRY_SCHEDULED, step.now, step.now, reason=REDRIVEN, retry_at=due_at,
            redrives=asked.redrives,
        )  # fmt: skip
        value = self._codec.encode_event(self._codec.split_head(execution)[1], event)
        step.records.append(NewRecord(EVENTS, self._shard, asked.execution_id, value))
        return Answer(True, OutcomeDetail.REDRIVEN, job, snapshot, asked.execution_id)

    def _remember(self, execution_id: str, attempts_before: int) -> None:
        self._done.pop(execution_id, None)
        self._done[execution_id] = attempts_before
        if len(self._done) > REMEMBERED_MAX:
            del self._done[next(iter(self._done))]
