"""A shard that cannot be restored stands still alone: nothing of it is decided, and its neighbours do not notice."""

from __future__ import annotations

import itertools

import pytest

from tests.unit.trigger.world import World
from tocsin.adapters.memory.shard_log import MemoryTakeover
from tocsin.domain.sharding import shard_of
from tocsin.ports.shard_log import JOBS, SHARD_STATE
from tocsin.roles.trigger.standing import LOG_EVERY

STANDING = "tocsin_shards_standing"


@pytest.fixture
def world() -> World:
    world = World(shards=3)
    world.start()
    world.settle()
    return world


def one_in_each(world: World, in_s: float) -> dict[int, str]:
    """Create one job in every shard."""
    jobs: dict[int, str] = {}
    while len(jobs) < world.shards:
        job_id = world._new_id()
        world._ids += 1
        if (shard := shard_of(job_id, world.shards)) not in jobs:
            jobs[shard] = world.create(in_s=in_s, job_id=job_id)
    return jobs


def standing(world: World) -> float | None:
    return world.meter.registry.get_sample_value(STANDING)


@pytest.mark.parametrize("topic", [SHARD_STATE, JOBS])
def test_a_hidden_end_keeps_its_shard_only_and_until_it_shows(world: World, topic: str) -> None:
    jobs = one_in_each(world, in_s=20)
    world.run(1)
    world.log.hidden.add((topic, 1))
    end = world.log.end(SHARD_STATE, 1)
    world.start()
    world.settle()
    assert set(world.engines) == {0, 2} and standing(world) == 1
    world.run(60, step_s=1)
    assert sorted(world.fired()) == sorted([jobs[0], jobs[2]])
    assert world.log.end(SHARD_STATE, 1) == end, "nothing of it is decided"
    world.log.hidden.clear()
    world.run(5)
    assert sorted(world.fired()) == sorted(jobs.values()), "and nothing of it is lost"
    assert standing(world) == 0


def test_people_are_told_once_of_an_end_that_stays_hidden(world: World) -> None:
    world.log.hidden.add((SHARD_STATE, 1))
    world.start()
    world.run(10)
    assert world.told == [], "transactions mostly end by themselves"
    world.run(300, step_s=1)
    [alert] = world.told
    assert (alert.kind, alert.shard) == ("shard_stopped", 1) and "open transaction" in alert.message
    assert world.meter.registry.get_sample_value("tocsin_alerts_total", {"kind": "shard_stopped"}) == 1


def test_whether_an_end_is_still_hidden_is_asked_without_waiting(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading it would keep the owner's other shards waiting, each time."""
    read: list[int] = []
    real = MemoryTakeover.read_states

    def counted(self: MemoryTakeover, shards: list[int], *, stable: bool = False) -> dict[int, dict[str, bytes]]:
        read.extend(shards)
        return real(self, shards, stable=stable)

    monkeypatch.setattr(MemoryTakeover, "read_states", counted)
    world.log.hidden.add((SHARD_STATE, 1))
    world.start()
    world.settle()
    read.clear()
    world.run(100, step_s=1)
    assert 1 not in read


def test_a_gap_stops_its_shard_only_and_is_told(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = one_in_each(world, in_s=20)
    world.run(1)
    world.log.delete_below(SHARD_STATE, 1, 10**9)
    world.start()
    world.run(200, step_s=1)
    assert set(world.engines) == {0, 2} and sorted(world.fired()) == sorted([jobs[0], jobs[2]])
    [alert] = world.told
    assert (alert.kind, alert.shard) == ("shard_stopped", 1) and "restore the topic" in alert.message
    told = capsys.readouterr().out.count("trigger.shard_stands")
    assert 1 <= told <= 1 + 200 * 1_000_000 // LOG_EVERY


def test_a_shard_that_was_mended_goes_on_by_itself(world: World) -> None:
    jobs = one_in_each(world, in_s=20)
    world.run(1)
    kept = world.log.read(SHARD_STATE, 1)
    world.log.delete_below(SHARD_STATE, 1, 10**9)
    world.start()
    world.run(40, step_s=1)
    for record in kept:
        world.log.append(SHARD_STATE, 1, (record.key or b"").decode(), record.value)
    world.run(90, step_s=1)
    assert sorted(world.fired()) == sorted(jobs.values())


def test_an_unreadable_state_stops_its_shard_only(world: World) -> None:
    world.log.append(SHARD_STATE, 2, "d/9/0", b"\xc3\x01 no record")
    world.start()
    world.settle()
    assert set(world.engines) == {0, 1}
    assert [alert.shard for alert in world.told] == [2]


def test_a_gap_in_the_middle_of_work_stops_its_shard_only(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ring of a shard's deltas is full: its turns stop, those of the others go on."""
    jobs = one_in_each(world, in_s=5)
    world.run(1)
    engine = world.engines[1]
    monkeypatch.setattr(engine.state, "snapshot_base", -(10**9))
    world.run(70, step_s=1)
    assert sorted(world.fired()) == sorted(jobs.values()), "what the log says is whole, so it was restored and goes on"
    assert world.engines[1] is not engine
    assert [alert.shard for alert in world.told] == [1]


def test_all_shards_may_stand_and_the_process_goes_on(world: World) -> None:
    world.log.hidden |= {(SHARD_STATE, shard) for shard in range(3)}
    world.start()
    world.run(30)
    assert not world.engines and standing(world) == 3
    world.log.hidden.clear()
    world.run(5)
    assert set(world.engines) == {0, 1, 2}


def test_of_a_shard_that_was_taken_away_nothing_is_said_any_more(world: World) -> None:
    world.log.hidden.add((SHARD_STATE, 1))
    world.start()
    world.run(5)
    world.shard_log.lose([1])
    world.settle()
    assert standing(world) == 0
    world.run(60, step_s=1)
    assert world.told == []


def test_a_released_shard_with_a_hidden_successor_is_fenced_before_it_is_taken(world: World) -> None:
    """Read only as far as it was stable the state named nobody; by its true end somebody else owns it."""
    world.shard_log.revoke(range(3))
    owner_before = {shard: MemoryTakeover(world.log).read_states([shard])[shard] for shard in range(3)}
    world.start()
    world.settle(30)
    second = [f"owner-{n}.{m}" for n, m in itertools.product([2], range(2))]
    real = MemoryTakeover.read_states

    def stale(self: MemoryTakeover, shards: list[int], *, stable: bool = False) -> dict[int, dict[str, bytes]]:
        if stable:
            return {shard: owner_before[shard] for shard in shards}
        return real(self, shards, stable=stable)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryTakeover, "read_states", stale)
        world.start(aware=False)
    assert world.log.fenced & set(second)
