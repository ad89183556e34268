"""Running a dead execution again under its own id: what the command says, and what it must say.

Attempts go on counting where they ended, so that history keeps each; the retry policy begins anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tocsin.domain import ids
from tocsin.domain.commands import Command
from tocsin.domain.errors import Fault, InvalidInput, Undecodable
from tocsin.domain.fields import shown
from tocsin.domain.instants import DAY, Micros, parse_rfc3339
from tocsin.domain.schedules import RUN_AT_REMEDY

AHEAD_MAX: Final = DAY
"""How far ahead a redrive may be put off."""
COUNT_MAX: Final = 1_000_000
"""Attempts and redrives that an execution may have behind it: it is retried at most so often."""
_AGAIN: Final = "give what the history of the run says of its last attempt"


@dataclass(frozen=True, slots=True)
class Redrive:
    """A redrive whose command is well-formed.

    Attributes:
        execution_id: what is run again.
        created_version: of the job that it belongs to.
        scheduled_for: its nominal time, µs.
        attempts_before: how many attempts it has had.
        redrives: how often it has been redriven, with this time.
        not_before: when it is attempted, µs; None: at once.
    """

    execution_id: str
    created_version: int
    scheduled_for: Micros
    attempts_before: int
    redrives: int
    not_before: Micros | None


def parse_redrive(command: Command, job_id: str, at: Micros) -> Redrive:
    """Read the command of a redrive.

    Args:
        command: of that kind.
        job_id: whose execution it must name, in full.
        at: timestamp of the command's record, µs.

    Raises:
        InvalidInput: with every fault that was found.
    """
    faults: list[Fault] = []
    name = None
    try:
        name = ids.parse_execution_id(command.execution_id or "")
    except Undecodable as error:
        remedy = "name the execution that is to run again"
        faults.append(Fault("execution_id", shown(command.execution_id), str(error), remedy))
    if name is not None and name.job_id != job_id:
        remedy = "send it to the job that the execution id begins with"
        faults.append(Fault("execution_id", shown(command.execution_id), f"is no execution of {job_id}", remedy))
    attempts, redrives = command.attempts_before, command.redrives_before or 0
    if attempts is None or not 1 <= attempts <= COUNT_MAX:
        faults.append(Fault("attempts_before", shown(attempts), "is no number of attempts", _AGAIN))
    if not 0 <= redrives <= COUNT_MAX:
        faults.append(Fault("redrives_before", shown(redrives), "is no number of redrives", _AGAIN))
    not_before = None
    if command.not_before is not None:
        try:
            not_before = parse_rfc3339(command.not_before[:64])
        except ValueError as error:
            faults.append(Fault("not_before", shown(command.not_before[:64]), str(error), RUN_AT_REMEDY))
        if not_before is not None and not_before > at + AHEAD_MAX:
            remedy = "give a time within a day of the command"
            faults.append(Fault("not_before", shown(command.not_before), "is too far ahead", remedy))
    if faults or name is None or attempts is None or command.execution_id is None:
        raise InvalidInput(faults)
    return Redrive(command.execution_id, name.created_version, name.scheduled_for, attempts, redrives + 1, not_before)
