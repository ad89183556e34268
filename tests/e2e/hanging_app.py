"""A service whose functions end only when they are stopped. Each says in a file that it has begun."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import tocsin

app = tocsin.Worker(pool="reminders")


@app.handler("hang-async")
async def hang_async(began: str, context: tocsin.Context) -> None:
    """Wait, and say how that ended."""
    Path(began).write_text(str(os.getpid()))
    try:
        await asyncio.sleep(3_600)
    except asyncio.CancelledError:
        context.log.info("stopped", told=context.cancelled)
        raise


@app.handler("hang-plain")
def hang_plain(began: str) -> None:
    """Block a whole process."""
    Path(began).write_text(str(os.getpid()))
    time.sleep(3_600)


if __name__ == "__main__":
    app.run()
