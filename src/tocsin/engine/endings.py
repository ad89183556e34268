"""How executions end in an owner's step: out of the state, an event for everybody, a dead letter where one is due."""

from __future__ import annotations

from typing import Final

from tocsin.domain.alert_on import AlertOn
from tocsin.domain.commands import CommandKind
from tocsin.domain.executions import AttemptHead, AttemptReport, Execution, ExecutionEvent, ExecutionState, ReportKind
from tocsin.domain.fleet import DEAD_LETTER_BYTES_MAX, DeadLetter
from tocsin.domain.instants import Micros
from tocsin.domain.shard_records import Active
from tocsin.engine.actives import Actives
from tocsin.engine.dead_letters import set_aside
from tocsin.engine.effects import Step
from tocsin.engine.own_commands import OwnCommands
from tocsin.engine.shard_state import ShardState
from tocsin.ports.codec import RecordCodec
from tocsin.ports.shard_log import EVENTS, REPORTS, NewRecord

LogPlace = tuple[str, int, int]
"""Topic, partition and offset of what led to an end."""
MAY_HAVE_RUN: Final = "it may have run, and is not to run twice"


class Endings:
    """The ends of one shard's executions, and what is said of those that go on."""

    def __init__(self, state: ShardState, actives: Actives, own: OwnCommands, codec: RecordCodec) -> None:
        self._state = state
        self._actives = actives
        self._own = own
        self._codec = codec

    def reports_place(self) -> LogPlace:
        """Return where the owner stands in the log of reports: the place of what it decides by itself."""
        return REPORTS, self._state.shard, self._state.reports_offset

    def unheard(self, active: Active) -> AttemptReport:
        """Return what an owner goes by where nobody has said how the last dispatch ended: that it came back."""
        head, head_bytes = self._codec.split_head(active.execution)
        return AttemptReport(head, head_bytes, ReportKind.RETURNED, active.holder or "", active.started_at)

    def end(self, step: Step, head: AttemptHead) -> None:
        """Forget an execution that has ended; with the last one of a job, that may be at its end."""
        if self.forget(step, head.execution_id).last:
            self._own.end(step, CommandKind.FINISH, head.job_id, head.job_version)

    def forget(self, step: Step, execution_id: str) -> Active:
        """Take an execution out of the state; return it as it was."""
        ended = self._actives.end(execution_id)
        step.changed.pop(execution_id, None)
        step.ended.append(execution_id)
        step.turn = True
        return ended

    def unknown(
        self, step: Step, report: AttemptReport, active: Active, place: LogPlace, execution: Execution, reason: str
    ) -> None:
        """End an execution that may have run and must not run twice."""
        self.end(step, report.head)
        self.event(step, report, active, ExecutionState.UNKNOWN, None, reason=reason, execution=execution)
        said = f"nobody can tell whether it ran: {reason}"
        self._bury(step, report, active, place, execution, unknown=said)

    def dead(
        self,
        step: Step,
        report: AttemptReport,
        active: Active,
        place: LogPlace,
        execution: Execution,
        attempt_state: ReportKind | None,
        reason: str | None,
    ) -> None:
        """End an execution that is given up: whoever has mended what it met may redrive it."""
        self.end(step, report.head)
        self.event(step, report, active, ExecutionState.DEAD, attempt_state, reason=reason, execution=execution)
        self._bury(step, report, active, place, execution)

    def event(
        self,
        step: Step,
        report: AttemptReport,
        active: Active,
        state: ExecutionState,
        attempt_state: ReportKind | None,
        *,
        reason: str | None = None,
        retry_at: Micros | None = None,
        execution: Execution | None = None,
    ) -> None:
        """Publish what an execution is from now on; ``execution``: the active one, where it is decoded already."""
        if execution is None and report.head.attempt > 1:
            # Only what has had attempts before can have been redriven: most that succeeds need not be decoded.
            execution = self._codec.decode_execution(active.execution)
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
            redrives=0 if execution is None else execution.redrives,
        )
        value = self._codec.encode_event(report.head_bytes, event)
        step.records.append(NewRecord(EVENTS, self._state.shard, report.head.execution_id, value))
        step.bytes += len(value)
        step.tally.completed[state] = step.tally.completed.get(state, 0) + 1

    def _bury(
        self,
        step: Step,
        report: AttemptReport,
        active: Active,
        place: LogPlace,
        execution: Execution,
        unknown: str | None = None,
    ) -> None:
        """Put an execution that is given up among the dead letters, whole."""
        head, value = report.head, active.execution[:DEAD_LETTER_BYTES_MAX]
        why = report.error.message if report.error else report.kind
        names = (head.tenant_id, head.job_id, head.execution_id)
        letter = DeadLetter("execution", why, step.now, *place, value, *names, execution.redrives)
        asked = AlertOn.FAILURE if AlertOn.FAILURE in execution.alert_on else None
        set_aside(step, self._codec, self._state.shard, head.job_id, letter, unknown=unknown, alert_on=asked)
