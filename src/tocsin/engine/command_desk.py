"""Applies commands to jobs, in log order.

A command that needs a job which is not in memory waits for its row, and all later commands of the shard wait behind
it: their order is the log's. Everything that a command leads to is put into the step; nothing takes effect elsewhere.
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from itertools import islice
from typing import Final

from tocsin.domain import ids
from tocsin.domain.commands import LATER_KINDS, Command, CommandKind, CommandOutcome, OutcomeDetail
from tocsin.domain.definitions import parse, parse_tenant
from tocsin.domain.entries import Entry, EntryKey, Place
from tocsin.domain.errors import Fault, InvalidInput, Undecodable
from tocsin.domain.executions import AttemptHead
from tocsin.domain.fields import shown
from tocsin.domain.fleet import DEAD_LETTER_BYTES_MAX, DeadLetter
from tocsin.domain.instants import Micros
from tocsin.domain.jobs import Job, JobState
from tocsin.domain.schedules import first_occurrence
from tocsin.domain.shard_records import Void
from tocsin.domain.sharding import shard_of
from tocsin.engine.effects import Step
from tocsin.engine.outbox import Outbox
from tocsin.engine.shard_state import ShardState
from tocsin.ports.codec import RecordCodec
from tocsin.ports.schedule_store import JobRow
from tocsin.ports.shard_log import COMMANDS, DEAD_LETTERS, JOBS, OUTCOMES, LogRecord, NewRecord

LOOK_AHEAD: Final = 64
"""How many waiting commands are looked at for rows to read beforehand."""
DEFAULT_LANE: Final = "default"


class CommandDesk:
    """The commands of one shard: those that wait, and how each is decided."""

    def __init__(self, state: ShardState, outbox: Outbox, codec: RecordCodec, outcome_partitions: int) -> None:
        self._state = state
        self._outbox = outbox
        self._codec = codec
        self._outcome_partitions = outcome_partitions
        self._waiting: deque[tuple[LogRecord, Command | Undecodable]] = deque()
        self._rows: dict[str, Job | None] = {}
        """Jobs as read from their rows, until a command concerns them."""
        self._reading: set[str] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def receive(self, record: LogRecord) -> None:
        """Take a record in; it is decided when its turn comes. One already applied is ignored."""
        if self._waiting:
            expected = self._waiting[-1][0].offset + 1
        else:
            expected = self._state.commands_offset
        if record.offset < expected:
            return
        try:
            command: Command | Undecodable = self._codec.decode_command(record.value)
        except Undecodable as error:
            command = error
        self._waiting.append((record, command))

    def row_read(self, job_id: str, snapshot: bytes | None) -> None:
        """A job's row has been read."""
        if job_id in self._reading:
            self._reading.discard(job_id)
            try:
                self._rows[job_id] = None if snapshot is None else self._codec.decode_job(snapshot)
            except Undecodable:
                # One damaged row must not stop the shard: its job is answered as unknown.
                self._rows[job_id] = None

    def apply(self, step: Step, limit: int) -> None:
        """Decide waiting commands in order, up to ``limit`` or to the first that needs a row that is not there yet."""
        applied = 0
        while self._waiting and applied < limit:
            record, command = self._waiting[0]
            job_id = self._job_needed(command)
            if job_id is not None and not self._is_known(job_id):
                break
            self._waiting.popleft()
            self._decide(step, record, command)
            if job_id is not None:
                self._rows.pop(job_id, None)
            self._state.commands_offset = record.offset + 1
            applied += 1
        step.turn = step.turn or applied > 0
        self._ask_for_rows(step)

    def _job_needed(self, command: Command | Undecodable) -> str | None:
        """Return the job that must be known before a command is decided; an id made by tocsin is new by itself."""
        if isinstance(command, Undecodable) or command.kind != CommandKind.DELETE:
            return None
        return command.job_id

    def _is_known(self, job_id: str) -> bool:
        return self._outbox.job(job_id) is not None or job_id in self._rows

    def _ask_for_rows(self, step: Step) -> None:
        """Ask for the rows that waiting commands need, but for jobs that an earlier waiting command will change."""
        earlier: set[str] = set()
        for _, command in islice(self._waiting, LOOK_AHEAD):
            if isinstance(command, Undecodable) or command.job_id is None:
                continue
            job_id = command.job_id
            if self._job_needed(command) and job_id not in earlier | self._reading and not self._is_known(job_id):
                self._reading.add(job_id)
                step.job_reads.append(job_id)
            earlier.add(job_id)

    def _decide(self, step: Step, record: LogRecord, command: Command | Undecodable) -> None:
        if isinstance(command, Undecodable):
            fault = Fault(
                "",
                f"{len(record.value or b'')} bytes",
                str(command),
                "send a JobCommand in Avro single-object encoding",
            )
            self._reject(step, record, Command("unknown"), [fault])
            return
        try:
            tenant_id = parse_tenant(command.tenant_id)
            if command.kind == CommandKind.CREATE:
                self._create(step, record, command, tenant_id)
            elif command.kind == CommandKind.DELETE:
                self._delete(step, record, command, tenant_id)
            else:
                raise InvalidInput([_unknown_kind(command.kind)])
        except InvalidInput as error:
            self._reject(step, record, command, list(error.faults))

    def _create(self, step: Step, record: LogRecord, command: Command, tenant_id: str) -> None:
        job_id = command.job_id
        if job_id is None:
            job_id = self._derived_job_id(record)
        elif not ids.is_made_job_id(job_id):
            raise InvalidInput([Fault("job_id", shown(job_id), "is not an id that tocsin made", "leave job_id out")])
        self._check_shard(job_id)
        if self._outbox.job(job_id) is not None:
            raise InvalidInput([Fault("job_id", shown(job_id), "is in use", "leave job_id out")])
        definition = parse(command.definition or {})
        version = ids.version_of(self._state.epoch, record.offset)
        try:
            scheduled_for = first_occurrence(definition.schedule, record.timestamp)
        except ValueError as error:
            raise InvalidInput([Fault("schedule.delay_s", "the delay", str(error), "give a shorter delay")]) from None
        run_at = self._filed_at(scheduled_for, job_id)
        key = EntryKey(run_at, job_id, version, scheduled_for)
        job = Job(
            job_id, tenant_id, version, version, JobState.ACTIVE, record.timestamp, record.timestamp, definition, key
        )
        step.inserts.append(self.entry_of(job, key))
        snapshot = self._file(step, job)
        step.job_rows.append(JobRow(job_id, version, snapshot))
        self._accept(step, record, command, job, OutcomeDetail.CREATED, snapshot)

    def _delete(self, step: Step, record: LogRecord, command: Command, tenant_id: str) -> None:
        job_id = command.job_id
        if not job_id:
            raise InvalidInput([Fault("job_id", "None", "is missing", "name the job that is to be deleted")])
        self._check_shard(job_id)
        job = self._outbox.job(job_id) or self._rows.get(job_id)
        if job is None or job.tenant_id != tenant_id or job.state is JobState.DELETED:
            fault = Fault("job_id", shown(job_id), "is not a job of this tenant", "check the id and the tenant")
            self._answer(step, record, command, False, OutcomeDetail.NOT_FOUND, faults=(fault,))
            return
        version = ids.version_of(self._state.epoch, record.offset)
        prevented = job.entry is not None and job.entry.place > self._state.cursor
        replaced = job.replaced + ((job.entry,) if job.entry and prevented else ())
        deleted = Job(
            job_id, tenant_id, version, job.created_version, JobState.DELETED, job.created_at, record.timestamp,
            job.definition, None, replaced,
        )  # fmt: skip
        if prevented and job.entry is not None:
            self._make_void(step, Void(job_id, version, job.entry.place))
        step.deletes.extend(replaced)
        step.job_rows.append(JobRow(job_id, version, None))
        self._file(step, deleted)
        detail = OutcomeDetail.PREVENTED if prevented else OutcomeDetail.ALREADY_FIRED
        self._accept(step, record, command, deleted, detail, None)

    def _filed_at(self, scheduled_for: Micros, job_id: str) -> Micros:
        """Return when a one-off fires: at its nominal time, or just past the cursor where that is decided already."""
        cursor = self._state.cursor
        on_time = Place(scheduled_for, job_id, scheduled_for) > cursor
        return scheduled_for if on_time else cursor.run_at + 1

    def entry_of(self, job: Job, key: EntryKey) -> Entry:
        """Return the index row of a job's occurrence, with its execution ready to be sent."""
        execution_id = ids.execution_id(job.job_id, job.created_version, key.scheduled_for)
        head = AttemptHead(1, 0, 0, execution_id, job.job_id, job.tenant_id, job.version, key.scheduled_for, key.run_at)
        execution = self._codec.encode_execution(head, job.definition.target)
        return Entry(
            key.run_at, job.job_id, key.scheduled_for, job.version, execution_id, job.tenant_id, DEFAULT_LANE, execution
        )

    def _make_void(self, step: Step, void: Void) -> None:
        self._state.voids[void.job_id] = void
        step.voids.append(void)

    def _file(self, step: Step, job: Job) -> bytes:
        snapshot = self._codec.encode_job(job)
        step.jobs.append(NewRecord(JOBS, self._state.shard, job.job_id, snapshot))
        step.snapshots.append(job)
        self._outbox.file(step.number, job)
        return snapshot

    def _check_shard(self, job_id: str) -> None:
        owner = shard_of(job_id, self._state.shards)
        if owner != self._state.shard:
            remedy = f"produce to partition {owner}: murmur2 of the key, as Kafka's Java client does"
            raise InvalidInput(
                [Fault("job_id", shown(job_id), f"belongs to shard {owner}, not {self._state.shard}", remedy)]
            )

    def _derived_job_id(self, record: LogRecord) -> str:
        """Make an id from the record's place in the log, the same at every replay, that belongs to this shard."""
        seed = f"{self._state.epoch}/{self._state.shard}/{record.offset}"
        for nonce in range(1_000_000):
            job_id = ids.made_job_id(blake2b(f"{seed}/{nonce}".encode(), digest_size=16).hexdigest())
            if shard_of(job_id, self._state.shards) == self._state.shard:
                return job_id
        raise AssertionError("a hash that never hits one of a few shards is no hash")

    def _command_id(self, record: LogRecord, command: Command) -> str:
        return command.command_id or f"{self._state.epoch}.{self._state.shard}.{record.offset}"

    def _accept(
        self, step: Step, record: LogRecord, command: Command, job: Job, detail: OutcomeDetail, snapshot: bytes | None
    ) -> None:
        self._answer(step, record, command, True, detail, job_id=job.job_id, version=job.version, snapshot=snapshot)

    def _reject(self, step: Step, record: LogRecord, command: Command, faults: list[Fault]) -> None:
        """Answer, and keep the record's bytes: nothing that was sent is lost without a trace."""
        self._answer(step, record, command, False, OutcomeDetail.INVALID, faults=tuple(faults))
        letter = DeadLetter(
            "record", "; ".join(map(str, faults))[:1000], step.now, COMMANDS, self._state.shard, record.offset,
            (record.value or b"")[:DEAD_LETTER_BYTES_MAX], command.tenant_id, command.job_id,
        )  # fmt: skip
        key = command.job_id or self._command_id(record, command)
        step.records.append(NewRecord(DEAD_LETTERS, self._state.shard, key, self._codec.encode_dead_letter(letter)))
        step.tally.dead_letters["record"] = step.tally.dead_letters.get("record", 0) + 1

    def _answer(
        self,
        step: Step,
        record: LogRecord,
        command: Command,
        accepted: bool,
        detail: OutcomeDetail,
        *,
        job_id: str | None = None,
        version: int = 0,
        snapshot: bytes | None = None,
        faults: tuple[Fault, ...] = (),
    ) -> None:
        command_id = self._command_id(record, command)
        known_kind = command.kind in CommandKind.__members__.values()
        outcome = CommandOutcome(
            command_id, command.kind[:32], job_id or command.job_id or "", command.tenant_id or ids.DEFAULT_TENANT,
            accepted, detail, step.now, faults, version, snapshot,
        )  # fmt: skip
        partition = command.reply_partition or 0
        if not 0 <= partition < self._outcome_partitions:
            partition = 0
        step.records.append(NewRecord(OUTCOMES, partition, command_id, self._codec.encode_outcome(outcome)))
        step.tally.commands.append((command.kind if known_kind else "unknown", accepted))


def _unknown_kind(kind: str) -> Fault:
    known = ", ".join(CommandKind)
    if kind in LATER_KINDS:
        return Fault("kind", shown(kind), f"is not supported yet: {LATER_KINDS[kind]}", f"use one of: {known}")
    return Fault("kind", shown(kind), "is not a kind of command", f"use one of: {known}")
