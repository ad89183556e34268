"""A worker that serves an app: how it finds it, what it then takes on, and what its death leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tocsin
from tests.unit.handlers import deeds
from tocsin.bootstrap.handlers import handlers_of
from tocsin.cli.app import app as cli
from tocsin.config import Settings
from tocsin.domain.errors import Refused

PATIENCE_S = 60.0
DEEDS = "tests.unit.handlers.deeds:app"
asynchronous = tocsin.Worker(pool="loop")


@asynchronous.handler("nothing")
async def nothing() -> None: ...


empty = tocsin.Worker(pool="empty")
broken = tocsin.Worker(pool="broken")


@broken.handler("two")
def two(a: int, b: int) -> None: ...


@pytest.mark.parametrize(
    ("words", "pools", "app"),
    [
        ([], (), None),
        (["--pool", "a", "--pool", "b"], ("a", "b"), None),
        (["--app", "service.app:app"], (), "service.app:app"),
        (["--app", "x.py:app", "--pool", "b"], ("b",), "x.py:app"),
    ],
)
def test_the_command_line_names_pools_and_app(
    monkeypatch: pytest.MonkeyPatch, words: list[str], pools: tuple[str, ...], app: str | None
) -> None:
    seen: list[Settings] = []

    def run_worker(settings: Settings) -> int:
        seen.append(settings)
        return 0

    monkeypatch.setattr("tocsin.bootstrap.worker.run_worker", run_worker)
    monkeypatch.setattr(sys, "path", list(sys.path))
    result = CliRunner().invoke(cli, ["worker", *words])
    assert result.exit_code == 0, result.output
    assert (seen[0].worker.pools, seen[0].worker.app) == (pools, app)


def test_an_app_brings_its_pool_and_is_named_for_the_children() -> None:
    settings = Settings()
    assert handlers_of(settings, deeds.app) is deeds.app
    assert settings.worker.app == DEEDS
    assert settings.worker.all_lanes == ("pool.deeds",)


def test_an_app_that_is_named_is_loaded_and_serves_its_pool_beside_others() -> None:
    settings = Settings(worker={"app": DEEDS, "pools": ("more",), "lanes": ("default",)})
    assert handlers_of(settings, None) is deeds.app
    assert settings.worker.all_lanes == ("default", "pool.more", "pool.deeds")


def test_a_worker_without_an_app_has_no_handlers() -> None:
    settings = Settings()
    assert handlers_of(settings, None) is None
    assert settings.worker.all_lanes == ("default", "message")


@pytest.mark.parametrize(
    ("given", "running_max"),
    [({}, 3), ({"running_max": 50}, 50), ({"lanes": ("default",)}, Settings().worker.running_max)],
)
def test_plain_functions_alone_take_no_more_than_there_are_processes(
    tmp_path: Path, given: dict[str, Any], running_max: int
) -> None:
    file = tmp_path / "plain.py"
    file.write_text("import tocsin\napp = tocsin.Worker(pool='p')\napp.handler('h')(lambda: 1)\n")
    settings = Settings(worker={"app": f"{file}:app", "handler_processes": 3, **given})
    handlers_of(settings, None)
    assert settings.worker.running_max == running_max


def test_async_handlers_take_as_much_as_the_settings_say() -> None:
    settings = Settings()
    handlers_of(settings, asynchronous)
    assert settings.worker.running_max == Settings().worker.running_max


@pytest.mark.parametrize("app", [empty, broken, tocsin.Worker(pool="nowhere")])
def test_an_app_that_could_do_nothing_is_refused_at_the_start(app: tocsin.Worker) -> None:
    with pytest.raises(Refused, match="app"):
        handlers_of(Settings(), app)


@pytest.mark.parametrize("ref", ["nowhere:app", f"{__name__}:empty", "/nowhere.py:app", "tocsin.app"])
def test_a_ref_that_leads_nowhere_is_refused_at_the_start(ref: str) -> None:
    with pytest.raises(Refused, match="app"):
        handlers_of(Settings(worker={"app": ref}), None)


def test_an_app_whose_code_raises_is_refused_with_what_it_raised(tmp_path: Path) -> None:
    file = tmp_path / "bad.py"
    file.write_text("raise SystemExit('no database')\n")
    with pytest.raises(Refused, match="no database"):
        handlers_of(Settings(worker={"app": f"{file}:app"}), None)


WORKER = """
import sys, time
from tests.unit.handlers.test_runner import House
house = House(children=1)
house.start("sleep", '"%s"' % sys.argv[1])
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_worker_that_is_killed_takes_its_children_with_it(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(file)], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    try:
        _wait_for("the handler to run", lambda: file.exists() and file.read_text())
        child = int(file.read_text())
        worker.send_signal(signal.SIGKILL)
        worker.wait(PATIENCE_S)
        _wait_for("the child to die", lambda: not _is_running(child))
    finally:
        worker.kill()
        worker.wait(PATIENCE_S)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _wait_for(what: str, condition: Callable[[], Any]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, f"waited for {what}"
        time.sleep(0.01)
