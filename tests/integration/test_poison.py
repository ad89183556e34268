"""Handlers that end their process, over a real broker: they become dead letters, and none of their neighbours does.

The workers are processes that serve an app, started again when they die, as a supervisor would. The owner is turned by
the test, and what it waits for after a loss is scaled down (``work_world``); sessions, and how many deaths it takes,
are the real ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration import deadly_handlers
from tests.integration.work_world import WorkWorld
from tocsin.devcluster import Endpoints
from tocsin.domain import retries
from tocsin.domain.executions import ENDS
from tocsin.engine.engine_limits import EngineLimits

pytestmark = pytest.mark.real

APP = f"{Path(deadly_handlers.__file__)}:app"
WAITS_S = (0.0, 0.2, 0.5)


@pytest.fixture
def world(cluster: Endpoints, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkWorld]:
    monkeypatch.setattr(retries, "LOSS_DELAYS_S", WAITS_S)
    made = WorkWorld(cluster.kafka_bootstrap, unique, tmp_path, monkeypatch, [deadly_handlers.POOL])
    yield made
    made.close()


class Supervised:
    """A worker that is started again whenever it has died."""

    def __init__(self, world: WorkWorld) -> None:
        self._world = world
        self.deaths: list[int] = []
        self._start()

    def _start(self) -> None:
        name = f"life-{len(self.deaths)}"
        self._worker = self._world.start_worker(name, app=APP, lease_after_s=5.0, handler_processes=2)

    def look(self) -> None:
        if (code := self._worker.process.poll()) is not None:
            self.deaths.append(code)
            self._start()


def test_a_handler_that_ends_its_process_becomes_a_dead_letter_and_none_of_its_neighbours_does(
    world: WorkWorld,
) -> None:
    names = ["well", "exit", "well", "well-plain", "exit-plain", "well-plain"]
    target = {"type": "handler", "pool": deadly_handlers.POOL, "timeout_s": 30.0}
    jobs = {world.run_target({**target, "name": name}): name for name in names}
    worker = Supervised(world)

    def ends() -> list[tuple[str, str, str | None]]:
        worker.look()
        told = [(name, event) for job, name in jobs.items() for event in world.events(job)]
        return sorted((name, event.state, event.reason) for name, event in told if event.state in ENDS)

    world.until("all to end", lambda: len(ends()) == len(jobs))
    assert ends() == [
        ("exit", "DEAD", "poison"),
        ("exit-plain", "DEAD", "poison"),
        *[("well", "SUCCEEDED", None)] * 2,
        *[("well-plain", "SUCCEEDED", None)] * 2,
    ]
    assert worker.deaths == [7, 7], "from its second loss on it could only end a process of its own"
    lost = [jobs[report.head.job_id] for report in world.reports() if report.reason == "predecessor"]
    assert {"well", "well-plain"} < set(lost), "its neighbours were lost with their worker, as it was itself"
    dead = {jobs[letter.job_id or ""]: letter.reason for letter in world.dead_letters()}
    died = f"poison: {EngineLimits().max_reaps} processes that ran it alone died, the last so: the process that ran it"
    assert dead == {name: f"{died} alone died (exit status {n})" for name, n in (("exit", 7), ("exit-plain", 8))}
