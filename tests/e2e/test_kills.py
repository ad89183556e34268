"""Processes are killed and stopped; jobs are neither lost nor published twice."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from tests.e2e.system import ROLES, System, wait_for, wait_until_empty

pytestmark = [pytest.mark.e2e, pytest.mark.real]


def _all_succeeded(system: System, jobs: set[str]) -> None:
    """Wait until the events say that each job's one execution succeeded, and check that it was dispatched once."""

    def missing() -> dict[str, list[str]]:
        """Return what the events say of the jobs that did not succeed: the failure's whole story."""
        told: dict[str, list[str]] = {job: [] for job in jobs}
        for event in system.events():
            told.get(event.head.job_id, []).append(event.state)
        return {job: states for job, states in told.items() if "SUCCEEDED" not in states}

    wait_until_empty(f"all {len(jobs)} jobs to succeed", missing)
    dispatched = system.published()
    assert set(dispatched.values()) == {1}, "no execution is published twice"
    assert set(system.dispatches().values()) == {1}
    assert {execution.rsplit(".", 2)[0] for execution in dispatched} >= jobs


def test_the_trigger_is_killed_under_load(system: System) -> None:
    jobs = {system.create_job(delay_s=n % 12) for n in range(60)}
    system.kill("trigger")
    system.start("trigger")
    jobs |= {system.create_job(delay_s=n % 3) for n in range(20)}
    _all_succeeded(system, jobs)
    assert {call.headers["tocsin-job-id"] for call in system.target.calls} == jobs
    assert len(system.target.calls) == len(jobs), "a trigger's death repeats no call"


def test_a_delete_holds_although_the_trigger_is_killed_right_after_it(system: System) -> None:
    doomed = system.create_job(delay_s=15, path="/never")
    kept = system.create_job(delay_s=16)
    answer = system.ask("DELETE", f"/v1/jobs/{doomed}")
    system.kill("trigger")
    assert answer.status == 200
    system.start("trigger")
    _all_succeeded(system, {kept})
    assert not [call for call in system.target.calls if call.path == "/never"]


def test_the_worker_is_killed_under_load(system: System) -> None:
    system.target.delay_s = 0.5
    jobs = {system.create_job(delay_s=2) for _ in range(40)}
    wait_for("attempts to be under way", lambda: len(system.target.calls) > 5)
    system.kill("worker")
    system.start("worker")
    _all_succeeded(system, jobs)
    per_job: dict[str, list[bool]] = {}
    for call in system.target.calls:
        per_job.setdefault(call.headers["tocsin-job-id"], []).append("tocsin-redelivered" in call.headers)
    assert set(per_job) == jobs
    for redelivered in per_job.values():
        assert redelivered.count(False) <= 1, "whatever is called again says so"
    keys = {call.headers["tocsin-job-id"]: call.execution_id for call in system.target.calls}
    assert all(call.execution_id == keys[call.headers["tocsin-job-id"]] for call in system.target.calls)


def test_everything_stops_politely_and_starts_again(system: System) -> None:
    jobs = {system.create_job(delay_s=n / 4) for n in range(80)}
    system.stop()
    system.start()
    jobs.add(system.create_job(delay_s=0))
    _all_succeeded(system, jobs)
    assert len(system.target.calls) == len(jobs), "a polite stop repeats nothing"


def test_everything_is_killed_at_once(system: System) -> None:
    jobs = {system.create_job(delay_s=n % 20) for n in range(60)}
    for role in ROLES:
        system.kill(role)
    system.start()
    _all_succeeded(system, jobs)
    runs = wait_for("the view to catch up", lambda: (r := [system.runs(job) for job in sorted(jobs)]) and all(r) and r)
    assert all(len(attempts) == 1 for attempts in runs)


