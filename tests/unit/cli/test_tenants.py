"""``tocsin tenants resume-retries``."""

from __future__ import annotations

from tests.unit.cli.conftest import Terminal


def test_a_pause_is_ended_and_said_so(terminal: Terminal) -> None:
    terminal.house.owner.paused_retries.add(("acme", "shard-0"))
    assert terminal.run("tenants", "resume-retries", "acme").stdout == "retries of acme go on in 1 shards\n"
    assert terminal.run("tenants", "resume-retries", "acme").stdout == "retries of acme were not paused\n"
    assert terminal.json("tenants", "resume-retries", "acme") == {
        "tenant_id": "acme",
        "resumed": 0,
        "unchanged": 3,
        "pending": 0,
    }
