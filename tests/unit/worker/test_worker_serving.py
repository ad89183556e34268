"""How a worker's process drives its loop: ready, asked to stop, or in need of a new process."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tests.unit.worker.worker_world import Worker, World
from tocsin.bootstrap.worker import serve
from tocsin.roles.heartbeat import LoopWatch


class FakeProcess:
    """The part of ``Process`` that serving needs; is asked to stop after so many turns."""

    def __init__(self, turns: int) -> None:
        self.stopping = threading.Event()
        self.readiness = 0
        self._turns = turns

    def ready(self, **addresses: object) -> None:
        self.readiness += 1

    def count_down(self) -> None:
        self._turns -= 1
        if self._turns <= 0:
            self.stopping.set()


def drive(
    world: World, worker: Worker, process: FakeProcess, during: Any = lambda: None, stop_grace_s: float = 5.0
) -> bool:
    step = worker.loop.step

    def counted() -> None:
        step()
        during()
        process.count_down()

    worker.loop.step = counted  # type: ignore[method-assign]
    return serve(process, worker.loop, LoopWatch(time.monotonic), stop_grace_s)  # type: ignore[arg-type]


def test_it_says_once_that_it_is_ready_and_ends_well_when_asked() -> None:
    world = World()
    world.dispatch("a", "b")
    worker, process = world.worker(), FakeProcess(turns=5)
    assert drive(world, worker, process, worker.runner.finish_all)
    assert process.readiness == 1
    assert world.lane.committed[0] == (2, "")
    assert len(worker.reports) == 2


def test_what_runs_when_it_is_asked_to_stop_is_let_end() -> None:
    world = World()
    world.dispatch("a")
    worker, process = world.worker(), FakeProcess(turns=1)

    def finish_when_asked() -> None:
        if process.stopping.is_set():
            worker.runner.finish_all()

    assert drive(world, worker, process, finish_when_asked)
    assert world.lane.committed[0] == (1, "")


def test_what_outlasts_the_grace_is_returned_and_the_end_is_clean() -> None:
    world = World()
    world.dispatch("a", timeout_s=80_000.0)
    worker, process = world.worker(), FakeProcess(turns=1)
    assert drive(world, worker, process, stop_grace_s=0.1)
    assert worker.said == [("a", "RUNNING", None), ("a", "RETURNED", "stop")]
    assert world.lane.committed[0] == (1, "")


def test_an_end_without_the_last_acknowledgement_is_not_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.bootstrap.worker.RETURN_WAIT_S", 0.1)
    world = World()
    world.dispatch("a", timeout_s=80_000.0)
    worker, process = world.worker(), FakeProcess(turns=1)
    worker.sink.held = True
    assert not drive(world, worker, process, stop_grace_s=0.1)


def test_stuck_attempts_end_the_process_so_that_a_new_one_starts() -> None:
    world = World(stuck_attempts_max=1, overdue_s=1.0)
    world.dispatch("a", timeout_s=1.0)
    worker, process = world.worker(), FakeProcess(turns=1_000)
    worker.runner.stubborn = True

    def pass_time() -> None:
        world.clock.seconds += 3

    assert not drive(world, worker, process, pass_time)
    assert not process.stopping.is_set()
    assert world.lane.committed[0] == (1, ""), "the stuck one is reported and settled"
