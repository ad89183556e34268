"""``tocsin dev`` as a user runs it: a subprocess, a real broker and store, real roles, signals and kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tocsin.dev.demo.occurrences import RECURRING
from tocsin.dev.demo.plan import MESSAGES_AFTER_S, MESSAGES_AMONG_SLOW, SLOW, SPREAD
from tocsin.dev.roles import endpoint_environ
from tocsin.dev.signals import SAME_SIGNAL_S
from tocsin.devcluster import DevCluster, Endpoints
from tocsin.devcluster.endpoints import GivenEndpoints
from tocsin.devcluster.processes import find_marked, mark

pytestmark = [pytest.mark.e2e, pytest.mark.real]

ROLES: Final = {"gateway", "trigger", "worker", "projector"}
READY_WAIT_S: Final = 200.0
GONE_WAIT_S: Final = 60.0
"""Twice what is promised, for the machine may be busy; the promise itself is for one that is not."""


def until(holds: Callable[[], Any], wait_s: float, otherwise: Callable[[], str] = lambda: "") -> Any:
    """Wait for something true and return it."""
    deadline = time.monotonic() + wait_s
    while True:
        result = holds()
        if result:
            return result
        assert time.monotonic() < deadline, f"not within {wait_s:.0f} s\n{otherwise()}"
        time.sleep(0.1)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


@dataclass
class Dev:
    """A running ``tocsin dev``, in a process group of its own."""

    process: subprocess.Popen[bytes]
    directory: Path
    output: Path

    @property
    def ready_file(self) -> Path:
        return self.directory / "ready.json"

    def said(self) -> str:
        return self.output.read_text("utf-8", errors="replace")

    def facts(self) -> dict[str, Any]:
        """Return the ready file, waiting for it."""
        assert self.process.poll() is None, self.said()
        until(lambda: self.ready_file.exists() or self.process.poll() is not None, READY_WAIT_S, self.said)
        assert self.process.poll() is None, self.said()
        return dict(json.loads(self.ready_file.read_text()))

    def pids(self) -> set[int]:
        """Return every process that belongs to the system: roles, broker and store."""
        roles = {pid for pids in json.loads(self.ready_file.read_text())["pids"].values() for pid in pids}
        return roles | self.server_pids()

    def server_pids(self) -> set[int]:
        data = self.directory / "data"
        return {found.pid for node in ("kafka-1", "cassandra-1") for found in find_marked(mark(data / node))}


def start(directory: Path, *options: str, environ: dict[str, str] | None = None) -> Dev:
    directory.mkdir(exist_ok=True)
    (directory / "ready.json").unlink(missing_ok=True)  # of a system that was killed
    output = directory / "output.txt"
    command = [sys.executable, "-m", "tocsin", "dev", "--data-dir", str(directory / "data"), "--port", "0"]
    command += ["--ready-file", str(directory / "ready.json"), *options]
    with output.open("wb") as file:
        process = subprocess.Popen(
            command,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **(environ or {})},
        )
    return Dev(process, directory, output)


@contextmanager
def running(directory: Path, *options: str, environ: dict[str, str] | None = None) -> Iterator[Dev]:
    """Run a system for a while, and leave nothing behind, however that went."""
    dev = start(directory, *options, environ=environ)
    try:
        yield dev
    finally:
        if dev.process.poll() is None:
            dev.process.kill()
        dev.process.wait()
        DevCluster(dev.directory / "data").down()


def ask(url: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.status, json.load(answer)


def create(facts: dict[str, Any], path: str, delay_s: float) -> str:
    """Create a one-off that calls the echo receiver; return its id."""
    target = {"type": "http", "url": f"{facts['echo_url']}{path}"}
    status, job = ask(f"{facts['gateway_url']}/v1/jobs", {"name": path, "delay_s": delay_s, "target": target})
    assert status == 201
    return str(job["job_id"])


def wait_succeeded(facts: dict[str, Any], job_id: str) -> None:
    """Wait until the job's run is read back as having succeeded."""

    def states() -> list[str]:
        _, answer = ask(f"{facts['gateway_url']}/v1/jobs/{job_id}/runs")
        return [run["state"] for run in answer["runs"]]

    until(lambda: states() == ["SUCCEEDED"], GONE_WAIT_S, lambda: f"{job_id}: {states()}")


def assert_refused(dev: Dev) -> None:
    """Start a second system on the same data; it must end and leave the first alone."""
    command = [sys.executable, "-m", "tocsin", "dev", "--data-dir", str(dev.directory / "data"), "--port", "0"]
    second = subprocess.run(command, capture_output=True, text=True, timeout=READY_WAIT_S, check=False)
    assert second.returncode == 1
    assert f"pid {dev.process.pid}" in second.stdout
    assert "--data-dir" in second.stdout
    assert dev.ready_file.exists()


def assert_roles_come_back(dev: Dev) -> None:
    """Kill every role; all must be started again, and what was created meanwhile must fire."""
    facts = dev.facts()
    job_id = create(facts, "/after-the-kill", 4)
    before = facts["pids"]
    for pids in before.values():
        os.kill(pids[0], signal.SIGKILL)

    def all_new() -> bool:
        now = json.loads(dev.ready_file.read_text())["pids"]
        return all(now[role] and now[role] != before[role] for role in before)

    until(all_new, GONE_WAIT_S, dev.said)
    until(lambda: all(f"{role} is back" in dev.said() for role in before), READY_WAIT_S, dev.said)
    again = dev.facts()
    assert again["gateway_url"] == facts["gateway_url"]
    wait_succeeded(again, job_id)
    wait_succeeded(again, create(again, "/created-after", 0))
    assert dev.said().count("was ended by SIGKILL") == len(before)


