"""Alerts: what somebody should look at, told in the log beside what it tells of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tocsin.domain.instants import Micros

MESSAGE_CHARS_MAX: Final = 1_000


class AlertKind(StrEnum):
    """The stable words of alerts; readers must bear with others."""

    DEAD_LETTER = "dead_letter"
    """Something could not be served; the topic of dead letters keeps it."""
    SUSPENDED = "suspended"
    """tocsin paused a job by itself."""
    UNKNOWN = "unknown"
    """An execution ended, and nobody can tell whether it ran."""
    RETRIES_PAUSED = "retries_paused"
    """Nearly all attempts of a tenant fail in a shard: its retries wait there."""
    SKIPPED = "skipped"
    """Occurrences are not run."""
    LATE = "late"
    """An execution was fired late, of which its job wants people to be told."""
    MOVED = "moved"
    """The zone data have changed, and with them the time of a job's next occurrence."""
    MISSING = "missing"
    """History lacks an occurrence that was due and decided."""
    POOL_IDLE = "pool_idle"
    """Work waits in a pool of workers that no living worker serves."""
    SHARD_STOPPED = "shard_stopped"
    """A shard stands still: what its last owner left cannot be restored."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert.

    Attributes:
        kind: see ``AlertKind``; kept as text, for newer writers may say more.
        at: the clock of whoever wrote it, µs.
        tenant_id, job_id, execution_id: whose and which, where one is meant.
        shard: where it happened.
        message: one line for a person, at most ``MESSAGE_CHARS_MAX`` characters.
        count: how many such things it stands for.
        alert_on: the word of its job's ``alert_on`` that asked for it; None where nobody had to.
    """

    kind: str
    at: Micros
    tenant_id: str | None = None
    job_id: str | None = None
    execution_id: str | None = None
    shard: int | None = None
    message: str = ""
    count: int = 1
    alert_on: str | None = None
