"""Takes commands in, and has them decided in log order.

A command that needs a job which is not in memory waits for its row, and all later commands of the shard wait behind
it: their order is the log's. If the row is slow to come it is parked, and only later commands of its job wait. One that
came to the wrong shard is passed on, once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Final

from tocsin.domain import ids
from tocsin.domain.commands import CommandKind, CommandOutcome, OutcomeDetail
from tocsin.domain.errors import CallerError, Fault, InvalidInput
from tocsin.domain.fields import shown
from tocsin.domain.fleet import DEAD_LETTER_BYTES_MAX, DeadLetter
from tocsin.domain.instants import Micros
from tocsin.domain.jobs import Job, JobState
from tocsin.domain.recurrence import TZDATA_VERSION
from tocsin.domain.sharding import shard_key
from tocsin.engine.cancellations import Cancellations
from tocsin.engine.command_reader import COMMAND_ID_CHARS_MAX, KINDS, CommandReader, Waiting
from tocsin.engine.dead_letters import set_aside
from tocsin.engine.effects import Step
from tocsin.engine.ended_jobs import EndedJobs
from tocsin.engine.fresh_ids import FreshIds
from tocsin.engine.held import HeldEntries
from tocsin.engine.job_commands import Answer, JobCommands, Order
from tocsin.engine.job_rows import JobRows
from tocsin.engine.outbox import Outbox
from tocsin.engine.own_commands import NO_JOB, OwnCommands, OwnNote, is_for_owners
from tocsin.engine.parking import Parking, ParkingLimits
from tocsin.engine.redrives import Redrives
from tocsin.engine.retry_pauses import RetryPauses
from tocsin.engine.shard_state import ShardState
from tocsin.engine.suspects import COMMAND, Severity, Suspect, SuspectId
from tocsin.ports.codec import RecordCodec
from tocsin.ports.shard_log import COMMANDS, OUTCOMES, LogRecord, NewRecord

LOOK_AHEAD: Final = 64
"""How many waiting commands are looked at for rows to read beforehand."""
PARKED_READS_MAX: Final = 64
"""With so many reads under way, none is begun for parked commands."""
SHOWN_OUTCOME_CHARS: Final = 200
UNREADABLE: Final = ""
"""In place of a job's id: parked by a predecessor that could read it, and by us only to be refused."""


@dataclass(slots=True)
class Room:
    """What is left of a step's share for commands."""

    commands: int
    bytes: int
    used: bool = False

    @property
    def left(self) -> bool:
        return self.commands > 0 and self.bytes > 0

    def take(self, size: int) -> None:
        self.commands -= 1
        self.bytes -= size
        self.used = True


