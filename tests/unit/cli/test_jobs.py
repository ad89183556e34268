"""The other commands about jobs and runs, as people and programs read them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Terminal
from tests.unit.gateway.house import NOON
from tests.unit.gateway.test_runs import dispatched, ended, head_of
from tocsin.cli.app import main
from tocsin.domain.executions import AttemptError
from tocsin.domain.instants import SECOND

CALL = ("--url", "https://settle.internal/run")
NIGHTLY = ("--cron", "0 2 * * *", "--tz", "Asia/Kolkata", "--id", "nightly")


def created(terminal: Terminal, *words: str) -> dict[str, Any]:
    job: dict[str, Any] = terminal.json("jobs", "create", *CALL, *(words or NIGHTLY))
    return job


def test_the_list_is_a_page_at_a_time(terminal: Terminal) -> None:
    for n in range(3):
        created(terminal, "--id", f"job-{n}", "--every", "15m", "--name", f"[red]n{n}[/red]")
    out = terminal.run("jobs", "list", "--limit", "2").stdout
    lines = out.splitlines()
    assert lines[0].split() == ["JOB", "NAME", "STATE", "SCHEDULE", "TARGET", "NEXT", "RUN"]
    assert "default@job-0" in lines[1]
    assert "[red]n0[/red]" in lines[1]
    assert "every 15m" in lines[1]
    token = lines[-1].removeprefix("more: --page-token ")
    page = terminal.json("jobs", "list", "--limit", "2", "--page-token", token)
    assert [job["job_id"] for job in page["jobs"]] == ["default@job-2"]
    assert page["next_page_token"] is None
    assert "page_token" in terminal.error("jobs", "list", "--page-token", "x", exit_code=1)


def test_get_tells_the_last_run_and_why_it_last_failed_in_one_line(terminal: Terminal) -> None:
    job = created(terminal)
    assert "none yet" in terminal.run("jobs", "get", "nightly").stdout
    house = terminal.house
    first = head_of(job, NOON + 60 * SECOND)
    error = AttemptError("status", "503 Service\x1b[31m Unavailable", 503)
    failed = {"attempt_state": "FAILED", "error": error, "result": None}
    ended(house, first, state="RETRY_SCHEDULED", retry_at=first.due_at + 30 * SECOND, **failed)
    ended(house, first._replace(attempt=2, token=9))
    out = terminal.run("jobs", "get", "nightly").stdout
    assert "\x1b" not in out
    (line,) = (line for line in out.splitlines() if line.startswith("last failure"))
    assert "attempt 1 FAILED: status: 503 Service" in line
    assert "tried again at 2026-10-10T12:01:30Z" in line
    (line,) = (line for line in out.splitlines() if line.startswith("last run"))
    assert "SUCCEEDED" in line
    assert terminal.json("jobs", "get", "nightly")["job_id"] == "default@nightly"


def test_get_shows_a_job_also_while_its_runs_cannot_be_read(terminal: Terminal) -> None:
    created(terminal)

    async def away(*_span: object) -> None:
        raise OSError("away")

    terminal.house.app.state.parts.views.list_runs = away
    assert "unknown (" in terminal.run("jobs", "get", "nightly").stdout


def test_pause_and_resume(terminal: Terminal) -> None:
    created(terminal)
    assert terminal.run("jobs", "pause", "nightly", "--reason", "[b]mending").stdout == "default@nightly: PAUSED\n"
    assert "PAUSED ([b]mending)" in terminal.run("jobs", "get", "nightly").stdout
    out = terminal.run("jobs", "resume", "nightly").stdout
    assert out.startswith("default@nightly: ACTIVE; next run 2026-10-11T02:00:00+05:30")
    assert terminal.json("jobs", "pause", "nightly")["state"] == "PAUSED"


def test_trigger_prints_the_execution_whose_run_can_be_read(terminal: Terminal) -> None:
    job = created(terminal)
    execution_id = terminal.run("jobs", "trigger", "nightly").stdout.strip()
    dispatched(terminal.house, head_of(job, NOON)._replace(execution_id=execution_id))
    assert "QUEUED" in terminal.run("runs", "get", execution_id).stdout
    assert terminal.json("runs", "get", execution_id)["state"] == "QUEUED"
    assert terminal.json("jobs", "trigger", "nightly")["job_id"] == job["job_id"]
    terminal.house.owner.running.add(job["job_id"])
    assert "is active" in terminal.error("jobs", "trigger", "nightly", exit_code=5)


def test_delete_tells_what_it_led_to(terminal: Terminal) -> None:
    created(terminal)
    assert "will not run" in terminal.run("jobs", "delete", "nightly").stdout
    assert "jobs list" in terminal.error("jobs", "get", "nightly", exit_code=4)
    created(terminal)
    assert terminal.json("jobs", "delete", "nightly")["deleted"] is True


def test_update_by_flags_keeps_what_they_do_not_say(terminal: Terminal) -> None:
    before = created(terminal, *NIGHTLY, "--label", "a=b", "--max-attempts", "3", "--body", "x")
    after = terminal.json("jobs", "update", "nightly", "--url", "https://other.internal/", "--base-s", "7")
    assert after["target"] == {**before["target"], "url": "https://other.internal/"}
    assert after["retry"] == {**before["retry"], "base_s": 7.0}
    for name in ("schedule", "labels", "concurrency", "created_at", "next_run_at"):
        assert after[name] == before[name]
    moved = terminal.json("jobs", "update", "nightly", "--tz", "Europe/Kyiv")
    assert moved["schedule"] == {"cron": "0 2 * * *", "timezone": "Europe/Kyiv"}
    every = terminal.json("jobs", "update", "nightly", "--every", "1h")
    assert every["schedule"] == {"every_s": 3600}
    message = terminal.json("jobs", "update", "nightly", "--topic", "t", "--key", "k")
    assert message["target"] == {"type": "message", "topic": "t", "key": "k"}


def test_an_update_by_flags_does_not_undo_what_another_did_meanwhile(terminal: Terminal) -> None:
    job = created(terminal)
    terminal.json("jobs", "update", "nightly", "--name", "first")
    commands = terminal.house.bus.commands
    said = terminal.error("jobs", "update", "nightly", "--name", "x", "--if-version", str(job["version"]), exit_code=5)
    assert "changed since" in said
    assert terminal.json("jobs", "get", "nightly")["name"] == "first"
    assert [terminal.house.app.state.parts.codec.decode_command(one[2]).if_version for one in commands[1:]] == [
        job["version"],
        job["version"],
    ]


def test_an_update_from_a_file_is_the_whole(terminal: Terminal) -> None:
    created(terminal, *NIGHTLY, "--label", "a=b")
    Path("job.json").write_text(json.dumps({"delay_s": 5, "target": {"type": "http", "url": "https://a.example/"}}))
    assert terminal.json("jobs", "update", "nightly", "-f", "job.json", "--validate-only")["valid"] is True
    after = terminal.json("jobs", "update", "nightly", "-f", "job.json")
    assert "labels" not in after
    assert after["schedule"] == {"delay_s": 5}
    assert "update" in terminal.error("jobs", "update", "nightly", exit_code=2)


@pytest.mark.parametrize("verb", ["pause", "resume", "trigger", "delete"])
def test_a_version_that_is_not_the_job_s_is_a_conflict(terminal: Terminal, verb: str) -> None:
    job = created(terminal)
    stale, right = (("--if-version", str(job["version"] - gap)) for gap in (1, 0))
    assert "changed since" in terminal.error("jobs", verb, "nightly", *stale, exit_code=5)
    terminal.run("jobs", verb, "nightly", *right)


@pytest.mark.parametrize("verb", ["get", "pause", "resume", "trigger", "delete"])
@pytest.mark.parametrize("name", ["nobody", "a/b", "..", "a?b=c", "ü"])
def test_what_is_not_there_is_4(terminal: Terminal, verb: str, name: str) -> None:
    assert "jobs list" in terminal.error("jobs", verb, name, exit_code=4)
    assert "jobs list" in terminal.error("runs", "list", name, exit_code=4)


def test_what_is_not_decided_in_time_is_6_and_tells_where_to_ask(terminal: Terminal) -> None:
    created(terminal)
    terminal.house.answering = False
    for words in (("jobs", "create", *CALL), ("jobs", "pause", "nightly"), ("jobs", "delete", "nightly")):
        said = terminal.error(*words, exit_code=6)
        assert said.startswith("pending: the command is in the log")
        assert f"{terminal.url}/v1/commands/cmd_" in said


def test_a_part_that_is_away_is_3(terminal: Terminal) -> None:
    terminal.house.bus.problems.append("no Kafka broker is reachable")
    assert "no Kafka broker is reachable" in terminal.error("jobs", "create", *CALL, exit_code=3)


def test_runs_are_listed_and_read_with_what_there_is_to_say(terminal: Terminal) -> None:
    job = created(terminal)
    house = terminal.house
    assert terminal.run("runs", "list", "nightly").stdout == "none yet\n"
    head = head_of(job, NOON + 60 * SECOND)
    ended(house, head)
    skipped = head_of(job, NOON + 120 * SECOND)
    ended(
        house,
        skipped,
        state="SKIPPED",
        reason="running",
        skipped_upto=skipped.scheduled_for,
        skipped_count=3,
        result=None,
    )
    error = AttemptError("timeout", "no answer within 30 s")
    lost = head_of(job, NOON + 180 * SECOND)
    ended(house, lost, state="DEAD", attempt_state="TIMED_OUT", reason="attempts_used_up", error=error, result=None)
    lines = terminal.run("runs", "list", "nightly").stdout.splitlines()
    assert len(lines) == 4
    assert "DEAD" in lines[1]
    assert "timeout: no answer within 30 s; given up (attempts_used_up)" in lines[1]
    assert "running, 3 times up to 2026-10-10T12:02:00Z" in lines[2]
    assert "0.790 s" in lines[3]
    assert "200 OK" in lines[3]
    out = terminal.run("runs", "get", lost.execution_id).stdout
    assert "TIMED_OUT" in out
    assert [run["state"] for run in terminal.json("runs", "list", "nightly", "--limit", "2")["runs"]] == [
        "DEAD",
        "SKIPPED",
    ]
    more = terminal.run("runs", "list", "nightly", "--limit", "2").stdout.splitlines()[-1]
    token = more.removeprefix("more: --page-token ")
    lines = terminal.run("runs", "list", "nightly", "--page-token", token).stdout.splitlines()
    assert len(lines) == 2 and "200 OK" in lines[1]
    told = terminal.error("runs", "get", "x.1.2", exit_code=4)
    assert "no run is known" in told and "`tocsin runs list JOB`" in told and "tocsin jobs list" not in told
    assert "`tocsin jobs list`" in terminal.error("jobs", "get", "x", exit_code=4)


def test_a_run_is_shown_in_full_attempt_by_attempt_with_the_end_of_its_output(terminal: Terminal) -> None:
    job = created(terminal)
    head = head_of(job, NOON + 60 * SECOND)
    failed = AttemptError("exit", "exit status 3: no space left", 3)
    ended(
        terminal.house,
        head,
        state="RETRY_SCHEDULED",
        attempt_state="FAILED",
        error=failed,
        retry_at=head.due_at + 9 * SECOND,
        result="line 1\n\x1b[31mno space left\n",
    )
    again = head._replace(attempt=2, token=9)
    ended(terminal.house, again, published_at=head.due_at + 9 * SECOND + 3_000, result="done")
    shown = terminal.run("runs", "get", head.execution_id).stdout
    assert not [line for line in shown.splitlines() if line != line.rstrip()], "nothing is filled up with blanks"
    first, second = shown.split("\n\n")[1:]
    assert [line.split(maxsplit=1) for line in first.splitlines()] == [
        ["attempt", "1 (token 7)"],
        ["state", "FAILED"],
        ["due", "2026-10-10T12:01:00Z"],
        ["published", "2026-10-10T12:01:00.002500Z (2 ms late)"],
        ["started", "2026-10-10T12:01:00.010000Z"],
        ["finished", "2026-10-10T12:01:00.800000Z (after 0.790 s)"],
        ["worker", "w1"],
        ["error", "exit: exit status 3: no space left"],
        ["again", "at   2026-10-10T12:01:09Z"],
        ["output", "line 1"],
        ["\ufffd[31mno", "space left"],
    ]
    assert [line.split(maxsplit=1) for line in second.splitlines()[2:4]] == [
        ["due", "2026-10-10T12:01:09Z"],
        ["published", "2026-10-10T12:01:09.003000Z (3 ms late)"],
    ], "a retry is due when the delay before it is over"
    assert second.splitlines()[-1].split() == ["output", "done"]
    listed = terminal.run("runs", "list", "nightly").stdout.splitlines()
    assert "exit: exit status 3: no space left; tried again at 2026-10-10T12:01:09Z" in listed[2]


def test_a_list_has_the_last_line_of_an_output_and_not_too_much_of_it(terminal: Terminal) -> None:
    job = created(terminal)
    ended(terminal.house, head_of(job, NOON + 60 * SECOND), result="one\ntwo\n\n")
    ended(terminal.house, head_of(job, NOON + 120 * SECOND), result="x" * 900)
    long, short = terminal.run("runs", "list", "nightly").stdout.splitlines()[1:]
    assert " two " in short and "one" not in short
    assert f" {'x' * 199}… " in long


def test_the_gateway_is_the_command_s_else_the_group_s_else_the_environment_s(terminal: Terminal) -> None:
    nowhere = "http://127.0.0.1:9"
    terminal.run("jobs", "list")
    terminal.run("jobs", "--url", terminal.url, "list", TOCSIN_URL=nowhere)
    terminal.run("jobs", "--gateway", terminal.url + "/", "list", TOCSIN_URL=nowhere)
    terminal.run("jobs", "--url", nowhere, "list", "--gateway", terminal.url)
    terminal.run("jobs", "--url", terminal.url, "create", *CALL, TOCSIN_URL=nowhere)
    terminal.run("runs", "--url", nowhere, "list", "x", "--gateway", terminal.url, exit_code=4)
    said = terminal.error("jobs", "list", exit_code=3, TOCSIN_URL=nowhere)
    assert "no gateway answers at http://127.0.0.1:9 (as given)" in said
    assert "tocsin dev" in said


def test_else_it_is_that_of_the_development_system_that_runs_here(terminal: Terminal) -> None:
    ready = Path(".tocsin/run/gateway.json")
    ready.parent.mkdir(parents=True)
    ready.write_text(json.dumps({"pid": os.getpid(), "gateway_url": terminal.url}))
    terminal.run("jobs", "list", TOCSIN_URL=None)
    Path("elsewhere/run").mkdir(parents=True)
    ready.rename("elsewhere/run/gateway.json")
    terminal.run("jobs", "list", TOCSIN_URL="", TOCSIN_DEV_DIR="elsewhere")


@pytest.mark.parametrize(
    "left", [None, "rubbish", "[]", "{}", json.dumps({"pid": 2**22 + 1, "gateway_url": "http://127.0.0.1:9"})]
)
def test_one_that_is_gone_is_not_asked(terminal: Terminal, monkeypatch: pytest.MonkeyPatch, left: str | None) -> None:
    monkeypatch.setattr("tocsin.cli.door.DEFAULT_URL", terminal.url)
    if left is not None:
        Path(".tocsin/run").mkdir(parents=True)
        Path(".tocsin/run/gateway.json").write_text(left)
    terminal.run("jobs", "list", TOCSIN_URL=None)


def test_what_is_no_gateway_is_told_as_such(terminal: Terminal) -> None:
    assert "nothing is served" in terminal.error("jobs", "list", "--gateway", f"{terminal.url}/healthz/", exit_code=4)

    async def text(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"<html>"})

    terminal.house.app.mount("/v1", text)
    terminal.house.app.router.routes.insert(0, terminal.house.app.router.routes.pop())
    said = terminal.error("jobs", "list", exit_code=3)
    assert "is no tocsin gateway: HTTP 200, no JSON" in said


def answering(terminal: Terminal, status: int, body: bytes, **headers: str) -> None:
    """Put something that is no gateway where the gateway was."""

    async def other(_scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass  # An answer to what is not read yet can be lost.
        named = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": named})
        await send({"type": "http.response.body", "body": body})

    terminal.house.app.mount("/v1", other)
    terminal.house.app.router.routes.insert(0, terminal.house.app.router.routes.pop())


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"null", b'"x"', b"\xff", b"{}", b'{"jobs": [{}]}', b"[" * 100_000, b'{"a":' * 100_000, b'{"jobs"'],
    ids=range(10),
)
def test_an_answer_that_no_gateway_gives_is_told_and_no_traceback(terminal: Terminal, body: bytes) -> None:
    answering(terminal, 200, body)
    for words in (("jobs", "list"), ("jobs", "get", "x"), ("jobs", "pause", "x"), ("runs", "list", "x")):
        result = terminal.run(*words, exit_code=3)
        assert "is no tocsin gateway" in result.stderr
        assert "TOCSIN_URL" in result.stderr


@pytest.mark.parametrize("faults", ["x", [1], {}, 7, None, [{}]])
def test_a_problem_of_an_odd_form_is_told_as_far_as_it_goes(terminal: Terminal, faults: Any) -> None:
    answering(terminal, 422, json.dumps({"detail": "so it is", "faults": faults}).encode())
    assert terminal.error("jobs", "list", exit_code=1)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(terminal: Terminal, status: int) -> None:
    """Who redirects is no gateway, and could have a job with its secrets sent anywhere."""
    before = len(terminal.house.bus.commands)
    answering(terminal, status, b"", location=f"{terminal.url}/healthz")
    for words in (("jobs", "list"), ("jobs", "create", *CALL)):
        assert f"HTTP {status}, a redirect" in terminal.error(*words, exit_code=3)
    assert len(terminal.house.bus.commands) == before


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8080",
        "ftp://a.example/",
        "http://",
        "http://[::1",
        "http://[::1]x/",
        "http://x[::1]/",
        "http://a.example:port",
        "http://a.example:99999",
        "http://a b/",
        "http://ü.example/",
        "http://me:hunter2@a.example/",
        "http://a.example/?x=1",
        "http://a.example/\udc80",
        "rubbish\x1b[31m",
    ],
)
def test_a_bad_gateway_url_is_wrong_usage_and_names_where_it_came_from(terminal: Terminal, url: str) -> None:
    for words, environ in ((("jobs", "list", "--gateway", url), {}), (("runs", "get", "x.1.2"), {"TOCSIN_URL": url})):
        said = terminal.error(*words, exit_code=2, **environ)
        assert "TOCSIN_URL" in said
        assert "hunter2" not in said
        assert "\x1b" not in said


def test_odd_letters_on_the_command_line_lead_to_no_traceback(terminal: Terminal) -> None:
    for words in (("jobs", "get", "\udc80"), ("runs", "get", "\udc80")):
        terminal.error(*words, exit_code=4)
    assert "page_token" in terminal.error("jobs", "list", "--page-token", "\udc80", exit_code=1)
    for tenant in ("ü", "\udc80", "a b", "x" * 65):
        assert "TOCSIN_TENANT" in terminal.error("jobs", "list", "--tenant", tenant, exit_code=2)


def test_where_to_ask_for_what_is_pending_names_the_tenant(terminal: Terminal) -> None:
    terminal.house.answering = False
    said = terminal.error("jobs", "create", *CALL, "--tenant", "acme", exit_code=6)
    assert f"curl -H 'Tocsin-Tenant: acme' {terminal.url}/v1/commands/cmd_" in said
    assert "Tocsin-Tenant" not in terminal.error("jobs", "create", *CALL, exit_code=6)


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("TOCSIN_GATEWAY__PORT", "abc", "integer"),
        ("TOCSIN_GATEWAY__PORT", "-1", "greater than or equal to 0"),
        ("TOCSIN_HEARTBEAT_EVERY_S", "[b]0", "number"),
        ("TOCSIN_KAFKA", "x", "JSON"),
        ("TOCSIN_KAFKA__EXTRA", "x", "JSON"),
        ("TOCSIN_CASSANDRA__CONTACT_POINTS", "[x", "TOCSIN_CASSANDRA__CONTACT_POINTS"),
        ("TOCSIN_KAFKA__EXTRA", '{"sasl.password": 7}', "string"),
    ],
)
def test_a_bad_setting_is_told_by_the_name_of_its_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variable: str, value: str, told: str
) -> None:
    monkeypatch.setenv(variable, value)
    monkeypatch.setattr("sys.argv", ["tocsin", "gateway"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert variable in said
    assert told in said
    assert (value in said) or "password" in value
    assert "Traceback" not in said


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    terminal.run("jobs", "list")


def test_a_job_that_is_too_large_is_refused_however_the_gateway_says_so(terminal: Terminal) -> None:
    Path("body").write_text("\x01" * 900_000)  # six times as much as JSON
    said = terminal.error("jobs", "create", *CALL, "--body", "@body", exit_code=1)
    assert "at most 1000000 bytes" in said or "too much" in said
