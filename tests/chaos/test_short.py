"""The short form of chaos: a few faults on one broker and one store, in about two minutes."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.chaos.faults import Pace
from tests.chaos.load import Load
from tests.chaos.rig import running
from tests.chaos.run import run_part, tell
from tests.e2e.system import System
from tocsin.devcluster import DevCluster, Endpoints

pytestmark = [pytest.mark.e2e, pytest.mark.real, pytest.mark.timeout(1200)]

FAULTS = ("kill_trigger", "stop_trigger", "sleep_trigger", "kill_worker")
PACE = Pace(asleep_s=12.0, settle_s=1.0)
"""Twice a trigger's session; and after each fault every shard must fire again anyway before the next."""


def test_nothing_is_lost_repeated_or_early_while_processes_die_and_sleep(cluster: Endpoints, tmp_path: Path) -> None:
    unique = f"c{uuid.uuid4().hex[:8]}"
    with running(DevCluster(tmp_path), System(cluster, unique, tmp_path)) as rig:
        load = Load(rig, every_second=24, crons=4, default_policies=2, one_offs_per_s=2)
        part = run_part(rig, FAULTS, 0, load, PACE)
    told = tell(part)
    print(told)
    assert part.verdict.violations == {}, told
    assert part.broken == [], told
    assert part.verdict.occurrences > 500, told
    assert {fault.name for fault in part.history.faults} == set(FAULTS)
