"""Identities: how ids are made up, and read back.

An execution id parses to its job and nominal time, and is never used again, because it carries the version of the
command that created the job:  ``<job_id>.<version of the create>.<scheduled_for in µs>``.
Randomness is an argument: whoever makes an id hands in the UUID.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final, NamedTuple

from tocsin.domain.errors import Undecodable

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What a client may call a tenant or a job."""
_MADE_JOB_ID: Final = re.compile(r"(?:grp_[0-9a-f]{32}~)?job_[0-9a-f]{32}")
_GROUP: Final = re.compile(r"(grp_[0-9a-f]{32})~job_[0-9a-f]{32}")
_KEYED_JOB_ID: Final = re.compile(r"key_[0-9a-f]{32}")
_EXECUTION_ID: Final = re.compile(r"([^.]+)\.([0-9]{1,19})\.(?:([0-9]{1,19})|t([0-9]{1,19})\.[A-Za-z0-9_.-]{1,100})")
EXECUTION_ID_CHARS_MAX: Final = 300
_MADE_COMMAND_ID: Final = re.compile(r"cmd_[0-9a-f]{32}")
COMMAND_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
"""What a sender may call a command."""
DEFAULT_TENANT: Final = "default"

VERSION_OFFSET_BITS: Final = 40
"""A version is ``epoch << 40 | offset + 1``: room for 10^12 commands a shard and eight million epochs."""


class ExecutionName(NamedTuple):
    """What an execution id says of itself."""

    job_id: str
    created_version: int
    scheduled_for: int


def made_job_id(uuid_hex: str) -> str:
    """Return the job id that tocsin gives to a job whose client named none. ``uuid_hex`` is a UUIDv7, 32 digits."""
    return f"job_{uuid_hex}"


def is_made_job_id(job_id: str) -> bool:
    """Tell whether tocsin made this id, so that no other job can have it."""
    return _MADE_JOB_ID.fullmatch(job_id) is not None


def job_made_at_ms(job_id: str) -> int | None:
    """Return the milliseconds since the epoch at which tocsin made a job id, or None where it did not."""
    return int(job_id[-32:-20], 16) if is_made_job_id(job_id) else None


def group_id(tenant_id: str, group: str) -> str:
    """Return what the ids of a concurrency group's jobs begin with: so they share a shard, whose owner sees them all.

    A tenant's id holds no ``|``, so no two pairs give one text.
    """
    return f"grp_{blake2b(f'{tenant_id}|{group}'.encode(), digest_size=16).hexdigest()}"


def grouped_job_id(tenant_id: str, group: str, uuid_hex: str) -> str:
    """Return the id of a job that is created in a concurrency group; see ``made_job_id``."""
    return f"{group_id(tenant_id, group)}~{made_job_id(uuid_hex)}"


def group_of(job_id: str) -> str | None:
    """Return which group's job an id is, as ``group_id`` names it; None where it is no such job's."""
    match = _GROUP.fullmatch(job_id)
    return None if match is None else match[1]


def full_job_id(tenant_id: str, job_id: str) -> str | None:
    """Return the id under which a job is kept, or None where the given one is no id, or another tenant's.

    A client's own id is kept as ``<tenant>@<id>``; that tenant may leave its name out. Ids that tocsin made stand as
    they are.
    """
    if is_made_job_id(job_id) or _KEYED_JOB_ID.fullmatch(job_id):
        return job_id
    tenant, at, name = job_id.rpartition("@")
    if NAME.fullmatch(name) is None or (at and tenant != tenant_id):
        return None
    return f"{tenant_id}@{name}"


def keyed_job_id(tenant_id: str, idempotency_key: str) -> str:
    """Return the id of the job that a tenant creates under an idempotency key: racing creates meet in one shard."""
    return f"key_{blake2b(f'{tenant_id}|{idempotency_key}'.encode(), digest_size=16).hexdigest()}"


def made_command_id(uuid_hex: str) -> str:
    """Return a command's id. ``uuid_hex`` is a UUIDv7, 32 digits."""
    return f"cmd_{uuid_hex}"


def command_made_at_ms(command_id: str) -> int | None:
    """Return the milliseconds since the epoch at which a command id was made, or None where it is not one of ours."""
    if _MADE_COMMAND_ID.fullmatch(command_id) is None:
        return None
    return int(command_id[4:16], 16)


def execution_id(job_id: str, created_version: int, scheduled_for: int) -> str:
    """Return the id of the one logical run of a job at a nominal time (µs since the epoch)."""
    return f"{job_id}.{created_version}.{scheduled_for}"


def triggered_execution_id(job_id: str, created_version: int, scheduled_for: int, command_id: str) -> str:
    """Return the id of an execution that a command triggered by hand, at the time of that command's record."""
    return f"{job_id}.{created_version}.t{scheduled_for}.{command_id}"


def parse_execution_id(text: str) -> ExecutionName:
    """Read an execution id back.

    Raises:
        Undecodable: the text is not an execution id.
    """
    match = _EXECUTION_ID.fullmatch(text) if len(text) <= EXECUTION_ID_CHARS_MAX else None
    if match is None:
        raise Undecodable(f"{text[:120]!r} is not an execution id")
    job_id, version, scheduled_for, triggered_at = match.groups()
    return ExecutionName(job_id, int(version), int(scheduled_for or triggered_at))


def version_of(epoch: int, offset: int) -> int:
    """Return the version that the command at a log offset makes, in an incarnation of the topics."""
    return epoch << VERSION_OFFSET_BITS | (offset + 1)


def offset_of_version(version: int) -> int:
    """Return the log offset of the command that made a version."""
    return (version & (1 << VERSION_OFFSET_BITS) - 1) - 1
