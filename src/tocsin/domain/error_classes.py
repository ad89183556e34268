"""The stable words for why an attempt did not succeed, and what another attempt may make of it.

Whoever brings a new kind of target adds its words here: a job may name each of them in ``retry.retry_on``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from tocsin.domain.fields import FieldReader

STATUS: Final = "status"
TIMEOUT: Final = "timeout"
RETRYABLE_STATUSES: Final = frozenset({408, 425, 429})
"""Besides all of 5xx. Other 4xx say that the request itself is wrong."""
FINAL_CLASSES: Final = frozenset(
    {
        "redirect", "blocked", "undecodable", "too_large", "callback_refused", "callbacks_off",
        "topic_missing", "not_authorized", "reserved_topic", "invalid_record", "payload", "fail",
        "not_allowed", "not_executable",
    }
)  # fmt: skip
"""Errors that another attempt would only meet again."""
PASSING_CLASSES: Final = frozenset(
    {
        STATUS, TIMEOUT, "connection_refused", "connection", "dns", "tls", "protocol", "invalid_request", "internal",
        "callback_failed", "no_callback", "lease_expired", "topic_unavailable", "exception", "retry", "no_handler",
        "not_served", "exit", "temporary", "signal", "container",
    }
)  # fmt: skip
"""Errors that may pass, as far as their status does not say otherwise."""
WORKERS_OWN_CLASSES: Final = frozenset(
    {
        "blocked", "undecodable", "callbacks_off", "invalid_request", "internal", "no_handler", "not_served",
        "not_allowed", "exit", "temporary", "signal", "not_executable", "container",
    }
)  # fmt: skip
"""Errors that say nothing of how a target fares: it was not reached, and not because of it; or it is a program, and how
one run of it ends says nothing of the next."""
NEVER_REACHED: Final = frozenset({"connection_refused", "dns", "blocked", "callbacks_off", "not_allowed", "no_handler"})
"""Errors that prove that the target heard nothing of the attempt. All others leave room for doubt: a broken connection
or a timeout says nothing of what the target has done by then."""
CHOOSABLE_CLASSES: Final = (FINAL_CLASSES | PASSING_CLASSES) - {"undecodable", "callbacks_off", "not_allowed"}
"""What ``retry_on`` may name. The others are faults of the cluster, not of the target."""
RETRY_ON_MAX: Final = 50
_STATUS: Final = re.compile(r"[1-5][0-9][0-9]|[1-5]xx")


def parse_retry_on(retry: FieldReader) -> dict[str, bool]:
    """Read ``retry_on``: error classes, HTTP statuses and classes of statuses, each with true or false."""
    reader = retry.child("retry_on", remedy='give an object such as {"404": true, "timeout": false}')
    if reader is None:
        return {}
    given = retry.get("retry_on")
    if len(given) > RETRY_ON_MAX:
        retry.fault("retry_on", f"{len(given)} names", "are too many", f"give at most {RETRY_ON_MAX}")
        return {}
    chosen: dict[str, bool] = {}
    for name in given:
        if not isinstance(name, str) or not (name in CHOOSABLE_CLASSES or _STATUS.fullmatch(name)):
            known = ", ".join(sorted(CHOOSABLE_CLASSES))
            remedy = f"give an HTTP status such as 404, a class of them such as 5xx, or one of: {known}"
            retry.fault("retry_on", name, "is no kind of error", remedy)
        elif given[name] is None:
            reader.fault(name, None, "is neither true nor false", "give true or false")
        elif (retried := reader.flag(name)) is not None:
            chosen[name] = retried
    return chosen


def chosen_for(
    retry_on: Mapping[str, bool], error_class: str | None, status: int | None, timed_out: bool
) -> bool | None:
    """Return what a job says of an error; the most specific of its words counts, and None: it says nothing."""
    words: list[str] = []
    if status is not None and error_class == STATUS:
        words += [str(status), f"{status // 100}xx"]
    if error_class is not None:
        words.append(error_class)
    if timed_out:
        words.append(TIMEOUT)
    return next((retry_on[word] for word in words if word in retry_on), None)
