"""Decisions about very many executions: each turn does a share, and what is decided holds from the start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.trigger.overlap_world import OverlapWorld
from tests.unit.trigger.world import TARGET, work_of
from tocsin.domain.commands import CommandOutcome
from tocsin.domain.shard_records import Phase
from tocsin.engine.engine_limits import EngineLimits

MANY = 20
SHARE = 3
RETRY = {"max_attempts": 3, "backoff": "fixed", "base_s": 0.5, "jitter": "none"}

SOON_AND_SELDOM = {"every_s": 1_000, "anchor_at": "2027-01-15T08:00:05Z"}


@pytest.fixture
def world() -> Iterator[OverlapWorld]:
    world = OverlapWorld(EngineLimits(work_portions_max=SHARE, ring=64))
    yield world
    assert "work" not in world.dead_letters()


def many(world: OverlapWorld, concurrency: str = "allow", **fields: object) -> tuple[str, list[str]]:
    """Make a job and trigger it often."""
    job = world.manual(concurrency, **fields)
    return job, [world.trigger(job) for _ in range(MANY)]


def decided(world: OverlapWorld, command_id: str) -> CommandOutcome:
    """Turn the loop up to the turn that decides a command."""
    for _ in range(4):
        world.loop.turn()
        if command_id in world.outcomes():
            break
    outcome = world.outcomes()[command_id]
    assert outcome.accepted, outcome
    return outcome


def edit(world: OverlapWorld, job: str, concurrency: str, **fields: object) -> None:
    definition = {"target": TARGET, "concurrency": concurrency, **fields}
    decided(world, world.order("update", job, definition=definition))


def trigger(world: OverlapWorld, job: str) -> str:
    return decided(world, world.order("trigger", job)).execution_id or ""


def shares(world: OverlapWorld) -> list[int]:
    """How many more executions are stopped, let go or ended in each turn, until all work is done."""
    found, before = [], _moved(world)
    for _ in range(3 * MANY):
        if not any(work_of(engine) for engine in world.engines.values()):
            return found
        world.loop.turn()
        found.append(_moved(world) - before)
        before = _moved(world)
    pytest.fail("it never ends")


def _moved(world: OverlapWorld) -> int:
    active = world.active()
    return -sum(one.ending is None and one.phase is not Phase.WAITING for one in active.values())


# Replace


def test_replacing_many_stops_a_share_in_each_turn(world: OverlapWorld) -> None:
    job, names = many(world)
    edit(world, job, "replace")
    successor = trigger(world, job)
    assert 0 < len(world.cancels()) <= SHARE
    assert max(shares(world)) <= SHARE
    assert sorted(cancel.execution_id for cancel in world.cancels()) == sorted(names)
    for name in names:
        assert successor not in world.started()
        world.end(name, "CANCELLED", error=None)
    assert world.story(names[0]) == [("CANCELLED", "replaced")]
    assert world.started()[-1] == successor


@pytest.mark.parametrize("aware", [True, False])
def test_replacing_many_goes_on_with_a_new_owner(world: OverlapWorld, aware: bool) -> None:
    job, names = many(world)
    edit(world, job, "replace")
    successor = trigger(world, job)
    world.start(aware=aware)
    world.settle(MANY)
    assert {cancel.execution_id for cancel in world.cancels()} == set(names)
    assert {name for name, one in world.active().items() if one.ending is None} == {successor}


def test_what_would_be_attempted_again_while_many_are_replaced_is_not(world: OverlapWorld) -> None:
    job, names = many(world, retry=RETRY)
    for name in names:
        world.report(world.dispatch_of(name), "FAILED")
    world.settle()
    edit(world, job, "replace", retry=RETRY)
    successor = trigger(world, job)
    world.clock.advance(1)
    world.settle(MANY)
    assert world.started() == [*names, successor]
    assert {world.story(name)[-1] for name in names} == {("CANCELLED", "replaced")}


def test_of_several_that_replace_many_only_the_newest_waits(world: OverlapWorld) -> None:
    job, names = many(world)
    edit(world, job, "replace")
    successors = [trigger(world, job) for _ in range(4)]
    world.settle(MANY)
    for name in successors[:3]:
        assert world.story(name) == [("QUEUED", "overlap"), ("SKIPPED", "replaced")]
    for name in names:
        world.end(name, "CANCELLED", error=None)
    assert world.started() == [*names, successors[3]]


def test_however_fast_they_come_that_replace_many_only_one_waits_and_one_item_is_under_way(world: OverlapWorld) -> None:
    job, _ = many(world)
    edit(world, job, "replace")
    commands = [world.order("trigger", job) for _ in range(3 * MANY)]
    decided(world, commands[-1])
    [engine] = world.engines.values()
    assert sum(one.phase == Phase.BEHIND for one in world.active().values()) == 1
    assert len(work_of(engine)) == 1


def test_a_whole_queue_is_replaced_and_none_of_it_starts_meanwhile(world: OverlapWorld) -> None:
    job, names = many(world, "queue")
    edit(world, job, "replace")
    successor = trigger(world, job)
    world.report(world.dispatch_of(names[0]))
    world.settle(MANY)
    assert world.started() == [names[0], successor]
    assert {world.story(name)[-1] for name in names[1:]} == {("SKIPPED", "replaced")}


def test_what_is_queued_behind_the_one_that_replaces_stays(world: OverlapWorld) -> None:
    job, names = many(world)
    edit(world, job, "replace")
    successor = trigger(world, job)
    edit(world, job, "queue")
    last = trigger(world, job)
    world.settle(MANY)
    for name in names:
        world.end(name, "CANCELLED", error=None)
    world.end(successor)
    assert world.started() == [*names, successor, last]


# Delete


@pytest.mark.parametrize("taken_over", [False, True])
def test_deleting_a_job_of_many_ends_a_share_in_each_turn_and_starts_none(
    world: OverlapWorld, taken_over: bool
) -> None:
    job, names = many(world, retry=RETRY)
    waiting, running = names[::2], names[1::2]
    for name in waiting:
        world.report(world.dispatch_of(name), "FAILED")
    world.loop.turn()
    decided(world, world.delete(job))
    ended = [name for name in names if world.story(name)[-1:] == [("CANCELLED", "job_deleted")]]
    assert 0 < len(ended) <= SHARE
    if taken_over:
        world.start()
    world.clock.advance(1)
    world.settle(MANY)
    assert world.started() == names, "no attempt is made of a deleted job"
    assert {world.story(name)[-1] for name in waiting} == {("CANCELLED", "job_deleted")}
    for name in running:
        world.end(name, "FAILED")
    assert {world.story(name)[-1] for name in running} == {("DEAD", "attempts_used_up")}
    assert world.active() == {} and not any(work_of(engine) for engine in world.engines.values())


def test_what_is_heard_of_a_deleted_job_counts_from_the_decision_on(world: OverlapWorld) -> None:
    job, names = many(world, retry=RETRY)
    delete = world.delete(job)
    for name in names[::2]:
        world.report(world.dispatch_of(name), "FAILED")
    for name in names[1::2]:
        world.report(world.dispatch_of(name), "RETURNED", started="maybe")
    decided(world, delete)
    world.settle(MANY)
    assert {world.story(name)[-1] for name in names[::2]} == {("DEAD", "attempts_used_up")}
    assert sorted(world.started()) == sorted([*names, *names[1::2]]), "a lost attempt is made again"
    for name in names[1::2]:
        world.end(name, "FAILED")
    assert {world.story(name)[-1] for name in names[1::2]} == {("DEAD", "attempts_used_up")}
    assert world.active() == {}


def test_a_job_that_is_made_anew_meanwhile_is_left_alone(world: OverlapWorld) -> None:
    definition = {"target": TARGET, "concurrency": "allow", "retry": RETRY}
    world.order("create", "mine", definition=definition)
    world.settle()
    names = [trigger(world, "mine") for _ in range(MANY)]
    decided(world, world.delete("mine"))
    decided(world, world.order("create", "mine", definition=definition))
    fresh = trigger(world, "mine")
    assert work_of(next(iter(world.engines.values()))), "it is under way"
    world.settle(MANY)
    for name in (names[0], fresh):
        world.report(world.dispatch_of(name), "FAILED")
    world.run(2)
    assert world.started().count(fresh) == 2
    assert world.started().count(names[0]) == 1


def test_what_is_caught_up_with_goes_on_when_all_before_it_is_deleted() -> None:
    """All of it ends in the share that work has of a turn, after those that wait for ends were looked at."""
    world = OverlapWorld()
    other = world.manual("queue", "g", retry={**RETRY, "base_s": 3_000})
    late = world.job("replace", "g", schedule=SOON_AND_SELDOM, catch_up="fire_all", misfire_after_s=1)
    first, *_ = [world.trigger(other) for _ in range(8)]
    world.end(first, "FAILED")
    world.clock.advance(60)
    world.start()
    world.run(3)
    assert world.started() == [first]
    world.delete(other)
    world.settle(MANY)
    world.run(1)
    assert [name for name in world.started() if name != first and name.startswith(late)]


# Allow


@pytest.mark.parametrize("aware", [None, True, False])
def test_what_is_queued_starts_at_once_when_its_job_comes_to_allow_it(world: OverlapWorld, aware: bool | None) -> None:
    job, names = many(world, "queue")
    edit(world, job, "allow")
    assert 0 < len([one for one in world.active().values() if one.phase != Phase.BEHIND]) <= 1 + SHARE
    if aware is not None:
        world.start(aware=aware)
    world.settle(MANY)
    assert sorted(world.started()) == sorted(names)
    assert not any(work_of(engine) for engine in world.engines.values())


def test_what_waits_to_replace_starts_at_once_too_and_who_was_told_still_ends(world: OverlapWorld) -> None:
    job = world.manual("replace")
    first = world.trigger(job)
    second = trigger(world, job)
    edit(world, job, "allow")
    world.settle()
    assert world.started() == [first, second]
    world.end(first, "CANCELLED", error=None)
    assert world.story(first) == [("CANCELLED", "replaced")]


def test_a_job_that_goes_back_to_its_queue_keeps_what_was_not_let_go(world: OverlapWorld) -> None:
    job, names = many(world, "queue")
    edit(world, job, "allow")
    edit(world, job, "queue")
    world.settle(MANY)
    begun = world.started()
    assert begun == names[: len(begun)] and len(begun) < MANY
    for name in names:
        world.end(name)
    assert world.started() == names
