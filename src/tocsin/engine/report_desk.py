"""Applies workers' reports: the owner is the arbiter, by (attempt, token).

A report counts if it begins with the very head of the current dispatch; any other is stale, counted, without effect.
While an execution waits for its next dispatch, nothing is current.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tocsin.domain.errors import Undecodable
from tocsin.domain.executions import (
    ATTEMPT_ENDS,
    AttemptError,
    AttemptReport,
    ExecutionEvent,
    ExecutionState,
    ReportKind,
    Started,
)
from tocsin.domain.fleet import DEAD_LETTER_BYTES_MAX, DeadLetter
from tocsin.domain.instants import SECOND, Micros
from tocsin.domain.retries import is_retryable, loss_delay, retry_delay, return_delay
from tocsin.domain.shard_records import Active, Phase
from tocsin.domain.targets import TIMEOUT_S_DEFAULT, TIMEOUT_S_MAX
from tocsin.engine.actives import Actives
from tocsin.engine.dispatch_desk import DispatchDesk
from tocsin.engine.effects import Step
from tocsin.engine.shard_state import ShardState
from tocsin.ports.codec import RecordCodec
from tocsin.ports.shard_log import DEAD_LETTERS, EVENTS, REPORTS, LogRecord, NewRecord

LEASE_GRACE: Final[Micros] = 30 * SECOND
"""How much longer than its attempt may take a lease is waited for."""
RETURNED_BY_STOP: Final = "stop"


TEXT_CHARS_MAX: Final = 1_000


def bounded(report: AttemptReport) -> AttemptReport:
    """Return a report whose texts are cut to what its event may carry: a worker is not trusted to have done so."""
    error = report.error
    if error is not None:
        message, name = error.message[:TEXT_CHARS_MAX], error.error_class[:64]
        error = AttemptError(name, message, error.status, error.retry_after_s)
    timeout_s = report.timeout_s
    if timeout_s is not None and not 0 < timeout_s <= TIMEOUT_S_MAX:
        timeout_s = None
    return replace(
        report,
        timeout_s=timeout_s,
        worker_id=report.worker_id[:200],
        error=error,
        result=report.result[:TEXT_CHARS_MAX] if report.result else None,
    )


class ReportDesk:
    """The reports of one shard, and what the owner decides of executions without any."""

    def __init__(self, state: ShardState, actives: Actives, dispatches: DispatchDesk, codec: RecordCodec) -> None:
        self._state = state
        self._actives = actives
        self._dispatches = dispatches
        self._codec = codec

    def apply(self, step: Step, records: list[LogRecord]) -> None:
        """Decide reports in log order. One already applied is ignored, a damaged one becomes a dead letter."""
        for record in records:
            if record.offset < self._state.reports_offset:
                continue
            self._state.reports_offset = record.offset + 1
            step.turn = True
            step.tally.reports += 1
            try:
                report = bounded(self._codec.decode_report(record.value))
                kind = ReportKind(report.kind)
            except (Undecodable, ValueError) as error:
                self._set_aside(step, record, str(error))
                continue
            self._decide(step, report, kind, (REPORTS, record.partition, record.offset))

    def expire(self, step: Step, execution_id: str) -> None:
        """A lease's deadline has passed, and no report that was in the log by then says otherwise."""
        self._end_attempt(step, execution_id, ReportKind.TIMED_OUT, "lease_expired", "its worker did not report an end")

    def lose(self, step: Step, execution_id: str) -> None:
        """The process that holds an execution is gone: its attempt may have run, and is dispatched again."""
        active = self._actives.get(execution_id)
        if active is not None and active.phase == Phase.LEASED:
            self._wait_after_loss(step, execution_id, active)

    def _decide(self, step: Step, report: AttemptReport, kind: ReportKind, place: tuple[str, int, int]) -> None:
        active = self._actives.get(report.head.execution_id)
        current = None if active is None or active.phase == Phase.WAITING else self._under_own_head(report, active)
        if active is None or current is None:
            step.tally.stale_reports += 1
            return
        report = current
        if kind in ATTEMPT_ENDS:
            self._attempt_ended(step, report, kind, active, place)
        elif kind is ReportKind.RUNNING:
            self._lease(step, report, active)
        else:
            self._returned(step, report, active)

    def _under_own_head(self, report: AttemptReport, active: Active) -> AttemptReport | None:
        """Return a report of the current dispatch under the head that we sent, None where it speaks of another.

        A worker that could read only a record's key makes up the rest of the head; attempt and token decide.
        """
        if self._codec.is_head_of(report.head_bytes, active.execution):
            return report
        head, head_bytes = self._codec.split_head(active.execution)
        if (report.head.attempt, report.head.token) != (head.attempt, head.token):
            return None
        return replace(report, head=head, head_bytes=head_bytes)

    def _attempt_ended(
        self, step: Step, report: AttemptReport, kind: ReportKind, active: Active, place: tuple[str, int, int]
    ) -> None:
        execution_id, head = report.head.execution_id, report.head
        step.tally.redelivered += report.redelivered
        if kind is ReportKind.SUCCEEDED:
            self._end(step, execution_id)
            self._event(step, report, active, ExecutionState.SUCCEEDED, kind)
            return
        policy = self._codec.decode_execution(active.execution).retry
        if policy is not None and head.attempt < policy.max_attempts and is_retryable(kind, report.error):
            retry_after_s = report.error.retry_after_s if report.error else None
            retry_at = step.now + retry_delay(policy, execution_id, head.attempt, retry_after_s)
            waiting = Active(active.execution, active.published_at, Phase.WAITING, retry_at, head.attempt + 1, 0)
            self._dispatches.change(step, execution_id, waiting)
            self._event(step, report, active, ExecutionState.RETRY_SCHEDULED, kind, retry_at=retry_at)
            return
        self._end(step, execution_id)
        reason = "attempts_used_up" if policy is None or head.attempt >= policy.max_attempts else "not_retryable"
        self._event(step, report, active, ExecutionState.DEAD, kind, reason=reason)
        self._bury(step, report, active, place)

    def _end_attempt(self, step: Step, execution_id: str, kind: ReportKind, error_class: str, message: str) -> None:
        """End an attempt by the owner's own word, as if its worker had reported it."""
        active = self._actives.get(execution_id)
        if active is None or active.phase != Phase.LEASED:
            return
        head, head_bytes = self._codec.split_head(active.execution)
        report = AttemptReport(
            head, head_bytes, kind, active.holder or "", active.started_at, error=AttemptError(error_class, message)
        )
        self._attempt_ended(step, report, kind, active, (REPORTS, self._state.shard, self._state.reports_offset))

    def _lease(self, step: Step, report: AttemptReport, active: Active) -> None:
        execution_id = report.head.execution_id
        timeout = round((report.timeout_s or TIMEOUT_S_DEFAULT) * SECOND)
        leased = active._replace(
            phase=Phase.LEASED,
            wake_at=step.now + timeout + LEASE_GRACE,
            holder=report.worker_id,
            started_at=report.started_at,
            returns=0,
        )
        first = active.phase != Phase.LEASED
        self._dispatches.change(step, execution_id, leased)
        if first:
            self._event(step, report, active, ExecutionState.RUNNING, None)

    def _returned(self, step: Step, report: AttemptReport, active: Active) -> None:
        execution_id = report.head.execution_id
        if active.phase == Phase.LEASED and active.holder != report.worker_id:
            # A successor of the partition found it begun, but a living process holds it.
            step.tally.stale_reports += 1
            return
        if report.started != Started.NO:
            self._wait_after_loss(step, execution_id, active)
            return
        stopped = report.reason == RETURNED_BY_STOP
        returns = active.returns + (not stopped)
        delay = 0 if stopped else return_delay(returns)
        head = report.head
        waiting = Active(
            active.execution,
            active.published_at,
            Phase.WAITING,
            step.now + delay,
            head.attempt,
            head.losses,
            returns,
        )
        self._dispatches.change(step, execution_id, waiting)

    def _wait_after_loss(self, step: Step, execution_id: str, active: Active) -> None:
        head, _ = self._codec.split_head(active.execution)
        losses = head.losses + 1
        wake_at = step.now + loss_delay(losses)
        waiting = Active(active.execution, active.published_at, Phase.WAITING, wake_at, head.attempt, losses)
        self._dispatches.change(step, execution_id, waiting)

    def _end(self, step: Step, execution_id: str) -> None:
        self._actives.end(execution_id)
        step.changed.pop(execution_id, None)
        step.ended.append(execution_id)
        step.turn = True

    def _event(
        self,
        step: Step,
        report: AttemptReport,
        active: Active,
        state: ExecutionState,
        attempt_state: ReportKind | None,
        *,
        reason: str | None = None,
        retry_at: Micros | None = None,
    ) -> None:
        event = ExecutionEvent(
            report.head,
            state,
            active.published_at,
            step.now,
            attempt_state=attempt_state,
            reason=reason,
            started_at=report.started_at,
            finished_at=report.finished_at,
            worker_id=report.worker_id,
            redelivered=report.redelivered or report.head.losses > 0,
            error=report.error,
            result=report.result,
            retry_at=retry_at,
        )
        value = self._codec.encode_event(report.head_bytes, event)
        step.records.append(NewRecord(EVENTS, self._state.shard, report.head.execution_id, value))
        step.tally.completed[state] = step.tally.completed.get(state, 0) + 1

    def _bury(self, step: Step, report: AttemptReport, active: Active, place: tuple[str, int, int]) -> None:
        """An execution whose attempts are used up goes to the dead letters, whole."""
        head, value = report.head, active.execution[:DEAD_LETTER_BYTES_MAX]
        why = report.error.message if report.error else report.kind
        letter = DeadLetter("execution", why, step.now, *place, value, head.tenant_id, head.job_id, head.execution_id)
        self._letter(step, letter, head.job_id)

    def _set_aside(self, step: Step, record: LogRecord, why: str) -> None:
        value = (record.value or b"")[:DEAD_LETTER_BYTES_MAX]
        letter = DeadLetter("record", why[:1000], step.now, REPORTS, record.partition, record.offset, value)
        self._letter(step, letter, f"{REPORTS}/{record.partition}/{record.offset}")

    def _letter(self, step: Step, letter: DeadLetter, key: str) -> None:
        step.records.append(NewRecord(DEAD_LETTERS, self._state.shard, key, self._codec.encode_dead_letter(letter)))
        step.tally.dead_letters[letter.kind] = step.tally.dead_letters.get(letter.kind, 0) + 1
