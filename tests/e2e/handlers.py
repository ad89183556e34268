"""A service whose own process runs its functions, beside a system: the example that users read, as they do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.e2e.system import System, wait_for

EXAMPLE = Path(__file__).parents[2] / "examples" / "handler_app.py"
HANGING = Path(__file__).with_name("hanging_app.py")
POOL = "reminders"


def make_pool(system: System) -> None:
    """Declare the pool as an operator does, while everything runs."""
    env = {**system.env, "TOCSIN_CLUSTER__POOLS": POOL}
    done = subprocess.run(
        [sys.executable, "-m", "tocsin", "topics", "apply"], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def handler_job(name: str, payload: Any = None, **fields: Any) -> dict[str, Any]:
    timeout_s = fields.pop("timeout_s", 30)
    target = {"type": "handler", "pool": POOL, "name": name, "payload": payload, "timeout_s": timeout_s}
    return {"delay_s": 0, "target": target, **fields}


def create(system: System, body: dict[str, Any]) -> str:
    """Create a job, and return its id; the pool may have been made a moment ago."""
    answer = wait_for(
        "the pool to be known", lambda: found if (found := system.ask("POST", "/v1/jobs", body)).status < 300 else None
    )
    return str(answer.body["job_id"])


def start_app(system: System, app: Path = EXAMPLE) -> None:
    """Start the example, or another app, as a program, and return once it serves."""
    name = "handlers"
    ready = system.directory / f"{name}.json"
    env = {**system.env, "TOCSIN_READY_FILE": str(ready), "TOCSIN_NAME": f"{system.unique}-{name}"}
    env["TOCSIN_WORKER__ALLOW_COMMAND"] = "true"
    with (system.directory / f"{name}.log").open("ab") as log:
        system.processes[name] = subprocess.Popen([sys.executable, str(app)], env=env, stdout=log, stderr=log)
    system.wait_ready(name)


def ended(system: System, job_id: str) -> list[dict[str, Any]]:
    """Return a job's runs once its execution has come to its end, the latest attempt first."""

    def runs() -> list[dict[str, Any]]:
        found = system.runs(job_id)
        return found if any(run["state"] in ("SUCCEEDED", "DEAD", "CANCELLED", "UNKNOWN") for run in found) else []

    answer: list[dict[str, Any]] = wait_for(f"{job_id} to end", runs)
    return sorted(answer, key=lambda run: -run["attempt"])


def pools(system: System) -> dict[str, int]:
    """Return how many living workers `tocsin fleet` shows of each pool."""
    command = [sys.executable, "-m", "tocsin", "fleet", "-o", "json"]
    done = subprocess.run(command, env=system.env, capture_output=True, text=True, check=True)
    return {pool["name"]: pool["workers"] for pool in json.loads(done.stdout)["pools"]}


def output(system: System, run: dict[str, Any]) -> str:
    """Return what a run has printed, as `tocsin runs get --logs --follow` shows it."""
    words = ["runs", "--url", system.gateway_url, "get", run["execution_id"], "--logs", "--follow"]
    command = [sys.executable, "-m", "tocsin", *words]
    done = subprocess.run(command, env=system.env, capture_output=True, text=True, timeout=60, check=True)
    assert f"the run is {run['state']}" in done.stderr
    return done.stdout
