"""What owners keep and delete in the log, and from where they start, on a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition

from tests.integration.owner_world import SHARDS, OwnerWorld
from tocsin.devcluster import Endpoints
from tocsin.domain.errors import Refused
from tocsin.domain.instants import DAY, SECOND
from tocsin.domain.sharding import shard_of

pytestmark = pytest.mark.real


@pytest.fixture
def world(cluster: Endpoints, unique: str) -> Iterator[OwnerWorld]:
    made = OwnerWorld(cluster.kafka_bootstrap, unique)
    yield made
    made.close()


@pytest.mark.parametrize("topic", ["commands", "reports"])
def test_neither_time_nor_size_deletes_what_an_owner_may_not_have_applied(world: OwnerWorld, topic: str) -> None:
    config = world.config(world.names.prefix + topic)
    assert (config["retention.ms"], config["retention.bytes"]) == ("-1", "-1")
    assert config["cleanup.policy"] == "delete"


def test_the_owner_deletes_what_is_applied_and_old_and_nothing_else(world: OwnerWorld) -> None:
    """Three records in one shard: old and applied; young and applied; old, and come since the last turn."""
    now = world.clock.now()
    old = _creates(world, now - 8 * DAY)
    young = _creates(world, now - 6 * DAY)
    owner = world.start()
    world.until_owned()
    world.until_fired(old + young)
    applied = {shard: engine.state.commands_offset for shard, engine in owner.engines.items()}
    assert all(world.start_of(world.names.commands, shard) == 0 for shard in range(SHARDS))
    late = _creates(world, now - 9 * DAY)
    world.clock.ahead = 3_700 * SECOND
    owner.loop.trim()

    def trimmed() -> bool:
        return all(world.start_of(world.names.commands, shard) > 0 for shard in range(SHARDS))

    world.until("the deletion", trimmed)
    for shard in range(SHARDS):
        assert world.start_of(world.names.commands, shard) == 1 < applied[shard], "the young one stays"
    world.until_fired(late)


def test_what_is_old_and_not_applied_stays(world: OwnerWorld) -> None:
    owner = world.start()
    world.until_owned()
    waiting = _creates(world, world.clock.now() - 8 * DAY) + _creates(world, world.clock.now())
    world.clock.ahead = 3_700 * SECOND
    for shard in range(SHARDS):
        assert owner.engines[shard].state.commands_offset == 0
    owner.loop.trim()
    world.until_fired(waiting)
    assert [world.start_of(world.names.commands, shard) for shard in range(SHARDS)] == [0] * SHARDS


@pytest.mark.parametrize("trace", ["jobs", "deleted commands"])
def test_a_shard_that_has_run_never_starts_from_nothing(
    world: OwnerWorld, trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its states are gone; a jobs log that is not empty tells that it ran, and so do commands that were trimmed."""
    owner = world.start()
    world.until_owned()
    world.until_fired(world.create(count=6))
    if trace == "deleted commands":
        ends = {s: e.state.commands_offset for s, e in owner.engines.items()}
        for shard, end in ends.items():
            owner.log.trim("commands", shard, end, world.clock.now())
        world.until("the deletion", lambda: all(world.start_of(world.names.commands, s) > 0 for s in range(SHARDS)))
        lost = [world.names.shard_state, world.names.jobs]
    else:
        lost = [world.names.shard_state]
    owner.close()
    world.owners.clear()
    for topic in lost:
        world.delete_topic(topic)
    world.apply_topics()
    successor = world.start("b")
    world.until("the gap to be noticed", lambda: "it has run before" in capsys.readouterr().out)
    for _ in range(5):
        successor.turn()
    assert not successor.engines and not world.states(), "nothing is decided from nothing"


def test_commands_that_are_gone_before_they_were_applied_are_an_error(world: OwnerWorld) -> None:
    """The broker no longer has what comes next; going on at either end would lose commands without a word."""
    owner = world.start()
    world.until_owned()
    world.until_fired(world.create(count=6))
    owner.close()
    world.owners.clear()
    world.create(count=20)
    ends = [TopicPartition(world.names.commands, shard, -1) for shard in range(SHARDS)]
    for future in world.admin.delete_records(ends).values():
        future.result(20)
    world.start("b")
    with pytest.raises(Refused, match="cannot be read on"):
        world.until("the error", lambda: False)


def _creates(world: OwnerWorld, timestamp: int) -> list[str]:
    """Send one create to each shard, with a timestamp of its own; return the jobs' ids."""
    jobs: dict[int, str] = {}
    while len(jobs) < SHARDS:
        job_id = world.new_id()
        if (shard := shard_of(job_id, SHARDS)) not in jobs:
            jobs[shard] = job_id
            world.send_create(job_id, 0.0, timestamp)
    return list(jobs.values())
