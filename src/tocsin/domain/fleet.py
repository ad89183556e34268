"""What processes and their owners tell one another, and what is kept of what could not be served."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.domain.instants import Micros

DEAD_LETTER_BYTES_MAX = 64 * 1024
"""How much of a culprit's bytes a dead letter keeps."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A process is alive. ``process_id`` is new at every start; ``name`` is the operator's and stays."""

    process_id: str
    name: str
    role: str
    host: str
    version: str
    started_at: Micros
    stopped: bool = False
    sent_at: Micros | None = None
    """By the sender's own clock."""
    pools: tuple[str, ...] = ()
    """Of a worker: the pools that it serves."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Dispatches of an execution with this token or a lower one are not to be started any more."""

    execution_id: str
    token: int
    at: Micros
    """The owner's clock, µs."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Something that could not be served, kept with all that is needed to look into it.

    Attributes:
        kind: ``record`` (could not be read or was invalid), ``entry`` (a damaged row), ``work`` (an item that cannot
            go on) or ``execution`` (its attempts are used up).
        reason: one line for a person.
        at: the owner's clock, µs.
        topic, partition, offset: where the record stands in the log.
        value: its bytes, at most ``DEAD_LETTER_BYTES_MAX``.
        redrives: of an execution, how often it had been redriven by then.
    """

    kind: str
    reason: str
    at: Micros
    topic: str
    partition: int
    offset: int
    value: bytes
    tenant_id: str | None = None
    job_id: str | None = None
    execution_id: str | None = None
    redrives: int = 0
