"""Applies workers' reports: the owner is the arbiter, by (attempt, token).

A report counts if it begins with the very head of the current dispatch; any other is stale, counted, without effect.
"""

from __future__ import annotations

from tocsin.domain.errors import Undecodable
from tocsin.domain.executions import (
    TRANSITIONS,
    AttemptReport,
    ExecutionEvent,
    ExecutionState,
    ReportKind,
)
from tocsin.domain.fleet import DEAD_LETTER_BYTES_MAX, DeadLetter
from tocsin.domain.shard_records import Active
from tocsin.engine.effects import Step
from tocsin.engine.shard_state import ShardState
from tocsin.ports.codec import RecordCodec
from tocsin.ports.shard_log import DEAD_LETTERS, EVENTS, REPORTS, LogRecord, NewRecord


class ReportDesk:
    """The reports of one shard."""

    def __init__(self, state: ShardState, codec: RecordCodec) -> None:
        self._state = state
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
                report = self._codec.decode_report(record.value)
                kind = ReportKind(report.kind)
            except (Undecodable, ValueError) as error:
                self._set_aside(step, record, str(error))
                continue
            self._decide(step, record, report, kind)

    def _decide(self, step: Step, record: LogRecord, report: AttemptReport, kind: ReportKind) -> None:
        execution_id = report.head.execution_id
        active = self._state.active.get(execution_id)
        if active is None or not self._codec.is_head_of(report.head_bytes, active.execution):
            step.tally.stale_reports += 1
            return
        state = TRANSITIONS[ExecutionState.QUEUED, kind]
        del self._state.active[execution_id]
        step.ended.append(execution_id)
        step.tally.completed[state] = step.tally.completed.get(state, 0) + 1
        step.tally.redelivered += report.redelivered
        event = ExecutionEvent(
            report.head,
            state,
            active.published_at,
            step.now,
            attempt_state=kind,
            reason="attempts_used_up" if state is ExecutionState.DEAD else None,
            started_at=report.started_at,
            finished_at=report.finished_at,
            worker_id=report.worker_id,
            redelivered=report.redelivered,
            error=report.error,
            result=report.result,
        )
        value = self._codec.encode_event(report.head_bytes, event)
        step.records.append(NewRecord(EVENTS, self._state.shard, execution_id, value))
        if state is ExecutionState.DEAD:
            self._bury(step, record, report, active)

    def _bury(self, step: Step, record: LogRecord, report: AttemptReport, active: Active) -> None:
        """An execution whose attempts are used up goes to the dead letters, whole."""
        head, value = report.head, active.execution[:DEAD_LETTER_BYTES_MAX]
        why = report.error.message if report.error else report.kind
        self._letter(
            step,
            DeadLetter(
                "execution", why, step.now, REPORTS, record.partition, record.offset, value,
                head.tenant_id, head.job_id, head.execution_id,
            ),
            head.job_id,
        )  # fmt: skip

    def _set_aside(self, step: Step, record: LogRecord, why: str) -> None:
        value = (record.value or b"")[:DEAD_LETTER_BYTES_MAX]
        letter = DeadLetter("record", why[:1000], step.now, REPORTS, record.partition, record.offset, value)
        self._letter(step, letter, f"{REPORTS}/{record.partition}/{record.offset}")

    def _letter(self, step: Step, letter: DeadLetter, key: str) -> None:
        step.records.append(NewRecord(DEAD_LETTERS, self._state.shard, key, self._codec.encode_dead_letter(letter)))
        step.tally.dead_letters[letter.kind] = step.tally.dead_letters.get(letter.kind, 0) + 1
