"""Which lines of a child's log people see."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tocsin.dev.log_lines import KINDS_MAX, LINE_CHARS_MAX, REPEAT_AFTER_S, LogTail, Repetition, ShownLine, shown_line


def written(level: str, **fields: object) -> str:
    return json.dumps({"event": "the store is slow", "level": level, "role": "trigger", "action": "a.b", **fields})


@pytest.mark.parametrize("level", ["debug", "info"])
def test_what_goes_well_is_not_shown_unless_everything_is_asked_for(level: str) -> None:
    assert shown_line(written(level)) is None
    assert shown_line(written(level), everything=True) == ShownLine(level, "the store is slow")


@pytest.mark.parametrize("level", ["warning", "error", "critical"])
def test_complaints_are_shown_with_what_they_carry(level: str) -> None:
    assert shown_line(written(level, shard=3)) == ShownLine(level, "the store is slow shard=3")


def test_an_exception_is_shown_from_its_end() -> None:
    shown = shown_line(written("error", exception="x" * 10_000 + "ValueError: no"))
    assert shown is not None
    assert shown.text.endswith("ValueError: no")
    assert len(shown.text) < 2 * LINE_CHARS_MAX


@pytest.mark.parametrize("line", ["Traceback (most recent call last):", "[1, 2]", '{"no": "event"}', "17"])
def test_what_is_not_our_logging_is_shown_as_it_is(line: str) -> None:
    assert shown_line(line) == ShownLine("", line)


def test_empty_lines_are_not_shown() -> None:
    assert shown_line("   ", everything=True) is None


def test_the_tail_returns_each_line_once_and_only_when_it_is_complete(tmp_path: Path) -> None:
    log = tmp_path / "role.log"
    tail = LogTail(log)
    assert tail.read() == []
    with log.open("ab", buffering=0) as file:
        file.write(b"one\ntw")
        assert tail.read() == ["one"]
        assert tail.read() == []
        file.write(b"o\n\xff\n")
        assert tail.read() == ["two", "\ufffd"]


def test_lines_that_differ_only_in_numbers_are_shown_once_in_a_while_and_counted() -> None:
    repetition = Repetition()

    def admitted(number: int, now_s: float) -> str | None:
        line = repetition.admit(ShownLine("", f"%3|{number}.1|FAIL| 127.0.0.1:{number}: refused"), now_s)
        return line and line.text

    assert admitted(1, 0.0) == "%3|1.1|FAIL| 127.0.0.1:1: refused"
    assert admitted(22, 1.0) is None
    assert admitted(333, 2.0) is None
    assert repetition.admit(ShownLine("error", "another thing"), 2.0) == ShownLine("error", "another thing")
    assert admitted(4, REPEAT_AFTER_S) == "%3|4.1|FAIL| 127.0.0.1:4: refused (2 more like it before)"
    assert admitted(5, 2 * REPEAT_AFTER_S) == "%3|5.1|FAIL| 127.0.0.1:5: refused"


def test_what_is_remembered_of_lines_is_bounded() -> None:
    repetition = Repetition()
    for n in range(3 * KINDS_MAX):
        assert repetition.admit(ShownLine("", "x" * n), 0.0) is not None
    assert len(repetition._shown_at) <= KINDS_MAX
