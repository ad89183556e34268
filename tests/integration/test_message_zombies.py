"""A message worker that dies or sleeps at a point of its transaction, and the one that takes over meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.lane_world import WorkerProcess, wait_until
from tests.integration.message_world import SHARDS, MessageWorld
from tocsin.devcluster import Endpoints

pytestmark = pytest.mark.real

JOBS = [f"job{n}" for n in range(100)]
EVERYTHING = Counter({(job, "SUCCEEDED"): 1 for job in JOBS})


@pytest.fixture
def world(cluster: Endpoints, unique: str) -> Iterator[MessageWorld]:
    world = MessageWorld(cluster.kafka_bootstrap, unique)
    yield world
    world.close()


@pytest.fixture
def successor(world: MessageWorld, tmp_path: Path) -> Iterator[WorkerProcess]:
    """A sound worker; tests ask for it by name once the victim is struck, for it starts at once."""
    worker = WorkerProcess(world, tmp_path, "successor", lanes='["message"]')  # type: ignore[arg-type]
    yield worker
    if worker.process.poll() is None:
        worker.kill()


class Victim:
    """The process of ``message_victim``."""

    def __init__(self, world: MessageWorld, directory: Path, what: str, call: str) -> None:
        self.log = directory / "victim.log"
        arguments = [world.bootstrap, world.names.prefix, str(SHARDS), what, call, "3"]
        command = [sys.executable, "-m", "tests.integration.message_victim", *arguments]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def wait_stopped(self) -> None:
        """Wait until it sleeps."""

        def sleeps() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

        wait_until(sleeps, "the victim to sleep")

    def wake(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def said(self, what: str) -> bool:
        return what in self.log.read_text()


@pytest.fixture
def victims(world: MessageWorld, tmp_path: Path) -> Iterator[list[Victim]]:
    victims: list[Victim] = []
    yield victims
    for victim in victims:
        victim.process.kill()
        victim.process.wait(30)


@pytest.mark.parametrize("call", ["commit_transaction"])
def test_what_a_dead_worker_left_open_is_written_by_its_successor(
    world: MessageWorld, tmp_path: Path, victims: list[Victim], call: str, request: pytest.FixtureRequest
) -> None:
    world.dispatch(JOBS)
    victims.append(Victim(world, tmp_path, "die", call))
    assert victims[0].process.wait(60) == -signal.SIGKILL, victims[0].log.read_text()
    # Two transactions were committed, the third is open.
    wait_until(lambda: sum(world.ordered().values()) == 20, "two transactions")
    worker: WorkerProcess = request.getfixturevalue("successor")
    world.wait_for_reports(len(JOBS))
    world.see_nothing_more()
    assert world.ordered() == Counter(JOBS)
    assert world.ends() == EVERYTHING
    assert Counter(r.worker_id == "victim" for r in world.reports()) == {True: 20, False: 80}
    assert worker.stop() == 0, worker.log.read_text()


@pytest.mark.parametrize("call", ["poll", "commit_transaction"])
def test_a_worker_that_slept_too_long_writes_nothing_of_its_past(
    world: MessageWorld, tmp_path: Path, victims: list[Victim], call: str, request: pytest.FixtureRequest
) -> None:
    world.dispatch(JOBS)
    victim = Victim(world, tmp_path, "sleep", call)
    victims.append(victim)
    victim.wait_stopped()
    worker: WorkerProcess = request.getfixturevalue("successor")
    world.wait_for_reports(len(JOBS))
    victim.wake()
    wait_until(lambda: victim.said("message_lane.lost"), "the victim to see what it lost")
    # It goes on as a member, and serves what comes now.
    world.dispatch(["later", "later still"])
    world.wait_for_reports(len(JOBS) + 2)
    world.see_nothing_more()
    assert world.ordered() == Counter([*JOBS, "later", "later still"])
    assert world.ends() == EVERYTHING + Counter({(job, "SUCCEEDED"): 1 for job in ("later", "later still")})
    assert worker.stop() == 0, worker.log.read_text()


@pytest.mark.parametrize("call", ["commit_transaction"])
def test_a_transaction_that_the_brokers_timed_out_is_done_again(
    world: MessageWorld, tmp_path: Path, victims: list[Victim], call: str
) -> None:
    world.dispatch(JOBS)
    victim = Victim(world, tmp_path, "sleep", call)
    victims.append(victim)
    victim.wait_stopped()
    # Longer than the transaction lives and the brokers look for such, shorter than the member's session.
    world.see_nothing_more(5)
    assert sum(world.ordered().values()) == 20
    victim.wake()
    world.wait_for_reports(len(JOBS))
    world.see_nothing_more()
    assert victim.said("message_lane.transaction_failed")
    assert world.ordered() == Counter(JOBS)
    assert world.ends() == EVERYTHING
