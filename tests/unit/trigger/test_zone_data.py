"""Zone data: one release for all owners, told by a command and decided by the cluster's fact."""

from __future__ import annotations

import orjson
import pytest

from tests.unit.trigger.world import World
from tocsin.adapters.memory.cluster_facts import MemoryClusterFacts
from tocsin.domain.errors import Refused, Unavailable
from tocsin.domain.recurrence import TZDATA_VERSION
from tocsin.ports.shard_log import COMMANDS
from tocsin.roles.trigger.zone_watch import ZONE_DATA, ZoneWatch, refuse_other_zone_data

OTHER = "1999z"


@pytest.fixture
def world() -> World:
    world = World()
    world.start()
    return world


@pytest.fixture
def facts() -> MemoryClusterFacts:
    facts = MemoryClusterFacts()
    facts.write_fact(ZONE_DATA, TZDATA_VERSION, 1)
    return facts


def send(world: World, release: object, shard: int = 0, name: str = "tz") -> None:
    command = {"kind": "set_zone_data", "command_id": name, "zone_data": release}
    world.log.append(COMMANDS, shard, "", orjson.dumps(command))


def test_an_owner_with_this_release_agrees_in_every_shard(world: World) -> None:
    for shard in range(world.shards):
        send(world, TZDATA_VERSION, shard, f"tz{shard}")
    job = world.create(in_s=1)
    world.run(3)
    assert all(world.outcomes()[f"tz{shard}"].accepted for shard in range(world.shards))
    assert world.outcomes()["tz0"].detail == "agreed"
    assert world.fired() == [job]


@pytest.mark.parametrize("release", [None, "", "2026", "2026A", "latest", "2026a; rm", "9" * 100])
def test_what_is_no_release_is_refused(world: World, release: str | None) -> None:
    send(world, release)
    job = world.create(in_s=1)
    world.run(3)
    outcome = world.outcomes()["tz"]
    assert not outcome.accepted
    assert outcome.faults[0].field == "zone_data"
    assert world.fired() == [job]


def test_a_process_takes_shards_only_with_the_cluster_s_release(facts: MemoryClusterFacts) -> None:
    refuse_other_zone_data(facts)
    refuse_other_zone_data(MemoryClusterFacts())
    facts.write_fact(ZONE_DATA, OTHER, 2)
    with pytest.raises(Refused, match=rf"{OTHER}.*{TZDATA_VERSION}.*tocsin tz set"):
        refuse_other_zone_data(facts)


def test_an_owner_with_other_data_goes_and_leaves_the_command_to_its_successor(
    world: World, facts: MemoryClusterFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts.write_fact(ZONE_DATA, OTHER, 2)
    before, behind = world.create(in_s=1), None
    for shard in range(world.shards):
        send(world, OTHER, shard)
    behind = world.create(in_s=1)
    world.run(3)
    assert world.fired() == [before], "what stands behind the command waits with it"
    assert "tz" not in world.outcomes()
    with pytest.raises(Refused, match=OTHER):
        ZoneWatch(facts, world.clock).look([engine.commands for engine in world.engines.values()])
    monkeypatch.setattr("tocsin.engine.command_desk.TZDATA_VERSION", OTHER)
    world.start()
    world.run(3)
    assert world.outcomes()["tz"].accepted
    assert sorted(world.fired()) == sorted([before, behind])


def test_a_forged_command_stops_nobody(world: World, facts: MemoryClusterFacts) -> None:
    for n in range(3):
        send(world, OTHER, 0, f"forged{n}")
    send(world, "1998a", 1, "forged3")
    job = world.create(in_s=1)
    watch = ZoneWatch(facts, world.clock)
    for _ in range(10):
        world.run(6)
        watch.look([engine.commands for engine in world.engines.values()])
    assert {name: o.accepted for name, o in world.outcomes().items() if name.startswith("forged")} == {
        f"forged{n}": False for n in range(4)
    }
    assert world.fired() == [job]


def test_while_the_store_is_away_the_command_waits_and_the_store_is_not_pressed(world: World) -> None:
    asked = []

    class Away:
        def read_fact(self, name: str) -> str | None:
            asked.append(name)
            raise Unavailable("store", "no answer")

        def write_fact(self, name: str, value: str, timestamp: int) -> None:
            raise AssertionError("a watch writes nothing")

    due = world.create(in_s=2)
    world.run(1)
    send(world, OTHER)
    watch = ZoneWatch(Away(), world.clock)
    for _ in range(40):
        world.run(0.25)
        watch.look([engine.commands for engine in world.engines.values()])
    assert 2 <= len(asked) <= 3
    assert "tz" not in world.outcomes()
    assert world.fired() == [due], "only commands wait"
