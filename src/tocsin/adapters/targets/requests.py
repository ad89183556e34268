"""What is sent for an attempt: the headers of the contract, the job's own, and the body. Pure."""

from __future__ import annotations

from typing import Final

from tocsin import __version__
from tocsin.adapters.targets.signatures import Signer
from tocsin.domain.callback_keys import CallbackKeys
from tocsin.domain.instants import Micros, format_rfc3339
from tocsin.domain.placeholders import filled
from tocsin.domain.targets import HttpTarget
from tocsin.ports.targets import Attempt

USER_AGENT: Final = f"tocsin/{__version__}"


def request_body(attempt: Attempt, target: HttpTarget) -> bytes | None:
    """Return the bytes to send, placeholders filled in; None for a request without a body."""
    if target.body is None:
        return None
    if not target.template:
        return target.body.encode()
    head = attempt.execution.head
    values = {
        "execution_id": head.execution_id,
        "job_id": head.job_id,
        "tenant_id": head.tenant_id,
        "scheduled_for": format_rfc3339(head.scheduled_for),
        "attempt": str(head.attempt),
        "token": str(head.token),
    }
    return filled(target.body, values).encode()


def request_headers(
    attempt: Attempt, target: HttpTarget, body: bytes | None, signer: Signer, callbacks: CallbackKeys, now: Micros
) -> dict[str, str]:
    """Return the headers of the contract, and the job's own. ``now`` is the time of the attempt, µs."""
    head = attempt.execution.head
    headers = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity"}
    if body is not None:
        headers["Content-Type"] = "text/plain; charset=utf-8"
    own = {name.lower() for name in target.headers}
    headers = {name: value for name, value in headers.items() if name.lower() not in own}
    headers |= target.headers
    headers |= {
        # In double quotes, as a structured field: draft-ietf-httpapi-idempotency-key-header.
        "Idempotency-Key": f'"{head.execution_id}"',
        "Tocsin-Job-Id": head.job_id,
        "Tocsin-Scheduled-For": format_rfc3339(head.scheduled_for),
        "Tocsin-Attempt": str(head.attempt),
        "Tocsin-Token": str(head.token),
    }
    if attempt.redelivered:
        headers["Tocsin-Redelivered"] = "true"
    if target.callback:
        headers["Tocsin-Callback-Key"] = callbacks.key(head.execution_id, head.attempt, head.token)
    return headers | signer.headers(head.tenant_id, head.execution_id, body or b"", now)
