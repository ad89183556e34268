"""``tocsin runs retry``."""

from __future__ import annotations

from tests.unit.cli.conftest import Terminal
from tests.unit.gateway.house import NOON
from tests.unit.gateway.test_runs import ended, head_of


def test_a_dead_run_is_retried_and_another_is_a_conflict(terminal: Terminal) -> None:
    job = terminal.json("jobs", "create", "--url", "https://settle.internal/run", "--every", "15m", "--id", "nightly")
    head = head_of(job, NOON)
    ended(terminal.house, head)
    assert "the run is SUCCEEDED" in terminal.error("runs", "retry", head.execution_id, exit_code=5)
    dead = head._replace(attempt=2)
    ended(terminal.house, dead, state="DEAD")
    assert terminal.run("runs", "retry", head.execution_id).stdout == f"attempt 3 of {head.execution_id} is to come\n"
    assert terminal.json("runs", "retry", head.execution_id)["attempt"] == 3
    assert "redrives" not in terminal.run("runs", "get", head.execution_id).stdout
    ended(terminal.house, head._replace(attempt=3), redrives=1)
    shown = terminal.run("runs", "get", head.execution_id).stdout.splitlines()
    assert ["redrives", "1"] in [line.split() for line in shown]
