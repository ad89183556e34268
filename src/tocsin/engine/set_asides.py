"""Setting aside what makes the engine fail each time, so that its neighbours go on: a dead letter, and a paused job.

Commands and reports among the culprits are passed over where they are decided; here are the entries, executions and
jobs.
"""

from __future__ import annotations

from collections.abc import Mapping

from tocsin.domain.alerts import Alert, AlertKind
from tocsin.domain.commands import Command, CommandKind
from tocsin.domain.entries import Entry
from tocsin.domain.sharding import shard_key
from tocsin.engine.dispatch_desk import DispatchDesk
from tocsin.engine.effects import Step
from tocsin.engine.report_desk import ReportDesk
from tocsin.engine.suspects import ENTRY, EXECUTION, FAULT_OF_TOCSIN, JOB, Severity, Suspect, SuspectId
from tocsin.ports.codec import RecordCodec
from tocsin.ports.shard_log import COMMANDS, NewRecord

SUSPENDED = "suspended: tocsin failed on this job; see its dead letter"


class SetAsides:
    """The known culprits of one shard."""

    def __init__(
        self,
        shard: int,
        dispatches: DispatchDesk,
        reports: ReportDesk,
        codec: RecordCodec,
        culprits: Mapping[SuspectId, Severity],
    ) -> None:
        self._shard = shard
        self._dispatches = dispatches
        self._reports = reports
        self._codec = codec
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
                tenant_id = self._reports.give_up(step, thing, severity)
                if tenant_id is not None:
                    self._suspend(step, thing.split(".", 1)[0], tenant_id)
            elif kind == JOB and isinstance(thing, str) and severity is not Severity.PASSED_OVER:
                self._dispatches.tell_of_job(step, thing, FAULT_OF_TOCSIN)

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
                self._suspend(step, entry.job_id, entry.tenant_id)
        return True

    def knows_job(self, job_id: str) -> bool:
        """Tell whether reading this job's snapshot is what fails."""
        return (JOB, job_id) in self._culprits

    def _suspend(self, step: Step, job_id: str, tenant_id: str) -> None:
        """Pause the job, by a command on our own partition: only commands make versions."""
        command = Command(CommandKind.PAUSE, job_id=job_id, tenant_id=tenant_id, reason=SUSPENDED)
        value = self._codec.encode_command(command)
        step.records.append(NewRecord(COMMANDS, self._shard, shard_key(job_id), value))
        step.alerts.append(Alert(AlertKind.SUSPENDED, step.now, tenant_id, job_id, message=SUSPENDED))
        step.turn = True
