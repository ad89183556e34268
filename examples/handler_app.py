"""Reminders: a service whose own process runs what tocsin schedules.

    TOCSIN_CLUSTER__POOLS=reminders tocsin topics apply
    python examples/handler_app.py                         # or: tocsin worker --app examples/handler_app.py:app

and a job for it:

    curl -X POST localhost:8080/v1/jobs -H 'Content-Type: application/json' -d '{"delay_s": 5,
        "retry": {"max_attempts": 3}, "target": {"type": "handler", "pool": "reminders", "name": "send-reminder",
        "payload": {"to": "ada", "day": "2026-10-11"}}}'
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import date
from typing import Any

import tocsin

app = tocsin.Worker(pool="reminders")


@dataclass
class Reminder:
    """What a job's payload must look like."""

    to: str
    day: date
    urgent: bool = False


@app.handler("send-reminder")
async def send_reminder(reminder: Reminder, context: tocsin.Context) -> str:
    """Await whatever there is to await: all async handlers share one event loop."""
    await asyncio.sleep(0)  # such as a request to a mail service, with context.execution_id as its idempotency key
    context.log.info("sent", to=reminder.to, again=context.redelivered)
    return f"told {reminder.to} of {reminder.day:%d %B} (attempt {context.attempt})"


@app.handler("count-primes")
def count_primes(below: int) -> dict[str, int]:
    """Compute as long as it takes: plain functions run in child processes."""
    sieve = bytearray([1]) * max(below, 2)
    sieve[:2] = b"\0\0"
    for n in range(2, int(below**0.5) + 1):
        if sieve[n]:
            sieve[n * n :: n] = bytes(len(range(n * n, below, n)))
    return {"primes": sum(sieve[:below])}


@app.handler("charge-card")
def charge_card(payload: dict[str, Any], context: tocsin.Context) -> None:
    """Say what is to follow a failure."""
    if payload.get("card") == "expired":
        raise tocsin.Fail("the card has expired")
    if context.attempt == 1:
        raise tocsin.Retry(after_s=0.1, reason="the bank is busy")


@app.handler("wait-for-files")
async def wait_for_files(context: tocsin.Context) -> None:
    """Stop when told to."""
    try:
        await asyncio.sleep(3_600)
    except asyncio.CancelledError:
        context.log.info("cancelled", cleaning_up=True)
        raise


if __name__ == "__main__":
    app.run()
