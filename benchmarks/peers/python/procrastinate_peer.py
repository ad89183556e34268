"""procrastinate, on PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import UTC, datetime

from noted import note, planned
from procrastinate import App, PsycopgConnector

CONCURRENCY = 20
CONNECTIONS = 20
POLL_S = 0.05
"""Jobs that come due are found by asking only: its notifications tell of those that are inserted."""
BATCH = 1_000

app = App(
    connector=PsycopgConnector(
        conninfo=f"host=127.0.0.1 port={os.environ['PEER_POSTGRES_PORT']} user=postgres dbname=peers",
        min_size=CONNECTIONS,
        max_size=CONNECTIONS,
    )
)


@app.task(name="note", pass_context=True)
async def noted(context, number: int) -> None:
    """Do nothing but leave evidence."""
    note(number, context.job.attempts > 0)


async def setup() -> None:
    """Make the tables."""
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def insert() -> None:
    """Defer the jobs in batches."""
    jobs = planned()
    async with app.open_async():
        for due_s in sorted({due_s for _, due_s in jobs}):
            later = noted.configure(schedule_at=datetime.fromtimestamp(due_s, UTC))
            numbers = [number for number, due in jobs if due == due_s]
            for at in range(0, len(numbers), BATCH):
                await later.batch_defer_async(*({"number": number} for number in numbers[at : at + BATCH]))


async def work() -> None:
    """Run what comes due."""
    async with app.open_async():
        print("ready", flush=True)  # noqa: T201
        await app.run_worker_async(concurrency=CONCURRENCY, fetch_job_polling_interval=POLL_S)


if __name__ == "__main__":
    asyncio.run({"setup": setup, "insert": insert, "work": work}[sys.argv[1]]())
