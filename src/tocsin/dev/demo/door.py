"""The demonstration's way in: the REST door, and the metrics, as anybody may use them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from tocsin.dev.demo.plan import Wanted
from tocsin.dev.demo.tally import Created
from tocsin.domain.instants import format_rfc3339

AT_ONCE: Final = 24
"""Requests under way at once."""
REQUEST_WAIT_S: Final = 20.0

Item = TypeVar("Item")


class Door:
    """A client of one gateway."""

    def __init__(self, gateway_url: str, session: aiohttp.ClientSession) -> None:
        self._url = gateway_url
        self._session = session

    async def create(self, wanted: Wanted, target_url: str) -> Created | str:
        """Create a one-off; return it, or why it was not taken."""
        body = {
            "name": wanted.name,
            "run_at": format_rfc3339(wanted.due_at),
            "target": {"type": "http", "url": target_url},
            "labels": {"demo": "burst" if wanted.burst else "spread"},
        }
        try:
            async with self._session.post(f"{self._url}/v1/jobs", json=body) as answer:
                said: dict[str, Any] = await answer.json()
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
        if answer.status not in (201, 202):
            return f"{answer.status}: {said.get('detail', said)}"
        now = time.time_ns() // 1_000
        return Created(said["job_id"], wanted.due_at, wanted.burst, now, decided=answer.status == 201)

    async def state(self, job_id: str) -> str | None:
        """Return the state of a job's run, or None where the history has none or cannot be read now."""
        try:
            async with self._session.get(f"{self._url}/v1/jobs/{job_id}/runs", params={"limit": "1"}) as answer:
                if answer.status != 200:
                    return None
                runs = (await answer.json())["runs"]
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return None
        return runs[0]["state"] if runs else None

    async def metrics(self, url: str) -> dict[str, list[tuple[dict[str, str], float]]]:
        """Return a role's samples by name, each with its labels; nothing where it does not answer."""
        try:
            async with self._session.get(url) as answer:
                text = await answer.text()
        except (aiohttp.ClientError, TimeoutError):
            return {}
        samples: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                samples.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
        return samples


def session() -> aiohttp.ClientSession:
    """Return a session with the bounds of this module."""
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=REQUEST_WAIT_S), connector=aiohttp.TCPConnector(limit=2 * AT_ONCE)
    )


async def each(items: Iterable[Item], work: Callable[[Item], Awaitable[None]], at_once: int = AT_ONCE) -> None:
    """Do the work for each item, so many at once."""
    waiting = iter(items)

    async def take_turns() -> None:
        for item in waiting:  # shared: each of us takes the next
            await work(item)

    await asyncio.gather(*(take_turns() for _ in range(at_once)))


def total(samples: Sequence[tuple[dict[str, str], float]]) -> int:
    """Return the sum of a counter over its labels."""
    return int(sum(value for _, value in samples))


def buckets(samples: Sequence[tuple[dict[str, str], float]]) -> list[tuple[float, float]]:
    """Return a histogram's buckets, ascending."""
    return sorted((float(labels["le"]), value) for labels, value in samples)
