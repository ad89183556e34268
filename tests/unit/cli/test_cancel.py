"""``tocsin runs cancel``, and the flags of runs that overlap or take too long."""

from __future__ import annotations

from tests.unit.cli.conftest import Terminal
from tests.unit.gateway.house import NOON
from tests.unit.gateway.test_runs import ended, head_of
from tocsin.domain.commands import OutcomeDetail


def test_a_run_is_cancelled_and_what_has_ended_is_a_conflict(terminal: Terminal) -> None:
    job = terminal.json("jobs", "create", "--url", "https://settle.internal/run", "--every", "15m", "--id", "nightly")
    head = head_of(job, NOON)
    terminal.house.owner.cancelled[head.execution_id] = OutcomeDetail.CANCELLING
    assert terminal.run("runs", "cancel", head.execution_id).stdout.startswith("cancelling: workers are told")
    assert terminal.json("runs", "cancel", head.execution_id)["detail"] == "cancelling"
    terminal.house.owner.cancelled.clear()
    ended(terminal.house, head)
    assert "the run is SUCCEEDED" in terminal.error("runs", "cancel", head.execution_id, exit_code=5)


def test_flags_say_how_runs_overlap_and_how_long_they_may_take(terminal: Terminal) -> None:
    flags = ("--concurrency", "replace", "--group", "nightly", "--max-duration", "1h30m")
    job = terminal.json("jobs", "create", "--url", "https://settle.internal/run", "--every", "15m", *flags)
    assert (job["concurrency"], job["concurrency_group"], job["max_duration_s"]) == ("replace", "nightly", 5400)
    changed = terminal.json("jobs", "update", job["job_id"], "--max-duration", "2h")
    assert (changed["concurrency_group"], changed["max_duration_s"]) == ("nightly", 7200)


def test_flags_say_of_what_people_are_alerted(terminal: Terminal) -> None:
    flags = ("--alert-on", "late", "--alert-on", "failure")
    job = terminal.json("jobs", "create", "--url", "https://settle.internal/run", "--every", "15m", *flags)
    assert job["alert_on"] == ["failure", "late"]
    assert "failure, late" in terminal.run("jobs", "get", job["job_id"]).stdout
    assert terminal.json("jobs", "update", job["job_id"], "--name", "x")["alert_on"] == ["failure", "late"]
    assert terminal.json("jobs", "update", job["job_id"], "--alert-on", "skip")["alert_on"] == ["skip"]
    assert terminal.json("jobs", "update", job["job_id"], "--alert-on", "none")["alert_on"] == []
