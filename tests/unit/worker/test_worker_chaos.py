"""The very loop that runs in production, among crashes, lost sessions, refused and reordered commits, by one seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.worker.worker_world import CODEC, Worker, World
from tocsin.adapters.memory.targets import MemoryTargetRunner
from tocsin.domain.executions import ReportKind
from tocsin.ports.dispatch_log import CommitOutcome
from tocsin.ports.targets import Attempt
from tocsin.roles.worker.partitions import Item

PARTITIONS = 3


class WatchedRunner(MemoryTargetRunner):
    """Checks every start against what the log says at that moment."""

    def __init__(self, chaos: Chaos) -> None:
        super().__init__(chaos.world.clock)
        self._chaos = chaos

    def start(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            self._chaos.on_start(attempt)
        super().start(attempts)


class Chaos:
    """Workers that come and go over one lane, and the truth about what they did."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World(PARTITIONS, running_max=3, begun_max=6, window_max=64, read_ahead_records_max=8)
        self.workers: list[Worker] = []
        self.ever_started: set[str] = set()
        self.reported: set[str] = set()
        self.made = 0
        self.names = 0
        self.place: dict[tuple[int, int], str] = {}
        """Job by partition and offset."""

    # What must hold

    def on_start(self, attempt: Attempt) -> None:
        item: Item = attempt.ref
        job = attempt.execution.head.job_id
        partition = item.partition.number
        offset = self.world.offset(partition)
        assert item.offset - offset in self.world.marks(partition).begun, f"{job} started without its mark"
        if job in self.ever_started:
            assert attempt.redelivered, f"{job} ran before, and was not marked as redelivered"
        assert (partition, item.offset) in self.place
        self.ever_started.add(job)

    def check(self) -> None:
        """Nothing counts as settled that no durable report has taken over."""
        for worker in self.workers:
            self.note_reports(worker)
        for partition in self.world.lane.committed:
            base, marks = self.world.offset(partition), self.world.marks(partition)
            for (place, offset), job in self.place.items():
                if place == partition and (offset < base or offset - base in marks.settled):
                    assert job in self.reported, f"{job} is settled, and nobody reported it"

    def note_reports(self, worker: Worker) -> None:
        self.reported |= {CODEC.decode_report(sent.report).head.job_id for sent in worker.sink.log}
        worker.sink.log.clear()

    # What may happen

    def dispatch(self) -> None:
        partition = self.random.randrange(PARTITIONS)
        job = f"job{self.made}"
        self.made += 1
        self.place[(partition, self.world.lane.ends[partition])] = job
        if self.random.random() < 0.1:
            self.world.lane.append(partition, f"acme|{job}.7.5000000|1|3".encode(), b"garbage")
        else:
            self.world.dispatch(job, partition=partition)
        if self.random.random() < 0.4:
            self.world.lane.leave_gap(partition, self.random.randrange(1, 100))

    def start_worker(self) -> None:
        self.names += 1
        worker = Worker(self.world, f"w{self.names}", self.world.limits)
        worker.runner = WatchedRunner(self)
        worker.runner.stubborn = self.random.random() < 0.2
        worker.loop._runner = worker.runner
        self.workers.append(worker)

    def step(self, worker: Worker) -> None:
        worker.steps()

    def finish(self, worker: Worker) -> None:
        for attempt in list(worker.runner.running):
            if self.random.random() < 0.5:
                worker.runner.finish(attempt, kind=self.random.choice([ReportKind.SUCCEEDED, ReportKind.FAILED]))

    def crash(self, worker: Worker) -> None:
        if not worker.log.is_expelled:
            self.world.lane.expel(worker.log)
        if self.random.random() < 0.5:  # what was under way may have arrived
            worker.sink.held = False
            worker.sink.acknowledged(0)
        self.note_reports(worker)
        self.workers.remove(worker)

    def expel(self, worker: Worker) -> None:
        if not worker.log.is_expelled:
            self.world.lane.expel(worker.log)

    def stop(self, worker: Worker) -> None:
        worker.loop.stop_taking()
        for _ in range(self.random.randrange(4)):
            worker.steps()
            self.finish(worker)
        if not worker.log.is_expelled:
            worker.loop.close()
        self.note_reports(worker)
        self.workers.remove(worker)

    def hold(self, worker: Worker) -> None:
        worker.sink.held = not worker.sink.held

    def disturb(self) -> None:
        self.world.lane.answers.append(self.random.choice([CommitOutcome.REFUSED, CommitOutcome.UNKNOWN]))

    def tick(self) -> None:
        self.world.clock.seconds += self.random.choice([0.1, 1.5, 6.0])

    def act(self) -> None:
        whole = [(self.dispatch, 6), (self.disturb, 1), (self.world.lane.land, 1), (self.tick, 2)]
        single = [
            (self.step, 14),
            (self.finish, 8),
            (self.crash, 0.4),
            (self.expel, 0.4),
            (self.stop, 0.3),
            (self.hold, 1),
        ]
        if len(self.workers) < 3:
            whole.append((self.start_worker, 2))
        if not self.workers:
            single = []
        actions: list[Any] = [*whole, *single]
        (chosen,) = self.random.choices([action for action, _ in actions], [weight for _, weight in actions])
        if any(chosen == action for action, _ in single):
            chosen(self.random.choice(self.workers))
        else:
            chosen()

    def calm(self) -> None:
        """Nothing goes wrong any more: everything must come to its end."""
        self.world.lane.answers.clear()
        if not self.workers:
            self.start_worker()
        for _ in range(400):
            self.world.clock.seconds += 1.5
            for worker in self.workers:
                worker.sink.held = False
                worker.steps()
                worker.runner.finish_all()
            self.check()


@pytest.mark.parametrize("seed", range(150))
def test_whatever_happens_everything_is_reported_and_what_may_have_run_is_known(seed: int) -> None:
    chaos = Chaos(seed)
    for _ in range(300):
        chaos.act()
        chaos.check()
    chaos.calm()
    assert chaos.reported == {f"job{n}" for n in range(chaos.made)}
    for partition in range(PARTITIONS):
        log = chaos.world.lane.logs[partition]
        if log:
            assert chaos.world.offset(partition) == log[-1].offset + 1
            assert not chaos.world.marks(partition).begun
