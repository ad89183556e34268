"""The very loop that runs in production, among crashes, lost sessions, refused and reordered commits, by one seed.

A small owner stands beside it, which decides by (attempt, token) as the real one does.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.unit.worker.worker_world import Worker, World
from tocsin.adapters.memory.targets import MemoryTargetRunner
from tocsin.domain.executions import ATTEMPT_ENDS, AttemptReport, ReportKind
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


@dataclass
class Job:
    """What its owner knows."""

    token: int = 1
    losses: int = 0
    holder: str | None = None
    ended: bool = False


class Chaos:
    """Workers that come and go over one lane, the owner of their work, and the truth about what they did."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World(PARTITIONS, running_max=3, begun_max=6, window_max=64, read_ahead_records_max=8)
        self.workers: list[Worker] = []
        self.silent: list[str] = []
        """Workers that ended without a word; their owner has not noticed yet."""
        self.jobs: dict[str, Job] = {}
        self.started: set[tuple[str, int]] = set()
        self.taken_over: set[tuple[str, int]] = set()
        """Dispatches about which there is a durable report."""
        self.names = 0
        self.place: dict[tuple[int, int], tuple[str, int]] = {}
        """Job and token by partition and offset."""

    # What must hold

    def on_start(self, attempt: Attempt) -> None:
        item: Item = attempt.ref
        head = attempt.execution.head
        number = item.partition.number
        begun = item.offset - self.world.offset(number)
        assert begun in self.world.marks(number).begun, f"{head.job_id} started without its mark"
        assert self.place[(number, item.offset)] == (head.job_id, head.token)
        assert (head.job_id, head.token) not in self.started, f"{head.job_id} started twice under one token"
        assert attempt.redelivered == (head.losses > 0)
        self.started.add((head.job_id, head.token))

    def check(self) -> None:
        """Nothing counts as settled that no durable report has taken over."""
        for worker in self.workers:
            self.note_reports(worker)
        for number in self.world.lane.committed:
            base, marks = self.world.offset(number), self.world.marks(number)
            for (place, offset), dispatch in self.place.items():
                if place == number and (offset < base or offset - base in marks.settled):
                    assert dispatch in self.taken_over, f"{dispatch} is settled, and nobody reported it"

    # The owner

    def note_reports(self, worker: Worker) -> None:
        for report in worker.reports:
            self.taken_over.add((report.head.job_id, report.head.token))
            self.decide(report, worker)
        worker.sink.log.clear()

    def decide(self, report: AttemptReport, worker: Worker) -> None:
        job = self.jobs[report.head.job_id]
        if job.ended or report.head.token != job.token:
            return
        if report.kind == ReportKind.RUNNING:
            job.holder = report.worker_id
        elif report.kind in ATTEMPT_ENDS:
            job.ended = True
        elif job.holder in (None, report.worker_id, *self.silent):
            ended = report.head.job_id not in worker.running or worker.runner.stubborn
            assert ended, "a worker gave back what runs in it"
            self.lose(report.head.job_id)

    def lose(self, name: str) -> None:
        job = self.jobs[name]
        job.token, job.losses, job.holder = job.token + 1, job.losses + 1, None
        self.dispatch(name)

    def notice_silence(self) -> None:
        while self.silent:
            gone = self.silent.pop()
            for name, job in list(self.jobs.items()):
                if job.holder == gone and not job.ended:
                    self.lose(name)

    # What may happen

    def create(self) -> None:
        name = f"{'bad' if self.random.random() < 0.1 else 'job'}{len(self.jobs)}"
        self.jobs[name] = Job()
        self.dispatch(name)

    def dispatch(self, name: str) -> None:
        job, number = self.jobs[name], self.random.randrange(PARTITIONS)
        self.place[(number, self.world.lane.ends[number])] = (name, job.token)
        if name.startswith("bad"):
            self.world.lane.append(number, f"acme|{name}.7.5000000|1|{job.token}".encode(), b"garbage")
        else:
            self.world.dispatch(name, partition=number, losses=job.losses, token=job.token)
        if self.random.random() < 0.4:
            self.world.lane.leave_gap(number, self.random.randrange(1, 100))

    def start_worker(self) -> None:
        self.names += 1
        runner = WatchedRunner(self)
        runner.stubborn = self.random.random() < 0.2
        self.workers.append(Worker(self.world, f"w{self.names}", self.world.limits, runner))

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
        self.silent.append(worker.name)

    def expel(self, worker: Worker) -> None:
        if not worker.log.is_expelled:
            self.world.lane.expel(worker.log)

    def stop(self, worker: Worker) -> None:
        loop = worker.loop
        loop.leave()
        worker.drain(self.random.randrange(3))
        self.finish(worker)
        worker.drain(self.random.randrange(3))
        loop.return_rest()
        worker.drain(self.random.randrange(3))
        loop.give_up_rest()
        worker.drain(self.random.randrange(3))
        self.note_reports(worker)
        self.workers.remove(worker)
        if loop.is_drained:
            assert not any(job.holder == worker.name and not job.ended for job in self.jobs.values())
        else:
            self.silent.append(worker.name)
        loop.close()
        self.note_reports(worker)

    def hold(self, worker: Worker) -> None:
        worker.sink.held = not worker.sink.held

    def disturb(self) -> None:
        self.world.lane.answers.append(self.random.choice([CommitOutcome.REFUSED, CommitOutcome.UNKNOWN]))

    def tick(self) -> None:
        self.world.clock.seconds += self.random.choice([0.1, 1.5, 6.0])

    def act(self) -> None:
        whole = [
            (self.create, 6),
            (self.disturb, 1),
            (self.world.lane.land, 1),
            (self.tick, 2),
            (self.notice_silence, 0.2),
        ]
        single = [
            (self.step, 14),
            (self.finish, 8),
            (self.crash, 0.4),
            (self.expel, 0.4),
            (self.stop, 0.4),
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
            self.notice_silence()


@pytest.mark.parametrize("seed", range(200))
def test_whatever_happens_nothing_starts_twice_or_is_forgotten(seed: int) -> None:
    chaos = Chaos(seed)
    for _ in range(300):
        chaos.act()
        chaos.check()
    chaos.calm()
    assert [name for name, job in chaos.jobs.items() if not job.ended] == []
    for number in range(PARTITIONS):
        log = chaos.world.lane.logs[number]
        if log:
            assert chaos.world.offset(number) == log[-1].offset + 1
            assert not chaos.world.marks(number).begun
