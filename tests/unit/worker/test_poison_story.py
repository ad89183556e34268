"""One execution kills whatever process runs it; its neighbours in the lane end well. Owner and worker are the real
loops, and who runs alone does so in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from tests.unit.trigger.walkthrough import LANE, Walk
from tests.unit.trigger.world import CODEC
from tests.unit.worker.worker_world import Worker
from tocsin.adapters.memory.targets import MemoryTargetRunner
from tocsin.adapters.targets.alone import AloneRunner
from tocsin.domain.targets import HttpTarget
from tocsin.ports.shard_log import DEAD_LETTERS, EVENTS
from tocsin.ports.targets import Attempt, RunnerSpec

PATIENCE_S = 60.0
GOOD = ("good-1", "good-2", "good-3")


class Died(Exception):
    """The worker's own process is gone."""


class SharedProcess(MemoryTargetRunner):
    """The process of a worker: what kills runs in it takes all the others along."""

    def start(self, attempts: Sequence[Attempt]) -> None:
        if any(str(attempt.execution.target.url).endswith("/exit") for attempt in attempts):  # type: ignore[union-attr]
            raise Died
        super().start(attempts)


class Story:
    """A trigger, and one worker at a time."""

    def __init__(self, folder: Path) -> None:
        self.walk = Walk()
        self._spec = RunnerSpec("tests.unit.targets.deadly:DeadlyRunner", str(folder))
        self.deaths = 0
        self._workers = 0

    def worker(self) -> Worker:
        self._workers += 1
        lane, clock = self.walk.lane, self.walk.clock
        shared = SharedProcess(clock, instant=True)
        runner = AloneRunner(shared, self._spec, clock, children_max=8)
        return Worker(lane, f"w{self._workers}", lane.limits, runner)  # type: ignore[arg-type]

    def run_what_is_there(self, worker: Worker) -> Worker:
        """Let a worker empty its lane; return who does so from then on."""
        until = time.monotonic() + PATIENCE_S
        try:
            worker.steps(3)
            while not worker.is_drained():
                assert time.monotonic() < until, "waited too long"
                worker.steps()
                time.sleep(0.01)
            worker.steps(2)
        except Died:
            self.deaths += 1
            self.walk.lane.lane.expel(worker.log)
            worker = self.worker()
        self.walk.to_owner(worker)
        return worker


def test_what_kills_its_workers_becomes_a_dead_letter_and_its_neighbours_do_not(tmp_path: Path) -> None:
    story = Story(tmp_path)
    world = story.walk.world
    world.start()
    for name, path in [("bad", "exit"), *((name, "well") for name in GOOD)]:
        target = {"type": "http", "url": f"https://a.test/{path}"}
        world.recur({"every_s": 100_000, "anchor_at": "2027-01-15T08:00:01Z"}, name=name, target=target)
    world.run(2)
    worker = story.worker()
    for _ in range(12):
        story.walk.to_workers()
        worker = story.run_what_is_there(worker)
        world.run(62, step_s=2)

    events = [CODEC.decode_event(record.value) for record in world.log.all(EVENTS)]
    urls = {e.head.execution_id: e.target for e in map(CODEC.decode_execution, (r.value for r in world.log.all(LANE)))}
    ends = {}
    for event in events:
        target = urls[event.head.execution_id]
        assert isinstance(target, HttpTarget)
        ends[event.head.execution_id] = (target.url.rpartition("/")[2], event.state, event.reason)
    assert sorted(ends.values()) == [("exit", "DEAD", "poison"), *[("well", "SUCCEEDED", None)] * 3]
    assert len(events) == 4, "one verdict each"
    assert story.deaths == 2, "from then on it could only kill itself"
    letters = [CODEC.decode_dead_letter(record.value) for record in world.log.all(DEAD_LETTERS)]
    assert [letter.reason for letter in letters] == [
        "poison: 3 processes that ran it alone died, the last so: the process that ran it alone died (exit status 7)"
    ]
    worker.runner.close()