def test_two_triggers_share_the_shards_and_one_takes_over_from_the_other(system: System) -> None:
    """Scale out, a kill -9 of one of the two, a polite stop of the other: each time the jobs go on, once."""
    jobs = {system.create_job(delay_s=n % 25) for n in range(50)}
    system.start("trigger", name="second")
    jobs |= {system.create_job(delay_s=n % 5) for n in range(20)}
    shards = wait_for("both to own some", lambda: (s := system.shards_owned()) and min(s.values()) > 0 and s)
    assert sum(shards.values()) == 8
    system.kill("second")
    jobs |= {system.create_job(delay_s=0) for _ in range(10)}
    wait_for("one to own all", lambda: system.shards_owned() == {"trigger": 8})
    system.start("trigger", name="third")
    wait_for("both to own some", lambda: min(system.shards_owned().values()) > 0)
    system.stop("trigger")
    jobs |= {system.create_job(delay_s=1) for _ in range(10)}
    wait_for("one to own all", lambda: system.shards_owned() == {"third": 8})
    _all_succeeded(system, jobs)
    assert len(system.target.calls) == len(jobs), "triggers that come and go repeat no call"


def test_a_recurring_job_survives_kills_of_every_role(system: System) -> None:
    schedule = {"schedule": {"every_s": 1}, "concurrency": "allow"}
    job = system.create_job(path="/tick", **schedule)
    for role in ("trigger", "worker", "projector", "gateway"):
        seen = len(system.published())
        system.kill(role)
        system.start(role)
        wait_for(f"ticks after {role} was killed", lambda seen=seen: len(system.published()) > seen + 2)
    answer = wait_for("the pause", lambda: system.ask("POST", f"/v1/jobs/{job}:pause", {}), 30)
    assert answer.status in (200, 202)

    def all_ended() -> bool:
        return len([e for e in system.events() if e.state == "SUCCEEDED"]) == len(system.published())

    wait_for("all to end", all_ended)
    ticks = sorted(int(name.rsplit(".", 1)[1]) for name in system.published() if name.startswith(job))
    gaps = {(later - earlier) // 1_000_000 for earlier, later in pairwise(ticks)}
    assert gaps == {1}, "each second once, whoever was killed"


@pytest.mark.parametrize(
    ("role", "point"),
    [
        ("trigger", "after_turn_commit_before_index_writes"),
        ("trigger", "after_restore_before_first_turn"),
        ("worker", "after_mark_before_start"),
        ("worker", "after_report_before_settle"),
    ],
)
def test_a_process_dies_at_a_named_point(system: System, role: str, point: str) -> None:
    """The process kills itself there; its successor finishes what was begun, and nothing is published twice."""
    system.stop(role)
    system.start_unready(role, env={"TOCSIN_DIE_AT": point})
    jobs = {system.create_job(delay_s=n % 4) for n in range(12)}
    assert wait_for("it to die", system.processes[role].poll) == -9
    jobs |= {system.create_job(delay_s=n % 2) for n in range(4)}
    system.start(role)
    _all_succeeded(system, jobs)
    calls = Counter(call.headers["tocsin-job-id"] for call in system.target.calls)
    assert set(calls) == jobs
    marked = {c.headers["tocsin-job-id"] for c in system.target.calls if "tocsin-redelivered" in c.headers}
    assert {job for job, count in calls.items() if count > 1} <= marked, "what ran twice is marked"


def test_several_processes_of_a_role_under_one_parent_share_the_work_and_stop_with_it(system: System) -> None:
    system.stop("trigger", "worker")
    for role in ("trigger", "worker"):
        system.start_unready(role, more=("--processes", "2"))
    for role in ("trigger", "worker"):
        system.wait_ready(role)
    said = [one for role in ("trigger", "worker") for one in system.facts(role)["processes"]]
    assert [one["name"] for one in said] == [
        f"{system.unique}-{n}" for n in ("trigger-1", "trigger-2", "worker-1", "worker-2")
    ]
    assert len({one["metrics_url"] for one in said}) == 4
    jobs = {system.create_job(delay_s=n % 3) for n in range(40)}
    _all_succeeded(system, jobs)
    assert len(system.target.calls) == len(jobs)
    system.stop("trigger", "worker")
    assert not [one for one in said if Path(f"/proc/{one['pid']}").exists()]
    system.start("trigger", "worker")
