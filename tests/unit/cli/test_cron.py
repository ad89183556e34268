"""``tocsin cron``: no gateway is asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tocsin.cli.app import app
from tocsin.cli.cron import LINE_CHARS_MAX


def run(*words: str, stdin: str | bytes | None = None, exit_code: int = 0) -> str:
    result = CliRunner().invoke(app, ["cron", *words], input=stdin)
    assert result.exit_code == exit_code, (result.output, result.exception)
    return result.stdout if exit_code == 0 else " ".join(result.stderr.split())


NEW_YORK = ("--timezone", "America/New_York", "--after", "2026-03-07T12:00:00Z")
DAILY = {"expr": "0 2 * * *", "timezone": "UTC", "start": "2026-01-01T00:00:00Z"}


def test_an_expression_is_explained() -> None:
    out = run("explain", "30 2 * * *", *NEW_YORK, "-n", "2")
    assert "At 02:30" in out
    assert "fixed time" in out
    assert "2026-03-08T03:00:00-04:00  (03:00, because 02:30 does not exist that day)" in out
    shown = json.loads(run("explain", "30 2 * * *", *NEW_YORK, "-n", "1", "-o", "json"))
    assert shown["times"] == [
        {
            "at": "2026-03-08T03:00:00-04:00",
            "utc": "2026-03-08T07:00:00Z",
            "notes": ["03:00, because 02:30 does not exist that day"],
        }
    ]


def test_h_needs_a_job() -> None:
    assert "--job-id" not in run("explain", "0 2 * * *", "--tz", "UTC")
    assert "needs a job id" in run("explain", "H 2 * * *", "--tz", "UTC", exit_code=1)
    assert "H" not in json.loads(run("explain", "H 2 * * *", "--tz", "UTC", "--job-id", "a", "-o", "json"))["cron"]
    assert "--job-id: is not a job id" in run("explain", "H 2 * * *", "--tz", "UTC", "--job-id", "a b", exit_code=1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("0 0 30 2 *", "--tz", "UTC"), "no date ever satisfies"),
        (("0 0 * * *", "--tz", "Asia/Calcuta"), "Asia/Calcutta"),
        (("0 22-2 * * *", "--tz", "UTC"), "22-23,0-2"),
    ],
)
def test_what_is_refused_says_what_would_be_right(words: tuple[str, ...], said: str) -> None:
    assert said in run("explain", *words, exit_code=1)


def test_the_end_of_times_is_said() -> None:
    out = run("explain", "0 0 1 1 *", "--tz", "UTC", "--after", "2199-06-01T00:00:00Z")
    assert "none after that" in out


def test_an_unreadable_time_is_wrong_usage() -> None:
    assert "--after" in run("explain", "0 0 1 1 *", "--tz", "UTC", "--after", "tomorrow", exit_code=2)


def test_a_batch_is_answered_line_by_line_and_bad_lines_stop_nothing(tmp_path: Path) -> None:
    lines = [
        json.dumps(DAILY),
        "nonsense",
        json.dumps(DAILY | {"n": 2, "direction": "prev"}),
        "[1]",
        json.dumps(DAILY | {"expr": "H 2 * * *"}),
        '{"expr": "' + "x" * LINE_CHARS_MAX + '"}',
        "[" * 5000,
        json.dumps(DAILY | {"expr": "H 2 * * *", "job_id": "a"}),
    ]
    file = tmp_path / "fleet.jsonl"
    file.write_text("\n".join(lines) + "\n\n")
    found = [json.loads(line) for line in run("next", "--batch", str(file)).splitlines()]
    assert [next(iter(one)) for one in found] == [
        "times", "error", "times", "error", "error", "error", "error", "times",
    ]  # fmt: skip
    assert found[0] == {"times": ["2026-01-01T02:00:00Z"]}
    assert found[2] == {"times": ["2025-12-31T02:00:00Z", "2025-12-30T02:00:00Z"]}
    assert found[4]["error"]["faults"][0]["field"] == "expr"
    assert all(one["error"]["faults"][0]["remedy"] for one in found if "error" in one)
    assert run("next", "--batch", "-", stdin=file.read_text()) == run("next", "--batch", str(file))


def test_bytes_that_are_no_text_are_an_error_of_their_line() -> None:
    found = run("next", "--batch", "-", stdin=b"\xff\xfe\n" + json.dumps(DAILY).encode())
    assert [next(iter(json.loads(line))) for line in found.splitlines()] == ["error", "times"]


def test_a_file_that_is_not_there_is_said() -> None:
    assert "cannot be read" in run("next", "--batch", "/nowhere/at/all", exit_code=1)
