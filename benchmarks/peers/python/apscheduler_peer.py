"""APScheduler 3 with jobs in PostgreSQL."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime

from apscheduler.events import EVENT_SCHEDULER_STARTED
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.blocking import BlockingScheduler
from noted import planned

THREADS = 10
"""Its default. The handler does nothing, so more would only wait: the scheduler's own thread is what is slow."""


def configured(kind):
    """Make a scheduler."""
    url = f"postgresql+psycopg://postgres@127.0.0.1:{os.environ['PEER_POSTGRES_PORT']}/peers"
    return kind(
        jobstores={"default": SQLAlchemyJobStore(url)},
        executors={"default": ThreadPoolExecutor(THREADS)},
        # Else what is later than a second is not run at all.
        job_defaults={"misfire_grace_time": None},
        timezone=UTC,
    )


def insert() -> None:
    """Add the jobs, one transaction for each: there is no way to add several at once."""
    scheduler = configured(BackgroundScheduler)
    scheduler.start(paused=True)
    for number, due_s in planned():
        due = datetime.fromtimestamp(due_s, UTC)
        scheduler.add_job("noted:note", "date", run_date=due, args=[number], id=str(number))
    scheduler.shutdown()


def work() -> None:
    """Run what comes due."""
    scheduler = configured(BlockingScheduler)
    scheduler.add_listener(lambda _event: print("ready", flush=True), EVENT_SCHEDULER_STARTED)  # noqa: T201
    scheduler.start()


if __name__ == "__main__":
    {"setup": lambda: None, "insert": insert, "work": work}[sys.argv[1]]()
