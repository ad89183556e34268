"""Commands that wait for the row of their job, kept in the state: their offsets are applied, so other jobs go on.

What is parked of one job is decided in log order, and before anything of that job fires: a due entry of such a job is
held (see ``held``) until the step that decides the last of the commands, and then decided, late.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tocsin.domain.entries import Entry
from tocsin.domain.shard_records import ParkedCommand
from tocsin.engine.command_reader import CommandReader, Waiting
from tocsin.engine.effects import Step
from tocsin.engine.held import HeldEntries
from tocsin.engine.shard_state import ShardState
from tocsin.ports.shard_log import LogRecord


@dataclass(frozen=True, slots=True)
class ParkingLimits:
    """Bounds of one shard's parking.

    Attributes:
        after_s: a read that takes longer is not waited for.
        commands_max, bytes_max: parked commands and their bytes; beyond, the commands of the shard wait.
    """

    after_s: float = 1.0
    commands_max: int = 10_000
    bytes_max: int = 16_000_000


class Parking:
    """The parked commands of one shard, by job."""

    def __init__(self, state: ShardState, held: HeldEntries, reader: CommandReader, limits: ParkingLimits) -> None:
        self._state = state
        self._held = held
        self._limits = limits
        self._by_job: dict[str, deque[Waiting]] = {}
        self._bytes = 0
        self._to_ask: deque[str] = deque()
        """Jobs whose rows are not asked for yet."""
        for command in sorted(state.parked.values()):
            record = LogRecord(state.shard, command.offset, command.timestamp, None, command.value)
            self._take_in(reader.read(record))
        self._released: deque[str] = deque(job_id for job_id in held.jobs() if not self.holds(job_id))

    def __len__(self) -> int:
        return len(self._state.parked)

    def jobs(self) -> Collection[str]:
        """Return the jobs of which commands are parked."""
        return self._by_job.keys()

    def has(self, job_id: str) -> bool:
        """Tell whether commands of a job are parked."""
        return job_id in self._by_job

    def holds(self, job_id: str) -> bool:
        """Tell whether what is due of a job waits: for commands that came to it, not for its owner's own.

        Those change nothing of a job of which something is due, and must not make it late.
        """
        parked = self._by_job.get(job_id)
        return parked is not None and any(not one.is_own for one in parked)

    def has_room(self, one: Waiting) -> bool:
        limits = self._limits
        return len(self) < limits.commands_max and self._bytes + one.size <= limits.bytes_max

    def park(self, step: Step, one: Waiting) -> None:
        """Keep a command in the state; it is decided after those of its job that were parked before."""
        record = one.record
        command = ParkedCommand(record.offset, record.timestamp, record.value or b"")
        self._state.parked[record.offset] = command
        step.parked.append(command)
        self._take_in(one)

    def first(self, job_id: str) -> Waiting | None:
        """Return the command of a job that is decided next."""
        parked = self._by_job.get(job_id)
        return parked[0] if parked else None

    def unpark(self, step: Step, job_id: str) -> Waiting:
        """Take out the command of a job that is decided now."""
        parked = self._by_job[job_id]
        one = parked.popleft()
        self._bytes -= one.size
        self._state.parked.pop(one.record.offset, None)
        step.unparked.append(one.record.offset)
        if not parked:
            del self._by_job[job_id]
        if self._held.has(job_id) and not self.holds(job_id):
            self._released.append(job_id)
        return one

    def to_ask(self, limit: int) -> Iterator[str]:
        """Yield up to ``limit`` jobs whose rows are to be asked for now."""
        while limit > 0 and self._to_ask:
            job_id = self._to_ask.popleft()
            if job_id in self._by_job:
                limit -= 1
                yield job_id

    def ask_again(self, job_id: str) -> None:
        """The row of a job has been forgotten before its parked commands were decided."""
        if job_id in self._by_job:
            self._to_ask.append(job_id)

    def released(self, step: Step, limit: int) -> Iterator[Entry]:
        """Yield entries that were held and that nothing stands before any more, at least ``limit`` if there are."""
        while limit > 0 and self._released:
            for entry in self._held.take(step, self._released.popleft()):
                limit -= 1
                yield entry

    def _take_in(self, one: Waiting) -> None:
        job_id = one.order.job_id if one.order is not None else ""
        parked = self._by_job.get(job_id)
        if parked is None:
            parked = self._by_job[job_id] = deque()
            self._to_ask.append(job_id)
        parked.append(one)
        self._bytes += one.size
