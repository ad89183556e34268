"""The store goes away under a whole system: what needs no row goes on, what does is decided once it is back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.system import System, wait_for
from tests.integration.forwarder import Forwarder
from tocsin.devcluster import Endpoints

pytestmark = [pytest.mark.e2e, pytest.mark.real, pytest.mark.timeout(600)]


@pytest.fixture
def path(cluster: Endpoints) -> Iterator[Forwarder]:
    """The way to the store."""
    forwarder = Forwarder(cluster.cassandra_port)
    yield forwarder
    forwarder.cut()


@pytest.fixture
def system(cluster: Endpoints, path: Forwarder, unique: str, tmp_path: Path) -> Iterator[System]:
    settings = {
        "TOCSIN_CASSANDRA__PORT": str(path.port),
        "TOCSIN_GATEWAY__OUTCOME_WAIT_S": "8",
        "TOCSIN_GATEWAY__STORE_WAIT_S": "1",
    }
    system = System(cluster, unique, tmp_path)
    system.create()
    system.settings = settings
    system.start()
    yield system
    system.close()


def test_creates_go_on_and_fire_and_what_needs_a_row_is_decided_once_the_store_is_back(
    system: System, path: Forwarder
) -> None:
    target = {"type": "http", "url": system.target.url + "/run"}
    far = system.create_job(delay_s=3_000)
    first = system.create_job(delay_s=1)
    wait_for("the first run", lambda: [call for call in system.target.calls if first in call.execution_id])
    path.cut()
    created = []

    def created_without_the_store() -> bool:
        answer = system.ask("POST", "/v1/jobs", {"delay_s": 1, "target": target})
        if answer.status == 201:
            assert answer.headers.get("tocsin-index") == "pending"
            created.append(answer.body["job_id"])
        return len(created) == 5

    wait_for("five creates with made ids to be decided", created_without_the_store)
    keyed = system.ask("POST", "/v1/jobs", {"delay_s": 1, "target": target, "idempotency_key": "k"})
    paused = system.ask("POST", f"/v1/jobs/{far}:pause", {})
    assert (keyed.status, paused.status) == (202, 202)
    unknown = system.ask("GET", f"/v1/jobs/{far}")
    assert unknown.status == 503
    wait_for("all five to run", lambda: {c.execution_id.split(".")[0] for c in system.target.calls} >= set(created))
    assert keyed.body["job_id"] not in {call.execution_id.split(".")[0] for call in system.target.calls}
    path.mend()
    for command in (keyed, paused):
        where = command.headers["location"]
        wait_for(f"{where} to be decided", lambda at=where: system.ask("GET", at).body.get("status") == "accepted")
    job_id = keyed.body["job_id"]
    wait_for("the keyed job to run", lambda: [c for c in system.target.calls if c.execution_id.startswith(job_id)])
    wait_for("the pause to be seen", lambda: system.ask("GET", f"/v1/jobs/{far}").body.get("state") == "PAUSED")
    again = system.ask("POST", "/v1/jobs", {"delay_s": 1, "target": target, "idempotency_key": "k"})
    assert (again.status, again.body["job_id"]) == (200, job_id)
    assert set(system.published().values()) == {1}
