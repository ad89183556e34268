"""Celery with Redis as broker and as the store of results."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime

from celery import Celery
from celery.signals import worker_ready
from noted import note, planned

port = os.environ.get("PEER_REDIS_PORT", "6379")
app = Celery("peers", broker=f"redis://127.0.0.1:{port}/0", backend=f"redis://127.0.0.1:{port}/1")
app.conf.update(
    broker_connection_retry_on_startup=True,
    worker_disable_rate_limits=True,
    worker_redirect_stdouts=False,
)
WORK = ("worker", "--loglevel=ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat")
"""Processes: one for each core, its default. What only fleets of workers need is off."""


@app.task(name="note", bind=True)
def noted(task, number: int) -> None:
    """Do nothing but leave evidence."""
    note(number, bool((task.request.delivery_info or {}).get("redelivered")))


@worker_ready.connect
def _tell(**_: object) -> None:
    print("ready", flush=True)  # noqa: T201


def insert() -> None:
    """Send the jobs over one connection."""
    with app.producer_pool.acquire(block=True) as producer:
        for number, due_s in planned():
            due = datetime.fromtimestamp(due_s, UTC)
            noted.apply_async((number,), eta=due, task_id=str(number), producer=producer)


if __name__ == "__main__":
    {"setup": lambda: None, "insert": insert, "work": lambda: app.worker_main(list(WORK))}[sys.argv[1]]()
