"""``create``: how many jobs a second one trigger takes on, through the topic and through the REST door.

*Through the topic*: records that were encoded before are handed to a producer at once; *decided* is when the last
outcome was read, *indexed* when the store's index holds a row of each. *Through REST*: requests begin at a steady rate,
whether or not earlier ones were answered, and each counts from the moment at which it was to begin; then as many as a
number of connections can make; then what was created is read at that rate. Run it by ``make bench-create``.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
import orjson
from rich.console import Console

from benchmarks.command import begin, conclude, parser
from benchmarks.creates import Creates, Outcomes
from benchmarks.results_file import Goal
from benchmarks.rig import Rig, cpu_s, peak_memory_mib, rig, spread
from tocsin.adapters.cassandra.session import connect
from tocsin.adapters.kafka.names import TopicNames
from tocsin.bootstrap.stores import store_address
from tocsin.domain.ids import DEFAULT_TENANT
from tocsin.domain.instants import format_rfc3339
from tocsin.engine.fresh_ids import SKEW_MS

TOPIC_GOAL: Final = 2_000
REST_GOAL_MS: Final = 100.0
OWN_IDS_SHARE: Final = 4
"""So many creates fewer are made with ids of their sender's."""
AHEAD_MINUTES: Final = 600
"""Due so long from now that nothing of it fires, or is read ahead, while it is measured."""
PATIENCE_S: Final = 300.0
LOOK_EVERY_S: Final = 0.2
WARM_UP: Final = 500
FRESH_S: Final = SKEW_MS / 1000 + 1
"""An owner looks up each id that was made before it began, or within a clock's error after that: these are over."""
REST_WARM_UP_S: Final = 8.0
"""So long requests come before those that count: pools are filled, statements prepared, servers' code is compiled, and
an owner looks no more ids up."""
READ_WARM_UP_S: Final = 2.0
TARGET: Final = {"type": "http", "url": "http://127.0.0.1:9/nobody", "body": '{"from": "create"}'}

console = Console()


def through_topic(
    system: Rig, names: TopicNames, trigger: int, n: int, minutes: int, first_minute: int, *, own_ids: bool = False
) -> dict[str, Any]:
    """Create N one-offs, spread over some minutes; return the figures.

    Args:
        system, names: the cluster.
        trigger: its pid.
        n, minutes, first_minute: how many, and when they are due.
        own_ids: they have ids of their sender's, under which there might be a job; else new ones that tocsin makes.
    """
    outcomes, creates = Outcomes(system, names, "create"), Creates(system, names, "create")
    due = [format_rfc3339((first_minute + number % minutes) * 60_000_000 + number) for number in range(n)]
    ids = [f"{DEFAULT_TENANT}@own-{first_minute}-{number}" if own_ids else None for number in range(n)]
    records = [creates.encoded({"run_at": at, "target": TARGET}, job_id) for at, job_id in zip(due, ids, strict=True)]
    began, cpu_before_s = time.time(), cpu_s(trigger)
    for record in records:
        creates.hand_over(record)
    creates.flush()
    in_log_s = time.time() - began
    decided = outcomes.await_accepted(n, began + PATIENCE_S)
    decided_s = time.time() - began
    outcomes.close()
    indexed = await_indexed(system, n, range(first_minute, first_minute + minutes), began + PATIENCE_S)
    indexed_s = time.time() - began
    if decided < n or indexed < n:
        raise SystemExit(f"of {n} creates {decided} were decided and {indexed} indexed within {PATIENCE_S:.0f} s")
    return {
        "n": n,
        "minutes": minutes,
        "in_the_log_after_s": round(in_log_s, 2),
        "decided_per_s": round(n / decided_s),
        "indexed_after_decided_s": round(indexed_s - decided_s, 2),
        "decided_and_indexed_per_s": round(n / indexed_s),
        "trigger_cpu_us_per_create": round((cpu_s(trigger) - cpu_before_s) / n * 1e6),
        "trigger_memory_mib_max": peak_memory_mib(trigger),
    }


def await_indexed(system: Rig, n: int, minutes: range, until_s: float) -> int:
    """Count rows of the index until there are N; return how many there were."""
    connection = connect(store_address(system.settings))
    counted = 0
    try:
        session = connection.session
        count = session.prepare("SELECT COUNT(*) FROM schedule_index WHERE bucket_minute = ? AND shard = ?")
        left = {(minute, shard) for minute in minutes for shard in range(system.shards)}
        share = n // len(left) // 2  # Nearly all of a bucket's rows are there long before its last one.
        while counted < n and time.time() < until_s:
            found = {place: session.execute(count, place).one()[0] for place in left}
            counted = sum(found.values())
            if min(found.values()) >= share:
                time.sleep(LOOK_EVERY_S)
    finally:
        connection.close()
    return counted


