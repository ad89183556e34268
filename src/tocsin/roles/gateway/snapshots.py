"""Writing decided snapshots to the jobs view before a request is answered, so that every gateway can read them."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from tocsin.domain.errors import Refused, Unavailable
from tocsin.ports.views import ViewReader

log = structlog.get_logger()

REST_S: Final = 1.0
"""After a failure the store is left alone for so long: requests that need it least must not queue up before it."""
INDEX_PENDING: Final = {"Tocsin-Index": "pending"}
"""The command is decided for good, but cannot be read back before the store is there again."""


class SnapshotDesk:
    """Writes the bytes that an owner will write too; where the store is away, that one's own write comes later.

    Args:
        views: where to write.
        wait_s: how long one write may take.
    """

    def __init__(self, views: ViewReader, wait_s: float) -> None:
        self._views = views
        self._wait_s = wait_s
        self._rests_until: float | None = None

    async def write(self, job_id: str, version: int, snapshot: bytes | None) -> dict[str, str]:
        """Write a job's snapshot, or its deletion where None.

        Returns:
            Headers for the answer: they say so if the store did not take it.
        """
        now = asyncio.get_running_loop().time()
        if self._rests_until is not None and now < self._rests_until:
            return INDEX_PENDING
        try:
            async with asyncio.timeout(self._wait_s):
                await self._views.write_job(job_id, version, snapshot)
        except (Unavailable, Refused, TimeoutError) as error:
            if self._rests_until is None:
                log.warning("decided jobs are not readable yet", action="gateway.store_lost", error=str(error))
            self._rests_until = asyncio.get_running_loop().time() + REST_S
            return INDEX_PENDING
        if self._rests_until is not None:
            log.info("the store takes snapshots again", action="gateway.store_back")
            self._rests_until = None
        return {}
