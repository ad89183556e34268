"""The wheel without the clone: built, installed into an environment of its own, and used from another directory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

import pytest

from tests.e2e.system import Target, wait_for
from tocsin import __version__
from tocsin.devcluster import DevCluster
from tocsin.devcluster.processes import find_marked, mark

pytestmark = [pytest.mark.e2e, pytest.mark.real, pytest.mark.timeout(900)]

ROOT: Final = Path(__file__).parents[2]
INSTALL_S: Final = 500.0
COMMAND_S: Final = 60.0
READY_S: Final = 200.0
GONE_S: Final = 90.0
NOT_OURS: Final = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
"""Variables through which this checkout, or the environment of the tests, could be found."""


def environ() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in NOT_OURS}
    return {name: value for name, value in kept.items() if not name.startswith("TOCSIN_") or name == "TOCSIN_CACHE_DIR"}


def run(*words: str | Path, cwd: Path, wait_s: float = COMMAND_S) -> str:
    """Run a command without anything of this checkout in its environment; return what it said."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=wait_s,
        check=False,
    )
    assert done.returncode == 0, f"{words} ended with {done.returncode}:\n{done.stdout[-4000:]}"
    return done.stdout


@dataclass(frozen=True)
class Installation:
    """Where the wheel is, and the program that was installed from it."""

    wheel: Path
    bin: Path
    elsewhere: Path

    def tocsin(self, *words: str) -> str:
        return run(self.bin / "tocsin", *words, cwd=self.elsewhere)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as `make dist` builds it."""
    dist = tmp_path_factory.mktemp("dist")
    build: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
    ]
    run(*build, "--wheel-dir", dist, ROOT, cwd=dist, wait_s=INSTALL_S)
    (found,) = dist.glob("tocsin-*.whl")
    return found


@pytest.fixture(scope="module")
def installation(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The wheel in a new environment that has nothing of this one's."""
    directory = tmp_path_factory.mktemp("installed")
    elsewhere = directory / "elsewhere"
    elsewhere.mkdir()
    run(sys.executable, "-m", "venv", directory / "venv", cwd=elsewhere, wait_s=INSTALL_S)
    bin_dir = directory / "venv" / "bin"
    install: list[str | Path] = [bin_dir / "python", "-m", "pip", "install", "--quiet"]
    # What is never imported need not be compiled.
    install += ["--disable-pip-version-check", "--no-compile"]
    run(*install, "--constraint", ROOT / "constraints.txt", wheel, cwd=elsewhere, wait_s=INSTALL_S)
    return Installation(wheel, bin_dir, elsewhere)


def test_the_wheel_holds_every_file_that_the_program_reads(wheel: Path) -> None:
    package = ROOT / "src" / "tocsin"
    expected = {f"tocsin/{p.relative_to(package)}" for p in package.rglob("*") if p.suffix in (".py", ".cql")}
    expected |= {f"tocsin/_schemas/{p.relative_to(ROOT / 'schemas')}" for p in (ROOT / "schemas").rglob("*.avsc")}
    expected |= {f"tocsin/_topics/{p.name}" for p in (ROOT / "topics").glob("*.yaml")}
    expected.add("tocsin/py.typed")
    held = set(zipfile.ZipFile(wheel).namelist())
    assert expected - held == set()
    for part in (
        "tocsin/_schemas/history/",
        "tocsin/adapters/cassandra/queries/",
        "tocsin/adapters/cassandra/migrations/",
    ):
        assert any(name.startswith(part) for name in held), part


def test_the_program_is_the_installed_one(installation: Installation) -> None:
    assert installation.tocsin("--version").strip() == __version__
    assert "--help" in installation.tocsin("topics", "plan", "--help")
    asked = "import tocsin, tocsin.resources as r; print(tocsin.__file__, r.schemas_dir(), r.topics_dir(), sep='\\n')"
    where = run(installation.bin / "python", "-c", asked, cwd=installation.elsewhere).splitlines()
    assert len(where) == 3
    for path in where:
        assert Path(path).is_relative_to(installation.bin.parent), where
        assert not Path(path).is_relative_to(ROOT), where


def test_dev_runs_a_job_and_leaves_nothing_behind(installation: Installation, tmp_path: Path) -> None:
    target = Target()
    try:
        with dev(installation, tmp_path) as (process, facts):
            assert_a_job_succeeds(facts, target)
            roles = {pid for pids in facts["pids"].values() for pid in pids}
            servers = server_pids(tmp_path)
            assert len(roles) == 4
            assert len(servers) == 2
            process.send_signal(signal.SIGTERM)
            assert process.wait(GONE_S) == 0
            left = {pid for pid in roles | servers if is_running(pid)}
            assert left == set()
    finally:
        target.close()


@contextmanager
def dev(installation: Installation, directory: Path) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
    """Run the installed `tocsin dev` until the block ends, and make sure of its end."""
    ready, output = directory / "ready.json", directory / "output.txt"
    words = [str(installation.bin / "tocsin"), "dev", "--fresh", "--data-dir", str(directory / "data")]
    words += ["--port", "0", "--ready-file", str(ready)]
    with output.open("wb") as file:
        process = subprocess.Popen(
            words, cwd=installation.elsewhere, env=environ(), stdout=file, stderr=file, start_new_session=True
        )

    def serves() -> bool:
        assert process.poll() is None, output.read_text("utf-8", errors="replace")[-4000:]
        return ready.exists()

    try:
        wait_for("tocsin dev to be ready", serves, READY_S)
        yield process, json.loads(ready.read_text("utf-8"))
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        DevCluster(directory / "data").down()


def assert_a_job_succeeds(facts: dict[str, Any], target: Target) -> None:
    url = f"{facts['gateway_url']}/v1/jobs"
    body = {"name": "from-the-wheel", "delay_s": 1, "target": {"type": "http", "url": f"{target.url}/run"}}
    with urlopen(Request(url, json.dumps(body).encode(), {"content-type": "application/json"}), timeout=30) as answer:
        assert answer.status in (201, 202)
        job_id = json.load(answer)["job_id"]

    def states() -> list[str]:
        with urlopen(f"{url}/{job_id}/runs", timeout=30) as answer:
            return [run["state"] for run in json.load(answer)["runs"]]

    wait_for("the run to succeed", lambda: states() == ["SUCCEEDED"])
    assert [call.path for call in target.calls] == ["/run"]


def server_pids(directory: Path) -> set[int]:
    nodes = (directory / "data" / name for name in ("kafka-1", "cassandra-1"))
    return {found.pid for node in nodes for found in find_marked(mark(node))}


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
