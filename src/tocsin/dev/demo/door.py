"""The demonstration's way in: the REST door, and the metrics, as anybody may use them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from tocsin.dev.demo.occurrences import Created, Key
from tocsin.dev.demo.plan import Places, Wanted
from tocsin.domain.errors import Undecodable
from tocsin.domain.ids import parse_execution_id

AT_ONCE: Final = 24
"""Requests under way at once."""
REQUEST_WAIT_S: Final = 20.0

Item = TypeVar("Item")


class Door:
    """A client of one gateway."""

    def __init__(self, gateway_url: str, session: aiohttp.ClientSession) -> None:
        self._url = gateway_url
        self._session = session

    async def create(self, wanted: Wanted, places: Places) -> Created | str:
        """Create a job; return it, or why it was not taken."""
        try:
            async with self._session.post(f"{self._url}/v1/jobs", json=wanted.body(places)) as answer:
                said: dict[str, Any] = await answer.json()
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
        if answer.status not in (201, 202):
            return f"{answer.status}: {said.get('detail', said)}"
        now = time.time_ns() // 1_000
        return Created(said["job_id"], wanted.due_at, wanted.kind, now, decided=answer.status == 201)

    async def delete(self, job_id: str) -> bool:
        """Delete a job; tell whether that was taken."""
        try:
            async with self._session.delete(f"{self._url}/v1/jobs/{job_id}") as answer:
                return answer.status < 300
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def states(self, job_id: str, limit: int = 1) -> dict[Key, str]:
        """Return the states of a job's newest runs; nothing where the history has none or cannot be read now."""
        try:
            async with self._session.get(f"{self._url}/v1/jobs/{job_id}/runs", params={"limit": str(limit)}) as answer:
                runs = (await answer.json())["runs"] if answer.status == 200 else []
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return {}
        found: dict[Key, str] = {}
        for run in runs:  # the newest first, and of an execution its last attempt
            try:
                name = parse_execution_id(run["execution_id"])
            except Undecodable:
                continue
            found.setdefault((name.job_id, name.scheduled_for), run["state"])
        return found

    async def metrics(self, url: str) -> dict[str, list[tuple[dict[str, str], float]]]:
        """Return a role's samples by name, each with its labels; nothing where it does not answer."""
        try:
            async with self._session.get(url) as answer:
                families = list(text_string_to_metric_families(await answer.text())) if answer.status == 200 else []
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return {}
        samples: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in families:
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
