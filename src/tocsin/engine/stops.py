"""Stops executions that are not to go on: cancelled, replaced by a later one, deleted with their job, or too long.

What has not started ends at once. What a worker may run is only marked, and workers are told not to start it, or to
stop it; it ends with whatever is heard of it next: an end, a return, the silence of its holder. Of what nothing is
heard it is known to be over when its attempt's time and some grace have passed: nothing may start it any more by then.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tocsin.domain.catch_up import SkipReason
from tocsin.domain.executions import (
    ATTEMPT_ENDS,
    AttemptError,
    AttemptReport,
    ExecutionState,
    ReportKind,
    Started,
)
from tocsin.domain.fleet import Cancel
from tocsin.domain.instants import SECOND, Micros
from tocsin.domain.shard_records import IDLE, Active, Phase
from tocsin.domain.targets import TIMEOUT_S_DEFAULT
from tocsin.engine.actives import Actives
from tocsin.engine.alerts import tell_skip
from tocsin.engine.dispatch_desk import DispatchDesk
from tocsin.engine.effects import Step
from tocsin.engine.endings import MAY_HAVE_RUN, Endings
from tocsin.ports.codec import RecordCodec
from tocsin.ports.shard_log import WORKER_CONTROL, NewRecord

CANCELLED: Final = "cancelled"
REPLACED: Final = "replaced"
MAX_DURATION: Final = "max_duration"
JOB_DELETED: Final = "job_deleted"
"""Why executions end that were not to go on: the stable words of their events."""
GRACE: Final[Micros] = 30 * SECOND
"""How much longer than its attempt may take an execution is waited for that is being stopped."""
TOO_LONG: Final = "it was not over within the max_duration_s of its job"


class Stops:
    """The executions of one shard that are being stopped."""

    def __init__(self, actives: Actives, dispatches: DispatchDesk, endings: Endings, codec: RecordCodec) -> None:
        self._actives = actives
        self._dispatches = dispatches
        self._endings = endings
        self._codec = codec

    def begin(self, step: Step, execution_id: str, reason: str) -> bool:
        """Have an active execution end; tell whether it has ended at once. Where it is being stopped already, that
        stands."""
        active = self._known(execution_id)
        if active.phase in IDLE:
            self._close_unheard(step, active, reason)
            return True
        if active.ending is None:
            execution = self._codec.decode_execution(active.execution)
            timeout_s = getattr(execution.target, "timeout_s", None) or TIMEOUT_S_DEFAULT
            ends_by = step.now + round(timeout_s * SECOND) + GRACE
            self.tell_workers(step, execution_id, execution.head.token)
            self._dispatches.change(step, execution_id, active._replace(ending=reason, ends_by=ends_by))
        return False

    def tell_workers(self, step: Step, execution_id: str, token: int) -> None:
        """Have no worker start a dispatch up to this token any more."""
        cancel = Cancel(execution_id, token, step.now)
        step.records.append(NewRecord(WORKER_CONTROL, 0, execution_id, self._codec.encode_cancel(cancel)))

    def overdue(self, step: Step, execution_id: str) -> None:
        """An execution should be over by now, and no report that was in the log by then says that it is."""
        active = self._known(execution_id)
        if active.ending is None:
            self.begin(step, execution_id, MAX_DURATION)
        else:
            self._close_unheard(step, active, active.ending)

    def take(self, step: Step, report: AttemptReport, kind: ReportKind, active: Active) -> bool:
        """Take a word that a current dispatch is over, be it the owner's own; tell whether that ends an execution
        which is being stopped. A success within too long a run is one all the same: it came before the stop."""
        if active.ending is None or (kind is ReportKind.SUCCEEDED and active.ending == MAX_DURATION):
            return False
        self._close(step, report, active, active.ending)
        return True

    def leave(self, step: Step, execution_id: str) -> bool:
        """End an execution of a deleted job if it waits for its first dispatch, or for a retry; let it fail for good
        if an attempt of it is not over. Tell whether it has ended."""
        active = self._known(execution_id)
        if active.phase in IDLE and not active.is_made_again:
            self._close_unheard(step, active, JOB_DELETED)
            return True
        self._dispatches.without_retries(step, execution_id)
        return False

    def _close_unheard(self, step: Step, active: Active, reason: str) -> None:
        """End an execution of which nobody has said how its last attempt ended."""
        self._close(step, self._endings.unheard(active), active, reason)

    def _close(self, step: Step, report: AttemptReport, active: Active, reason: str) -> None:
        """End an execution, and say why; what its last attempt came to is told beside it."""
        attempt_state = ReportKind(report.kind) if report.kind in ATTEMPT_ENDS else None
        if reason != MAX_DURATION:
            # Only the first dispatch of what stands behind others is an occurrence that is skipped.
            skipped = active.phase == Phase.BEHIND and reason == REPLACED and active.next_attempt == 1
            self._endings.end(step, report.head)
            state = ExecutionState.SKIPPED if skipped else ExecutionState.CANCELLED
            self._endings.event(step, report, active, state, attempt_state, reason=reason)
            if skipped:
                wanted = self._codec.decode_execution(active.execution).alert_on
                tell_skip(step, report.head, SkipReason.REPLACED, 1, wanted)
            return
        execution, place = self._codec.decode_execution(active.execution), self._endings.reports_place()
        may_have_run = active.phase != Phase.WAITING and attempt_state is None and report.started != Started.NO
        if may_have_run and not execution.is_repeatable:
            report = replace(report, error=report.error or AttemptError(MAX_DURATION, MAY_HAVE_RUN))
            self._endings.unknown(step, report, active, place, execution, reason)
            return
        report = replace(report, error=report.error or AttemptError(MAX_DURATION, TOO_LONG))
        self._endings.dead(step, report, active, place, execution, attempt_state, reason)

    def _known(self, execution_id: str) -> Active:
        active = self._actives.get(execution_id)
        assert active is not None, "who asks has looked"
        return active
