"""Several processes of a role: their names, their deaths, their end; by small programs in their place."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tests.unit.dev.children import WAIT_S, is_running, until
from tocsin.bootstrap.copies import command_of, copy_names, run_copies
from tocsin.cli.app import app

PARENT = """
import sys
from pathlib import Path
from tocsin.bootstrap.copies import Copies
from tocsin.bootstrap.restarts import RestartPolicy

directory, program = Path(sys.argv[1]), sys.argv[2]
copies = [
    (f"w-{n}", [sys.executable, "-c", program, f"w-{n}", str(directory / f"{n}.json")], directory / f"{n}.json")
    for n in (1, 2)
]
policy = RestartPolicy(first_s=0.01, max_s=0.02)
sys.exit(Copies("worker", "w", copies, str(directory / "all.json"), policy).run())
"""
SERVES = """
import json, os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
name, path = sys.argv[1], pathlib.Path(sys.argv[2])
other = path.with_suffix(".new")
other.write_text(json.dumps({"pid": os.getpid(), "name": name, "metrics_url": "http://127.0.0.1:1/metrics"}))
other.replace(path)
while True:
    time.sleep(0.05)
"""
UNWILLING = SERVES.replace("sys.exit(0)", "sys.exit(4)")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a parent of two copies of a program; what it logs is in ``log``."""
    running: list[subprocess.Popen[bytes]] = []

    def run(program: str) -> subprocess.Popen[bytes]:
        with (tmp_path / "log").open("wb") as log:
            words = [sys.executable, "-c", PARENT, str(tmp_path), program]
            running.append(subprocess.Popen(words, stdout=log, stderr=log))
        return running[-1]

    yield run
    for process in running:
        process.kill()  # its copies end with it
        process.wait()


def served(directory: Path) -> dict[str, int]:
    """Return the pid of each copy by its name, once the parent's ready file is there."""
    path = directory / "all.json"
    facts: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return {one["name"]: one["pid"] for one in facts.get("processes", ())}


def pid_in(path: Path) -> int | None:
    """Return the process that a copy's ready file names; None while it is started again."""
    try:
        return int(json.loads(path.read_text())["pid"])
    except FileNotFoundError:
        return None


def test_all_serve_under_names_of_their_own_and_end_in_peace_when_asked(
    start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    parent = start(SERVES)
    until(lambda: len(served(tmp_path)) == 2)
    pids = served(tmp_path)
    assert list(pids) == ["w-1", "w-2"]
    parent.send_signal(signal.SIGTERM)
    assert parent.wait(WAIT_S) == 0
    assert not any(map(is_running, pids.values()))
    assert (tmp_path / "log").read_text().count("http://127.0.0.1:1/metrics") == 2, "where each one's metrics are"


def test_one_that_dies_is_started_again_under_its_name_and_the_others_stay(
    start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    start(SERVES)
    until(lambda: len(served(tmp_path)) == 2)
    before = served(tmp_path)
    os.kill(before["w-2"], signal.SIGKILL)
    until(lambda: served(tmp_path)["w-2"] != before["w-2"])
    assert served(tmp_path)["w-1"] == before["w-1"]


def test_one_that_stopped_in_peace_stays_away_and_with_the_last_one_the_parent_ends(
    start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    parent = start(SERVES)
    until(lambda: len(served(tmp_path)) == 2)
    pids = served(tmp_path)
    os.kill(pids["w-1"], signal.SIGTERM)
    until(lambda: not is_running(pids["w-1"]))
    # A death of the other one shows that the parent goes on looking, and does not bring the first one back.
    os.kill(pids["w-2"], signal.SIGKILL)
    until(lambda: pid_in(tmp_path / "2.json") not in (None, pids["w-2"]))
    assert pid_in(tmp_path / "1.json") == pids["w-1"]
    os.kill(pid_in(tmp_path / "2.json") or 0, signal.SIGTERM)
    assert parent.wait(WAIT_S) == 0


def test_an_end_that_was_not_in_peace_is_told_by_the_exit_code(
    start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    parent = start(UNWILLING)
    until(lambda: len(served(tmp_path)) == 2)
    parent.send_signal(signal.SIGINT)
    assert parent.wait(WAIT_S) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the kernel does not tell children of a parent's death")
def test_copies_of_a_parent_that_is_killed_stop(start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path) -> None:
    parent = start(SERVES)
    until(lambda: len(served(tmp_path)) == 2)
    pids = served(tmp_path)
    parent.kill()
    parent.wait()
    until(lambda: not any(map(is_running, pids.values())))


def test_each_copy_is_told_its_name_its_port_and_what_the_parent_was_told() -> None:
    assert copy_names("host", 3) == ["host-1", "host-2", "host-3"]
    words = command_of("worker", "host-2", 9102, Path("/run/2.json"), ["--pool", "gpu"])
    assert words[2:] == [
        *("-m", "tocsin", "worker", "--name", "host-2", "--metrics-port", "9102"),
        *("--ready-file", "/run/2.json", "--pool", "gpu"),
    ]


def test_ports_that_do_not_suffice_are_refused_before_anything_is_started() -> None:
    with pytest.raises(ValueError, match="begin lower"):
        run_copies("worker", "host", 3, 65_534, None)
    told = CliRunner().invoke(app, ["trigger", "--processes", "3", "--metrics-port", "65534"])
    assert told.exit_code == 2
    assert CliRunner().invoke(app, ["worker", "--processes", "0"]).exit_code == 2


def test_a_worker_passes_all_on_that_it_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each option of the command but those that name one process reaches every copy."""
    told: list[Any] = []
    monkeypatch.setattr("tocsin.bootstrap.copies.run_copies", lambda *given: told.append(given) or 0)
    words = ["--pool", "a", "--pool", "b", "--app", "m:app", "--allow-command", "--allow-container"]
    done = CliRunner().invoke(app, ["worker", "--name", "host", "--processes", "2", *words])
    assert (done.exit_code, told) == (0, [("worker", "host", 2, 0, None, words)])
    worker = typer.main.get_command(app).commands["worker"]  # type: ignore[attr-defined]
    options = {option.opts[0] for option in worker.params} - {"--name", "--processes", "--metrics-port", "--ready-file"}
    assert options == {word for word in words if word.startswith("--")}, "pass the new one on as well"
