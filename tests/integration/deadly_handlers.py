"""Handlers of an app whose deaths take their process along; ``test_poison`` runs them in real workers."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Final

import tocsin

POOL: Final = "deadly"
DIES_AFTER_S: Final = 0.3
"""Its neighbours have begun by then, and have not ended."""
LASTS_S: Final = 1.0

app = tocsin.Worker(pool=POOL)


@app.handler("exit")
async def leave() -> None:
    """End the worker itself, where all async handlers run."""
    await asyncio.sleep(DIES_AFTER_S)
    os._exit(7)


@app.handler("exit-plain")
def leave_plain() -> None:
    """End the child process in which plain handlers run."""
    os._exit(8)


@app.handler("well")
async def well() -> str:
    await asyncio.sleep(LASTS_S)
    return "well"


@app.handler("well-plain")
def well_plain() -> str:
    time.sleep(LASTS_S)
    return "well"
