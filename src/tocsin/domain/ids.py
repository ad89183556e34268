"""Identities: how ids are made up, and read back.

An execution id parses to its job and nominal time, and is never used again, because it carries the version of the
command that created the job:  ``<job_id>.<version of the create>.<scheduled_for in µs>``.
Randomness is an argument: whoever makes an id hands in the UUID.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tocsin.domain.errors import Undecodable

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What a client may call a tenant or a job."""
_MADE_JOB_ID: Final = re.compile(r"job_[0-9a-f]{32}")
_COMMAND_ID: Final = re.compile(r"cmd_[0-9a-f]{32}")
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


def made_command_id(uuid_hex: str) -> str:
    """Return a command's id. ``uuid_hex`` is a UUIDv7, 32 digits."""
    return f"cmd_{uuid_hex}"


def command_made_at_ms(command_id: str) -> int | None:
    """Return the milliseconds since the epoch at which a command id was made, or None where it is not one of ours."""
    if _COMMAND_ID.fullmatch(command_id) is None:
        return None
    return int(command_id[4:16], 16)


def execution_id(job_id: str, created_version: int, scheduled_for: int) -> str:
    """Return the id of the one logical run of a job at a nominal time (µs since the epoch)."""
    return f"{job_id}.{created_version}.{scheduled_for}"


def parse_execution_id(text: str) -> ExecutionName:
    """Read an execution id back.

    Raises:
        Undecodable: the text is not an execution id.
    """
    parts = text.rsplit(".", 2)
    if len(parts) != 3 or not parts[0] or not (parts[1].isascii() and parts[1].isdigit()):
        raise Undecodable(f"{text[:120]!r} is not an execution id")
    if len(text) > 260 or not (parts[2].isascii() and parts[2].isdigit()):
        raise Undecodable(f"{text[:120]!r} is not an execution id")
    return ExecutionName(parts[0], int(parts[1]), int(parts[2]))


def version_of(epoch: int, offset: int) -> int:
    """Return the version that the command at a log offset makes, in an incarnation of the topics."""
    return epoch << VERSION_OFFSET_BITS | (offset + 1)
