"""Zone data on real parts: recorded when a cluster is made, changed by a command, and minded by triggers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import tzdata

from tests.e2e.system import System, wait_for
from tocsin.adapters.avro import AvroCodec
from tocsin.bootstrap.zone_data import set_zone_data
from tocsin.config import Settings
from tocsin.devcluster import Endpoints
from tocsin.domain.recurrence import TZDATA_VERSION

pytestmark = [pytest.mark.e2e, pytest.mark.real]
OTHER = "1999z"


@pytest.fixture
def alone(cluster: Endpoints, unique: str, tmp_path: Path) -> Iterator[System]:
    """A system of its own, for its triggers are made to go."""
    system = System(cluster, unique, tmp_path)
    system.settings["TOCSIN_CLUSTER__SHARDS"] = "4"
    try:
        system.create()
        yield system
    finally:
        system.close()


def tz(system: System, *words: str, exit_code: int = 0) -> str:
    command = [sys.executable, "-m", "tocsin", "tz", *words]
    done = subprocess.run(command, env=system.env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == exit_code, done.stdout + done.stderr
    return done.stdout + done.stderr


def answers(system: System) -> Counter[tuple[str, str]]:
    outcomes = [AvroCodec().decode_outcome(value) for _, value in system.read("outcomes")]
    return Counter((outcome.kind, outcome.detail) for outcome in outcomes)


@pytest.mark.timeout(480)  # many processes, one after another
def test_a_cluster_is_moved_and_triggers_that_stayed_behind_go(alone: System, monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(tz(alone, "show", "-o", "json")) == {"cluster": TZDATA_VERSION, "this_program": TZDATA_VERSION}
    alone.start("trigger")
    assert "all 4 shards" in (said := tz(alone, "set", TZDATA_VERSION))
    assert "0 of 0 jobs" in said
    wait_for("every shard to agree", lambda: answers(alone)["set_zone_data", "agreed"] == 4)

    assert TZDATA_VERSION in tz(alone, "set", OTHER, exit_code=1)
    for name, value in alone.env.items():
        if name.startswith("TOCSIN_"):
            monkeypatch.setenv(name, value)
    set_zone_data(Settings(), OTHER)  # as another program does, which has that release
    trigger = alone.processes["trigger"]
    assert wait_for("the trigger to go", lambda: trigger.poll() is not None and trigger.returncode) == 3
    assert f"works by the zone data {OTHER}" in alone.log_of("trigger")
    assert "gave shards up" in alone.log_of("trigger"), "they were released, so a successor need not wait"
    alone.start_unready("trigger", "again")
    again = alone.processes["again"]
    assert wait_for("the next one to refuse", lambda: again.poll() is not None and again.returncode) == 3
    assert answers(alone)["set_zone_data", "agreed"] == 4, "the command is left to who has that data"

    tz(alone, "set", TZDATA_VERSION, "--within", "1", exit_code=6)
    alone.start("trigger")
    wait_for("commands of both kinds to be decided", lambda: answers(alone)["set_zone_data", "conflict"] == 4)
    wait_for("every shard to agree again", lambda: answers(alone)["set_zone_data", "agreed"] == 8)


def with_other_release(directory: Path) -> str:
    """Return a PYTHONPATH with another release of the package, in which Paris has the time of Athens."""
    package = directory / "tzdata"
    shutil.copytree(Path(tzdata.__file__).parent, package)
    module = package / "__init__.py"
    module.write_text(module.read_text().replace(f'"{TZDATA_VERSION}"', f'"{OTHER}"'))
    shutil.copy(package / "zoneinfo/Europe/Athens", package / "zoneinfo/Europe/Paris")
    return os.pathsep.join([str(directory), *filter(None, [os.environ.get("PYTHONPATH")])])


@pytest.mark.timeout(480)
def test_what_is_filed_moves_to_the_new_release(cluster: Endpoints, unique: str, tmp_path: Path) -> None:
    system = System(cluster, unique, tmp_path)
    system.settings = {"TOCSIN_CLUSTER__SHARDS": "4", "PYTHONPATH": with_other_release(tmp_path / "other")}
    try:
        system.create()
        system.start("trigger", "gateway")
        due = datetime.now(UTC) + timedelta(hours=6)
        cron = f"0 {due.hour} * * *"  # by either data hours from now
        moved = [system.create_job(schedule={"cron": cron, "timezone": "Europe/Paris"}) for _ in range(6)]
        system.create_job(schedule={"cron": cron, "timezone": "Europe/Berlin"})
        system.create_job(schedule={"every_s": 3_600})
        assert json.loads(tz(system, "show", "-o", "json"))["cluster"] == OTHER

        del system.settings["PYTHONPATH"]
        command = [sys.executable, "-m", "tocsin", "tz", "set", TZDATA_VERSION, "--within", "90", "-o", "json"]
        setting = subprocess.Popen(command, env=system.env, stdout=subprocess.PIPE)
        trigger = system.processes["trigger"]
        wait_for("the former owner to go", lambda: trigger.poll() is not None)
        system.start("trigger", name="successor")
        told = json.loads(setting.communicate(timeout=200)[0])
        assert setting.returncode == 0
        assert sorted(move["job_id"] for move in told["moves"]) == sorted(moved)
        for move in told["moves"]:
            was, becomes = (datetime.fromisoformat(move[name]) for name in ("was", "becomes"))
            assert becomes - was == timedelta(hours=1)
        alerts = [AvroCodec().decode_alert(value) for _, value in system.read("alerts")]
        assert {alert.job_id for alert in alerts if alert.kind == "moved"} >= set(moved)
    finally:
        system.close()
