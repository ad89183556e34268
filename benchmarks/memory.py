"""``memory``: the most memory that each role takes with few and with a million jobs pending.

A trigger, a projector, a gateway and a worker with default settings run while the jobs are created through the command
topic, due so far ahead that only the index holds them. Then all four are started anew, so that what loading left in
their heaps counts no more, and each is driven: a burst of one-offs is fired, carried out over HTTP, reported and filed;
jobs are listed page by page, some are read one by one, and more are created by REST. The same with fewer jobs, on
servers of their own, beforehand. Run it by ``make bench-memory``.

A gateway keeps the outcomes of the last hour, up to a number and a size that its settings bound. That depends on what
was created lately and not on what is pending, so it is compared with a step at which as many are kept as may be.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import aiohttp
import orjson
from rich.console import Console

from benchmarks.burst import create
from benchmarks.capacity.inputs import DRIVEN
from benchmarks.command import begin, conclude, parser
from benchmarks.http_server import http_server
from benchmarks.pending import TARGET, Loading, load
from benchmarks.plot import write_lines
from benchmarks.results_file import Goal
from benchmarks.rig import Rig, metric, peak_memory_mib, rig, wait_until
from tocsin.adapters.kafka.names import TopicNames
from tocsin.config import Settings

ROLES: Final = ("trigger", "projector", "gateway", "worker")
MORE_MIB: Final = 32
"""A role may take so much more with the many: at a hundred bytes for each of a million it would be 95."""
PATIENCE_S: Final = 900.0
LEAD_S: Final = 45.0
"""For creating the burst, by a trigger that has just been started."""
PAGE: Final = 500
READ: Final = 1_000
"""So many of the listed jobs are read one by one."""
CREATED: Final = 1_000
LISTED_MAX: Final = 50_000
SIDE_BY_SIDE: Final = 16
AHEAD_S: Final = 7 * 86_400
SEED: Final = 7
ENVIRON: Final = {"TOCSIN_GATEWAY__PORT": "0", "TOCSIN_WORKER__ALLOW_PRIVATE_TARGETS": "true"}

console = Console()


@contextmanager
def all_roles(system: Rig) -> Iterator[Mapping[str, int]]:
    """Run one process of each role; yield their pids by name."""
    with ExitStack() as stack:
        pids = {}
        for role in ROLES:
            ready = system.owns_all if role == "trigger" else _serves
            pids[role] = stack.enter_context(system.role(role, ready, extra=ENVIRON)).pid
        yield pids


def _serves(_facts: Mapping[str, Any]) -> bool:
    return True


def peaks(pids: Mapping[str, int]) -> dict[str, float]:
    """Return the most that each process has had, MiB."""
    return {role: peak_memory_mib(pid) for role, pid in pids.items()}


def await_filed(system: Rig) -> None:
    """Wait until the projector has nothing left to file, as it says of itself every second."""
    url = str(system.facts("projector")["metrics_url"])
    for _ in range(2):
        wait_until(lambda: metric(url, "tocsin_lag_records") == 0, PATIENCE_S)
        time.sleep(1.5)


def drive(system: Rig, names: TopicNames, address: str, n: int, pending: int) -> None:
    """Have every role do a little of what it does; end the benchmark where something of it does not come out."""
    target = {"type": "http", "url": f"{address}/run", "body": '{"from": "memory"}'}
    due_s = int(time.time() + LEAD_S) + 1
    create(system, names, n, due_s, target)
    url = str(system.facts("trigger")["metrics_url"])
    wait_until(lambda: metric(url, "tocsin_completed_total") >= n, PATIENCE_S, lambda: system.tail("worker"))
    await_filed(system)
    asyncio.run(ask(str(system.facts("gateway")["gateway_url"]), min(pending + n, LISTED_MAX)))
    await_filed(system)


async def ask(url: str, jobs: int) -> None:
    """List so many jobs page by page, read some of them and their runs, and create more."""
    async with aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(limit=SIDE_BY_SIDE)) as session:
        began_s = time.monotonic()
        listed: list[str] = []
        token: str | None = None
        while len(listed) < jobs:
            page = await got(session, "/v1/jobs", {"limit": str(PAGE), **({"page_token": token} if token else {})})
            listed += [str(job["job_id"]) for job in page["jobs"]]
            token = page["next_page_token"]
            if token is None:
                break
        listed = listed[:jobs]
        if len(listed) != jobs or len(set(listed)) != jobs:
            raise SystemExit(f"of {jobs} jobs {len(listed)} were listed, {len(set(listed))} of them different")
        console.print(f"{jobs:,} listed, {len(listed) / (time.monotonic() - began_s):,.0f} a second")
        sample = iter(random.Random(SEED).sample(listed, min(READ, jobs)))

        async def reading() -> None:
            for job_id in sample:
                await got(session, f"/v1/jobs/{job_id}", {})
                await got(session, f"/v1/jobs/{job_id}/runs", {})

        await asyncio.gather(*(reading() for _ in range(SIDE_BY_SIDE)))
        body = orjson.dumps({"delay_s": AHEAD_S, "target": TARGET})
        left = iter(range(CREATED))

        async def creating() -> None:
            for _ in left:
                async with session.post("/v1/jobs", data=body, headers={"Content-Type": "application/json"}) as answer:
                    if answer.status not in (201, 202):
                        raise SystemExit(f"a create was answered by {answer.status}: {await answer.text()}")

        await asyncio.gather(*(creating() for _ in range(SIDE_BY_SIDE)))


async def got(session: aiohttp.ClientSession, path: str, query: Mapping[str, str]) -> dict[str, Any]:
    """Return what is answered to a GET."""
    async with session.get(path, params=query) as answer:
        if answer.status != 200:
            raise SystemExit(f"GET {path} was answered by {answer.status}: {await answer.text()}")
        found = orjson.loads(await answer.read())
        assert isinstance(found, dict)
        return found


def measure(address: str, pending: int, n: int, days: float) -> tuple[Loading, dict[str, float], dict[str, float]]:
    """Return how loading went, each role's peak while it went on, and its peak when it was started anew and driven."""
    with rig() as system:
        names = TopicNames(system.settings.kafka.topic_prefix)
        with all_roles(system) as pids:
            loading = load(system, names, pids["trigger"], pending, days)
            await_filed(system)
            while_loading = peaks(pids)
            console.print(f"{pending:,} loaded: {loading.figures}; {while_loading}")
        with all_roles(system) as pids:
            drive(system, names, address, n, pending)
            driven = peaks(pids)
            console.print(f"{pending:,} pending, started anew and driven: {driven}")
    return loading, while_loading, driven