def assert_ends_politely(dev: Dev, number: signal.Signals, *, servers: int) -> None:
    """Send a signal to the whole process group; everything must be gone."""
    pids = dev.pids()
    assert len(pids) == len(ROLES) + servers
    os.killpg(dev.process.pid, number)
    assert dev.process.wait(GONE_WAIT_S) == 0, dev.said()
    assert not [pid for pid in pids if is_running(pid)]
    assert not dev.server_pids()
    assert not dev.ready_file.exists()
    assert "Traceback" not in dev.said()


@pytest.fixture
def given(cluster: Endpoints, unique: str) -> dict[str, str]:
    """The environment of somebody who has servers, with names that no other test uses on them."""
    names = {"TOCSIN_KAFKA__TOPIC_PREFIX": f"{unique}.", "TOCSIN_CASSANDRA__KEYSPACE": unique}
    return {**endpoint_environ(cluster), **names}


def test_on_given_servers_a_job_reaches_the_echo_once_and_killed_roles_come_back(
    tmp_path: Path, cluster: Endpoints, given: dict[str, str]
) -> None:
    with running(tmp_path, "--fresh", "--echo", environ=given) as dev:
        facts = dev.facts()
        assert set(facts["pids"]) == set(facts["metrics_urls"]) == ROLES
        assert facts["kafka_bootstrap"] == cluster.kafka_bootstrap
        assert facts["cassandra_contact_points"] == list(cluster.cassandra_contact_points)
        assert "--fresh does not empty servers that the environment names" in dev.said()
        for url in facts["metrics_urls"].values():
            with urllib.request.urlopen(url, timeout=30) as answer:
                assert b"tocsin_" in answer.read()
        job_id = create(facts, "/hello", 0.5)
        wait_succeeded(facts, job_id)
        until(lambda: job_id in dev.said(), GONE_WAIT_S, dev.said)
        assert dev.said().count(f"Tocsin-Job-Id: {job_id}") == 1
        assert_refused(dev)
        assert_roles_come_back(dev)
        assert_ends_politely(dev, signal.SIGTERM, servers=0)
    GivenEndpoints.from_environ(given).check()  # left alone: they still answer


def test_the_demonstration_ends_well_and_says_what_it_measured(tmp_path: Path, given: dict[str, str]) -> None:
    command = [sys.executable, "-m", "tocsin", "demo", "--jobs", "60", "--data-dir", str(tmp_path)]
    environ = {**os.environ, **given}
    demo = subprocess.run(command, capture_output=True, text=True, timeout=READY_WAIT_S, check=False, env=environ)
    assert demo.returncode == 0, demo.stdout
    counts = {
        words[0]: int(words[1])
        for line in demo.stdout.splitlines()
        if (words := line.split())[1:2] and words[1].isdigit()
    }
    once = 60 + SPREAD + SLOW + len(MESSAGES_AFTER_S) + MESSAGES_AMONG_SLOW
    assert counts["created"] == once + len(RECURRING)
    assert counts["due"] > once + len(RECURRING)  # the worker's death alone lasts longer than an interval
    assert {counts[name] for name in ("fired", "succeeded", "received")} == {counts["due"]}
    assert [counts[name] for name in ("early", "lost", "failed", "unmarked")] == [0] * 4
    assert counts["repeated"] > 0  # what was under way when the worker was killed
    assert demo.stdout.count("was ended by SIGKILL") == 1
    assert "each message came exactly once" in demo.stdout
    assert "never after the kill" not in demo.stdout
    assert "p99" in demo.stdout
    assert "all good" in demo.stdout


def test_a_killed_parent_takes_everything_along_and_the_next_run_has_the_data(tmp_path: Path) -> None:
    with running(tmp_path, "--echo") as dev:
        job_id = create(dev.facts(), "/survives", 0)
        wait_succeeded(dev.facts(), job_id)
        pids = dev.pids()
        dev.process.kill()
        dev.process.wait()
        until(lambda: not [pid for pid in pids if is_running(pid)], GONE_WAIT_S)
    with running(tmp_path, "--echo") as dev:
        wait_succeeded(dev.facts(), job_id)
        assert_ends_politely(dev, signal.SIGINT, servers=2)


@pytest.mark.parametrize(
    ("sign", "pause_s"),
    [
        ("cassandra-1: starting", 0.0),  # as when a wrapper passes on what the terminal sent to all
        ("tables and topics", SAME_SIGNAL_S + 0.1),  # impatience
    ],
)
def test_two_signals_during_the_start_end_everything(tmp_path: Path, sign: str, pause_s: float) -> None:
    with running(tmp_path) as dev:
        until(lambda: sign in dev.said() or dev.process.poll() is not None, READY_WAIT_S, dev.said)
        started = dev.server_pids()
        assert started, dev.said()
        os.killpg(dev.process.pid, signal.SIGINT)
        time.sleep(pause_s)
        with suppress(ProcessLookupError):
            os.killpg(dev.process.pid, signal.SIGTERM)
        assert dev.process.wait(GONE_WAIT_S) == 0, dev.said()
        assert not dev.server_pids()
        assert not [pid for pid in started if is_running(pid)]
        assert not dev.ready_file.exists()
        assert "Traceback" not in dev.said()
