"""What an owner says of itself: how far its shards are, also when they stand still, and nothing of those that went."""

from __future__ import annotations

import pytest

from tests.unit.trigger.world import World
from tocsin.domain.alerts import AlertKind
from tocsin.domain.instants import SECOND

AGE = "tocsin_cursor_age_seconds"


def value(world: World, name: str, **labels: str) -> float | None:
    return world.meter.registry.get_sample_value(name, labels)


def test_a_shard_that_stands_still_says_how_long() -> None:
    """It makes no turn that would say so."""
    world = World(shards=2)
    world.start()
    world.run(30)
    assert all((value(world, AGE, shard=str(shard)) or 0) < 15 for shard in range(2))
    world.store.held = True
    world.run(400, step_s=1)
    ages = [value(world, AGE, shard=str(shard)) for shard in range(2)]
    assert all(age is not None and age > 100 for age in ages), ages
    world.store.held = False
    world.run(5)
    assert all((value(world, AGE, shard=str(shard)) or 0) < 15 for shard in range(2))


def test_of_a_shard_that_went_nothing_is_said_any_more() -> None:
    world = World(shards=2)
    world.start()
    world.run(5)
    assert value(world, AGE, shard="1") is not None
    world.shard_log.lose([1])
    world.settle()
    assert value(world, AGE, shard="1") is None
    assert value(world, "tocsin_unwritten_turns", shard="1") is None


def test_a_clock_that_is_off_is_said_until_it_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.start()
    assert value(world, "tocsin_clock_off_seconds") == 0
    monkeypatch.setattr(world.clock, "off_by", lambda: -7 * SECOND)
    world.settle()
    assert value(world, "tocsin_clock_off_seconds") == 7
    monkeypatch.setattr(world.clock, "off_by", lambda: None)
    world.settle()
    assert value(world, "tocsin_clock_off_seconds") == 0


def test_every_kind_of_alert_counts_from_nothing() -> None:
    """The first of a kind is a growth only to those who saw a 0 before."""
    world = World()
    world.start()
    assert {value(world, "tocsin_alerts_total", kind=str(kind)) for kind in AlertKind} == {0}