def goals_of(driven: Mapping[int, Mapping[str, float]], outcomes_kept_max: int) -> list[Goal]:
    """Judge what each role takes more with the most jobs than with the fewest.

    Args:
        driven: peaks of each role, by jobs pending.
        outcomes_kept_max: of a gateway, see above; where no step has so many, nothing is said of it.
    """
    goals = []
    for role in ROLES:
        few = min((one for one in driven if role != "gateway" or one >= outcomes_kept_max), default=0)
        many = max(driven)
        if few and few < many:
            mib = round(driven[many][role] - driven[few][role], 1)
            name = f"{role}, MiB more with {many:,} pending than with {few:,}"
            goals.append(Goal(name, f"<= {MORE_MIB}", mib, mib <= MORE_MIB))
    return goals


def main() -> None:
    """Measure with few and with many, and write the result."""
    words = parser("memory", __doc__)
    words.add_argument(
        "--pending", type=int, nargs="+", default=[10_000, 100_000, 1_000_000], help="jobs, step by step"
    )
    words.add_argument("--n", type=int, default=5_000, help="one-offs of the burst")
    words.add_argument("--days", type=float, default=7.0, help="over which the pending jobs are due")
    given = begin(words)
    if len(given.pending) < 2 or sorted(set(given.pending)) != given.pending:
        words.error("--pending wants two numbers at least, each larger than the one before")
    loading: dict[str, Mapping[str, Any]] = {}
    while_loading: dict[str, dict[str, float]] = {}
    driven: dict[int, dict[str, float]] = {}
    with http_server() as address:
        for pending in given.pending:
            name = f"{pending:,} pending"
            went, while_loading[name], driven[pending] = measure(address, pending, given.n, given.days)
            loading[name] = went.figures
            figures = {
                DRIVEN: {f"{pending:,} pending": found for pending, found in driven.items()},
                "peak while loading, MiB": while_loading,
                "loading": loading,
            }
            goals = goals_of(driven, Settings().gateway.outcomes_kept_max)
            conclude("memory", given, figures, goals, tables=True)
    lines = {role: [(float(pending), found[role]) for pending, found in driven.items()] for role in ROLES}
    title = "The most memory of each role, started anew and driven, MiB, by jobs pending"
    write_lines(given.out.with_suffix(".svg"), title, "jobs pending", lines, given.pending)


if __name__ == "__main__":
    main()
