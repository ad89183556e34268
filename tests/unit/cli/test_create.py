"""``tocsin jobs create``: what flags and files make of a job, what it prints, and how a refusal reads."""

from __future__ import annotations

import itertools
import json
import re
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Terminal
from tocsin.cli.job_flags import TEXT_BYTES_MAX, seconds_of
from tocsin.domain.ids import keyed_job_id

CALL = ("--url", "https://settle.internal/run")


def create(terminal: Terminal, *words: str, **more: Any) -> dict[str, Any]:
    job: dict[str, Any] = terminal.json("jobs", "create", *words, **more)
    return job


def test_flags_say_all_of_a_call(terminal: Terminal) -> None:
    Path("body.json").write_text('{"grüße": "☃"}\n', "utf-8")
    job = create(
        terminal,
        *CALL,
        *("--cron", "0 2 * * *", "--tz", "Asia/Kolkata", "--name", "nightly", "--method", "put"),
        *("--header", "X-Team: a:b", "-H", "Content-Type:application/json", "--body", "@body.json", "--timeout-s", "9"),
        *("--max-attempts", "4", "--base-s", "2", "--max-s", "60", "--concurrency", "allow"),
        *("--label", "team=settlement", "--label", "tier=1=a", "--id", "nightly-1", "--tenant", "acme"),
    )
    assert job["job_id"] == "acme@nightly-1"
    assert job["name"] == "nightly"
    assert job["schedule"] == {"cron": "0 2 * * *", "timezone": "Asia/Kolkata"}
    assert job["target"] == {
        "type": "http",
        "url": CALL[1],
        "method": "PUT",
        "headers": {"X-Team": "a:b", "Content-Type": "application/json"},
        "body": '{"grüße": "☃"}\n',
        "timeout_s": 9.0,
    }
    assert job["retry"] == {"max_attempts": 4, "backoff": "exponential", "base_s": 2, "max_s": 60, "jitter": "full"}
    assert job["concurrency"] == "allow"
    assert job["labels"] == {"team": "settlement", "tier": "1=a"}


def test_flags_say_all_of_a_command_and_of_a_container(terminal: Terminal) -> None:
    job = create(
        terminal, "--argv", "/usr/bin/rsync -a 'a b' $HOME", "--pool", "batch", "--env", "A=b=c", "--env", "B=",
        "--cwd", "/srv", "--timeout-s", "9", "--id", "sync",
    )  # fmt: skip
    assert job["target"] == {
        "type": "command",
        "argv": ["/usr/bin/rsync", "-a", "a b", "$HOME"],
        "pool": "batch",
        "env": {"A": "b=c", "B": ""},
        "cwd": "/srv",
        "timeout_s": 9.0,
    }
    changed = terminal.json("jobs", "update", "sync", "--timeout-s", "5", "--argv", "true")
    assert changed["target"] == {**job["target"], "argv": ["true"], "timeout_s": 5.0}
    assert "true in the pool batch" in terminal.run("jobs", "get", "sync").stdout
    job = create(
        terminal, "--image", "reports:7", "--pool", "batch", "--cpus", "0.5", "--memory", "64Mi", "--argv", "run --all",
        "--id", "report",
    )  # fmt: skip
    assert job["target"] == {
        "type": "container",
        "image": "reports:7",
        "argv": ["run", "--all"],
        "pool": "batch",
        "resources": {"cpus": "0.5", "memory": "64Mi"},
        "timeout_s": 30.0,
    }
    changed = terminal.json("jobs", "update", "report", "--pids", "9", "--image", "reports:8")
    assert changed["target"]["resources"] == {"cpus": "0.5", "memory": "64Mi", "pids": "9"}
    assert (changed["target"]["image"], changed["target"]["argv"]) == ("reports:8", ["run", "--all"])
    assert "reports:8" in terminal.run("jobs", "get", "report").stdout


def test_flags_say_after_which_errors_it_is_attempted_again(terminal: Terminal) -> None:
    job = create(
        terminal, *CALL, "--max-attempts", "8", "--retry-on", "404=true", "--retry-on", "5xx=false", "--id", "picky"
    )
    assert (job["retry"]["max_attempts"], job["retry"]["retry_on"]) == (8, {"404": True, "5xx": False})
    changed = terminal.json("jobs", "update", "picky", "--retry-on", "timeout=false")
    assert changed["retry"] == {**job["retry"], "retry_on": {"timeout": False}}
    assert "timeout final" in terminal.run("jobs", "get", "picky").stdout
    refused = terminal.error("jobs", "create", *CALL, "--retry-on", "teapot=true", exit_code=1)
    assert "retry.retry_on" in refused and "is no kind of error" in refused