class CommandDesk:
    """The commands of one shard: those that wait, those that are parked, and how each is decided."""

    def __init__(
        self,
        state: ShardState,
        outbox: Outbox,
        commands: JobCommands,
        redrives: Redrives,
        retry_pauses: RetryPauses,
        cancellations: Cancellations,
        held: HeldEntries,
        own: OwnCommands,
        rows: JobRows,
        ended: EndedJobs,
        codec: RecordCodec,
        outcome_partitions: int,
        limits: ParkingLimits,
        culprits: Mapping[SuspectId, Severity] = MappingProxyType({}),
    ) -> None:
        self._culprits = culprits
        self._state = state
        self._outbox = outbox
        self._commands = commands
        self._redrives = redrives
        self._retry_pauses = retry_pauses
        self._cancellations = cancellations
        self._codec = codec
        self._outcome_partitions = outcome_partitions
        self._own = own
        self._reader = CommandReader(state, own, codec, culprits)
        self._fresh = FreshIds()
        self._rows = rows
        self._ended = ended
        self.parking = Parking(state, held, self._reader, limits)
        self._waiting: deque[Waiting] = deque()
        self.bytes_waiting = 0
        self._ready: deque[str] = deque([UNREADABLE] if self.parking.has(UNREADABLE) else [])
        """Jobs with parked commands whose rows have come."""
        self._rebuilds: list[Order] = []
        """Waiting orders to rebuild the index."""
        self._refused_zone_data: str | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def receive(self, record: LogRecord, now: Micros) -> None:
        """Take a record in; it is decided when its turn comes. One already applied is ignored."""
        expected = self._waiting[-1].record.offset + 1 if self._waiting else self._state.commands_offset
        if record.offset < expected:
            return
        one = self._reader.read(record)
        if one.order is not None and one.command.kind == CommandKind.CREATE:
            job_id = one.order.job_id
            derived = one.command.job_id is None and ids.is_made_job_id(job_id)
            if derived or self._fresh.is_new(job_id, now):
                one.needs_row = False
            self._fresh.remember(job_id, now)
        elif one.order is not None and one.command.kind == CommandKind.CANCEL:
            one.needs_row = False
        elif one.order is not None and one.command.kind == CommandKind.REBUILD_INDEX:
            self._rebuilds.append(one.order)
        self._waiting.append(one)
        self.bytes_waiting += one.size

    def rebuild_now(self, step: Step) -> None:
        """Begin the waiting rebuilds before their turn: what they wait behind may be waiting for a row that is lost."""
        while self._rebuilds:
            self._commands.rebuild_index(step, self._rebuilds.pop(0))

    def row_read(self, job_id: str, snapshot: bytes | None, now: Micros) -> None:
        """A job's row has been read."""
        if self._rows.answered(job_id, snapshot, now):
            self._ended.row_read()
            if self.parking.has(job_id):
                self._ready.append(job_id)

    def apply(self, step: Step, limit: int, bytes_max: int) -> None:
        """Decide in order, up to the bounds: what is parked and can be decided, then what waits.

        The first that needs a row which is not there yet ends the step's share, unless that row is slow to come: then
        it is parked, and what comes after it goes on.
        """
        room = Room(limit, bytes_max)
        self._fresh.begin(step.now)
        self._apply_parked(step, room)
        while self._waiting and room.left:
            if self.zone_data_wanted is not None:
                break
            one = self._waiting[0]
            order = one.order
            if order is not None and self.parking.has(order.job_id):
                # Log order: what was parked of this job comes first.
                ready = False
            else:
                ready = order is None or not one.needs_row or self._is_known(order.job_id)
            if not ready:
                assert order is not None
                # Nobody waits for an owner's own command, so nobody is to wait behind it.
                slow = one.is_own or self.parking.has(order.job_id) or self._rows.is_slow(order.job_id, step.now)
                if not slow or not self.parking.has_room(one):
                    break
                self.parking.park(step, one)
            self._waiting.popleft()
            self.bytes_waiting -= one.size
            self._state.commands_offset = one.record.offset + 1
            room.take(self._decide(step, one) if ready else one.size)
        step.turn = step.turn or room.used
        self._ask_for_rows(step)
        self._rows.trim()

    def _apply_parked(self, step: Step, room: Room) -> None:
        while self._ready and room.left:
            job_id = self._ready[0]
            one = self.parking.first(job_id)
            if one is None:
                self._ready.popleft()
            elif job_id != UNREADABLE and not self._is_known(job_id):
                self._ready.popleft()
                self.parking.ask_again(job_id)
            else:
                self.parking.unpark(step, job_id)
                room.take(self._decide(step, one))

    @property
    def zone_data_wanted(self) -> str | None:
        """The zone data that the next command names and this process does not have; None where there is no such."""
        one = self._waiting[0] if self._waiting else None
        if one is None or one.order is None or one.command.kind != CommandKind.SET_ZONE_DATA:
            return None
        return one.command.zone_data if one.command.zone_data not in (TZDATA_VERSION, self._refused_zone_data) else None

    def refuse_zone_data(self, release: str) -> None:
        """Reject the next command where it names this release: the cluster works by another."""
        self._refused_zone_data = release

    def _is_known(self, job_id: str) -> bool:
        return self._outbox.job(job_id) is not None or self._rows.get(job_id) is not None

    def _ask_for_rows(self, step: Step) -> None:
        """Ask for the rows that commands need, but for jobs that an earlier waiting command will change."""
        for job_id in self.parking.to_ask(PARKED_READS_MAX - self._rows.under_way):
            if self._is_known(job_id):
                self._ready.append(job_id)
            elif not self._rows.is_asked(job_id):
                self._ask(step, job_id)
        earlier: set[str] = set()
        for one in islice(self._waiting, LOOK_AHEAD):
            if one.order is None:
                continue
            job_id = one.order.job_id
            wanted = one.needs_row and job_id not in earlier and not self.parking.has(job_id)
            if wanted and not self._rows.is_asked(job_id) and not self._is_known(job_id):
                self._ask(step, job_id)
            earlier.add(job_id)

    def _ask(self, step: Step, job_id: str) -> None:
        self._rows.ask(job_id, step.now)
        step.job_reads.append(job_id)

    def _decide(self, step: Step, one: Waiting) -> int:
        """Decide one; return its size, or that of what it led to: a small command may concern a large job or run."""
        records, jobs, size = len(step.records), len(step.jobs), step.bytes
        step.at_hand = Suspect(COMMAND, one.record)
        if one.passed_to is not None:
            self._pass_on(step, one, one.passed_to)
        elif one.order is None:
            self._reject(step, one, one.faults)
        else:
            self._decide_order(step, one, one.order)
        made = sum(len(record.value or b"") for record in [*step.records[records:], *step.jobs[jobs:]])
        return max(one.size, made + step.bytes - size)

    def _decide_order(self, step: Step, one: Waiting, order: Order) -> None:
        note = self._own.take(step, order.command_id, order.command.kind, order.job_id)
        mark = step.mark()
        try:
            answer = self._carry_out(step, order, note)
            if note is None:
                self._answer(step, one, answer)
            else:
                # Nobody waits for it.
                step.tally.commands.append((note.kind, answer.accepted))
        except InvalidInput as error:
            self._reject(step, one, error.faults)
        except (ValueError, TypeError, KeyError, OverflowError, ArithmeticError, CallerError) as error:
            # No command may stop its shard: what was put into the step is taken back, and the record set aside.
            step.back_to(mark)
            problem = f"cannot be carried out: {type(error).__name__}: {error}"[:500]
            self._reject(step, one, (Fault("", "the command", problem, "report this as a fault of tocsin"),))
        if self._outbox.job(order.job_id) is not None:
            self._rows.forget(order.job_id)

    def _carry_out(self, step: Step, order: Order, note: OwnNote | None) -> Answer:
        kind = CommandKind(order.command.kind)
        if kind is CommandKind.REBUILD_INDEX:
            begun = order not in self._rebuilds
            self._rebuilds = [other for other in self._rebuilds if other is not order]
            return Answer(True, OutcomeDetail.BEGUN) if begun else self._commands.rebuild_index(step, order)
        if kind is CommandKind.END:
            assert note is not None, "others are refused as they are read"
            return self._ended.begin(step, order, note)
        if kind is CommandKind.SET_ZONE_DATA:
            return self._agree_on_zone_data(step, order)
        if kind is CommandKind.RESUME_RETRIES:
            resumed = self._retry_pauses.resume(step, order.tenant_id)
            return Answer(True, OutcomeDetail.RESUMED if resumed else OutcomeDetail.UNCHANGED)
        if kind is CommandKind.CANCEL:
            return self._cancellations.cancel(step, order)
        job = self._job(order)
        if kind is CommandKind.CREATE:
            return self._commands.create(step, order, job)
        if job is None or job.tenant_id != order.tenant_id or job.state is JobState.DELETED:
            fault = Fault("job_id", shown(order.job_id), "is not a job of this tenant", "check the id and the tenant")
            return Answer(False, OutcomeDetail.NOT_FOUND, faults=(fault,))
        wanted = order.command.if_version
        if wanted is not None and wanted != job.version:
            fault = Fault("if_version", str(wanted), f"the job is at version {job.version}", "read it and decide again")
            return Answer(False, OutcomeDetail.STALE_VERSION, job, faults=(fault,))
        if is_for_owners(kind):
            return self._commands.by_owner(step, order, job, note)
        carry_out = {
            CommandKind.UPDATE: self._commands.update,
            CommandKind.PAUSE: self._commands.pause,
            CommandKind.RESUME: self._commands.resume,
            CommandKind.TRIGGER: self._commands.trigger,
            CommandKind.REDRIVE: self._redrives.redrive,
            CommandKind.DELETE: self._commands.delete,
        }[kind]
        return carry_out(step, order, job)

    def _agree_on_zone_data(self, step: Step, order: Order) -> Answer:
        """Confirm the release that this process has; what names another one comes here only once it is refused."""
        release = order.command.zone_data
        self._refused_zone_data = None
        if release == TZDATA_VERSION:
            return self._commands.report_moves(step, order)
        remedy = "change it by `tocsin tz set`"
        fault = Fault("zone_data", shown(release), f"the cluster works by {TZDATA_VERSION}", remedy)
        return Answer(False, OutcomeDetail.CONFLICT, faults=(fault,))

    def _job(self, order: Order) -> Job | None:
        """Return what stands under an order's id.

        Raises:
            InvalidInput: a damaged row does.
        """
        job, row = self._outbox.job(order.job_id), self._rows.get(order.job_id)
        if job is not None or row is None:
            return job
        if row.damage is not None:
            self._rows.forget(order.job_id)
            remedy = "have the index rebuilt from the log, and send the command again"
            raise InvalidInput([Fault("job_id", shown(order.job_id), f"has a damaged row: {row.damage}", remedy)])
        return row.job

    def _pass_on(self, step: Step, one: Waiting, owner: int) -> None:
        """Send a misplaced command to its shard, with its timestamp and reply address; the owner answers it."""
        value = self._codec.encode_command(one.command)
        key = shard_key(one.command.job_id or "")
        step.records.append(NewRecord(COMMANDS, owner, key, value, one.record.timestamp))
        step.tally.forwarded += 1

    def _reject(self, step: Step, one: Waiting, faults: tuple[Fault, ...]) -> None:
        """Answer, and keep the record's bytes: nothing that was sent is lost without a trace."""
        severity = self._culprits.get(Suspect(COMMAND, one.record).id) if self._culprits else None
        if severity is Severity.PASSED_OVER:
            return
        self._answer(step, one, Answer(False, OutcomeDetail.INVALID, faults=faults))
        record, command = one.record, one.command
        letter = DeadLetter(
            "record",
            "; ".join(map(str, faults))[:1000],
            step.now,
            COMMANDS,
            self._state.shard,
            record.offset,
            b"" if severity is Severity.BARE else (record.value or b"")[:DEAD_LETTER_BYTES_MAX],
            _cut(command.tenant_id),
            _cut(command.job_id),
        )
        key = f"{COMMANDS}/{self._state.shard}/{record.offset}"
        set_aside(step, self._codec, self._state.shard, key, letter)

    def _answer(self, step: Step, one: Waiting, answer: Answer) -> None:
        command, order = one.command, one.order
        if order is not None:
            command_id = order.command_id
        else:
            derived = f"{self._state.epoch}.{self._state.shard}.{one.record.offset}"
            command_id = (command.command_id or derived)[:COMMAND_ID_CHARS_MAX]
        job_id = order.job_id if order else _cut(command.job_id) or ""
        job_id = "" if job_id == NO_JOB else job_id
        outcome = CommandOutcome(
            command_id,
            command.kind[:32],
            job_id,
            order.tenant_id if order else _cut(command.tenant_id) or ids.DEFAULT_TENANT,
            answer.accepted,
            answer.detail,
            step.now,
            answer.faults,
            answer.job.version if answer.job else 0,
            answer.snapshot,
            answer.execution_id,
        )
        partition = command.reply_partition or 0
        if not 0 <= partition < self._outcome_partitions:
            partition = 0
        step.records.append(NewRecord(OUTCOMES, partition, command_id, self._codec.encode_outcome(outcome)))
        step.tally.commands.append((command.kind if command.kind in KINDS else "unknown", answer.accepted))


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:SHOWN_OUTCOME_CHARS]
