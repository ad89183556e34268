"""A one-off from REST to its result, through real processes, broker and store."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from tests.e2e import handlers
from tests.e2e.system import Call, System, wait_for, wait_until_empty

pytestmark = [pytest.mark.e2e, pytest.mark.real]


def test_is_called_once_on_time_and_its_result_is_read_back(system: System) -> None:
    due = datetime.now(UTC) + timedelta(seconds=3)
    body = {
        "name": "Abrechnung fürs Café ☃ 🎉",
        "run_at": due.isoformat(),
        "target": {
            "type": "http",
            "url": f"{system.target.url}/settle",
            "body": {"sum": 1},
            "headers": {"X-Team": "a"},
        },
        "metadata": {"ticket": [1, "zwei"]},
    }
    created = system.ask("POST", "/v1/jobs", body)
    assert created.status == 201
    job = created.body
    assert job["next_run_at"] == due.isoformat().replace("+00:00", "Z")
    assert job["metadata"] == {"ticket": [1, "zwei"]}
    assert created.headers["location"] == f"/v1/jobs/{job['job_id']}"
    assert system.ask("GET", f"/v1/jobs/{job['job_id']}").body["name"] == body["name"]

    [run] = wait_for("the run to succeed", lambda: [r for r in system.runs(job["job_id"]) if r["state"] == "SUCCEEDED"])
    [call] = [call for call in system.target.calls if call.path == "/settle"]
    assert call.at >= due.timestamp()
    assert call.headers["idempotency-key"] == f'"{run["execution_id"]}"'
    assert call.headers["tocsin-job-id"] == job["job_id"]
    assert call.headers["tocsin-scheduled-for"] == due.isoformat().replace("+00:00", "Z")
    assert (call.headers["tocsin-attempt"], call.headers["x-team"]) == ("1", "a")
    assert "tocsin-redelivered" not in call.headers
    assert call.body == b'{"sum":1}'
    assert int(call.headers["tocsin-token"]) == run["token"]

    [event] = [event for event in system.events() if event.head.job_id == job["job_id"]]
    assert (event.state, event.attempt_state) == ("SUCCEEDED", "SUCCEEDED")
    assert event.published_at >= event.head.due_at == int(due.timestamp() * 1_000_000)
    assert system.published()[run["execution_id"]] == 1
    one = system.ask("GET", f"/v1/runs/{run['execution_id']}")
    assert one.status == 200


def test_a_delete_before_the_due_time_prevents_the_fire(system: System) -> None:
    job = system.create_job(delay_s=4, path="/never")
    deleted = system.ask("DELETE", f"/v1/jobs/{job}")
    assert (deleted.status, deleted.body["detail"]) == (200, "prevented")
    assert system.ask("GET", f"/v1/jobs/{job}").status == 404
    assert system.ask("DELETE", f"/v1/jobs/{job}").status == 404
    later = system.create_job(delay_s=5, path="/after")
    wait_for("a later job to run", lambda: [r for r in system.runs(later) if r["state"] == "SUCCEEDED"])
    assert not [call for call in system.target.calls if call.path == "/never"]


def test_a_failing_target_ends_dead_with_its_reason(system: System) -> None:
    job = system.create_job(delay_s=0, path="/status/503")
    [run] = wait_for("the run to end", lambda: [r for r in system.runs(job) if r["state"] == "DEAD"])
    assert (run["attempt_state"], run["error"]["status"]) == ("FAILED", 503)
    assert len([call for call in system.target.calls if call.path == "/status/503"]) == 1
    assert any(run["execution_id"].encode() in value for _, value in system.read("dead-letters"))


def test_a_run_waits_behind_another_until_that_is_cancelled_where_it_runs(system: System) -> None:
    job = system.create_job(path="/hangs", concurrency="queue")
    system.target.delay_s = 90.0

    def calls() -> list[str]:
        return [call.execution_id for call in system.target.calls if call.path == "/hangs"]

    def ended(state: str) -> list[str]:
        return [run["execution_id"] for run in system.runs(job) if run["state"] == state]

    try:
        assert system.ask("POST", f"/v1/jobs/{job}:trigger", {}).status == 201
        [first] = wait_for("the target to be called", calls)
    finally:
        system.target.delay_s = 0.0
    second = system.ask("POST", f"/v1/jobs/{job}:trigger", {})
    assert second.status == 201, second
    wait_for("the second to wait", lambda: [run for run in ended("QUEUED") if run != first])
    assert calls() == [first]
    assert system.ask("POST", f"/v1/runs/{first}:cancel", {}).status < 300
    assert wait_for("the first to be over", lambda: ended("CANCELLED")) == [first]
    [other] = wait_for("the second to run", lambda: ended("SUCCEEDED"))
    assert calls() == [first, other]


def test_once_it_has_ended_a_one_off_is_removed_its_key_is_free_and_its_runs_stay(system: System) -> None:
    def succeeded() -> list[str]:
        return [run["execution_id"] for run in system.runs(job) if run["state"] == "SUCCEEDED"]

    once = {"idempotency_key": "kept-briefly", "finished_ttl_s": 8}
    job = system.create_job(delay_s=0, path="/kept-briefly", **once)
    other = {"delay_s": 0, "target": {"type": "http", "url": f"{system.target.url}/again"}, **once}
    wait_for("its key to be taken", lambda: system.ask("POST", "/v1/jobs", other).status == 409)
    (first,) = wait_for("it to run", succeeded)

    wait_for("it to be removed", lambda: system.ask("GET", f"/v1/jobs/{job}").status == 404)
    assert succeeded() == [first]
    assert system.ask("GET", f"/v1/runs/{first}").body["attempts"][0]["result"] == "200 OK: ok"
    assert system.create_job(delay_s=0, path="/again", **once) == job, "its id is made from the key"
    second, still = wait_for("the new one to run", lambda: found if len(found := succeeded()) == 2 else [])
    assert (still, second != first) == (first, True), "a new job, whose runs are its own"
    paths = Counter(call.path for call in system.target.calls)
    assert (paths["/kept-briefly"], paths["/again"]) == (1, 1)


def test_what_replaces_a_run_starts_only_after_the_end_of_that(system: System) -> None:
    job = system.create_job(path="/replaced", concurrency="replace")
    system.target.delay_s = 90.0

    def calls() -> list[Call]:
        return [call for call in system.target.calls if call.path == "/replaced"]

    try:
        assert system.ask("POST", f"/v1/jobs/{job}:trigger", {}).status == 201
        wait_for("the target to be called", calls)
    finally:
        system.target.delay_s = 0.0
    second = system.ask("POST", f"/v1/jobs/{job}:trigger", {})
    assert second.status == 201, second
    wait_for("the second to run", lambda: [run for run in system.runs(job) if run["state"] == "SUCCEEDED"])
    first_call, second_call = calls()
    ends = {event.head.execution_id: event for event in system.events() if event.state in ("CANCELLED", "SUCCEEDED")}
    replaced = ends[first_call.execution_id]
    assert (replaced.state, replaced.reason, replaced.attempt_state) == ("CANCELLED", "replaced", "CANCELLED")
    assert second_call.at > replaced.decided_at / 1_000_000
    assert ends[second_call.execution_id].state == "SUCCEEDED"


def test_jobs_of_a_group_never_run_at_once(system: System) -> None:
    jobs = [system.create_job(path="/grouped", concurrency="queue", concurrency_group="ledger") for _ in range(2)]
    system.target.delay_s = 0.5
    runs = [system.ask("POST", f"/v1/jobs/{job}:trigger", {}).body["execution_id"] for job in jobs * 2]

    def calls() -> list[Call]:
        return [call for call in system.target.calls if call.path == "/grouped"]

    wait_for("all to be called", lambda: len(calls()) >= len(runs))
    assert [call.execution_id for call in calls()] == runs, "in the order in which they came"
    gaps = [later.at - former.at for former, later in pairwise(calls())]
    assert min(gaps) >= system.target.delay_s, "each began after the answer to the one before"


def test_many_in_one_second_each_run_once(system: System) -> None:
    due = datetime.now(UTC) + timedelta(seconds=8)
    jobs = {system.create_job(run_at=due.isoformat(), path="/burst") for _ in range(200)}
    wait_for("all to be called", lambda: len([c for c in system.target.calls if c.path == "/burst"]) >= len(jobs))
    calls = [call for call in system.target.calls if call.path == "/burst"]
    assert sorted(call.headers["tocsin-job-id"] for call in calls) == sorted(jobs)
    assert min(call.at for call in calls) >= due.timestamp()


def test_bad_input_is_named_with_its_remedy(system: System) -> None:
    target = {"type": "http", "url": system.target.url}
    cases = {
        "schedule.end_at": {"schedule": {"cron": "* * * * *", "timezone": "UTC", "end_at": "x"}, "target": target},
        "schedule.cron": {"schedule": {"cron": "0 0 30 2 *", "timezone": "UTC"}, "target": target},
        "schedule.timezone": {"schedule": {"cron": "* * * * *", "timezone": "Europe/Kyiv "}, "target": target},
        "colour": {"delay_s": 1, "target": target, "colour": "red"},
        "run_at": {"run_at": "2026-10-11T02:00:00", "target": target},
        "delivery": {"delay_s": 1, "target": target, "delivery": "exactly_once"},
        "retry.max_attempts": {"delay_s": 1, "target": target, "retry": {"max_attempts": 0}},
        "concurrency": {"delay_s": 1, "target": target, "concurrency": "wait"},
        "target.url": {"delay_s": 1, "target": {"type": "http", "url": "ftp://x/"}},
    }
    for field, body in cases.items():
        answer = system.ask("POST", "/v1/jobs", body)
        assert answer.status == 422, (field, answer)
        assert answer.headers["content-type"] == "application/problem+json"
        fault = next(fault for fault in answer.body["faults"] if fault["field"] == field)
        assert fault["problem"] and fault["remedy"] and "value" in fault
    number = system.ask("POST", "/v1/jobs", {"run_at": 253402300799, "target": target})
    assert number.status == 422
    huge = system.ask("POST", "/v1/jobs", b'{"name": "' + b"x" * 2_000_000 + b'"}')
    assert huge.status == 413


def test_a_services_own_functions_run_in_a_pool_that_was_made_meanwhile(system: System) -> None:
    reminder = handlers.handler_job("send-reminder", {"to": "ada", "day": "2026-10-11"})
    refused = system.ask("POST", "/v1/jobs", reminder)
    assert (refused.status, refused.body["faults"][0]["field"]) == (422, "target.pool")
    handlers.make_pool(system)
    retry = {"max_attempts": 3, "base_s": 0.1, "jitter": "none"}
    asynchronous = handlers.create(system, reminder)
    plain = handlers.create(system, handlers.handler_job("count-primes", 1_000))
    again = handlers.create(system, handlers.handler_job("charge-card", {"card": "ok"}, retry=retry))
    failing = handlers.create(system, handlers.handler_job("charge-card", {"card": "expired"}, retry=retry))
    unfit = handlers.create(system, handlers.handler_job("send-reminder", {"to": "ada", "day": "soon"}, retry=retry))
    slow = handlers.create(system, handlers.handler_job("wait-for-files", timeout_s=1))
    argv = ["/bin/sh", "-c", "echo attempt $TOCSIN_ATTEMPT; echo why >&2; exit 3"]
    program = handlers.create(system, {"target": {"type": "command", "pool": "reminders", "argv": argv}, "delay_s": 0})
    assert handlers.pools(system) == {"reminders": 0}, "their work waits for its workers"
    handlers.start_app(system)
    assert handlers.pools(system) == {"reminders": 1}

    told = handlers.ended(system, asynchronous)[0]
    assert told["result"] == "told ada of 11 October (attempt 1)"
    assert "sent" in handlers.output(system, told)
    (run,) = handlers.ended(system, program)
    assert (run["state"], run["error"]["class"], run["error"]["status"]) == ("DEAD", "exit", 3)
    assert run["result"] + "\n" == handlers.output(system, run) == "attempt 1\nwhy\n"
    assert handlers.ended(system, plain)[0]["result"] == '{"primes":168}'
    second, first = handlers.ended(system, again)
    assert (second["state"], first["error"]["class"]) == ("SUCCEEDED", "retry")
    for job_id, state, error_class in (
        (failing, "FAILED", "fail"),
        (unfit, "FAILED", "payload"),
        (slow, "TIMED_OUT", "timeout"),
    ):
        (run,) = handlers.ended(system, job_id)
        assert (run["state"], run["attempt_state"], run["error"]["class"]) == ("DEAD", state, error_class)
    system.stop("handlers")


def test_functions_that_hang_are_stopped_by_a_cancel_and_by_the_longest_duration(
    system: System, tmp_path: Path
) -> None:
    handlers.make_pool(system)

    def hang(name: str, **fields: object) -> tuple[str, Path]:
        began = tmp_path / f"{name}-{len(fields)}"
        return handlers.create(system, handlers.handler_job(name, str(began), timeout_s=600, **fields)), began

    asynchronous, plain = hang("hang-async"), hang("hang-plain")
    handlers.start_app(system, handlers.HANGING)
    bounded = hang("hang-async", max_duration_s=8, retry={"max_attempts": 3, "base_s": 0.1})
    for job, began in (asynchronous, plain):
        wait_for(f"{job} to begin", began.exists)
        [run] = wait_for("its run to be shown", lambda job=job: system.runs(job))
        assert system.ask("POST", f"/v1/runs/{run['execution_id']}:cancel", {}).status < 300
    (told,) = handlers.ended(system, asynchronous[0])
    assert (told["state"], told["reason"], told["attempt_state"]) == ("CANCELLED", "cancelled", "CANCELLED")
    assert "told=True" in handlers.output(system, told)
    (told,) = handlers.ended(system, plain[0])
    assert (told["state"], told["reason"], told["attempt_state"]) == ("CANCELLED", "cancelled", "CANCELLED")
    child = int(plain[1].read_text())
    assert child != system.processes["handlers"].pid
    wait_until_empty("the child to be gone", lambda: Path(f"/proc/{child}").exists())
    (told,) = handlers.ended(system, bounded[0])
    assert (told["state"], told["reason"], told["attempt"]) == ("DEAD", "max_duration", 1)
    assert bounded[1].exists(), "it had begun"
    system.stop("handlers")
