"""Commands that an owner gives to itself: what it changes of a job by its own decision goes through the log as well.

So only commands make versions. In the turn that appends such a command its state notes that it is to come, and a
command of these kinds that is not noted is anybody's, and refused: nobody else can write the state.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from tocsin.domain.alerts import Alert, AlertKind
from tocsin.domain.commands import Command, CommandKind
from tocsin.domain.instants import Micros
from tocsin.domain.shard_records import EndNote, WorkItem
from tocsin.domain.sharding import shard_key
from tocsin.engine.effects import Step
from tocsin.engine.shard_state import ShardState
from tocsin.ports.codec import RecordCodec
from tocsin.ports.shard_log import COMMANDS, NewRecord

SUSPENDED: Final = "suspended"
"""The reasons of suspensions begin with it; a person's own reason may say anything."""
NO_JOB: Final = "*"
"""In place of a job's id, in what concerns a whole shard."""
ENDS_IN_A_COMMAND: Final = 500
"""So many jobs are ended by one command at most; each takes some 60 bytes in the state until it is decided."""
OWN: Final = "own"
"""Kind of the work items that say which own commands are under way; they wait for those to be decided."""


OWN_KINDS: Final = frozenset(
    {CommandKind.SUSPEND, CommandKind.FINISH, CommandKind.MOVE, CommandKind.REMOVE, CommandKind.END}
)


class OwnNote(NamedTuple):
    """What the state notes of an own command.

    Attributes:
        kind: of the command.
        job_id: in full; ``NO_JOB`` where it concerns many.
        version: of the job that it was given for; of another it changes nothing.
        pending: of a suspension: the nominal time of the occurrence that was set aside, µs.
        moves: of a move: from when to when, µs; for people to read.
        jobs: of a command that ends jobs: which.
    """

    kind: str
    job_id: str
    version: int
    pending: Micros | None = None
    moves: tuple[Micros, Micros] | None = None
    jobs: Sequence[EndNote] = ()


class OwnCommands:
    """The own commands of one shard that are under way."""

    def __init__(self, state: ShardState, codec: RecordCodec) -> None:
        self._state = state
        self._codec = codec

    def send(self, step: Step, note: OwnNote, tenant_id: str | None, *, reason: str | None = None) -> None:
        """Append a command to the shard's own partition with this turn."""
        command_id = f"{OWN}.{self._state.epoch}.{self._state.shard}.{step.number}.{len(step.records)}"
        job_id = None if note.job_id == NO_JOB else note.job_id
        command = Command(
            note.kind, command_id, job_id, tenant_id, if_version=note.version, reason=reason, reply_partition=0
        )
        value = self._codec.encode_command(command)
        key = shard_key(note.job_id)
        step.records.append(NewRecord(COMMANDS, self._state.shard, key, value, step.now))
        # No job is named in the item: it outlives every change of the job, and is decided by its command alone.
        item = WorkItem(command_id, OWN, None, json.dumps(note))
        self._state.work[command_id] = item
        step.work.append(item)
        step.turn = True

    def end(self, step: Step, kind: CommandKind, job_id: str, version: int) -> None:
        """Have a job finished, or removed: with others that end in this turn, by one command. Of a job that was
        changed meanwhile nothing is said, for its new version looks after its own end."""
        void = self._state.voids.get(job_id)
        if void is None or version >= void.version:
            step.ends.append(EndNote(kind, job_id, version))
            step.turn = True

    def send_ends(self, step: Step) -> None:
        """Append the commands for all jobs that end in this turn, once it is decided."""
        for first in range(0, len(step.ends), ENDS_IN_A_COMMAND):
            ends = step.ends[first : first + ENDS_IN_A_COMMAND]
            self.send(step, OwnNote(CommandKind.END, NO_JOB, 0, jobs=ends), None)

    def suspend(
        self, step: Step, job_id: str, tenant_id: str, version: int, why: str, pending: Micros | None = None
    ) -> None:
        """Pause a job that cannot be served: its chain must not end without a word.

        Resumed, it is filed anew from its definition; a version that was made meanwhile goes on as it is.

        Args:
            step: the one that found out.
            job_id, tenant_id, version: of the job.
            why: for people to read.
            pending: the nominal time of the occurrence that was set aside, µs.
        """
        reason = f"{SUSPENDED}: {why}"[:500]
        self.send(step, OwnNote(CommandKind.SUSPEND, job_id, version, pending), tenant_id, reason=reason)
        step.alerts.append(Alert(AlertKind.SUSPENDED, step.now, tenant_id, job_id, message=reason))

    def note_of(self, command_id: str, kind: str, job_id: str) -> OwnNote | None:
        """Return what is noted of a command, None where it is not the owner's."""
        item = self._state.work.get(command_id)
        if item is None or item.kind != OWN:
            return None
        note = OwnNote(*json.loads(item.data))
        return note if (note.kind, note.job_id) == (kind, job_id) else None

    def take(self, step: Step, command_id: str, kind: str, job_id: str) -> OwnNote | None:
        """Return what is noted of a command that is decided now, and strike it out; a second one is anybody's."""
        note = self.note_of(command_id, kind, job_id)
        if note is not None:
            del self._state.work[command_id]
            step.work_done.append(command_id)
            step.turn = True
        return note


def is_for_owners(kind: str) -> bool:
    """Tell whether only an owner may give commands of a kind."""
    return kind in OWN_KINDS
