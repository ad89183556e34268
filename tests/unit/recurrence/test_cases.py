"""Inputs on which real schedulers failed, with the right answers (``cases.json``).

``start`` without an offset is wall time in the zone; ``expect`` are the next instants (``"way": "prev"``: the previous
ones), or ``"reject"``. Where several answers could be defended (``policy``, ``contested``), the one here is ours.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.unit.recurrence.zone_files import zone_file
from tocsin.domain.recurrence import CronError, compile_cron

CASES = json.loads(Path(__file__).with_name("cases.json").read_text(encoding="utf-8"))
ACCEPTED = [case for case in CASES if case["expect"] != "reject"]
REFUSED = [case for case in CASES if case["expect"] == "reject"]


def micros(text: str, zone: str) -> int:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone_file(zone))
    return (moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def name(case: dict[str, Any]) -> str:
    return f"{case['expr']} {case['zone']} {case.get('start', '')}"


@pytest.mark.parametrize("case", ACCEPTED, ids=name)
def test_the_right_instants_follow(case: dict[str, Any]) -> None:
    plan = compile_cron(case["expr"], case["zone"])
    step = plan.previous_before if case.get("way") == "prev" else plan.next_after
    at: int | None = micros(case["start"], case["zone"])
    for expected in case["expect"]:
        assert at is not None
        at = step(at)
        assert at == micros(expected, case["zone"])


@pytest.mark.parametrize("case", REFUSED, ids=name)
def test_what_cannot_be_meant_is_refused_with_place_and_remedy(case: dict[str, Any]) -> None:
    with pytest.raises(CronError) as refused:
        compile_cron(case["expr"], case["zone"])
    error = refused.value
    assert error.field == "cron"
    assert error.problem
    assert error.remedy
    assert error.position is not None
    assert 0 <= error.position <= len(case["expr"])
