"""What a job wants done when runs overlap or fail: values, defaults and their validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from tocsin.domain.error_classes import parse_retry_on
from tocsin.domain.fields import FieldReader
from tocsin.domain.instants import DAY, SECOND

ATTEMPTS_MAX: Final = 1_000_000
RETRY_S_MAX: Final = 7 * DAY // SECOND


class Overlap(StrEnum):
    """What happens when a job is due while an execution of it is active (a pending retry counts)."""

    SKIP = "skip_if_running"
    ALLOW = "allow"
    QUEUE = "queue"
    """It waits behind what is active, oldest first, up to a bound."""
    REPLACE = "replace"
    """What is active is cancelled, and it starts once that is known to be over."""


class DeliveryPolicy(StrEnum):
    """What becomes of an attempt that may have run, and of which nobody can tell how it ended."""

    AT_LEAST_ONCE = "at_least_once"
    """It is made again, marked as a redelivery."""
    AT_MOST_ONCE = "at_most_once"
    """It is never made again: its execution ends UNKNOWN."""


_OVERLAPS: Final = tuple(str(policy) for policy in Overlap)
_DELIVERIES: Final = tuple(str(policy) for policy in DeliveryPolicy)
GROUP_CHARS_MAX: Final = 200
DURATION_S_MAX: Final = 366 * DAY // SECOND


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a failing execution is attempted, and how long tocsin waits in between.

    Attributes:
        max_attempts: all attempts together.
        backoff: ``exponential`` (doubling), ``linear`` or ``fixed``.
        base_s: the first delay's upper bound.
        max_s: no delay is longer.
        jitter: ``full`` draws each delay evenly from 0 to its bound, ``none`` takes the bound.
        retry_on: which errors are attempted again, where the job decides: see ``domain.error_classes``.
    """

    max_attempts: int = 5
    backoff: str = "exponential"
    base_s: float = 30.0
    max_s: float = 1800.0
    jitter: str = "full"
    retry_on: Mapping[str, bool] = field(default_factory=dict)


def parse_retry(job: FieldReader) -> RetryPolicy | None:
    """Read ``retry``; None where there is none (one attempt), or where faults were recorded."""
    reader = job.child("retry", remedy='give an object such as {"max_attempts": 5}')
    if reader is None:
        return None
    reader.finish(("max_attempts", "backoff", "base_s", "max_s", "jitter", "retry_on"), {})
    default = RetryPolicy()
    attempts = reader.whole("max_attempts", low=1, high=ATTEMPTS_MAX, unit="attempts")
    base_s = reader.number("base_s", low=0, high=RETRY_S_MAX, unit="seconds")
    max_s = reader.number("max_s", low=0, high=RETRY_S_MAX, unit="seconds")
    return RetryPolicy(
        attempts if attempts is not None else default.max_attempts,
        reader.choice("backoff", ("exponential", "fixed", "linear"), default=default.backoff) or default.backoff,
        float(base_s) if base_s is not None else default.base_s,
        float(max_s) if max_s is not None else default.max_s,
        reader.choice("jitter", ("full", "none"), default=default.jitter) or default.jitter,
        parse_retry_on(reader),
    )


def retry_mapping(policy: RetryPolicy) -> dict[str, Any]:
    """Return a policy as the mapping that ``parse_retry`` reads; without overrides as it was before there were any."""
    mapping: dict[str, Any] = {
        "max_attempts": policy.max_attempts,
        "backoff": policy.backoff,
        "base_s": policy.base_s,
        "max_s": policy.max_s,
        "jitter": policy.jitter,
    }
    return mapping | {"retry_on": dict(policy.retry_on)} if policy.retry_on else mapping


def parse_delivery(job: FieldReader) -> DeliveryPolicy:
    """Read ``delivery``."""
    default = DeliveryPolicy.AT_LEAST_ONCE
    return DeliveryPolicy(job.choice("delivery", _DELIVERIES, default=default) or default)


def parse_overlap(job: FieldReader) -> Overlap:
    """Read ``concurrency``."""
    return Overlap(job.choice("concurrency", _OVERLAPS, default=Overlap.SKIP) or Overlap.SKIP)


def parse_group(job: FieldReader, overlap: Overlap) -> str | None:
    """Read ``concurrency_group``, whose jobs never run at once."""
    group = job.text("concurrency_group", chars_max=GROUP_CHARS_MAX)
    if group is not None and overlap is Overlap.ALLOW:
        remedy = f"give one of {Overlap.SKIP}, {Overlap.QUEUE}, {Overlap.REPLACE}, or leave the group out"
        job.fault("concurrency", job.get("concurrency"), "goes with no concurrency_group", remedy)
    return group


def parse_max_duration(job: FieldReader) -> float | None:
    """Read ``max_duration_s``; None: a run may take as long as its attempts do."""
    value = job.number("max_duration_s", low=0, high=DURATION_S_MAX, unit="seconds", above_low=True)
    return None if value is None else float(value)
