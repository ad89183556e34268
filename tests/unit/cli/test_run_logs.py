"""``tocsin runs get --logs``: text on stdout, remarks on stderr, and a follower that ends when the run has."""

from __future__ import annotations

import threading
import time

import pytest

from tests.unit.cli.conftest import Terminal
from tests.unit.gateway.house import NOON
from tests.unit.gateway.test_runs import dispatched, ended, head_of
from tocsin.cli import run_logs
from tocsin.domain.executions import AttemptHead
from tocsin.ports.run_logs import LogChunk, LogPlace


@pytest.fixture
def head(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> AttemptHead:
    """A run that was dispatched."""
    monkeypatch.setattr(run_logs, "FOLLOW_EVERY_S", 0.02)
    job = terminal.json("jobs", "create", "--url", "https://settle.internal/run", "--every", "15m")
    head = head_of(job, NOON)
    dispatched(terminal.house, head)
    return head


def printed(terminal: Terminal, head: AttemptHead, seq: int, text: str, lost: int = 0, last: bool = False) -> None:
    chunk = LogChunk(head.token, seq, NOON, text, lost, "limit" if lost else None, last)
    terminal.house.run_logs.write([(LogPlace(head.execution_id, head.attempt, head.token), [chunk])])


def test_output_is_printed_as_it_is_but_for_what_could_steer_a_terminal(terminal: Terminal, head: AttemptHead) -> None:
    printed(terminal, head, 0, "eins\tzwei\n\x1b[31mrot\r\n")
    printed(terminal, head, 1, "Ende", lost=1234, last=True)
    result = terminal.run("runs", "get", head.execution_id, "--logs")
    assert result.stdout == "eins\tzwei\n\ufffd[31mrot\nEnde"
    assert result.stderr == "-- 1234 bytes are missing here: more than is kept of an attempt --\n"
    answer = terminal.json("runs", "get", head.execution_id, "--logs")
    assert [chunk["text"] for chunk in answer["chunks"]] == ["eins\tzwei\n\x1b[31mrot\r\n", "Ende"]


def test_all_pages_are_printed(terminal: Terminal, head: AttemptHead) -> None:
    for seq in range(run_logs.PAGE_CHUNKS + 5):
        printed(terminal, head, seq, f"{seq}\n")
    lines = terminal.run("runs", "get", head.execution_id, "--logs").stdout.split()
    assert lines == [str(seq) for seq in range(run_logs.PAGE_CHUNKS + 5)]
    assert len(terminal.json("runs", "get", head.execution_id, "--logs")["chunks"]) == len(lines)


def test_a_follower_sees_what_comes_over_all_attempts_and_ends_with_the_run(
    terminal: Terminal, head: AttemptHead
) -> None:
    printed(terminal, head, 0, "first ")
    second = head._replace(attempt=2, token=head.token + 1)

    def go_on() -> None:
        time.sleep(0.3)
        printed(terminal, head, 1, "fails\n", last=True)
        ended(terminal.house, head, state="RETRY_SCHEDULED", attempt_state="FAILED")
        time.sleep(0.3)
        dispatched(terminal.house, second)
        # This worker dies: its output has no end, but the run has one.
        printed(terminal, second, 0, "second ends\n")
        ended(terminal.house, second)

    other = threading.Thread(target=go_on)
    other.start()
    result = terminal.run("runs", "get", head.execution_id, "--logs", "--follow")
    other.join()
    assert result.stdout == "first fails\nsecond ends\n"
    assert result.stderr.split("\n")[:2] == ["-- attempt 2 --", "-- the run is SUCCEEDED --"]
    assert terminal.run("runs", "get", head.execution_id, "--logs", "-f", "--attempt", "1").stdout == "first fails\n"


def test_where_a_worker_was_lost_it_says_which_dispatch_printed_what_follows(
    terminal: Terminal, head: AttemptHead
) -> None:
    printed(terminal, head, 0, "begun\n")
    again = head._replace(token=head.token + 2, losses=1)
    dispatched(terminal.house, again)
    printed(terminal, again, 0, "begun again\n", last=True)
    result = terminal.run("runs", "get", head.execution_id, "--logs")
    assert (result.stdout, result.stderr) == ("begun\nbegun again\n", "-- dispatched again, as token 9 --\n")


def test_a_run_that_has_printed_nothing_says_so(terminal: Terminal, head: AttemptHead) -> None:
    result = terminal.run("runs", "get", head.execution_id, "--logs")
    assert (result.stdout, result.stderr) == ("", "-- no output is kept of attempt 1 --\n")


def test_flags_that_say_nothing_are_refused_and_a_stranger_s_run_is_not_found(
    terminal: Terminal, head: AttemptHead
) -> None:
    assert "--logs" in terminal.error("runs", "get", head.execution_id, "--follow", exit_code=2)
    assert "--logs" in terminal.error("runs", "get", head.execution_id, "--attempt", "1", exit_code=2)
    terminal.error("runs", "get", head.execution_id, "--logs", "-f", "-o", "json", exit_code=2)
    terminal.error("runs", "get", head.execution_id, "--logs", "--tenant", "other", exit_code=4)
