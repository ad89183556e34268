"""Port: how records become bytes. Pure: the same value always gives the same bytes, and nothing is read from outside.

Every ``decode_*`` raises ``Undecodable`` for bytes that are not such a record, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tocsin.domain.alert_on import AlertOn
from tocsin.domain.alerts import Alert
from tocsin.domain.commands import Command, CommandOutcome
from tocsin.domain.executions import AttemptHead, AttemptReport, Execution, ExecutionEvent
from tocsin.domain.fleet import Cancel, DeadLetter, Heartbeat
from tocsin.domain.instants import Micros
from tocsin.domain.jobs import Job
from tocsin.domain.policies import DeliveryPolicy, RetryPolicy
from tocsin.domain.shard_records import StateChunk, StateDelta
from tocsin.domain.targets import Target


class JobCodec(Protocol):
    """Jobs, commands about them and outcomes."""

    def encode_command(self, command: Command) -> bytes: ...

    def decode_command(self, value: bytes | None) -> Command:
        """Read a command; its fields have the right types, but nothing is checked beyond that."""
        ...

    def encode_outcome(self, outcome: CommandOutcome) -> bytes: ...

    def decode_outcome(self, value: bytes | None) -> CommandOutcome: ...

    def encode_job(self, job: Job) -> bytes: ...

    def decode_job(self, value: bytes | None) -> Job: ...

    def decode_stored_job(self, value: bytes | None) -> Job:
        """Read a snapshot of which no more is asked than when and for how long: see ``StoredDefinition``."""
        ...


class ExecutionCodec(Protocol):
    """Executions, and what is said of them."""

    def encode_execution(
        self,
        head: AttemptHead,
        target: Target,
        retry: RetryPolicy | None = None,
        *,
        attempts_before: int = 0,
        redrives: int = 0,
        delivery: DeliveryPolicy = DeliveryPolicy.AT_LEAST_ONCE,
        max_duration_s: float | None = None,
        alert_on: Sequence[AlertOn] = (),
    ) -> bytes:
        """Return a record that is ready to be stamped: its attempt, token and losses can be replaced cheaply."""
        ...

    def stamp(self, attempt: int, token: int, losses: int) -> bytes:
        """Return what ``restamp`` puts into a record; made once for all fires of a turn."""
        ...

    def unsent_lead(self) -> bytes:
        """Return what executions begin with, up to the end of their stamp, that ``encode_execution`` made for a first
        attempt in the present version of the schema, and that were never dispatched."""
        ...

    def restamp(self, execution: bytes, stamp: bytes) -> bytes:
        """Return an encoded execution with another attempt, token and losses. Costs well under a microsecond.

        The record must be one that ``encode_execution`` or ``restamp`` made, in any version of the schema.
        """
        ...

    def rehead(self, execution: bytes, head: AttemptHead) -> bytes:
        """Return an encoded execution under another head, all else as it was."""
        ...

    def at_another_time(self, execution: bytes, execution_id: str, at: Micros) -> bytes:
        """Return an encoded execution under another id, due at another time, all else as it was: how a row's successor
        is made. Costs a fraction of ``rehead``, for nothing is decoded."""
        ...

    def decode_execution(self, value: bytes | None) -> Execution: ...

    def decode_head(self, value: bytes | None) -> AttemptHead:
        """Read only the head of an execution."""
        ...

    def split_head(self, execution: bytes) -> tuple[AttemptHead, bytes]:
        """Return the head of an encoded execution that this codec made, decoded and as bytes."""
        ...

    def is_head_of(self, head_bytes: bytes, execution: bytes) -> bool:
        """Tell whether an encoded execution begins with exactly this head, without decoding it."""
        ...

    def encode_report(self, report: AttemptReport) -> bytes: ...

    def encode_plain_end(
        self,
        head_bytes: bytes,
        kind: str,
        worker_id: str,
        started_at: Micros,
        finished_at: Micros,
        redelivered: bool,
    ) -> bytes:
        """Return the report that an attempt has ended and nothing more: the most common one, for a part of its cost."""
        ...

    def decode_report(self, value: bytes | None) -> AttemptReport: ...

    def encode_event(self, head_bytes: bytes, event: ExecutionEvent) -> bytes:
        """Encode an event around the head's bytes as they came; ``event.head`` must be what they say."""
        ...

    def decode_event(self, value: bytes | None) -> ExecutionEvent: ...


class GatewayCodec(JobCodec, ExecutionCodec, Protocol):
    """What a gateway reads and writes."""


class StateCodec(Protocol):
    """A shard's own log."""

    def encode_delta(self, delta: StateDelta) -> bytes: ...

    def decode_delta(self, value: bytes | None) -> StateDelta: ...

    def encode_chunk(self, chunk: StateChunk) -> bytes: ...

    def decode_chunk(self, value: bytes | None) -> StateChunk: ...


class FleetCodec(Protocol):
    """Heartbeats, dead letters, alerts, and what workers are told."""

    def encode_cancel(self, cancel: Cancel) -> bytes: ...

    def decode_cancel(self, value: bytes | None) -> Cancel: ...

    def encode_heartbeat(self, heartbeat: Heartbeat) -> bytes: ...

    def decode_heartbeat(self, value: bytes | None) -> Heartbeat: ...

    def encode_dead_letter(self, letter: DeadLetter) -> bytes: ...

    def decode_dead_letter(self, value: bytes | None) -> DeadLetter: ...

    def encode_alert(self, alert: Alert) -> bytes: ...

    def decode_alert(self, value: bytes | None) -> Alert: ...


class RecordCodec(JobCodec, ExecutionCodec, StateCodec, FleetCodec, Protocol):
    """All of them."""
