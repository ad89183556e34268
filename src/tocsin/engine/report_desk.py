"""Applies workers' reports: the owner is the arbiter, by (attempt, token).

A report counts if it begins with the very head of the current dispatch; any other is stale, counted, without effect.
While an execution waits for its next dispatch, nothing is current.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from tocsin.domain.errors import Undecodable
from tocsin.domain.executions import (
    ATTEMPT_ENDS,
    AttemptError,
    AttemptHead,
    AttemptReport,
    Execution,
    ExecutionEvent,
    ExecutionState,
    ReportKind,
)
from tocsin.domain.fleet import DEAD_LETTER_BYTES_MAX, DeadLetter
from tocsin.domain.instants import SECOND, Micros
from tocsin.domain.retries import is_retryable, never_reached, retry_delay
from tocsin.domain.shard_records import IDLE, Active, Phase
from tocsin.domain.targets import TIMEOUT_S_DEFAULT, TIMEOUT_S_MAX
from tocsin.engine.actives import Actives
from tocsin.engine.dead_letters import set_aside
from tocsin.engine.dispatch_desk import DispatchDesk
from tocsin.engine.effects import Step
from tocsin.engine.endings import Endings
from tocsin.engine.losses import Losses
from tocsin.engine.retry_pauses import RETRIES_PAUSED, RetryPauses
from tocsin.engine.shard_state import ShardState
from tocsin.engine.stops import Stops
from tocsin.engine.suspects import EXECUTION, FAULT_OF_TOCSIN, REPORT, Severity, Suspect, SuspectId
from tocsin.engine.sweeps import Sweeps
from tocsin.ports.codec import RecordCodec
from tocsin.ports.shard_log import (
    EVENTS,
    REPORTS,
    SHARD_STATE,
    LogRecord,
    NewRecord,
)

LEASE_GRACE: Final[Micros] = 30 * SECOND
"""How much longer than its attempt may take a lease is waited for."""
ACCEPTED: Final = "accepted"
"""Why an execution counts as running that no worker holds: its target will call back."""
ATTEMPTS_USED_UP: Final = "attempts_used_up"
"""Why a failed attempt is the last: no more may be made."""
AT_MOST_ONCE: Final = "at_most_once"
"""Why a failed attempt is the last: it may have done something, and that must not be done again."""
ENGINE_FAULT: Final = "engine_fault"
"""Why an execution ends that makes the engine fail."""

TEXT_CHARS_MAX: Final = 1_000
WORKER_ID_CHARS_MAX: Final = 200


def bounded(report: AttemptReport) -> AttemptReport:
    """Return a report whose texts are cut to what its event may carry: a worker is not trusted to have done so."""
    error, result = report.error, report.result
    texts_fit = len(report.worker_id) <= WORKER_ID_CHARS_MAX and (result is None or 0 < len(result) <= TEXT_CHARS_MAX)
    if error is None and report.timeout_s is None and texts_fit:
        return report
    if error is not None:
        message, name = error.message[:TEXT_CHARS_MAX], error.error_class[:64]
        error = AttemptError(name, message, error.status, error.retry_after_s)
    timeout_s = report.timeout_s
    if timeout_s is not None and not 0 < timeout_s <= TIMEOUT_S_MAX:
        timeout_s = None
    return replace(
        report,
        timeout_s=timeout_s,
        worker_id=report.worker_id[:WORKER_ID_CHARS_MAX],
        error=error,
        result=result[:TEXT_CHARS_MAX] if result else None,
    )


def _why_final(execution: Execution, kind: ReportKind, error: AttemptError | None, made: int) -> str | None:
    """Tell why no attempt follows one that did not succeed; None where one does."""
    if execution.retry is None or made >= execution.retry.max_attempts:
        return ATTEMPTS_USED_UP
    if not is_retryable(kind, error, execution.retry):
        return "not_retryable"
    if not execution.is_repeatable and not never_reached(kind, error, execution.target):
        return AT_MOST_ONCE
    return None


class ReportDesk:
    """The reports of one shard, and what the owner decides of executions without any."""

    def __init__(
        self,
        state: ShardState,
        actives: Actives,
        dispatches: DispatchDesk,
        endings: Endings,
        stops: Stops,
        sweeps: Sweeps,
        losses: Losses,
        codec: RecordCodec,
        retry_pauses: RetryPauses,
        culprits: Mapping[SuspectId, Severity] = MappingProxyType({}),
    ) -> None:
        self._state = state
        self._retry_pauses = retry_pauses
        self._sweeps = sweeps
        self._actives = actives
        self._dispatches = dispatches
        self._endings = endings
        self._stops = stops
        self._losses = losses
        self._codec = codec
        self._culprits = culprits
        self._waiting: deque[LogRecord] = deque()

    def __len__(self) -> int:
        """How many reports wait to be applied."""
        return len(self._waiting)

    def read_upto(self, seen: int) -> int:
        """Return an offset below which every report is applied, given one below which none is left to read."""
        return self._waiting[0].offset if self._waiting else max(self._state.reports_offset, seen)

    def receive(self, records: Sequence[LogRecord]) -> None:
        """Take reports in; they are decided in log order when there is room."""
        self._waiting.extend(records)

    def apply(self, step: Step, limit: int, bytes_max: int) -> None:
        """Decide waiting reports, up to so many, and about so many bytes of what they lead to.

        One already applied is ignored, a damaged one becomes a dead letter.
        """
        upto, end = step.tally.reports + limit, step.bytes + bytes_max
        while self._waiting and step.tally.reports < upto and step.bytes < end:
            record = self._waiting.popleft()
            if record.offset < self._state.reports_offset:
                continue
            step.at_hand = Suspect(REPORT, record)
            self._state.reports_offset = record.offset + 1
            step.turn = True
            step.tally.reports += 1
            if self._culprits and (severity := self._culprits.get(step.at_hand.id)):
                self._pass_over(step, record, severity)
                continue
            try:
                report = bounded(self._codec.decode_report(record.value))
                kind = ReportKind(report.kind)
            except (Undecodable, ValueError) as error:
                self._set_aside(step, record, str(error))
                continue
            self._decide(step, report, kind, (REPORTS, record.partition, record.offset))

    def give_up(self, step: Step, execution_id: str, severity: Severity) -> AttemptHead | None:
        """End an execution that makes the engine fail, without looking into it more than is needed.

        Returns:
            Its head, where it was active and that could be read.
        """
        active = self._actives.get(execution_id)
        if active is None:
            return None
        step.at_hand = Suspect(EXECUTION, execution_id)
        # Its job is not told of an end: it is suspended, or as little is said of it as may be.
        self._endings.forget(step, execution_id)
        if severity is Severity.PASSED_OVER:
            return None
        head, head_bytes = self._codec.split_head(active.execution)
        if severity is Severity.SET_ASIDE:
            event = ExecutionEvent(
                head,
                ExecutionState.DEAD,
                active.published_at,
                step.now,
                reason=ENGINE_FAULT,
                redelivered=head.losses > 0,
            )
            value = self._codec.encode_event(head_bytes, event)
            step.records.append(NewRecord(EVENTS, self._state.shard, execution_id, value))
            step.tally.completed[ExecutionState.DEAD] = step.tally.completed.get(ExecutionState.DEAD, 0) + 1
        kept = active.execution[:DEAD_LETTER_BYTES_MAX] if severity is Severity.SET_ASIDE else b""
        place = (SHARD_STATE, self._state.shard, 0)
        letter = DeadLetter(
            "execution", FAULT_OF_TOCSIN, step.now, *place, kept, head.tenant_id, head.job_id, execution_id
        )
        set_aside(step, self._codec, self._state.shard, head.job_id, letter)
        return head

    def _pass_over(self, step: Step, record: LogRecord, severity: Severity) -> None:
        """Set a report aside that makes the engine fail; its execution meets its deadline instead."""
        if severity is not Severity.PASSED_OVER:
            bare = record._replace(value=b"") if severity is Severity.BARE else record
            self._set_aside(step, bare, FAULT_OF_TOCSIN)

    def expire(self, step: Step, execution_id: str) -> None:
        """A lease's deadline has passed, and no report that was in the log by then says otherwise."""
        active = self._actives.get(execution_id)
        why = ("lease_expired", "its worker did not report an end")
        if active is not None and active.holder is None:
            why = ("no_callback", "its target accepted it and did not call back in time")
        self._end_attempt(step, execution_id, ReportKind.TIMED_OUT, *why)

    def _decide(self, step: Step, report: AttemptReport, kind: ReportKind, place: tuple[str, int, int]) -> None:
        active = self._actives.get(report.head.execution_id)
        current = None if active is None or active.phase in IDLE else self._under_own_head(report, active)
        if active is None or current is None:
            step.tally.stale_reports += 1
            return
        report = current
        if report.started_at is None and active.started_at is not None:
            # A callback knows nothing of when the attempt began.
            report = replace(report, started_at=active.started_at)
        if kind in ATTEMPT_ENDS:
            self._attempt_ended(step, report, kind, active, place)
        elif active.phase == Phase.LEASED and active.holder is None:
            # It waits for a callback, and no worker has anything to say of it any more.
            step.tally.stale_reports += 1
        elif kind is ReportKind.RUNNING:
            self._lease(step, report, active, report.worker_id)
        elif kind is ReportKind.ACCEPTED:
            self._lease(step, report, active, None)
        else:
            self._losses.returned(step, report, active, place)

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
        if self._stops.take(step, report, kind, active):
            return
        if kind is ReportKind.SUCCEEDED:
            self._retry_pauses.note(step, head.tenant_id, failed=False)
            self._endings.end(step, head)
            self._endings.event(step, report, active, ExecutionState.SUCCEEDED, kind)
            return
        execution = self._codec.decode_execution(active.execution)
        policy, made = execution.retry, head.attempt - execution.attempts_before
        self._retry_pauses.note(step, head.tenant_id, failed=is_retryable(kind, report.error, policy))
        final = _why_final(execution, kind, report.error, made)
        if final is None and self._sweeps.is_left(execution_id):
            final = ATTEMPTS_USED_UP
        if policy is not None and final is None:
            retry_after_s = report.error.retry_after_s if report.error else None
            retry_at = step.now + retry_delay(policy, execution_id, made, retry_after_s)
            waiting = active.waiting(retry_at, head.attempt + 1)
            self._dispatches.change(step, execution_id, waiting)
            paused_until = self._retry_pauses.until(head.tenant_id, step.now)
            self._endings.event(
                step, report, active, ExecutionState.RETRY_SCHEDULED, kind,
                reason=None if paused_until is None else RETRIES_PAUSED, retry_at=max(retry_at, paused_until or 0),
                execution=execution,
            )  # fmt: skip
            return
        self._endings.dead(step, report, active, place, execution, kind, final)

    def _end_attempt(self, step: Step, execution_id: str, kind: ReportKind, error_class: str, message: str) -> None:
        """End an attempt by the owner's own word, as if its worker had reported it.

        Nobody has seen how it ended, so what must not run twice ends UNKNOWN.
        """
        active = self._actives.get(execution_id)
        if active is None or active.phase != Phase.LEASED:
            return
        execution, place = self._codec.decode_execution(active.execution), self._endings.reports_place()
        error, holder = AttemptError(error_class, message), active.holder or ""
        report = AttemptReport(execution.head, execution.head_bytes, kind, holder, active.started_at, error=error)
        if self._stops.take(step, replace(report, kind=ReportKind.RETURNED), ReportKind.RETURNED, active):
            return
        if execution.is_repeatable:
            self._attempt_ended(step, report, kind, active, place)
        else:
            self._endings.unknown(step, report, active, place, execution, error_class)

    def _lease(self, step: Step, report: AttemptReport, active: Active, holder: str | None) -> None:
        """Hold a dispatch until a deadline; without a holder it waits for its target's callback, and for no process."""
        execution_id = report.head.execution_id
        timeout = round((report.timeout_s or TIMEOUT_S_DEFAULT) * SECOND)
        leased = active._replace(
            phase=Phase.LEASED,
            wake_at=step.now + timeout + LEASE_GRACE,
            holder=holder,
            started_at=report.started_at,
            returns=0,
        )
        first = active.phase != Phase.LEASED
        self._dispatches.change(step, execution_id, leased)
        if first or holder is None:
            reason = ACCEPTED if holder is None else None
            self._endings.event(step, report, active, ExecutionState.RUNNING, None, reason=reason)

    def _set_aside(self, step: Step, record: LogRecord, why: str) -> None:
        value = (record.value or b"")[:DEAD_LETTER_BYTES_MAX]
        letter = DeadLetter("record", why[:1000], step.now, REPORTS, record.partition, record.offset, value)
        key = f"{REPORTS}/{record.partition}/{record.offset}"
        set_aside(step, self._codec, self._state.shard, key, letter)
