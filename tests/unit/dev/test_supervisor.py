"""Children are started, watched, started again and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.dev.children import DIES, SERVES, STUBBORN, WAIT_S, Listener, is_running, spec_of, until
from tocsin.bootstrap.restarts import RestartPolicy
from tocsin.dev.errors import DevError
from tocsin.dev.supervisor import LINES_PER_TICK_MAX, Supervisor

QUICK = RestartPolicy(first_s=0.01, max_s=0.02, loop_deaths=3)


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def running(tmp_path: Path, listener: Listener) -> Iterator[Supervisor]:
    """A supervisor whose two children serve."""
    specs = [spec_of(SERVES, tmp_path, role) for role in ("gateway", "worker")]
    supervisor = Supervisor(specs, listener, policy=QUICK)
    try:
        supervisor.wait_ready(WAIT_S)
        yield supervisor
    finally:
        supervisor.kill()


def test_it_is_ready_when_every_child_says_so(running: Supervisor) -> None:
    assert running.unready() == []
    assert {role: [facts["pid"]] for role, facts in running.facts.items()} == running.pids


def test_a_stop_ends_all_and_is_no_death(running: Supervisor, listener: Listener) -> None:
    pids = [pid for pids in running.pids.values() for pid in pids]
    running.stop(WAIT_S)
    assert not any(is_running(pid) for pid in pids)
    assert listener.lines == []


def test_a_child_that_is_killed_is_started_again_and_said(running: Supervisor, listener: Listener) -> None:
    pids = running.pids
    os.kill(pids["worker"][0], signal.SIGKILL)
    until(lambda: running.unready() == ["worker"], running.tick)
    until(lambda: running.unready() == [], running.tick)
    assert running.pids["worker"] != pids["worker"]
    assert running.pids["gateway"] == pids["gateway"]
    assert any("worker" in line and "was ended by SIGKILL" in line for line in listener.lines)
    assert any(line.startswith("worker is back") for line in listener.lines)


def test_changes_are_told_so_that_pids_can_be_written_down(tmp_path: Path, listener: Listener) -> None:
    seen: list[dict[str, list[int]]] = []
    supervisor = Supervisor(
        [spec_of(SERVES, tmp_path)], listener, policy=QUICK, on_change=lambda: seen.append(supervisor.pids)
    )
    try:
        supervisor.wait_ready(WAIT_S)
        first = supervisor.pids["worker"]
        os.kill(first[0], signal.SIGKILL)
        until(lambda: seen[-1] not in ({"worker": first}, {"worker": []}), supervisor.tick)
        assert {"worker": []} in seen
    finally:
        supervisor.kill()


def test_a_child_that_cannot_start_is_shown_with_its_log_and_a_remedy(tmp_path: Path, listener: Listener) -> None:
    supervisor = Supervisor([spec_of(DIES, tmp_path)], listener, policy=QUICK)
    try:
        with pytest.raises(DevError) as caught:
            supervisor.wait_ready(WAIT_S)
    finally:
        supervisor.kill()
    assert "worker does not start: it ended with exit code 1 each time" in caught.value.message
    assert "no such table: jobs" in caught.value.log_tail
    assert caught.value.log == tmp_path / "logs" / "worker.log"
    assert caught.value.remedy
    assert ("worker", "no such table: jobs") in [(role, line.text) for role, line in listener.logs]


def test_waiting_for_readiness_is_bounded_and_names_who_is_missing(tmp_path: Path, listener: Listener) -> None:
    supervisor = Supervisor([spec_of("import time; time.sleep(600)", tmp_path)], listener)
    try:
        with pytest.raises(DevError, match="not ready after 0 s: worker"):
            supervisor.wait_ready(0.0)
    finally:
        supervisor.kill()


def test_the_word_of_a_predecessor_does_not_count(tmp_path: Path, listener: Listener) -> None:
    spec = spec_of("import time; time.sleep(600)", tmp_path)
    spec.ready_file.parent.mkdir()
    spec.ready_file.write_text('{"pid": 1}')
    supervisor = Supervisor([spec], listener)
    try:
        supervisor.tick()
        assert not spec.ready_file.exists()
        spec.ready_file.write_text('{"pid": 1}')
        supervisor.tick()
        assert supervisor.unready() == ["worker"]
    finally:
        supervisor.kill()


def test_a_child_serves_only_when_that_is_confirmed(tmp_path: Path, listener: Listener) -> None:
    asked: list[str] = []

    def confirm(spec: object, facts: object) -> bool:
        asked.append("asked")
        return len(asked) > 2

    supervisor = Supervisor([spec_of(SERVES, tmp_path)], listener, confirm=confirm)
    try:
        supervisor.wait_ready(WAIT_S)
    finally:
        supervisor.kill()
    assert len(asked) == 3


def test_the_next_start_is_told_what_the_last_one_said(tmp_path: Path, listener: Listener) -> None:
    supervisor = Supervisor(
        [spec_of(SERVES, tmp_path)], listener, policy=QUICK, next_environ=lambda facts: {"SEEN": str(facts["pid"])}
    )
    try:
        supervisor.wait_ready(WAIT_S)
        first = supervisor.pids["worker"][0]
        os.kill(first, signal.SIGKILL)
        until(lambda: supervisor.facts["worker"]["pid"] != first, supervisor.tick)
        assert supervisor.facts["worker"]["seen"] == str(first)
    finally:
        supervisor.kill()


def test_a_child_that_ignores_the_request_is_killed_and_said(tmp_path: Path, listener: Listener) -> None:
    supervisor = Supervisor([spec_of(STUBBORN, tmp_path)], listener)
    supervisor.wait_ready(WAIT_S)
    pid = supervisor.pids["worker"][0]
    supervisor.stop(0.2)
    assert not is_running(pid)
    assert any("did not stop" in line for line in listener.lines)


def test_a_storm_of_complaints_is_counted(tmp_path: Path, listener: Listener) -> None:
    program = SERVES.replace(
        "while True:", "print(*['trouble' + 'x' * n for n in range(500)], sep='\\n', flush=True)\nwhile True:"
    )
    supervisor = Supervisor([spec_of(program, tmp_path)], listener)
    try:
        until(lambda: any("more lines" in line.text for _, line in listener.logs), supervisor.tick)
    finally:
        supervisor.kill()
    assert sum(line.text.startswith("trouble") for _, line in listener.logs) <= 2 * LINES_PER_TICK_MAX


def test_the_log_of_the_run_before_is_kept_beside(tmp_path: Path, listener: Listener) -> None:
    spec = spec_of(SERVES, tmp_path)
    spec.log.parent.mkdir()
    spec.log.write_text("of yesterday")
    Supervisor([spec], listener)
    assert spec.log.with_name("worker.log.1").read_text() == "of yesterday"


def test_children_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    program = f"""
import pathlib, time
from tests.unit.dev.children import SERVES, Listener, spec_of
from tocsin.dev.supervisor import Supervisor
directory = pathlib.Path({str(tmp_path)!r})
supervisor = Supervisor([spec_of(SERVES, directory)], Listener())
supervisor.wait_ready({WAIT_S})
(directory / "pid").write_text(str(supervisor.pids["worker"][0]))
time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=Path(__file__).parents[3])
    try:
        until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
        child = int((tmp_path / "pid").read_text())
        assert is_running(child)
    finally:
        parent.kill()
        parent.wait()
    until(lambda: not is_running(child))