class Door:
    """The REST door of a gateway; each request returns the status of its answer."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session

    async def create(self, created: list[str]) -> int:
        """Create a job, and note where it is."""
        body = orjson.dumps({"delay_s": AHEAD_MINUTES * 60, "target": TARGET})
        headers = {"Content-Type": "application/json"}
        async with self._session.post(f"{self._url}/v1/jobs", data=body, headers=headers) as answer:
            await answer.read()
            created.append(answer.headers.get("Location", "/"))
            return answer.status

    async def read(self, created: list[str]) -> int:
        """Read one of the jobs that were created."""
        async with self._session.get(self._url + random.choice(created)) as answer:
            await answer.read()
            return answer.status


Ask = Callable[[Door], Awaitable[int]]


@asynccontextmanager
async def door_of(url: str) -> AsyncIterator[Door]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield Door(url, session)


async def at_a_rate(url: str, per_s: float, lasts_s: float, ask: Ask) -> tuple[list[float], Counter[int]]:
    """Ask at a steady rate; return how long each took, ms, and how often each status was answered."""
    took_ms: list[float] = []
    statuses: Counter[int] = Counter()
    async with door_of(url) as door:
        begin_s = time.monotonic() + 0.5

        async def one(number: int) -> None:
            at_s = begin_s + number / per_s
            await asyncio.sleep(at_s - time.monotonic())
            statuses[await ask(door)] += 1
            took_ms.append((time.monotonic() - at_s) * 1000)

        await asyncio.gather(*(one(number) for number in range(round(per_s * lasts_s))))
    return took_ms, statuses


async def as_many_as_can_be(url: str, connections: int, lasts_s: float, ask: Ask) -> tuple[float, Counter[int]]:
    """Ask on so many connections, one time after another on each; return creates a second, and the statuses."""
    statuses: Counter[int] = Counter()
    async with door_of(url) as door:
        began_s = time.monotonic()

        async def many() -> None:
            while time.monotonic() < began_s + lasts_s:
                statuses[await ask(door)] += 1

        await asyncio.gather(*(many() for _ in range(connections)))
        took_s = time.monotonic() - began_s
    return statuses[201] / took_s, statuses


def steadily(url: str, gateway: int, per_s: float, lasts_s: float, ask: Ask) -> dict[str, Any]:
    """Return latency, statuses and a gateway's CPU time of requests at a steady rate. ``gateway``: its pid."""
    cpu_before_s = cpu_s(gateway)
    took_ms, statuses = asyncio.run(at_a_rate(url, per_s, lasts_s, ask))
    return {
        "latency_ms": spread(took_ms),
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
        "gateway_cpu_us": round((cpu_s(gateway) - cpu_before_s) / len(took_ms) * 1e6),
    }


def through_rest(url: str, gateway: int, per_s: float, lasts_s: float, connections: int) -> dict[str, Any]:
    """Return the figures of the REST door. ``gateway``: its pid."""
    created: list[str] = []

    def create(door: Door) -> Awaitable[int]:
        return door.create(created)

    asyncio.run(at_a_rate(url, per_s, REST_WARM_UP_S, create))
    creates = steadily(url, gateway, per_s, lasts_s, create)
    most_per_s, most_statuses = asyncio.run(as_many_as_can_be(url, connections, lasts_s / 2, create))

    def read(door: Door) -> Awaitable[int]:
        return door.read(created)

    asyncio.run(at_a_rate(url, per_s, READ_WARM_UP_S, read))
    reads = steadily(url, gateway, per_s, lasts_s / 4, read)
    return {
        "per_s": per_s,
        "lasts_s": lasts_s,
        "latency_ms": creates["latency_ms"],
        "statuses": creates["statuses"],
        "gateway_cpu_us_per_create": creates["gateway_cpu_us"],
        "connections": connections,
        "created_per_s_on_these": round(most_per_s),
        "statuses_on_these": {str(status): count for status, count in sorted(most_statuses.items())},
        "reads": reads,
    }


def goals_of(topic: dict[str, Any] | None, rest: dict[str, Any]) -> list[Goal]:
    p99 = rest["latency_ms"]["p99"]
    others = sum(rest["statuses"].values()) - rest["statuses"].get("201", 0)
    goals = [
        Goal(f"REST p99, ms, at {rest['per_s']:.0f}/s", f"< {REST_GOAL_MS:.0f}", p99, p99 < REST_GOAL_MS),
        Goal(f"REST answers but 201, at {rest['per_s']:.0f}/s", "0", others, others == 0),
    ]
    if topic is not None:
        created = topic["decided_and_indexed_per_s"]
        name = "through the topic, decided and indexed a second"
        goals.insert(0, Goal(name, f">= {TOPIC_GOAL}", created, created >= TOPIC_GOAL))
    return goals


def topic_figures(system: Rig, names: TopicNames, trigger: int, n: int, minutes: int) -> dict[str, Any]:
    """Return the figures of the topic's door, by their names. ``trigger``: its pid."""
    first = int(time.time() // 60) + AHEAD_MINUTES
    through_topic(system, names, trigger, WARM_UP, 1, first)
    time.sleep(FRESH_S)
    topic = through_topic(system, names, trigger, n, minutes, first + 1)
    console.print(topic)
    of_own = (n // OWN_IDS_SHARE, minutes, first + 1 + minutes)
    own_ids = through_topic(system, names, trigger, *of_own, own_ids=True)
    console.print(own_ids)
    return {"topic": topic, "topic_own_ids": own_ids}


def main() -> None:
    """Measure both doors, and write the result."""
    words = parser("create", __doc__)
    words.add_argument("--n", type=int, default=20_000, help="creates through the topic; 0: only through REST")
    words.add_argument("--minutes", type=int, default=10, help="over which these are due")
    words.add_argument("--per-s", type=float, default=200.0, help="creates a second through REST")
    words.add_argument("--lasts-s", type=float, default=20.0)
    words.add_argument("--connections", type=int, default=64)
    given = begin(words)
    figures: dict[str, Any] = {}
    with rig() as system:
        names = TopicNames(system.settings.kafka.topic_prefix)
        with system.role("trigger", system.owns_all) as trigger:
            if given.n:
                figures |= topic_figures(system, names, trigger.pid, given.n, given.minutes)
            with system.role("gateway", lambda facts: True, extra={"TOCSIN_GATEWAY__PORT": "0"}) as gateway:
                url = system.facts("gateway")["gateway_url"]
                figures["rest"] = through_rest(url, gateway.pid, given.per_s, given.lasts_s, given.connections)
    conclude("create", given, figures, goals_of(figures.get("topic"), figures["rest"]))


if __name__ == "__main__":
    main()
