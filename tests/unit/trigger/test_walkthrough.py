"""docs/walkthrough.md shows what the code does: its blocks are compared with a trace of the running loops."""

from __future__ import annotations

import re

import pytest

from tests.unit.trigger.walkthrough import BLOCK, DOCUMENT, trace

TOLD = trace()
SHOWN = dict(BLOCK.findall(DOCUMENT.read_text()))


def test_every_part_of_the_trace_is_shown_once_and_in_order() -> None:
    marks = re.findall(r"<!-- trace: (\S*) -->", DOCUMENT.read_text())
    assert marks == list(TOLD)


@pytest.mark.parametrize("part", TOLD)
def test_the_document_shows_what_happens(part: str) -> None:
    assert SHOWN[part] == TOLD[part], "python -m tests.unit.trigger.walkthrough writes the present trace"


def test_the_trace_is_the_same_every_time() -> None:
    assert trace() == TOLD


def test_an_execution_keeps_its_id_while_its_tokens_grow() -> None:
    dispatches = [
        re.findall(r"key: default\|(\S+)\|(\d+)\|(\d+)", TOLD[part]) for part in ("fired", "dispatched-again")
    ]
    [[(first, attempt, token)], [(again, attempt_again, token_again)]] = dispatches
    assert (first, attempt) == (again, attempt_again)
    assert int(token_again) > int(token)
    assert TOLD["ended"].count("execution-events[0]") == 1
    assert "execution-events" not in TOLD["too-late"]