def test_flags_say_what_becomes_of_what_is_missed(terminal: Terminal) -> None:
    job = create(
        terminal, *CALL, "--every", "15m", "--catch-up", "skip", "--grace", "10m", "--misfire-after", "90s",
        "--on-resume", "catch_up", "--id", "careful",
    )  # fmt: skip
    assert (job["catch_up"], job["grace_s"], job["misfire_after_s"], job["on_resume"]) == ("skip", 600, 90, "catch_up")
    assert job["max_catch_up"] is None
    changed = terminal.json("jobs", "update", "careful", "--catch-up", "fire_all", "--max-catch-up", "7")
    assert (changed["catch_up"], changed["max_catch_up"], changed["grace_s"]) == ("fire_all", 7, None)
    assert "fire_all, up to 7, on resume catch_up" in terminal.run("jobs", "get", "careful").stdout


@pytest.mark.parametrize(
    ("words", "schedule"),
    [
        (("--every", "15m"), {"every_s": 900}),
        (("--every", "1h30m"), {"every_s": 5_400}),
        (("--in", "30s"), {"delay_s": 30}),
        (("--in", "250ms"), {"delay_s": 0.25}),
        (("--at", "2026-12-31T23:59:59.5+05:30"), {"run_at": "2026-12-31T18:29:59.500000Z"}),
        ((), None),
    ],
)
def test_flags_say_when(terminal: Terminal, words: tuple[str, ...], schedule: dict[str, Any] | None) -> None:
    assert create(terminal, *CALL, *words)["schedule"] == schedule


def test_flags_say_all_of_a_message(terminal: Terminal) -> None:
    message = ("--topic", "orders.due", "--key", "k", "--value", "-", "--header", "kind: due")
    assert create(terminal, *message)["target"] == {
        "type": "message",
        "topic": "orders.due",
        "key": "k",
        "value": "-",
        "headers": {"kind": "due"},
    }
    assert create(terminal, "--topic", "t", "--value", "@-", stdin="from stdin")["target"]["value"] == "from stdin"


@pytest.mark.parametrize(
    ("words", "zone", "step"),
    [
        (("--cron", "*/5 * * * *", "--tz", "Asia/Kolkata"), "Asia/Kolkata", timedelta(minutes=5)),
        (("--every", "15m"), "UTC", None),
    ],
)
def test_the_next_five_times_are_printed_with_their_zone(
    terminal: Terminal, words: tuple[str, ...], zone: str, step: timedelta | None
) -> None:
    terminal.house.clock.time = time.time_ns() // 1000
    out = terminal.run("jobs", "create", *CALL, *words).stdout
    head, _, times = out.partition("next 5 times:\n")
    assert re.search(r"^created: job_[0-9a-f]{32}$", head, re.MULTILINE)
    assert "POST https://settle.internal/run" in head
    found = [line.split() for line in times.splitlines()]
    assert [zone for _, zone in found] == [zone] * 5
    moments = [datetime.fromisoformat(text.replace("Z", "+00:00")) for text, _ in found]
    assert all(text.endswith("+05:30" if step else "Z") for text, _ in found)
    steps = {later - earlier for earlier, later in itertools.pairwise(moments)}
    assert steps == {step or timedelta(minutes=15)}
    assert moments[0].timestamp() > time.time() - 60
    assert create(terminal, *CALL, *words)["next_runs"][0].endswith(zone)


def test_what_fires_once_or_by_hand_prints_no_times(terminal: Terminal) -> None:
    assert "next" not in terminal.run("jobs", "create", *CALL).stdout.replace("next run", "")
    assert "next_runs" not in create(terminal, *CALL, "--in", "30s")


def test_creating_again_is_told_as_such(terminal: Terminal) -> None:
    own = ("--idempotency-key", "k")
    assert create(terminal, *CALL, *own)["job_id"] == keyed_job_id("default", "k")
    assert "exists already" in terminal.run("jobs", "create", *CALL, *own).stdout
    said = terminal.error("jobs", "create", *CALL, *own, "--name", "other", exit_code=5)
    assert "stands under key_" in said


