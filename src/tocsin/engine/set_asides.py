"""Setting aside what makes the engine fail each time, so that its neighbours go on: a dead letter, and a paused job.

Commands and reports among the culprits are passed over where they are decided; here are the entries, executions and
jobs.
"""

from __future__ import annotations

from collections.abc import Mapping

from tocsin.domain.entries import Entry
from tocsin.engine.dispatch_desk import DispatchDesk
from tocsin.engine.effects import Step
from tocsin.engine.own_commands import OwnCommands
from tocsin.engine.report_desk import ReportDesk
from tocsin.engine.suspects import ENTRY, EXECUTION, FAULT_OF_TOCSIN, JOB, Severity, Suspect, SuspectId

FAILED_ON = "tocsin failed on this job; see its dead letter"


class SetAsides:
    """The known culprits of one shard."""

    def __init__(
        self,
        dispatches: DispatchDesk,
        reports: ReportDesk,
        own: OwnCommands,
        culprits: Mapping[SuspectId, Severity],
    ) -> None:
        self._dispatches = dispatches
        self._reports = reports
        self._own = own
        self._culprits = culprits
        self._told: set[SuspectId] = set()
        self._begun = not culprits

    def begin(self, step: Step) -> None:
        """Give up the executions among the culprits; once, before anything else is decided of them."""
        if self._begun:
            return
        self._begun = True
        for (kind, thing), severity in self._culprits.items():
            if kind == EXECUTION and isinstance(thing, str):
                head = self._reports.give_up(step, thing, severity)
                if head is not None:
                    self._own.suspend(step, head.job_id, head.tenant_id, head.job_version, FAILED_ON)
            elif kind == JOB and isinstance(thing, str) and severity is not Severity.PASSED_OVER:
                self._dispatches.tell_of_job(step, thing, FAULT_OF_TOCSIN)

    @property
    def knows_any(self) -> bool:
        """Tell whether there are culprits at all."""
        return bool(self._culprits)

    def knows(self, entry: Entry) -> bool:
        """Tell whether an entry is a culprit."""
        return bool(self._culprits) and Suspect(ENTRY, entry).id in self._culprits

    def refuses(self, step: Step, entry: Entry) -> bool:
        """Tell whether an entry is a culprit; the first time it is set aside, and its job suspended."""
        if not self._culprits:
            return False
        suspect_id = Suspect(ENTRY, entry).id
        severity = self._culprits.get(suspect_id)
        if severity is None:
            return False
        if suspect_id not in self._told and step.now:
            self._told.add(suspect_id)
            if severity is not Severity.PASSED_OVER:
                self._dispatches.set_aside(step, entry, FAULT_OF_TOCSIN, bare=severity is Severity.BARE)
                place = entry.job_id, entry.tenant_id, entry.version
                self._own.suspend(step, *place, FAILED_ON, entry.scheduled_for)
        return True

    def knows_job(self, job_id: str) -> bool:
        """Tell whether reading this job's snapshot is what fails."""
        return (JOB, job_id) in self._culprits
