"""``tocsin dlq``, as people and programs read it."""

from __future__ import annotations

import pytest

from tests.unit.cli.conftest import Terminal
from tests.unit.gateway.house import NOON
from tests.unit.gateway.owner import CODEC
from tests.unit.gateway.test_letters import buried
from tests.unit.gateway.test_redrives import died
from tocsin.domain.executions import AttemptHead
from tocsin.domain.targets import HttpTarget


def test_letters_are_listed_a_page_at_a_time_and_chosen_by_job_and_kind(terminal: Terminal) -> None:
    assert terminal.run("dlq", "list").stdout == "no dead letters\n"
    ids = [buried(terminal.house, NOON - n) for n in range(3)]
    lines = terminal.run("dlq", "list", "--limit", "2").stdout.splitlines()
    assert lines[0].split() == ["AT", "KIND", "REASON", "REDRIVES", "JOB", "DEAD", "LETTER"]
    assert "503 Service Unavailable" in lines[1]
    token = lines[-1].removeprefix("more: --page-token ")
    page = terminal.json("dlq", "list", "--page-token", token, "--job", "nightly", "--kind", "execution")
    assert [one["dead_letter_id"] for one in page["dead_letters"]] == ids[2:]
    buried(terminal.house, NOON - 9, reason="x" * 900)
    assert f" {'x' * 199}…" in terminal.run("dlq", "list").stdout
    assert "no kind of dead letter" in terminal.error("dlq", "list", "--kind", "none", exit_code=1)


def test_one_is_shown_with_its_bytes(terminal: Terminal) -> None:
    letter_id = buried(terminal.house, NOON, "record", value=b'{"kind": "\x1b[2J"}')
    out = terminal.run("dlq", "show", letter_id).stdout
    assert "reports[3] at 7" in out
    assert '{"kind": "\ufffd[2J"}' in out
    assert terminal.json("dlq", "show", letter_id)["value"]["encoding"] == "utf-8"
    told = terminal.error("dlq", "show", "1.2.3", exit_code=4)
    assert "no dead letter is known" in told and "`tocsin dlq list`" in told and "tocsin jobs list" not in told


def test_one_of_an_execution_is_shown_by_what_it_was_to_do(terminal: Terminal) -> None:
    head = AttemptHead(3, 12, 0, "default@nightly.7.9", "default@nightly", "default", 7, 9, 9)
    value = CODEC.encode_execution(head, HttpTarget("https://settle.internal/run"))
    letter_id = buried(terminal.house, NOON, value=value)
    shown = terminal.run("dlq", "show", letter_id).stdout
    assert "POST https://settle.internal/run" in shown
    assert "bytes" not in shown
    assert terminal.json("dlq", "show", letter_id)["value"]["encoding"] == "base64"


def dead(terminal: Terminal, name: str, count: int) -> list[str]:
    """A job with so many dead runs; return their letters."""
    job = terminal.json("jobs", "create", "--url", "https://settle.internal/run", "--every", "15m", "--id", name)
    return [died(terminal.house, job, ago_s=n) for n in range(count)]


def test_dead_executions_are_redriven_a_page_after_another_as_slowly_as_asked(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    naps: list[float] = []
    monkeypatch.setattr("tocsin.cli.dlq.time.sleep", naps.append)
    monkeypatch.setattr("tocsin.roles.gateway.redrives.LETTERS_DEFAULT", 2)
    letters = dead(terminal, "nightly", 3)
    out = terminal.run("dlq", "redrive", "--job", "nightly", "--max-rate", "5", "--dry-run").stdout
    assert "3 would be redriven, 0 left out" in out
    assert (naps, terminal.house.owner.redriven) == ([], [])
    out = terminal.run("dlq", "redrive", "--all", "--max-rate", "5").stdout
    assert out.splitlines()[0].split()[:3] == ["OUTCOME", "NOT", "BEFORE"]
    assert "3 redriven, 0 left out" in out
    assert naps == [0.4]
    assert len(terminal.house.owner.redriven) == 3
    answer = terminal.json("dlq", "redrive", letters[1])
    assert [one["dead_letter_id"] for one in answer["results"]] == letters[1:2]


def test_what_cannot_be_redriven_is_told_and_is_a_conflict(terminal: Terminal) -> None:
    dead(terminal, "nightly", 1)
    terminal.house.owner.running.add("default@nightly")
    out = terminal.run("dlq", "redrive", "--all", exit_code=5).stdout
    assert "running" in out
    assert "0 redriven, 1 left out" in out
    assert "name dead letters" in terminal.error("dlq", "redrive", exit_code=2)
    assert "name dead letters" in terminal.error("dlq", "redrive", "--all", "--job", "nightly", exit_code=2)