def test_validate_only_changes_nothing(terminal: Terminal) -> None:
    out = terminal.run("jobs", "create", *CALL, "--cron", "0 2 * * *", "--tz", "UTC", "--validate-only").stdout
    assert out.startswith("valid; nothing was changed")
    assert out.count("T02:00:00Z UTC") == 5
    assert create(terminal, *CALL, "--validate-only")["valid"] is True
    hashed = terminal.run("jobs", "create", *CALL, "--cron", "H 2 * * *", "--tz", "UTC", "--validate-only").stdout
    assert hashed == "valid; nothing was changed\n", "no times are told before there is an id that decides them"
    assert not terminal.house.bus.commands


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--cron", "0 0 30 2 *", "--tz", "UTC"), "schedule.cron: "),
        (("--cron", "0 0 * * *", "--tz", "Asia/Calcuta"), "Asia/Calcutta"),
        (("--at", "tomorrow"), "remedy: give an RFC 3339 time with an offset"),
        (("--every", "100ms"), "schedule.every_s: is out of range"),
        (("--concurrency", "wait"), "skip_if_running, allow, queue, replace"),
        (("--header", "Host: x"), "target.headers.Host: is set by tocsin itself"),
        (("--id", "a b"), "job_id: is not an id"),
    ],
)
def test_what_the_gateway_refuses_is_told_with_its_remedy(
    terminal: Terminal, words: tuple[str, ...], said: str
) -> None:
    told = terminal.error("jobs", "create", *CALL, *words, exit_code=1)
    assert told.startswith("error: ")
    assert "remedy: " in told
    assert said in told


def test_several_faults_are_all_told(terminal: Terminal) -> None:
    told = terminal.error("jobs", "create", "--url", "x", "--in", "0s", "--label", "a b=c", exit_code=1)
    assert "2 faults" in told
    assert "target.url: " in told
    assert "labels: " in told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--url"),
        (("--cron", "* * * * *"), "--tz"),
        ((*CALL, "--cron", "* * * * *"), "--tz"),
        ((*CALL, "--tz", "UTC"), "--cron"),
        ((*CALL, "--in", "1s", "--every", "1m"), "one schedule"),
        ((*CALL, "--in", "30"), "give a number with a unit"),
        ((*CALL, "--in", "-5s"), "give a number with a unit"),
        ((*CALL, "--in", "1h 5m"), "give a number with a unit"),
        ((*CALL, "--topic", "t"), "not both"),
        ((*CALL, "--argv", "true"), "not both"),
        (("--argv", "it's"), "as a shell would"),
        (("--argv", "true", "--env", "A"), "--env"),
        ((*CALL, "--retry-on", "404"), "--retry-on"),
        ((*CALL, "--retry-on", "404=yes"), "--retry-on"),
        ((*CALL, "--header", "novalue"), "--header"),
        ((*CALL, "--label", "=x"), "--label"),
        ((*CALL, "--label", "a=1", "--label", "a=2"), "given twice"),
        ((*CALL, "-f", "job.yaml"), "-f"),
        (("--header", "a:b"), "--url"),
        ((*CALL, "--gateway", "localhost:8080"), "--gateway"),
        ((*CALL, "-o", "xml"), "xml"),
    ],
)
def test_wrong_usage_is_2_and_asks_nobody(terminal: Terminal, words: tuple[str, ...], said: str) -> None:
    assert said in terminal.error("jobs", "create", *words, exit_code=2)
    assert not terminal.house.bus.commands


YAML = """\
# A job's times are texts, whatever YAML 1.1 makes of them.
name: nightly
schedule:
  run_at: 2026-12-31T23:59:59+05:30
target: {type: http, url: "https://a.example/", headers: {X-On: on, X-Time: 1:30, X-Date: 2026-01-01}}
retry: {max_attempts: 3, base_s: 1.5, jitter: none}
metadata: {answer: 42, no: no, yes: true, nothing: null, octal: 0o7, zero: 007, empty: }
"""


