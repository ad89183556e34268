"""What becomes of timers when they are due: a command that the owner gives to itself, or another look later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tocsin.domain.commands import CommandKind
from tocsin.domain.entries import Entry
from tocsin.domain.errors import Undecodable
from tocsin.domain.timers import TimerKind, end_check, is_timer, note_of
from tocsin.engine.dispatch_desk import DispatchDesk
from tocsin.engine.effects import Step
from tocsin.engine.own_commands import OwnCommands, OwnNote
from tocsin.engine.shard_state import ShardState
from tocsin.engine.work import Work

END_BY: Final[Mapping[TimerKind, CommandKind]] = {
    TimerKind.FINISH: CommandKind.FINISH,
    TimerKind.REMOVE: CommandKind.REMOVE,
}


class Timers:
    """The timers of one shard."""

    def __init__(self, state: ShardState, dispatches: DispatchDesk, work: Work, own: OwnCommands) -> None:
        self._state = state
        self._dispatches = dispatches
        self._work = work
        self._own = own

    def ring(self, step: Step, entry: Entry) -> Entry | None:
        """A timer is due; return the one that follows it, None where none does."""
        try:
            note = note_of(entry.plan)
        except Undecodable as error:
            self._dispatches.set_aside(step, entry, str(error))
            return None
        if note.kind is TimerKind.FINISH and self._is_busy(entry):
            step.turn = True
            return end_check(entry, step.now)
        if note.kind is TimerKind.RESUME:
            self._own.send(step, OwnNote(CommandKind.RESUME, entry.job_id, entry.version), entry.tenant_id)
        else:
            self._own.end(step, END_BY[note.kind], entry.job_id, entry.version)
        return None

    def after_last(self, step: Step, entry: Entry) -> Entry:
        """Return the timer that follows a job's last occurrence, which is decided now and does not begin now."""
        return end_check(entry, step.now)

    def suspend(self, step: Step, entry: Entry, fault: str) -> None:
        """Have the job of a row that cannot be fired paused; nothing else would ever follow that row."""
        why = f"a row of it cannot be fired: {fault}"
        self._own.suspend(step, entry.job_id, entry.tenant_id, entry.version, why, entry.scheduled_for)

    def _is_busy(self, entry: Entry) -> bool:
        return self._work.has_job(entry.job_id) or not self._dispatches.admits_any(entry.execution_id)

    def derive_again(self, entry: Entry) -> Entry | None:
        """Return the timer that a former owner may not have stored after a row at or before the cursor.

        There is none where the execution of the row is active and will tell its job of its end. Where it has ended,
        or has never begun, one is set: what a check finds done already makes no new version, nor does a second check.
        """
        if self._dispatches.ends_job(entry.execution_id):
            return None
        try:
            if is_timer(entry) and note_of(entry.plan).kind is not TimerKind.FINISH:
                return None
            return end_check(entry, self._state.cursor.run_at)
        except Undecodable:
            return None
