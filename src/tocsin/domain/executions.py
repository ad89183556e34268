"""Executions: one logical run of a job, its dispatches, its states and the table of their changes.

An execution is dispatched as (attempt, token). A token is the number of the owner's turn that dispatched it, so it
only grows; a report counts only if it names the current pair. That is the fence.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from tocsin.domain.alert_on import AlertOn
from tocsin.domain.instants import Micros
from tocsin.domain.policies import DeliveryPolicy, RetryPolicy
from tocsin.domain.targets import Target


class AttemptHead(NamedTuple):
    """The record that executions, reports and events begin with, so that its bytes travel without being decoded."""

    attempt: int
    """Counts from 1."""
    token: int
    losses: int
    """How many dispatches of this attempt were lost with their workers; above 0 the dispatch is a redelivery."""
    execution_id: str
    job_id: str
    tenant_id: str
    job_version: int
    scheduled_for: Micros
    due_at: Micros


class Execution(NamedTuple):
    """A decoded execution record, as a worker sees it.

    Attributes:
        retry: None: one attempt.
        attempts_before: attempts that were made before it was redriven; the policy counts from there.
        redrives: how often it was redriven.
        max_duration_s: how long it may take over all attempts; None: as long as they do.
        alert_on: of what its job wants people to be alerted.
    """

    head: AttemptHead
    head_bytes: bytes
    target: Target
    retry: RetryPolicy | None = None
    attempts_before: int = 0
    redrives: int = 0
    delivery: DeliveryPolicy = DeliveryPolicy.AT_LEAST_ONCE
    max_duration_s: float | None = None
    alert_on: tuple[AlertOn, ...] = ()

    @property
    def is_repeatable(self) -> bool:
        """What may have run may be made again."""
        return self.delivery is DeliveryPolicy.AT_LEAST_ONCE


class ExecutionState(StrEnum):
    """Where an execution stands. A dispatch without an event is queued; that is published only of what is not
    dispatched yet, but waits behind another run."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    """Held by a worker under a lease; published for attempts that last."""
    RETRY_SCHEDULED = "RETRY_SCHEDULED"
    SUCCEEDED = "SUCCEEDED"
    DEAD = "DEAD"
    SKIPPED = "SKIPPED"
    CANCELLED = "CANCELLED"
    UNKNOWN = "UNKNOWN"
    """It may have run, nobody can tell, and it must not be made again."""


ENDS: Final = frozenset(
    {
        ExecutionState.SUCCEEDED,
        ExecutionState.DEAD,
        ExecutionState.SKIPPED,
        ExecutionState.CANCELLED,
        ExecutionState.UNKNOWN,
    }
)
"""An execution that is in one of these stays there, unless people have a DEAD one attempted again."""


class ReportKind(StrEnum):
    """What a worker says of an attempt.

    ========== ============== ================== ==================
    kind       settles offset closes dispatch    counts as
    ========== ============== ================== ==================
    SUCCEEDED  yes            yes                an attempt
    FAILED     yes            yes                an attempt
    TIMED_OUT  yes            yes                an attempt
    CANCELLED  yes            yes                an attempt
    RUNNING    yes            no: it is a lease  nothing yet
    ACCEPTED   yes            no: a callback     nothing yet
    RETURNED   yes            yes                nothing, or a loss
    ========== ============== ================== ==================
    """

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    CANCELLED = "CANCELLED"
    RUNNING = "RUNNING"
    ACCEPTED = "ACCEPTED"
    """The target has taken the work over, and will say through a gateway how it ended."""
    RETURNED = "RETURNED"


ATTEMPT_ENDS: Final = frozenset({ReportKind.SUCCEEDED, ReportKind.FAILED, ReportKind.TIMED_OUT, ReportKind.CANCELLED})


class Started(StrEnum):
    """What a returning worker knows: whether the attempt may have reached its target."""

    NO = "no"
    MAYBE = "maybe"


ALONE_LOSSES: Final = 2
"""A dispatch that was lost so often is a suspect: it is run alone, in a process of its own."""
REAPED: Final = "reaped"
"""Why a dispatch is returned that was run alone: its process died, and so it is to blame itself."""


@dataclass(frozen=True, slots=True)
class AttemptError:
    """Why an attempt did not succeed.

    Attributes:
        error_class: a stable word (``status``, ``timeout``, ``connection_refused``, ``redirect``, ``blocked``, …).
        message: one line for a person, at most 1,000 characters.
        status: of the HTTP answer, where there was one.
        retry_after_s: what the target asked for, seconds.
    """

    error_class: str
    message: str
    status: int | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class AttemptReport:
    """What a worker reports about one dispatch.

    Attributes:
        head: the dispatch it speaks of.
        head_bytes: the same, encoded.
        kind: see ``ReportKind``; kept as text, for a newer worker may say more.
        worker_id: the id of the worker's process, as in its heartbeats.
        started_at: the worker's clock, µs; None where it never started.
        finished_at: the worker's clock, µs.
        redelivered: whether the attempt may have run before.
        error: why it did not succeed.
        result: a short summary of the answer, at most 1,000 characters.
        started: of a RETURNED one, see ``Started``.
        reason: of a RETURNED one, a stable word: ``stop``, ``revoked``, ``lost``, ``predecessor``, ``reaped``, ``cap``,
            ``breaker``, ``cancelled``.
        timeout_s: of a RUNNING one: how long the attempt may take from its start; of an ACCEPTED one, from then on.
        not_before: of a RETURNED one that was not started: when to try again at the earliest, the worker's clock, µs.
    """

    head: AttemptHead
    head_bytes: bytes
    kind: str
    worker_id: str
    started_at: Micros | None = None
    finished_at: Micros | None = None
    redelivered: bool = False
    error: AttemptError | None = None
    result: str | None = None
    started: str | None = None
    reason: str | None = None
    timeout_s: float | None = None
    not_before: Micros | None = None


@dataclass(frozen=True, slots=True)
class ExecutionEvent:
    """A state change of an execution, written by its owner only.

    Attributes:
        head: the dispatch that led to it.
        state: of the execution from now on.
        attempt_state: how the attempt ended, where one did.
        reason: a stable word where the state alone does not say why.
        published_at: when the owner dispatched it, µs of the owner's clock.
        decided_at: when the owner decided this change, µs.
        retry_at: of RETRY_SCHEDULED, when the next attempt is due, µs.
        skipped_upto: of SKIPPED, the last nominal time of a range that begins at the head's, µs.
        skipped_count: of SKIPPED, how many nominal times the range holds.
        skipped_more: of SKIPPED, the range holds more than that: counting them all would have taken too long.
        redrives: how often the execution had been redriven by then.
    """

    head: AttemptHead
    state: str
    published_at: Micros
    decided_at: Micros
    attempt_state: str | None = None
    reason: str | None = None
    started_at: Micros | None = None
    finished_at: Micros | None = None
    worker_id: str | None = None
    redelivered: bool = False
    error: AttemptError | None = None
    result: str | None = None
    retry_at: Micros | None = None
    skipped_upto: Micros | None = None
    skipped_count: int | None = None
    skipped_more: bool = False
    redrives: int = 0


def dispatch_key(tenant_id: str, execution_id: str, attempt: int, token: int) -> str:
    """Return the key of a dispatch's record: enough to say what a record is without decoding its value."""
    return dispatch_key_begin(tenant_id, execution_id) + dispatch_key_end(attempt, token)


def dispatch_key_begin(tenant_id: str, execution_id: str) -> str:
    """Return how the keys of all dispatches of an execution begin."""
    return f"{tenant_id}|{execution_id}"


def dispatch_key_end(attempt: int, token: int) -> str:
    """Return how the keys of all dispatches of an attempt under one token end."""
    return f"|{attempt}|{token}"
