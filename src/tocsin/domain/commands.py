"""Commands, imperative, and the outcomes that answer them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from tocsin.domain.errors import Fault
from tocsin.domain.instants import Micros


class CommandKind(StrEnum):
    """What may be asked of a job's owner."""

    CREATE = "create"
    UPDATE = "update"
    PAUSE = "pause"
    RESUME = "resume"
    TRIGGER = "trigger"
    REDRIVE = "redrive"
    """A dead execution is to be attempted again."""
    CANCEL = "cancel"
    """An execution that has not ended is to end."""
    DELETE = "delete"
    SUSPEND = "suspend"
    """An owner's own: it cannot serve the job, and pauses it."""
    FINISH = "finish"
    """An owner's own: nothing of the job is to come, and nothing runs. A command of its own in the logs of former
    releases only."""
    MOVE = "move"
    """An owner's own: the zone data have changed, and with them the time of the job's next occurrence."""
    REMOVE = "remove"
    """An owner's own: the job was finished long enough ago. Likewise."""
    END = "end"
    """An owner's own, and concerns no job, but a shard: many of its jobs, which its state names, are at their end, or
    were finished long enough ago."""
    REBUILD_INDEX = "rebuild_index"
    """Concerns no job, but a whole shard: one is sent to each partition."""
    SET_ZONE_DATA = "set_zone_data"
    """Likewise."""
    RESUME_RETRIES = "resume_retries"
    """Likewise: what is held back of a tenant's retries in the shard is to go on."""


SHARD_KINDS: Final = frozenset(
    {CommandKind.END, CommandKind.REBUILD_INDEX, CommandKind.SET_ZONE_DATA, CommandKind.RESUME_RETRIES}
)
"""Kinds that concern the shard to whose partition they are sent, and no job."""
LATER_KINDS: Final = {
    "backfill": "running past occurrences",
}
"""Kinds of the contract that are refused by name until they work."""


@dataclass(frozen=True, slots=True)
class Command:
    """One record of the command log, as it was sent; nothing in it is trusted before the owner has checked it.

    Attributes:
        command_id: made by the sender; the owner derives one from partition and offset where it is absent.
        kind: one of ``CommandKind``; kept as text, for it may be anything.
        job_id: whom it concerns; absent only in a create whose id is to be derived.
        tenant_id: whose job; None means the default tenant.
        reply_partition: partition of the outcomes topic that the sender reads; None sends the outcome to partition 0.
        definition: for a create or an update, the mapping that ``definitions.parse`` reads.
        if_version: the command takes effect only if the job has this version.
        reason: for a pause, why; kept with the job.
        until: for a pause, the RFC 3339 time at which the job resumes by itself.
        zone_data: for set_zone_data, the version that counts from now on.
        execution_id: for a redrive, what is to run again; its sender vouches that it is dead. For a cancel, what is
            to end.
        attempts_before: for a redrive, how many attempts that has had.
        redrives_before: for a redrive, how often it was redriven before.
        not_before: for a redrive, the RFC 3339 time before which it is not attempted.
        forwarded_from: set by an owner that passed the command on: ``<shard>/<offset>``.
    """

    kind: str
    command_id: str | None = None
    job_id: str | None = None
    tenant_id: str | None = None
    reply_partition: int | None = None
    definition: Mapping[str, Any] | None = None
    if_version: int | None = None
    reason: str | None = None
    forwarded_from: str | None = None
    until: str | None = None
    zone_data: str | None = None
    execution_id: str | None = None
    attempts_before: int | None = None
    redrives_before: int | None = None
    not_before: str | None = None


class OutcomeDetail(StrEnum):
    """What an accepted command led to, where "accepted" does not say it all."""

    AGREED = "agreed"
    """The shard's owner works by the zone data that the command names."""
    BEGUN = "begun"
    """Work that takes longer than a turn has begun."""
    CREATED = "created"
    EXISTED = "existed"
    """The very job was created before: under the same idempotency key, or id, with the same body."""
    UPDATED = "updated"
    PAUSED = "paused"
    RESUMED = "resumed"
    UNCHANGED = "unchanged"
    """The job already was as the command wants it."""
    TRIGGERED = "triggered"
    REDRIVEN = "redriven"
    """A dead execution waits for its next attempt."""
    PREVENTED = "prevented"
    """A delete came before the occurrence fired: it will not run."""
    ALREADY_FIRED = "already_fired"
    """A delete came after the last occurrence had fired: what runs goes on."""
    RETRY_CANCELLED = "retry_cancelled"
    """A delete came while a run waited to be attempted again: it is not."""
    CONFLICT = "conflict"
    """Another job stands under that id or key."""
    STALE_VERSION = "stale_version"
    """The job is not at the version that the command names."""
    QUEUED = "queued"
    """What a trigger or a redrive asks for waits behind an execution that is active."""
    CANCELLED = "cancelled"
    """The execution had not started, and has ended."""
    CANCELLING = "cancelling"
    """The execution may run, and ends once its worker, its silence or its deadline says that it does not."""
    ENDED = "ended"
    """Nothing of the execution is active: there is nothing to cancel."""
    RUNNING = "running"
    """A trigger or a redrive was refused: an execution is active, and the job's policy is to skip then."""
    FINISHED = "finished"
    """Nothing of the job is to come, or the one-off has fired: it cannot be paused, or given another time."""
    NOT_FOUND = "not_found"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """The owner's answer to one command.

    Attributes:
        command_id: whose answer it is.
        kind: of the command.
        job_id: of the job; empty where the command named none.
        tenant_id: of the job.
        accepted: whether the command took effect.
        detail: see ``OutcomeDetail``.
        faults: what was wrong with a rejected command.
        version: of the job after it, 0 where it was rejected.
        job: the encoded snapshot after it; the very bytes that go to the jobs table.
        execution_id: of the execution that a trigger or a redrive led to.
        decided_at: the owner's clock, µs.
    """

    command_id: str
    kind: str
    job_id: str
    tenant_id: str
    accepted: bool
    detail: str
    decided_at: Micros
    faults: tuple[Fault, ...] = ()
    version: int = 0
    job: bytes | None = None
    execution_id: str | None = None
