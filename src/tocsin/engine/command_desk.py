"""Takes commands in, and has them decided in log order.

A command that needs a job which is not in memory waits for its row, and all later commands of the shard wait behind
it: their order is the log's. One that came to the wrong shard is passed on, once.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import islice
from typing import Final

from tocsin.domain import ids
from tocsin.domain.commands import LATER_KINDS, Command, CommandKind, CommandOutcome, OutcomeDetail
from tocsin.domain.definitions import parse, parse_tenant, to_mapping
from tocsin.domain.errors import CallerError, Fault, InvalidInput, Undecodable
from tocsin.domain.fields import has_surrogate, shown
from tocsin.domain.fleet import DEAD_LETTER_BYTES_MAX, DeadLetter
from tocsin.domain.instants import EARLIEST, LATEST, MILLISECOND, Micros
from tocsin.domain.jobs import Job, JobState
from tocsin.domain.sharding import shard_key, shard_of
from tocsin.engine.effects import Step
from tocsin.engine.job_commands import Answer, JobCommands, Order
from tocsin.engine.outbox import Outbox
from tocsin.engine.shard_state import ShardState
from tocsin.ports.codec import RecordCodec
from tocsin.ports.shard_log import COMMANDS, DEAD_LETTERS, OUTCOMES, LogRecord, NewRecord

LOOK_AHEAD: Final = 64
"""How many waiting commands are looked at for rows to read beforehand."""
COMMAND_ID_CHARS_MAX: Final = 100
REASON_CHARS_MAX: Final = 500
FRESH_MS: Final = 600_000
FRESH_IDS_MAX: Final = 100_000
SHOWN_OUTCOME_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Waiting:
    """A record that is not decided yet: checked as far as it can be without its job.

    Attributes:
        command: what it says; of an unreadable one, nothing.
        order: None where it is faulty, or belongs to another shard.
        faults: what is wrong with it.
        passed_to: the shard that it belongs to, where that is another.
        needs_row: its job must be known before it is decided.
    """

    record: LogRecord
    command: Command
    order: Order | None = None
    faults: tuple[Fault, ...] = ()
    passed_to: int | None = None
    needs_row: bool = False

    @property
    def size(self) -> int:
        """Bytes of the record's value."""
        return len(self.record.value or b"")


class FreshIds:
    """Tells which made ids can have no job yet, so that creates go on while the store is away.

    An id that tocsin makes carries its time. One that was made after this owner began, and not long before its
    command, is new unless this owner has seen it; it remembers those. All others may be anybody's repetition.
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[str, int] = OrderedDict()
        self._after_ms: int | None = None

    def is_new(self, job_id: str, at: Micros) -> bool:
        """Tell whether no job can stand under an id whose create's record has this timestamp."""
        at_ms = at // MILLISECOND
        if self._after_ms is None:
            # The first command that we see: whatever was made before it may have been seen by a predecessor.
            self._after_ms = at_ms
        made_ms = ids.job_made_at_ms(job_id)
        return (
            made_ms is not None
            and self._after_ms < made_ms
            and abs(at_ms - made_ms) <= FRESH_MS
            and job_id not in self._seen
        )

    def remember(self, job_id: str) -> None:
        """A job was created under a made id."""
        made_ms = ids.job_made_at_ms(job_id)
        if made_ms is None:
            return
        self._seen[job_id] = made_ms
        if len(self._seen) > FRESH_IDS_MAX:
            _, forgotten_ms = self._seen.popitem(last=False)
            self._after_ms = max(self._after_ms or 0, forgotten_ms)


