"""A gateway behind a real socket, with an owner and views in memory, and the command line that talks to it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from typer.testing import CliRunner, Result

from tests.unit.gateway.house import House
from tocsin.cli.app import app

PATIENCE_S = 60.0


class Terminal:
    """Runs commands in this process; ``url`` is the gateway that the environment names."""

    def __init__(self, house: House, url: str) -> None:
        self.house = house
        self.url = url

    def run(self, *words: str, stdin: str | None = None, exit_code: int = 0, **environ: str | None) -> Result:
        """Run a command that must end with this exit code."""
        result = CliRunner().invoke(app, list(words), input=stdin, env={"TOCSIN_URL": self.url, **environ})
        assert result.exit_code == exit_code, (result.output, result.stderr, result.exception)
        return result

    def json(self, *words: str, **more: Any) -> Any:
        """Run a command for its JSON."""
        return json.loads(self.run(*words, "-o", "json", **more).stdout)

    def error(self, *words: str, exit_code: int, **more: Any) -> str:
        """Run a command that fails; return what it says to people, on one line."""
        result = self.run(*words, exit_code=exit_code, **more)
        assert result.stdout == ""
        assert "Traceback" not in result.stderr
        return " ".join(result.stderr.split())


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """A terminal in an empty directory."""
    monkeypatch.chdir(tmp_path)
    for name in ("TOCSIN_TENANT", "TOCSIN_DEV_DIR"):
        monkeypatch.delenv(name, raising=False)
    house = House()
    server = uvicorn.Server(uvicorn.Config(house.app, port=0, log_config=None, lifespan="on", ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        give_up_at = time.monotonic() + PATIENCE_S
        while not server.started:
            assert thread.is_alive() and time.monotonic() < give_up_at, "the gateway does not start"
            time.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Terminal(house, f"http://127.0.0.1:{port}")
    finally:
        server.should_exit = True
        thread.join()
