"""Commands that wait in the state while the store is away, and the entries that wait for them."""

from __future__ import annotations

import os
import random
from collections import Counter
from itertools import pairwise

import pytest

from tests.unit.trigger.world import CODEC, TARGET, World, work_of
from tocsin.adapters.memory.shard_log import MemoryTakeover
from tocsin.domain.commands import Command
from tocsin.domain.instants import SECOND, format_rfc3339
from tocsin.engine.parking import ParkingLimits
from tocsin.engine.restore import restore
from tocsin.engine.shard_engine import EngineLimits
from tocsin.ports.schedule_store import JobRow

SEEDS = int(os.environ.get("STORM_SEEDS", "30"))
START = 1_800_000_000 * SECOND


@pytest.fixture
def world() -> World:
    world = World(shards=1)
    world.clock.set(START)
    world.start()
    world.run(6)
    return world


def _idle(world: World, job: str) -> None:
    """Let a job be out of memory."""
    world.run(3)
    assert world.engines[0].backlog().unwritten_turns == 0


def _every(seconds: int) -> dict[str, object]:
    return {"schedule": {"every_s": seconds}, "target": TARGET, "concurrency": "allow"}


def _nominal(world: World, job: str) -> list[int]:
    return [(e.head.scheduled_for - START) // SECOND for e in world.executions() if e.head.job_id == job]


def _parked(world: World) -> int:
    return len(world.engines[0].state.parked)


def test_what_must_know_its_job_is_parked_and_others_go_on(world: World) -> None:
    job = world.create(in_s=3600)
    _idle(world, job)
    world.store.held = True
    deleted = world.delete(job)
    world.run(2)
    keyed = world.create_keyed({"delay_s": 3, "target": TARGET, "idempotency_key": "k"})
    fresh = [world.create(in_s=2) for _ in range(5)]
    world.run(5)
    assert sorted(world.fired()) == sorted(fresh)
    assert {deleted, keyed}.isdisjoint(world.outcomes())
    assert (_parked(world), world.engines[0].backlog().commands) == (2, 0)
    assert world.log.group_offsets[0] >= world.engines[0].state.commands_offset
    world.store.held = False
    world.run(2)
    outcomes = world.outcomes()
    assert (outcomes[deleted].detail, outcomes[keyed].detail) == ("prevented", "created")
    assert _parked(world) == 0
    assert outcomes[keyed].job_id in world.fired()


def test_a_store_that_hesitates_parks_nothing(world: World) -> None:
    job = world.create(in_s=3600)
    _idle(world, job)
    world.store.held = True
    command = world.delete(job)
    world.run(0.75)
    assert _parked(world) == 0
    world.store.held = False
    world.run(1)
    assert world.outcomes()[command].detail == "prevented"


def test_parked_commands_of_a_job_are_decided_in_log_order(world: World) -> None:
    job = world.recur({"every_s": 500}, concurrency="allow")
    _idle(world, job)
    world.store.held = True
    orders = [
        world.order("pause", job),
        world.order("update", job, definition=_every(20)),
        world.order("resume", job),
        world.order("trigger", job),
    ]
    world.run(30)
    assert _parked(world) == 4
    world.store.held = False
    world.run(2)
    outcomes = world.outcomes()
    assert [outcomes[c].detail for c in orders] == ["paused", "updated", "resumed", "triggered"]
    versions = [outcomes[c].version for c in orders[:3]]
    assert versions == sorted(set(versions))
    world.run(30)
    assert len(world.executions()) == 1 + 2, "by hand, and at 40 and 60"


@pytest.mark.parametrize("kind", ["pause", "delete"])
@pytest.mark.parametrize("crash", [False, True])
def test_an_entry_whose_job_has_a_parked_command_does_not_fire(world: World, kind: str, crash: bool) -> None:
    job = world.create(at=START + 60 * SECOND)
    other = world.create(at=START + 60 * SECOND)
    world.run(40)  # its minute is in memory
    world.store.held = True
    command = world.order(kind, job)
    world.run(30)
    assert world.fired() == [other], "the shard goes on"
    assert world.engines[0].state.cursor.run_at > START + 60 * SECOND
    if crash:
        world.store.held = False
        world.store.lose()
        world.start()
        world.store.held = True
        world.run(5)
    assert world.fired() == [other]
    world.store.held = False
    world.run(5)
    assert world.outcomes()[command].detail == {"pause": "paused", "delete": "prevented"}[kind]
    world.run(200, step_s=1)
    assert world.fired() == [other]
    assert not work_of(world.engines[0])
    if kind == "pause":
        world.order("resume", job)
        world.run(5)
        assert world.fired() == [other, job]
        assert world.executions()[-1].head.scheduled_for == START + 60 * SECOND


@pytest.mark.parametrize("crash", [False, True])
def test_an_edit_that_was_parked_keeps_the_occurrence_that_both_definitions_have(world: World, crash: bool) -> None:
    job = world.recur({"every_s": 30, "anchor_at": format_rfc3339(START)}, concurrency="allow")
    world.run(20, step_s=1)  # at 26
    world.store.held = True
    target = {**TARGET, "url": "https://example.test/other"}
    schedule = {"every_s": 30, "anchor_at": format_rfc3339(START)}
    world.order("update", job, definition={"schedule": schedule, "target": target, "concurrency": "allow"})
    world.run(10, step_s=1)
    assert _nominal(world, job) == []
    if crash:
        world.start()
        world.run(1)
    world.store.held = False
    world.run(50, step_s=1)
    assert _nominal(world, job) == [30, 60]
    assert {e.target.url for e in world.executions()} == {"https://example.test/other"}


def test_a_recurring_job_goes_on_as_one_chain_after_it_was_held(world: World) -> None:
    job = world.recur({"every_s": 10, "anchor_at": format_rfc3339(START)}, concurrency="allow")
    world.run(16, step_s=1)
    assert _nominal(world, job) == [10, 20]
    world.store.held = True
    command = world.order("trigger", job)
    world.run(120, step_s=1)
    world.store.lose()
    world.start()
    world.store.held = True
    world.run(5, step_s=1)
    world.store.held = False
    world.run(60, step_s=1)
    assert world.outcomes()[command].detail == "triggered"
    counts = Counter(e.head.execution_id for e in world.executions())
    assert set(counts.values()) == {1}
    nominal = [n for e in world.executions() if ".t" not in e.head.execution_id for n in [e.head.scheduled_for]]
    assert nominal == sorted(set(nominal))
    rows = [e for rows in world.tables.index.values() for e in rows.values() if e.run_at > world.clock.now()]
    assert len(rows) == 1, "one chain"


def test_parking_is_bounded_and_then_the_shard_waits() -> None:
    world = World(shards=1, limits=EngineLimits(parking=ParkingLimits(commands_max=3)))
    world.start()
    jobs = [world.create(in_s=3600) for _ in range(6)]
    world.run(6)
    world.store.held = True
    orders = [world.delete(job) for job in jobs]
    world.run(10)
    assert (_parked(world), world.engines[0].backlog().commands) == (3, 3)
    world.start()
    world.run(3)
    assert {world.outcomes()[c].detail for c in orders} == {"prevented"}


def test_parking_is_bounded_in_bytes() -> None:
    world = World(shards=1, limits=EngineLimits(parking=ParkingLimits(bytes_max=1_000)))
    world.start()
    job = world.create(in_s=3600)
    world.run(6)
    world.store.held = True
    world.order("update", job, definition={**_every(10), "metadata": "m" * 2_000})
    world.run(5)
    assert (_parked(world), world.engines[0].backlog().commands) == (0, 1)


def test_a_damaged_row_is_answered_for_good(world: World) -> None:
    job = world.create(in_s=3600)
    _idle(world, job)
    world.tables.jobs[job] = JobRow(job, 2**60, b"no record")
    orders = [world.order(kind, job) for kind in ("pause", "trigger", "delete")]
    again = world.order("create", job, definition={"delay_s": 1, "target": TARGET})
    good = world.create(in_s=1)
    world.run(5)
    outcomes = world.outcomes()
    assert [outcomes[c].detail for c in (*orders, again)] == ["invalid"] * 4
    assert "damaged row" in str(outcomes[orders[0]].faults[0])
    assert world.dead_letters() == ["record"] * 4
    assert world.fired() == [good]


def test_a_damaged_row_settles_what_was_parked(world: World) -> None:
    job = world.create(at=START + 60 * SECOND)
    world.run(40)
    world.store.held = True
    command = world.order("pause", job)
    world.run(30)
    world.tables.jobs[job] = JobRow(job, 2**60, b"no record")
    world.store.held = False
    world.run(3)
    assert world.outcomes()[command].detail == "invalid"
    assert world.fired() == [job], "nothing stands against it any more"


def test_triggers_of_one_idle_job_read_its_row_once(world: World) -> None:
    job = world.recur({"every_s": 5000}, concurrency="allow")
    _idle(world, job)
    asked: list[str] = []
    begin = world.store.begin_job_read
    world.store.begin_job_read = lambda shard, job_id: (asked.append(job_id), begin(shard, job_id))[1]  # type: ignore[func-returns-value,method-assign]
    for _ in range(20):
        world.order("trigger", job)
        world.run(1)
    assert len(world.executions()) == 20
    assert asked == [job]
    world.order("update", job, definition=_every(7))
    world.run(3)
    renamed = world.order("update", job, definition={**_every(7), "name": "renamed"})
    world.run(3)
    assert world.outcomes()[renamed].detail == "updated"
    assert world.tables.snapshot(job) is not None
    assert CODEC.decode_job(world.tables.snapshot(job)).definition.name == "renamed"


def test_what_a_sender_says_of_the_time_makes_no_id_new(world: World) -> None:
    """The first record that a new owner sees may bear any timestamp."""
    job = world.create(in_s=600)
    world.run(2)
    world.start()
    definition = {"run_at": format_rfc3339(START + 300 * SECOND), "target": TARGET}
    value = CODEC.encode_command(Command("create", "odd", job, None, 0, definition))
    old = CODEC.encode_command(Command("create", "old", None, None, 0, {"delay_s": 10**6, "target": TARGET}))
    world.log.append("commands", 0, "k", old, START - 3_000 * SECOND)
    world.log.append("commands", 0, "k", value)
    world.run(700, step_s=5)
    assert world.outcomes()["odd"].detail == "conflict"
    assert world.fired() == [job]


SMALL = EngineLimits(
    fires_max=3, commands_max=4, delta_bytes_max=10_000, cursor_persist_s=2.0, ring=64, parking=ParkingLimits(0.4, 12)
)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_storm_of_outages(seed: int) -> None:
    """The store comes and goes under commands of all kinds, with owners that die at any turn."""
    chance = random.Random(seed)
    world = World(shards=1, limits=SMALL)
    world.clock.set(START)
    world.start()
    world.run(6)
    jobs = [world.recur({"every_s": chance.choice([3, 10, 45])}, concurrency="allow") for _ in range(4)]
    jobs += [world.create(in_s=chance.choice([20, 60, 100])) for _ in range(6)]
    one_offs = set(jobs[4:])
    world.run(3)
    deleted: dict[str, str] = {}
    paused: set[str] = set()
    sent: list[str] = []
    for _ in range(80):
        job, deed = chance.choice(jobs), chance.random()
        if deed < 0.12 and job not in one_offs:
            sent.append(world.order("update", job, definition=_every(chance.choice([3, 7, 20, 90]))))
        elif deed < 0.24 and job not in paused:
            sent.append(world.order("pause", job))
            paused.add(job)
        elif deed < 0.36:
            sent.append(world.order("resume", job))
            paused.discard(job)
        elif deed < 0.40 and job not in deleted:
            deleted[job] = world.delete(job)
        elif deed < 0.46:
            sent.append(world.order("trigger", job))
        elif deed < 0.52:
            definition = {"delay_s": 5, "target": TARGET, "idempotency_key": chance.choice("abc")}
            sent.append(world.create_keyed(definition))
        elif deed < 0.70:
            world.store.held = not world.store.held
        elif deed < 0.85:
            held = world.store.held
            if chance.random() < 0.5:
                world.store.lose()
            world.start()
            world.store.held = held
        else:
            world.store.release(chance.randrange(4), newest=chance.random() < 0.5)
        world.run(chance.choice([0.2, 1, 3, 12]), step_s=0.5)
        [(shard, records)] = MemoryTakeover(world.log).read_states([0]).items()
        state = restore(shard, records, CODEC)
        assert state is not None
        assert (state.parked, state.work) == (world.engines[0].state.parked, world.engines[0].state.work)
    world.store.held = False
    sent += [world.order("resume", job) for job in sorted(paused - set(deleted))]
    world.run(150, step_s=1)
    world.settle(60)
    state = world.engines[0].state
    assert not state.parked
    assert not [item for item in state.work.values() if item.kind == "held"]
    outcomes = world.outcomes()
    assert set(sent) | set(deleted.values()) <= set(outcomes), "every command is answered"
    heads = [e.head for e in world.executions()]
    assert len({head.execution_id for head in heads}) == len(heads), "nothing twice"
    for record, head in zip(world.log.all("executions.default"), heads, strict=True):
        assert record.timestamp >= head.due_at, "nothing early"
        if head.job_id in deleted:
            assert record.timestamp <= outcomes[deleted[head.job_id]].decided_at // 1000 * 1000, (
                "nothing after a delete"
            )
    scheduled = {head.job_id for head in heads if ".t" not in head.execution_id}
    scheduled |= {name.split(".")[0] for name, kind in world.states().items() if kind == "SKIPPED"}  # a run was active
    prevented = {job for job, command in deleted.items() if outcomes[command].detail == "prevented"}
    assert one_offs - prevented <= scheduled, "nothing is lost"
    for job in set(jobs[:4]) - set(deleted):
        rows = [e for rows in world.tables.index.values() for e in rows.values() if e.job_id == job]
        assert len([e for e in rows if e.run_at > world.clock.now()]) == 1, "one chain"


def test_what_follows_a_held_entry_survives_an_owner_that_wrote_nothing(world: World) -> None:
    """Found by the simulation: the watermark of successors had passed the entry while it was held."""
    job = world.recur({"every_s": 20}, concurrency="allow")
    _idle(world, job)
    world.store.held = True
    world.order("trigger", job)
    world.run(25)
    assert _parked(world) == 1
    world.store.held = False
    world.store.release()
    world.store.held = True  # the job's row is there, and nothing is written from now on
    before = len(_nominal(world, job))
    world.run(2)
    assert len(_nominal(world, job)) > before and _parked(world) == 0
    world.store.lose()
    world.start()
    world.run(50)
    at = sorted(_nominal(world, job))
    assert [b - a for a, b in pairwise(at[1:])] == [20] * len(at[2:]), at
    assert len(at) >= 4