@pytest.mark.parametrize("how", ["file", "stdin"])
def test_a_file_is_the_whole_job_in_yaml_without_surprises(terminal: Terminal, how: str) -> None:
    Path("job.yaml").write_text(YAML, "utf-8")
    words = ("-f", "job.yaml" if how == "file" else "-")
    job = create(terminal, *words, "--id", "mine", stdin=YAML if how == "stdin" else None)
    assert job["job_id"] == "default@mine"
    assert job["schedule"] == {"run_at": "2026-12-31T18:29:59Z"}
    assert job["target"]["headers"] == {"X-On": "on", "X-Time": "1:30", "X-Date": "2026-01-01"}
    assert (job["retry"]["max_attempts"], job["retry"]["base_s"]) == (3, 1.5)
    assert job["metadata"] == {
        "answer": 42,
        "no": "no",
        "yes": True,
        "nothing": None,
        "octal": "0o7",
        "zero": "007",
        "empty": None,
    }


def test_a_file_may_be_json(terminal: Terminal) -> None:
    body = {"job_id": "mine", "schedule": {"cron": "*/5 * * * *", "timezone": "UTC"}, "target": {"type": "message"}}
    body["target"] = {"type": "message", "topic": "t", "value": {"a": 1}}
    Path("job.json").write_text(json.dumps(body))
    assert create(terminal, "-f", "job.json")["target"]["value"] == '{"a":1}'


BOMB = "a0: &a0 [1, 1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
"""A kilobyte that would be written out as 2^60 numbers."""


def test_aliases_and_plain_tags_of_yaml_are_taken(terminal: Terminal) -> None:
    text = """\
schedule: {every_s: !!float 60}
target: {type: http, url: !!str https://a.example/, headers: &shared {X-A: "1"}}
metadata: {again: *shared, "<<": !!int 5}
"""
    Path("job.yaml").write_text(text)
    job = create(terminal, "-f", "job.yaml")
    assert job["metadata"] == {"again": {"X-A": "1"}, "<<": 5}
    assert job["schedule"] == {"every_s": 60}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schedule: {cron: */5 * * * *}", "in quotes"),
        ("a: [", "line"),
        ("a: 1\na: 2", "given twice"),
        ("{", "is not JSON"),
        ("[]", "holds no object"),
        ("5: x", "holds no object"),
        ("", "holds no object"),
        ("!!python/object/apply:os.system ['echo x']", "is not YAML"),
        ("a: &x [*x]", "is not"),
        ("a: &x {b: *x}", "is not"),
        ("a: !!set {x, y}", "'set' is none of JSON's types (line 1"),
        ("a: !!binary x", "'binary' is none of JSON's types"),
        ("a: !!timestamp 2026-10-11", "'timestamp' is none of JSON's types"),
        ("a: !!omap [x: 1]", "'omap' is none of JSON's types"),
        ("a: !own [1]", "'!own' is none of JSON's types"),
        ("a: !!merge x", "'merge' is none of JSON's types"),
        ("a: !!bool maybe", "'maybe' is no bool"),
        ("a: !!int 0x1F", "'0x1F' is no int"),
        ("a: !!float .inf", "'.inf' is no float"),
        ("a: !!int [1]", "is not YAML"),
        ("a: !!seq x", "is not YAML"),
        ("? [a]\n: b", "is not YAML"),
        ("a: !!int " + "9" * 5_000, "is not"),
        (BOMB, "holds more than 100000 values"),
        ("a: 1\n---\nb: 2", "is not YAML"),
        ("\udcff", "not text in UTF-8"),
        ("x" * (TEXT_BYTES_MAX + 1), "too large"),
    ],
)
def test_a_file_that_cannot_be_read_is_told(terminal: Terminal, text: str, said: str) -> None:
    Path("job").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert said in terminal.error("jobs", "create", "-f", "job", exit_code=1)
    assert not terminal.house.bus.commands


def test_a_file_that_is_not_there_is_told(terminal: Terminal) -> None:
    assert "nowhere cannot be read" in terminal.error("jobs", "create", "-f", "nowhere", exit_code=1)
    assert "nowhere cannot be read" in terminal.error("jobs", "create", *CALL, "--body", "@nowhere", exit_code=1)


@pytest.mark.parametrize(
    ("text", "seconds"), [("1.5h", 5_400), ("0.1s", 0.1), ("2w", 1_209_600), ("1d1h1m1s1ms", 90_061.001)]
)
def test_durations(text: str, seconds: float) -> None:
    assert seconds_of(text, "--in") == seconds