class CommandDesk:
    """The commands of one shard: those that wait, and how each is decided."""

    def __init__(
        self, state: ShardState, outbox: Outbox, commands: JobCommands, codec: RecordCodec, outcome_partitions: int
    ) -> None:
        self._state = state
        self._outbox = outbox
        self._commands = commands
        self._codec = codec
        self._outcome_partitions = outcome_partitions
        self._waiting: deque[Waiting] = deque()
        self.bytes_waiting = 0
        self._fresh = FreshIds()
        self._rows: dict[str, Job | None] = {}
        """Jobs as read from their rows, until a command concerns them."""
        self._reading: set[str] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def receive(self, record: LogRecord) -> None:
        """Take a record in; it is decided when its turn comes. One already applied is ignored."""
        expected = self._waiting[-1].record.offset + 1 if self._waiting else self._state.commands_offset
        if record.offset >= expected:
            one = self._read(record)
            self._waiting.append(one)
            self.bytes_waiting += one.size

    def row_read(self, job_id: str, snapshot: bytes | None) -> None:
        """A job's row has been read."""
        if job_id in self._reading:
            self._reading.discard(job_id)
            try:
                # What a row says is acknowledged, the deletes of the rows that it replaced included.
                job = None if snapshot is None else self._codec.decode_job(snapshot)
                self._rows[job_id] = None if job is None else replace(job, replaced=())
            except Undecodable:
                # One damaged row must not stop the shard: its job is answered as unknown.
                self._rows[job_id] = None

    def apply(self, step: Step, limit: int, bytes_max: int) -> None:
        """Decide waiting commands in order, up to the bounds or to the first that needs a row that is not there yet."""
        applied = 0
        room = bytes_max
        while self._waiting and applied < limit and room > 0:
            one = self._waiting[0]
            if one.order is not None and one.needs_row and not self._is_known(one.order.job_id):
                break
            self._waiting.popleft()
            room -= one.size
            self.bytes_waiting -= one.size
            self._decide(step, one)
            if one.order is not None:
                self._rows.pop(one.order.job_id, None)
            self._state.commands_offset = one.record.offset + 1
            applied += 1
        step.turn = step.turn or applied > 0
        self._ask_for_rows(step)

    def _is_known(self, job_id: str) -> bool:
        return self._outbox.job(job_id) is not None or job_id in self._rows

    def _ask_for_rows(self, step: Step) -> None:
        """Ask for the rows that waiting commands need, but for jobs that an earlier waiting command will change."""
        earlier: set[str] = set()
        for one in islice(self._waiting, LOOK_AHEAD):
            if one.order is None:
                continue
            job_id = one.order.job_id
            if one.needs_row and job_id not in earlier | self._reading and not self._is_known(job_id):
                self._reading.add(job_id)
                step.job_reads.append(job_id)
            earlier.add(job_id)

    def _read(self, record: LogRecord) -> Waiting:
        """Check a record as far as it can be checked without its job."""
        try:
            command = self._codec.decode_command(record.value)
        except Undecodable as error:
            size = f"{len(record.value or b'')} bytes"
            remedy = "send a JobCommand as JSON, or in Avro single-object encoding"
            return Waiting(record, Command("unknown"), faults=(Fault("", size, str(error), remedy),))
        try:
            if not EARLIEST <= record.timestamp <= LATEST:
                remedy = "produce with the present time as the record's timestamp"
                raise InvalidInput(
                    [Fault("", f"{record.timestamp} µs", "has a timestamp outside 1970 to 2199", remedy)]
                )
            if command.kind not in CommandKind.__members__.values():
                raise InvalidInput([_unknown_kind(command.kind)])
            tenant_id = parse_tenant(command.tenant_id)
            _check_envelope(command)
            command_id = self._command_id(record, command)
            job_id = self._job_id(record, command, tenant_id)
            owner = shard_of(job_id, self._state.shards)
            if owner != self._state.shard and command.definition is not None:
                # Passed on as it will be read: what is wrong with it is said here, and nothing is left out on the way.
                command = replace(command, definition=to_mapping(parse(command.definition)))
        except InvalidInput as error:
            return Waiting(record, command, faults=error.faults)
        order = Order(
            command, command_id, tenant_id, job_id, ids.version_of(self._state.epoch, record.offset), record.timestamp
        )
        if owner != self._state.shard:
            return self._misplaced(record, order, owner)
        derived = command.job_id is None and ids.is_made_job_id(job_id)
        is_new = command.kind == CommandKind.CREATE and (derived or self._fresh.is_new(job_id, record.timestamp))
        if is_new:
            self._fresh.remember(job_id)
        return Waiting(record, command, order, needs_row=not is_new)

    def _misplaced(self, record: LogRecord, order: Order, owner: int) -> Waiting:
        command = replace(order.command, job_id=order.job_id, command_id=order.command_id)
        if command.forwarded_from is None:
            origin = f"{self._state.shard}/{record.offset}"
            return Waiting(record, replace(command, forwarded_from=origin), passed_to=owner)
        remedy = "leave forwarded_from out"
        problem = f"was forwarded to shard {self._state.shard}, but belongs to {owner}"
        return Waiting(record, command, faults=(Fault("forwarded_from", command.forwarded_from[:64], problem, remedy),))

    def _command_id(self, record: LogRecord, command: Command) -> str:
        derived = f"{self._state.epoch}.{self._state.shard}.{record.offset}"
        if command.command_id is None:
            return derived
        if 0 < len(command.command_id) <= COMMAND_ID_CHARS_MAX and ids.COMMAND_ID.fullmatch(command.command_id):
            return command.command_id
        remedy = f"give 1 to {COMMAND_ID_CHARS_MAX} letters, digits, dots, hyphens and underscores, or leave it out"
        raise InvalidInput([Fault("command_id", shown(command.command_id), "is not a command's id", remedy)])

    def _job_id(self, record: LogRecord, command: Command, tenant_id: str) -> str:
        """Return the full id of the job that a command concerns.

        Raises:
            InvalidInput: it names none, or one that is no id of this tenant.
        """
        key = (command.definition or {}).get("idempotency_key") if command.kind == CommandKind.CREATE else None
        if command.job_id is None:
            if isinstance(key, str):
                return ids.keyed_job_id(tenant_id, key)
            if command.kind == CommandKind.CREATE:
                return self._derived_job_id(record)
            raise InvalidInput([Fault("job_id", "None", "is missing", "name the job that the command concerns")])
        job_id = ids.full_job_id(tenant_id, command.job_id)
        if job_id is None:
            remedy = (
                "give 1 to 64 letters, digits, hyphens and underscores, in front of them at most the own tenant and @"
            )
            raise InvalidInput([Fault("job_id", shown(command.job_id), "is not a job id of this tenant", remedy)])
        if isinstance(key, str) and job_id != ids.keyed_job_id(tenant_id, key):
            remedy = "give one of job_id and idempotency_key"
            raise InvalidInput([Fault("job_id", shown(command.job_id), "stands beside an idempotency_key", remedy)])
        return job_id

    def _derived_job_id(self, record: LogRecord) -> str:
        """Make an id from the record's place in the log, the same at every replay, that belongs to this shard."""
        seed = f"{self._state.epoch}/{self._state.shard}/{record.offset}"
        for nonce in range(1_000_000):
            job_id = ids.made_job_id(blake2b(f"{seed}/{nonce}".encode(), digest_size=16).hexdigest())
            if shard_of(job_id, self._state.shards) == self._state.shard:
                return job_id
        raise AssertionError("a hash that never hits one of a few shards is no hash")

    def _decide(self, step: Step, one: Waiting) -> None:
        if one.passed_to is not None:
            self._pass_on(step, one, one.passed_to)
        elif one.order is None:
            self._reject(step, one, one.faults)
        else:
            mark = step.mark()
            try:
                self._answer(step, one, self._carry_out(step, one.order))
            except InvalidInput as error:
                self._reject(step, one, error.faults)
            except (ValueError, TypeError, KeyError, OverflowError, ArithmeticError, CallerError) as error:
                # No command may stop its shard: what was put into the step is taken back, and the record set aside.
                step.back_to(mark)
                problem = f"cannot be carried out: {type(error).__name__}: {error}"[:500]
                self._reject(step, one, (Fault("", "the command", problem, "report this as a fault of tocsin"),))

    def _carry_out(self, step: Step, order: Order) -> Answer:
        job = self._outbox.job(order.job_id) or self._rows.get(order.job_id)
        kind = CommandKind(order.command.kind)
        if kind is CommandKind.CREATE:
            return self._commands.create(step, order, job)
        if job is None or job.tenant_id != order.tenant_id or job.state is JobState.DELETED:
            fault = Fault("job_id", shown(order.job_id), "is not a job of this tenant", "check the id and the tenant")
            return Answer(False, OutcomeDetail.NOT_FOUND, faults=(fault,))
        wanted = order.command.if_version
        if wanted is not None and wanted != job.version:
            fault = Fault("if_version", str(wanted), f"the job is at version {job.version}", "read it and decide again")
            return Answer(False, OutcomeDetail.STALE_VERSION, job, faults=(fault,))
        carry_out = {
            CommandKind.UPDATE: self._commands.update,
            CommandKind.PAUSE: self._commands.pause,
            CommandKind.RESUME: self._commands.resume,
            CommandKind.TRIGGER: self._commands.trigger,
            CommandKind.DELETE: self._commands.delete,
        }[kind]
        return carry_out(step, order, job)

    def _pass_on(self, step: Step, one: Waiting, owner: int) -> None:
        """Send a misplaced command to its shard, with its timestamp and reply address; the owner answers it."""
        value = self._codec.encode_command(one.command)
        key = shard_key(one.command.job_id or "")
        step.records.append(NewRecord(COMMANDS, owner, key, value, one.record.timestamp))
        step.tally.forwarded += 1

    def _reject(self, step: Step, one: Waiting, faults: tuple[Fault, ...]) -> None:
        """Answer, and keep the record's bytes: nothing that was sent is lost without a trace."""
        self._answer(step, one, Answer(False, OutcomeDetail.INVALID, faults=faults))
        record, command = one.record, one.command
        letter = DeadLetter(
            "record",
            "; ".join(map(str, faults))[:1000],
            step.now,
            COMMANDS,
            self._state.shard,
            record.offset,
            (record.value or b"")[:DEAD_LETTER_BYTES_MAX],
            _cut(command.tenant_id),
            _cut(command.job_id),
        )
        key = f"{COMMANDS}/{self._state.shard}/{record.offset}"
        step.records.append(NewRecord(DEAD_LETTERS, self._state.shard, key, self._codec.encode_dead_letter(letter)))
        step.tally.dead_letters["record"] = step.tally.dead_letters.get("record", 0) + 1

    def _answer(self, step: Step, one: Waiting, answer: Answer) -> None:
        command, order = one.command, one.order
        derived = f"{self._state.epoch}.{self._state.shard}.{one.record.offset}"
        command_id = order.command_id if order else (command.command_id or derived)[:COMMAND_ID_CHARS_MAX]
        job_id = order.job_id if order else _cut(command.job_id) or ""
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
        known_kind = command.kind in CommandKind.__members__.values()
        step.tally.commands.append((command.kind if known_kind else "unknown", answer.accepted))


def _check_envelope(command: Command) -> None:
    """Check the fields around a definition."""
    partition, reason = command.reply_partition, command.reason
    if partition is not None and not 0 <= partition < 2**31:
        remedy = "give the partition of the outcomes topic that you read"
        raise InvalidInput([Fault("reply_partition", shown(partition), "is no partition", remedy)])
    if reason is not None and (len(reason) > REASON_CHARS_MAX or has_surrogate(reason)):
        remedy = f"give at most {REASON_CHARS_MAX} characters of well-formed text"
        raise InvalidInput([Fault("reason", shown(reason), f"is no reason of {len(reason)} characters", remedy)])


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:SHOWN_OUTCOME_CHARS]


def _unknown_kind(kind: str) -> Fault:
    known = ", ".join(CommandKind)
    if kind in LATER_KINDS:
        return Fault("kind", shown(kind), f"is not supported yet: {LATER_KINDS[kind]}", f"use one of: {known}")
    return Fault("kind", shown(kind), "is not a kind of command", f"use one of: {known}")
