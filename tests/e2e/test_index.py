"""The whole index is lost while jobs fire: it is noticed, rebuilt by command, and nothing is missing afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from typing import Any

import pytest

from tests.e2e.system import System, wait_for
from tocsin.adapters.cassandra.session import Connection, StoreAddress

# Minutes that are in memory when the tables are lost fire from there; the loss shows after them.
pytestmark = [pytest.mark.e2e, pytest.mark.real, pytest.mark.timeout(900)]


def _index(system: System, *words: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "tocsin", "index", *words]
    done = subprocess.run(command, env=system.env, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout, done.stderr


def _verify(system: System) -> tuple[int, dict[str, Any]]:
    code, out, err = _index(system, "verify", "-o", "json")
    assert code in (0, 1), err
    return code, json.loads(out)


def _store(system: System) -> Connection:
    endpoints = system.endpoints
    return Connection(StoreAddress(endpoints.cassandra_contact_points, endpoints.cassandra_port, system.unique))


def test_a_truncated_store_is_rebuilt_under_fire_and_everything_fires(system: System) -> None:
    ticking = system.create_job(path="/tick", schedule={"every_s": 2}, concurrency="allow")
    jobs = {system.create_job(delay_s=5 + n * 8) for n in range(16)}
    far = {system.create_job(delay_s=86_400 + n) for n in range(10)}
    wait_for("ticks", lambda: len(system.published()) > 3)
    # What is younger than the watermarks that were committed last is not judged yet: there is always a job that has
    # just ended.
    wait_for("most to be settled", lambda: _verify(system)[1]["jobs"] > len(far) + len(jobs) // 2, 150)
    code, told = _verify(system)
    assert (code, told["differences"]) == (0, []), "a system at work looks whole"

    store = _store(system)
    for table in ("schedule_index", "jobs"):
        store.execute(f"TRUNCATE {table}")
    wait_for("the trigger to notice", lambda: "index_lost" in system.log_of("trigger"), 150)
    code, told = _verify(system)
    assert code == 1
    assert {d["job_id"] for d in told["differences"] if d["table"] == "jobs"} >= far

    code, out, err = _index(system, "rebuild")
    assert code == 0, out + err
    assert f"{len(jobs | far) + 1} jobs in 8 shards" in out
    code, told = _verify(system)
    assert (code, told["differences"]) == (0, [])

    def succeeded() -> set[str]:
        return {event.head.job_id for event in system.events() if event.state == "SUCCEEDED"}

    wait_for("all that was due to have run", lambda: succeeded() >= jobs, 300)
    published = system.published()
    assert set(published.values()) == {1}, "and nothing twice"
    skipped = [(e.head.scheduled_for, e.skipped_upto) for e in system.events() if e.state == "SKIPPED"]
    ticks = sorted(int(name.rsplit(".", 1)[1]) for name in published if name.startswith(ticking))
    for one, other in pairwise(ticks):
        missed = range(one + 2_000_000, other, 2_000_000)
        assert all(any(first <= at <= (upto or first) for first, upto in skipped) for at in missed), "run, or said"

    (row,) = store.execute(f"SELECT job_id, version FROM jobs WHERE job_id = '{sorted(far)[0]}'")
    store.execute(f"DELETE FROM jobs USING TIMESTAMP {row[1]} WHERE job_id = '{row[0]}'")
    code, told = _verify(system)
    assert code == 1
    assert [(d["table"], d["what"], d["job_id"]) for d in told["differences"]] == [("jobs", "missing", row[0])]
    store.close()


def test_words_that_make_no_sense_and_orders_that_nobody_hears(system: System) -> None:
    code, _, err = _index(system, "rebuild", "--shard", "99")
    assert code == 1 and "there is no shard 99" in err
    system.stop("trigger")
    code, _, err = _index(system, "rebuild", "--begin-within", "2")
    assert code == 6 and "no owner has begun" in err
    system.start("trigger")
    code, out, _ = _index(system, "rebuild", "--shard", "0", "--shard", "3")
    assert code == 0 and "2 shards" in out
