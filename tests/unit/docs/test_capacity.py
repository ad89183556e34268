"""The page of capacity is what the model makes of the results, and the model hangs together."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from benchmarks.capacity.inputs import Costs, From
from benchmarks.capacity.life import one_offs, recurring
from benchmarks.capacity.model import LOADS, burst_s, cluster, occupied
from benchmarks.capacity.page import PAGE, written
from benchmarks.capacity.spread import over_shards
from benchmarks.results_file import RESULTS

from tocsin.domain.sharding import shard_of


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, object]]:
    return {"capacity": json.loads((RESULTS / "capacity.json").read_text("utf-8"))["figures"]}


@pytest.fixture(scope="module")
def costs(results: dict[str, dict[str, object]]) -> Costs:
    worker = json.loads((RESULTS / "worker.json").read_text("utf-8"))["figures"]
    return Costs({**results, "worker": worker})  # type: ignore[dict-item]


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == written(), "results have changed: run `make bench-page`"


def test_more_load_never_takes_less_of_anything(costs: Costs) -> None:
    before = None
    for times in (1, 2, 5, 20):
        load = replace(LOADS[0], per_day=LOADS[0].per_day * times, peak=LOADS[0].peak * times)
        now = cluster(costs, load)
        if before is not None:
            assert all(now.processes[role] >= count for role, count in before.processes.items())
            assert now.shards >= before.shards
            assert sum(now.disk_tb.values()) > sum(before.disk_tb.values())
        before = now


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
def test_a_cluster_carries_its_own_load_without_one_process(costs: Costs, load: object) -> None:
    found = cluster(costs, load)  # type: ignore[arg-type]
    wanted = [times for name, times in found.holds_upto.items() if "tenant" not in name]
    assert min(wanted) >= 1
    if found.load.peak_s == 1:
        assert burst_s(costs, found.load, found.processes["trigger"] - 1) <= 2


def test_a_whole_that_was_measured_goes_before_its_parts(results: dict[str, dict[str, object]], costs: Costs) -> None:
    assert costs.inputs["trigger_create"].origin is From.STAND_IN
    measured = {"create": {"topic": {"trigger_cpu_us_per_create": 123}}}
    found = Costs({**results, **measured, "worker": {"http": {"cpu_us_worker": 300}}})  # type: ignore[dict-item]
    assert found.inputs["trigger_create"].origin is From.MEASURED
    assert found["trigger_create"] == 123
    assert found["worker_http"] == 300


def test_things_fall_into_bins() -> None:
    assert occupied(10, 1) == pytest.approx(1)
    assert occupied(10, 1e6) == pytest.approx(10)
    assert occupied(1, 0.5) == 0.5


def test_a_spread_is_that_of_the_shards_themselves() -> None:
    found = over_shards(400, 1, random.Random(5))
    assert found == over_shards(400, 1, random.Random(5))
    from benchmarks.capacity.spread import kinds

    keys = kinds()["made"](random.Random(5), 400)
    filled = [sum(shard_of(key.decode(), 8) == shard for key in keys) for shard in range(8)]
    assert found["made"]["8"][1] == round(max(filled) * 8 / 400, 3)


def test_each_phase_of_a_life_leaves_what_it_should() -> None:
    life = one_offs(20, random.Random(1))
    assert life["create"]["store"] == {"insert_entry": 1, "upsert_job": 1}
    assert life["fire"]["records"]["executions.default"] == 1
    assert life["report"]["records"]["execution-events"] == 1
    assert life["remove"]["store"]["delete_job"] == 1
    again = recurring(20, random.Random(1))
    assert again["fire"]["store"] == {"insert_entry": 1}
