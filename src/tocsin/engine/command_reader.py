"""Reads records of the command log, and checks them as far as they can be checked without their job."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from types import MappingProxyType
from typing import Final

from tocsin.domain import ids
from tocsin.domain.commands import LATER_KINDS, SHARD_KINDS, Command, CommandKind
from tocsin.domain.definitions import parse, parse_tenant, to_mapping
from tocsin.domain.errors import EngineFault, Fault, InvalidInput, Undecodable
from tocsin.domain.fields import has_surrogate, shown
from tocsin.domain.instants import EARLIEST, LATEST
from tocsin.domain.sharding import shard_of
from tocsin.engine.job_commands import Order
from tocsin.engine.own_commands import NO_JOB, OwnCommands, is_for_owners
from tocsin.engine.shard_state import ShardState
from tocsin.engine.suspects import COMMAND, Severity, Suspect, SuspectId
from tocsin.ports.codec import RecordCodec
from tocsin.ports.shard_log import LogRecord

COMMAND_ID_CHARS_MAX: Final = 100
REASON_CHARS_MAX: Final = 500
FAULT: Final = Fault(
    "", "the command", "makes its owner fail each time", "report this as a fault of tocsin, with its dead letter"
)
REDRIVE_FIELDS: Final = ("execution_id", "attempts_before", "redrives_before", "not_before")
KINDS: Final = frozenset(map(str, CommandKind))
_RELEASE: Final = re.compile(r"[0-9]{4}[a-z]{1,2}")


@dataclass(slots=True)
class Waiting:
    """A record that is not decided yet: checked as far as it can be without its job.

    Attributes:
        command: what it says; of an unreadable one, nothing.
        order: None where it is faulty, or belongs to another shard.
        faults: what is wrong with it.
        passed_to: the shard that it belongs to, where that is another.
        needs_row: its job must be known before it is decided; of one with an order only.
    """

    record: LogRecord
    command: Command
    order: Order | None = None
    faults: tuple[Fault, ...] = ()
    passed_to: int | None = None
    needs_row: bool = True

    @property
    def is_own(self) -> bool:
        """Of a kind that only the shard's owner gives to itself; nobody waits for it."""
        return self.order is not None and is_for_owners(self.command.kind)

    @property
    def size(self) -> int:
        """Bytes of the record's value."""
        return len(self.record.value or b"")


