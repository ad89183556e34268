"""Parts add up, and are drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests.chaos.history import SECOND, Fault
from tests.chaos.picture import draw
from tests.chaos.report import SUMMED, merge


def part(**changed: Any) -> dict[str, Any]:
    sums = dict.fromkeys(SUMMED, 0)
    late = {"p50": 1.0, "p99": 2.0, "max": 3.0}
    return {"duration_s": 60.0, "faults": {}, "lateness_ms": late, "standstill_s": {}, **sums, **changed}


def test_sums_name_their_parts_and_a_part_of_the_same_name_replaces_the_former(tmp_path: Path) -> None:
    path = tmp_path / "chaos.json"
    merge(path, "a", "first", part(occurrences=5, lost=1, faults={"kill": 1}))
    merge(path, "a", "again", part(occurrences=7, faults={"kill": 2}, standstill_s={"kill": [1.0]}))
    slow = {"p50": 1.0, "p99": 9.0, "max": 90.0}
    merge(path, "b", "other", part(occurrences=1, faults={"kill": 1, "sleep": 1}, lateness_ms=slow))
    whole = json.loads(path.read_text())
    assert (whole["occurrences"], whole["lost"], whole["duration_s"]) == (8, 0, 120.0)
    assert whole["faults"] == {"kill": 3, "sleep": 1}
    assert whole["lateness_ms"] == {"p50": 1.0, "p99": 9.0, "max": 90.0}
    assert {name: made["command"] for name, made in whole["parts"].items()} == {"a": "again", "b": "other"}


def test_a_picture_shows_the_faults_and_every_moment(tmp_path: Path) -> None:
    path = tmp_path / "late.svg"
    late = [(at * SECOND, 1_000 * (1 + at % 7)) for at in range(100)]
    draw(path, "a < b", late, [Fault("kill_x", "x-1", 10 * SECOND, 20 * SECOND)])
    drawn = ElementTree.parse(path).getroot()
    texts = [element.text for element in drawn.iter() if element.text]
    assert "a < b" in texts
    assert "kill_x: x-1" in texts
    assert sum(1 for element in drawn.iter() if element.tag.endswith("circle")) == 200


def test_an_empty_run_is_drawn_too(tmp_path: Path) -> None:
    draw(tmp_path / "none.svg", "nothing", [], [])
    ElementTree.parse(tmp_path / "none.svg")
