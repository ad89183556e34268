"""Pools in the settings, and their topics: one declaration for all of them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tocsin.adapters.kafka.topics import load_declarations
from tocsin.cli.settings_errors import told
from tocsin.config import Settings
from tocsin.resources import topics_dir

COUNTS = {"shards": 4, "lane": 8, "outcomes": 1}


def test_each_declared_pool_has_a_topic_by_the_one_declaration() -> None:
    by_name = {one.name: one for one in load_declarations(topics_dir(), "t.", COUNTS, ("gpu", "reminders"))}
    assert {name for name in by_name if ".pool." in name} == {"t.executions.pool.gpu", "t.executions.pool.reminders"}
    gpu, default = by_name["t.executions.pool.gpu"], by_name["t.executions.default"]
    assert (gpu.partitions, gpu.config, gpu.fixed) == (default.partitions, default.config, default.fixed)
    assert not [one.name for one in load_declarations(topics_dir(), "t.", COUNTS) if "pool" in one.name]


@pytest.mark.parametrize(
    ("worker", "lanes"),
    [
        ({}, ("default", "message")),
        ({"pools": "gpu,cpu"}, ("pool.gpu", "pool.cpu")),
        ({"pools": "gpu, gpu", "lanes": "default"}, ("default", "pool.gpu")),
        ({"lanes": '["message"]'}, ("message",)),
    ],
)
def test_a_worker_serves_what_is_named(
    worker: dict[str, Any], lanes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in worker.items():
        monkeypatch.setenv(f"TOCSIN_WORKER__{name.upper()}", value)
    assert Settings().worker.all_lanes == lanes
    # As `tocsin worker --pool one` makes them: what the command line says goes before the environment.
    assert Settings(worker={"pools": ("one",)}).worker.all_lanes[-1] == "pool.one"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TOCSIN_CLUSTER__POOLS", "gpu,a.b"),
        ("TOCSIN_CLUSTER__POOLS", "x" * 65),
        ("TOCSIN_WORKER__POOLS", "g p u"),
        ("TOCSIN_WORKER__LANES", ""),
    ],
)
def test_what_is_wrong_is_refused_by_its_variable(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValidationError) as caught:
        Settings()
    assert any(variable.rsplit("__", 1)[0] in line for line in told(caught.value))
