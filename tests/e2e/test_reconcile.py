"""Alerts and the reconciler beside a system at work: what goes wrong is told, and a run that is gone is missed."""

from __future__ import annotations

import json
import signal
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
    broken = system.create_job(delay_s=1, path="/status/500")
    wait_for("all to have run", lambda: all(system.runs(job) for job in jobs))
    [run] = wait_for("the run to end", lambda: [run for run in system.runs(broken) if run["state"] == "DEAD"])
    _, told = _tocsin(system, "alerts")
    assert [(a["kind"], a["job_id"], a["execution_id"]) for a in told["alerts"]] == [
        ("dead_letter", broken, run["execution_id"])
    ]

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

    words = [sys.executable, "-m", "tocsin", "reconcile", "--watch", "--name", f"{system.unique}-reconciler"]
    settled = {"TOCSIN_RECONCILER__SETTLE_S": "0", "TOCSIN_RECONCILER__EVERY_S": "1"}
    with (system.directory / "reconciler.log").open("ab") as log:
        watch = subprocess.Popen(words, env=system.env | settled, stdout=log, stderr=log)
    try:
        alerts = wait_for(
            "the alert", lambda: [a for a in _tocsin(system, "alerts")[1]["alerts"] if a["kind"] == "missing"]
        )
        assert [(alert["job_id"], alert["execution_id"]) for alert in alerts] == [(jobs[2], row[1])]
        watch.send_signal(signal.SIGTERM)
        assert watch.wait(60) == 0, system.log_of("reconciler")[-2000:]
    finally:
        watch.kill()
        watch.wait(20)
