"""What is printed for people."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tocsin.cli.shown import print_fields, print_json, print_rows, target_text


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ({"type": "http", "url": "https://a.test/", "method": "PUT"}, "PUT https://a.test/"),
        ({"type": "message", "topic": "t", "key": "k"}, "message to t, key k"),
        ({"type": "command", "argv": ["echo", "a b"], "pool": "p"}, "echo 'a b' in the pool p"),
        ({"type": "container", "image": "i", "pool": "p"}, "container i in the pool p"),
        ({"type": "handler", "name": "send", "pool": "p"}, "handler send in the pool p"),
    ],
)
def test_a_target_is_told_by_what_it_is(target: dict[str, Any], text: str) -> None:
    assert target_text(target) == text


def test_lines_of_a_value_stay_lines_and_none_is_filled_up(capsys: pytest.CaptureFixture[str]) -> None:
    print_fields({"output": "one\n\x1b[2Jtwo\n", "[b]longer[/b]": "x" * 40, "empty": ""})
    print_rows(("A", "B"), [("a", "b" * 9), (None, "b")])
    assert capsys.readouterr().out.splitlines() == [
        "output         one",
        "               \ufffd[2Jtwo",
        f"[b]longer[/b]  {'x' * 40}",
        "A  B",
        "a  bbbbbbbbb",
        "   b",
    ]


def test_json_steers_no_terminal_and_reads_as_what_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"said": "ü \x1b[2J \x9b2J \x7f \x85 \u2603"}
    print_json(value)
    text = capsys.readouterr().out
    assert json.loads(text) == value
    assert all(letter.isprintable() for letter in text if letter != "\n") and "ü" in text
