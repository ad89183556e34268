"""What follows a failed or lost attempt: whether there is another, and when.

Everything is decided from the execution's id and the attempt's number, so a replay agrees with the first time.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from tocsin.domain.error_classes import (
    FINAL_CLASSES,
    NEVER_REACHED,
    RETRYABLE_STATUSES,
    STATUS,
    WORKERS_OWN_CLASSES,
    chosen_for,
)
from tocsin.domain.executions import AttemptError, ReportKind
from tocsin.domain.instants import SECOND, Micros
from tocsin.domain.policies import RetryPolicy
from tocsin.domain.targets import MessageTarget, Target

ASKED_FOR_PATIENCE: Final = "retry"
"""The class of a handler's own wish for another attempt."""
LOSS_DELAYS_S: Final = (0.0, 10.0, 60.0)
"""How long a dispatch waits after so many losses; the last one for all further ones."""
RETURN_DELAY_S: Final = (10.0, 300.0)
"""The first and the longest delay of work that was returned without having started; doubling in between."""


def never_reached(kind: ReportKind, error: AttemptError | None, target: Target) -> bool:
    """Tell whether a failed attempt certainly left its target untouched, so that even what must not be repeated may be.

    A message that failed was not written: its lane writes message and report in one transaction.
    """
    if kind is not ReportKind.FAILED or error is None:
        return False
    return isinstance(target, MessageTarget) or error.error_class in NEVER_REACHED


def is_retryable(kind: ReportKind, error: AttemptError | None, policy: RetryPolicy | None = None) -> bool:
    """Tell whether another attempt may go better; a job's ``retry_on`` overrides what is so by itself."""
    timed_out = kind is ReportKind.TIMED_OUT
    if not timed_out and (kind is not ReportKind.FAILED or error is None):
        return False
    if policy is not None and policy.retry_on:
        error_class, status = (None, None) if error is None else (error.error_class, error.status)
        chosen = chosen_for(policy.retry_on, error_class, status, timed_out)
        if chosen is not None:
            return chosen
    if timed_out or error is None:
        return timed_out
    if error.error_class == STATUS and error.status is not None:
        return error.status in RETRYABLE_STATUSES or 500 <= error.status <= 599
    return error.error_class not in FINAL_CLASSES


_WELL: Final = (ReportKind.SUCCEEDED, ReportKind.ACCEPTED)


def speaks_against_target(kind: ReportKind, error: AttemptError | None) -> bool | None:
    """Tell whether an end shows that a target fails as a whole; None where it says nothing of the target.

    An answer that refuses one request shows that the target lives, and so does one that asks for patience.
    """
    if kind in _WELL:
        return False
    if kind is ReportKind.TIMED_OUT:
        return True
    if kind is not ReportKind.FAILED or error is None or error.error_class in WORKERS_OWN_CLASSES:
        return None
    if error.error_class == STATUS and error.status is not None:
        return 500 <= error.status <= 599
    return error.error_class not in FINAL_CLASSES and error.error_class != ASKED_FOR_PATIENCE


def retry_delay(policy: RetryPolicy, execution_id: str, attempt: int, retry_after_s: float | None = None) -> Micros:
    """Return how long to wait after an attempt has failed, µs.

    Args:
        policy: the job's.
        execution_id: seeds the jitter, together with the attempt.
        attempt: the one that failed, from 1: its retry has the same number.
        retry_after_s: what the target asked for; it can only lengthen the delay, and not beyond ``max_s``.
    """
    if policy.backoff == "fixed":
        bound = policy.base_s
    elif policy.backoff == "linear":
        bound = policy.base_s * attempt
    else:
        # Two to the fortieth seconds is beyond every cap; the power itself must not overflow.
        bound = policy.base_s * 2.0 ** min(attempt - 1, 40)
    bound = min(bound, policy.max_s)
    delay_s = bound if policy.jitter == "none" else bound * _draw(execution_id, attempt)
    if retry_after_s is not None and retry_after_s >= 0:
        delay_s = max(delay_s, min(retry_after_s, policy.max_s))
    return round(delay_s * SECOND)


def loss_delay(losses: int) -> Micros:
    """Return how long to wait before a lost attempt is dispatched again, µs. ``losses`` counts the one at hand."""
    return round(LOSS_DELAYS_S[min(losses, len(LOSS_DELAYS_S)) - 1] * SECOND)


def return_delay(returns: int) -> Micros:
    """Return how long to wait with work that was returned ``returns`` times in a row without having started, µs."""
    first, longest = RETURN_DELAY_S
    return round(min(longest, first * 2.0 ** min(returns - 1, 20)) * SECOND)


def _draw(execution_id: str, attempt: int) -> float:
    """Return a number from 0 up to 1 that looks random and is always the same."""
    digest = blake2b(f"{execution_id}/{attempt}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
