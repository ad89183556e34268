"""Alerts and the reconciler beside a system at work: what goes wrong is told, and a run that is gone is missed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.e2e.system import System, wait_for
from tocsin.adapters.cassandra.session import Connection, StoreAddress

pytestmark = [pytest.mark.e2e, pytest.mark.real, pytest.mark.timeout(600)]


def _tocsin(system: System, *words: str) -> tuple[int, Any]:
    command = [sys.executable, "-m", "tocsin", *words, "-o", "json"]
    done = subprocess.run(command, env=system.env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)


def test_a_run_that_is_gone_is_told(system: System) -> None:
    jobs = [system.create_job(delay_s=1) for _ in range(5)]
    broken = system.create_job(delay_s=1, retry={"max_attempts": 1, "backoff": "fixed", "base_s": 1}, path="/missing/500")
    wait_for("all to have run", lambda: all(system.runs(job) for job in [*jobs, broken]))
    # Their minute is closed once a cursor past it is committed.
    wait_for("their minute to be closed", lambda: _tocsin(system, "reconcile")[1]["rows"] >= 6, 150)
    code, told = _tocsin(system, "reconcile")
    assert (code, told["missing"], told["shards_without_owner"]) == (0, [], [])

    endpoints = system.endpoints
    store = Connection(StoreAddress(endpoints.cassandra_contact_points, endpoints.cassandra_port, system.unique))
    (row,) = store.execute(f"SELECT month, execution_id FROM runs WHERE job_id = '{jobs[2]}' ALLOW FILTERING")
    store.execute(f"DELETE FROM runs WHERE job_id = '{jobs[2]}' AND month = {row[0]}")
    store.close()
    code, told = _tocsin(system, "reconcile")
    assert code == 1
    assert [(one["job_id"], one["execution_id"]) for one in told["missing"]] == [(jobs[2], row[1])]