class CommandReader:
    """Reads the commands of one shard; the same record always gives the same answer."""

    def __init__(
        self,
        state: ShardState,
        own: OwnCommands,
        codec: RecordCodec,
        culprits: Mapping[SuspectId, Severity] = MappingProxyType({}),
    ) -> None:
        self._state = state
        self._own = own
        self._codec = codec
        self._culprits = culprits

    def read(self, record: LogRecord) -> Waiting:
        """Check a record as far as it can be checked without its job.

        Raises:
            EngineFault: that fails, as it never should.
        """
        suspect = Suspect(COMMAND, record)
        if self._culprits and suspect.id in self._culprits:
            return Waiting(record, Command("unknown"), faults=(FAULT,))
        try:
            return self._read(record)
        except Exception as error:
            raise EngineFault(self._state.shard, suspect, error) from error

    def _read(self, record: LogRecord) -> Waiting:
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
            if command.kind not in KINDS:
                raise InvalidInput([_unknown_kind(command.kind)])
            tenant_id = parse_tenant(command.tenant_id)
            _check_envelope(command)
            command_id = self._command_id(record, command)
            if command.kind in SHARD_KINDS:
                self._refuse_strangers(command.kind, command_id, NO_JOB)
                version = ids.version_of(self._state.epoch, record.offset)
                order = Order(command, command_id, tenant_id, NO_JOB, version, record.timestamp)
                return Waiting(record, command, order, needs_row=False)
            job_id = self._job_id(record, command, tenant_id)
            self._refuse_strangers(command.kind, command_id, job_id)
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
        return Waiting(record, command, order)

    def _refuse_strangers(self, kind: str, command_id: str, job_id: str) -> None:
        if is_for_owners(kind) and self._own.note_of(command_id, kind, job_id) is None:
            remedy = "leave it to tocsin; pause or delete the job instead"
            raise InvalidInput([Fault("kind", shown(kind), "is given by a shard's owner only", remedy)])

    def _misplaced(self, record: LogRecord, order: Order, owner: int) -> Waiting:
        command = replace(order.command, job_id=order.job_id, command_id=order.command_id)
        if command.forwarded_from is None:
            origin = f"{self._state.shard}/{record.offset}"
            return Waiting(record, replace(command, forwarded_from=origin), passed_to=owner)
        remedy = "leave forwarded_from out"
        problem = f"was forwarded to shard {self._state.shard}, but belongs to {owner}"
        return Waiting(record, command, faults=(Fault("forwarded_from", command.forwarded_from[:64], problem, remedy),))

    def _command_id(self, record: LogRecord, command: Command) -> str:
        if command.command_id is None:
            return f"{self._state.epoch}.{self._state.shard}.{record.offset}"
        if 0 < len(command.command_id) <= COMMAND_ID_CHARS_MAX and ids.COMMAND_ID.fullmatch(command.command_id):
            return command.command_id
        remedy = f"give 1 to {COMMAND_ID_CHARS_MAX} letters, digits, dots, hyphens and underscores, or leave it out"
        raise InvalidInput([Fault("command_id", shown(command.command_id), "is not a command's id", remedy)])

    def _job_id(self, record: LogRecord, command: Command, tenant_id: str) -> str:
        """Return the full id of the job that a command concerns.

        Raises:
            InvalidInput: it names none, or one that is no id of this tenant.
        """
        creates = command.kind == CommandKind.CREATE
        given = (command.definition or {}) if creates else {}
        key, group = given.get("idempotency_key"), given.get("concurrency_group")
        group_id = ids.group_id(tenant_id, group) if isinstance(group, str) and not has_surrogate(group) else None
        if command.job_id is None:
            if isinstance(key, str):
                return ids.keyed_job_id(tenant_id, key)
            if creates:
                return self._derived_job_id(record, group_id)
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
        if creates and ids.group_of(job_id) != group_id:
            problem, remedy = "is no id of a job in this concurrency_group", "leave job_id out, or the group"
            raise InvalidInput([Fault("job_id", shown(command.job_id), problem, remedy)])
        return job_id

    def _derived_job_id(self, record: LogRecord, group_id: str | None) -> str:
        """Make an id from the record's place in the log, the same at every replay: of a group's, else of this shard."""
        seed = f"{self._state.epoch}/{self._state.shard}/{record.offset}"
        if group_id is not None:
            return f"{group_id}~{ids.made_job_id(blake2b(seed.encode(), digest_size=16).hexdigest())}"
        for nonce in range(1_000_000):
            job_id = ids.made_job_id(blake2b(f"{seed}/{nonce}".encode(), digest_size=16).hexdigest())
            if shard_of(job_id, self._state.shards) == self._state.shard:
                return job_id
        raise AssertionError("a hash that never hits one of a few shards is no hash")


def _check_envelope(command: Command) -> None:
    """Check the fields around a definition."""
    if command.until is not None and command.kind != CommandKind.PAUSE:
        raise InvalidInput([Fault("until", shown(command.until[:64]), f"goes with no {command.kind}", "leave it out")])
    if command.kind != CommandKind.REDRIVE:
        allowed = ("execution_id",) if command.kind == CommandKind.CANCEL else ()
        for name in REDRIVE_FIELDS:
            if (given := getattr(command, name)) is not None and name not in allowed:
                raise InvalidInput([Fault(name, shown(given), f"goes with no {command.kind}", "leave it out")])
    if command.kind == CommandKind.CANCEL and command.if_version is not None:
        problem = "goes with no cancel, which concerns a run and not its job's definition"
        raise InvalidInput([Fault("if_version", shown(command.if_version), problem, "leave it out")])
    partition, reason = command.reply_partition, command.reason
    if partition is not None and not 0 <= partition < 2**31:
        remedy = "give the partition of the outcomes topic that you read"
        raise InvalidInput([Fault("reply_partition", shown(partition), "is no partition", remedy)])
    release = command.zone_data
    if command.kind == CommandKind.SET_ZONE_DATA and not (isinstance(release, str) and _RELEASE.fullmatch(release)):
        remedy = "give a release of the zone database, such as 2026a"
        raise InvalidInput([Fault("zone_data", shown(release), "is not a release of the zone database", remedy)])
    if reason is not None and (len(reason) > REASON_CHARS_MAX or has_surrogate(reason)):
        remedy = f"give at most {REASON_CHARS_MAX} characters of well-formed text"
        raise InvalidInput([Fault("reason", shown(reason), f"is no reason of {len(reason)} characters", remedy)])


def _unknown_kind(kind: str) -> Fault:
    known = ", ".join(kind for kind in CommandKind if not is_for_owners(kind))
    if kind in LATER_KINDS:
        return Fault("kind", shown(kind), f"is not supported yet: {LATER_KINDS[kind]}", f"use one of: {known}")
    return Fault("kind", shown(kind), "is not a kind of command", f"use one of: {known}")
