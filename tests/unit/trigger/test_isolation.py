"""What fails for what it is: it is found in a bounded number of tries, set aside, and its neighbours go on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.trigger.poison import POISON, PoisonCodec, is_poison, poisoned
from tests.unit.trigger.world import CODEC, World
from tocsin.domain.errors import Refused, Unavailable
from tocsin.domain.sharding import shard_of
from tocsin.ports.shard_log import COMMANDS, DEAD_LETTERS, EVENTS, JOBS, SHARD_STATE, NewRecord, executions

RETRIED = {"max_attempts": 3, "backoff": "fixed", "base_s": 1, "max_s": 1, "jitter": "none"}


@pytest.fixture
def codec() -> PoisonCodec:
    return PoisonCodec()


@pytest.fixture
def world(codec: PoisonCodec) -> World:
    world = World(codec=codec)
    world.start()
    world.settle()
    return world


def neighbours(world: World, count: int = 20, in_s: float = 2) -> list[str]:
    """Create jobs in all shards."""
    jobs = [world.create(in_s=in_s) for _ in range(count)]
    assert {shard_of(job, world.shards) for job in jobs} == set(range(world.shards))
    return jobs


def letters(world: World) -> list[Any]:
    return [CODEC.decode_dead_letter(record.value) for record in world.log.all(DEAD_LETTERS)]


def state_of(world: World, job: str) -> str:
    records = [r for r in world.log.all(JOBS) if r.key == job.encode() and r.value is not None]
    return CODEC.decode_job(records[-1].value).state


def test_an_entry_that_fails_is_set_aside_its_job_paused_and_all_others_fire(world: World, codec: PoisonCodec) -> None:
    job = poisoned(world, schedule={"every_s": 5})
    jobs = neighbours(world)
    world.run(1)
    owner = world.shard_log._owner
    codec.fails["restamp"] = is_poison
    world.run(30)
    assert sorted(world.fired()) == sorted(jobs)
    [letter] = letters(world)
    assert (letter.kind, letter.job_id, letter.partition) == ("entry", job, 0)
    assert POISON in letter.value
    assert state_of(world, job) == "PAUSED"
    assert codec.failures == 1
    assert world.shard_log._owner == owner, "the other shards were left in peace"


def test_a_suspended_job_goes_on_once_it_is_resumed(world: World, codec: PoisonCodec) -> None:
    job = poisoned(world, schedule={"every_s": 5})
    world.run(1)
    codec.fails["restamp"] = is_poison
    world.run(10)
    codec.fails.clear()
    world.order("resume", job)
    world.run(5)
    assert world.fired() == [job]


def test_a_command_that_fails_is_answered_and_kept(world: World, codec: PoisonCodec) -> None:
    codec.fails["decode_command"] = is_poison
    poisoned(world)
    jobs = neighbours(world)
    world.run(5)
    assert sorted(world.fired()) == sorted(jobs)
    [letter] = letters(world)
    assert (letter.topic, letter.kind) == (COMMANDS, "record")
    assert POISON in letter.value
    assert codec.failures == 1


def test_a_command_that_fails_half_way_leaves_nothing_behind(world: World, codec: PoisonCodec) -> None:
    codec.fails["encode_execution"] = lambda target: target.url.endswith("/poison")
    job = poisoned(world)
    jobs = neighbours(world)
    world.run(5)
    assert sorted(world.fired()) == sorted(jobs)
    assert not world.outcomes()["poison"].accepted if "poison" in world.outcomes() else letters(world)
    assert job.encode() not in {record.key for record in world.log.all(JOBS)}


def test_a_report_that_fails_is_kept_and_the_next_one_counts(world: World, codec: PoisonCodec) -> None:
    jobs = neighbours(world)
    world.run(5)
    codec.fails["decode_report"] = lambda value: b"poison" in value
    for execution in world.executions():
        world.report(execution, worker_id="poison")
    for execution in world.executions():
        world.report(execution)
    world.run(5)
    assert list(world.states().values()) == ["SUCCEEDED"] * len(jobs)
    assert len(letters(world)) == codec.failures == len(jobs)


def test_an_execution_that_fails_when_it_is_retried_ends_dead(world: World, codec: PoisonCodec) -> None:
    job = poisoned(world, retry=RETRIED)
    world.run(5)
    [execution] = world.executions()
    world.report(execution, "FAILED")
    world.settle()
    codec.fails["decode_execution"] = is_poison
    jobs = neighbours(world)
    world.run(10)
    assert world.states()[execution.head.execution_id] == "DEAD"
    assert sorted(world.fired()) == sorted([*jobs, job])
    assert [letter.kind for letter in letters(world)] == ["execution"]


def test_what_fails_only_when_the_turn_is_closed_is_found_by_smaller_portions(world: World, codec: PoisonCodec) -> None:
    job = poisoned(world)
    jobs = neighbours(world, 60)
    world.run(1)
    codec.fails["encode_delta"] = lambda delta: any(map(is_poison, delta.dispatched))
    world.run(4, step_s=0.01)
    assert sorted(world.fired()) == sorted(jobs)
    assert [letter.job_id for letter in letters(world)] == [job]
    assert codec.failures == 3, "once as it was, once in portions, once alone"


def test_a_record_that_brokers_refuse_is_found_and_set_aside(world: World) -> None:
    job = poisoned(world)
    jobs = neighbours(world, 60)
    world.run(1)
    refused: list[NewRecord] = []

    def refuses(record: NewRecord) -> str | None:
        if record.topic != executions("default") or job not in record.key:
            return None
        refused.append(record)
        return "too large"

    world.log.refuses = refuses
    world.run(4, step_s=0.01)
    assert sorted(world.fired()) == sorted(jobs)
    assert [letter.job_id for letter in letters(world)] == [job]
    assert len(refused) == 3


def test_a_culprit_whose_very_dead_letter_is_refused_gets_a_bare_one(world: World) -> None:
    job = poisoned(world)
    jobs = neighbours(world)
    world.run(1)
    bound_for = {executions("default"), DEAD_LETTERS}
    world.log.refuses = lambda record: "bad bytes" if is_poison(record.value) and record.topic in bound_for else None
    world.run(8, step_s=0.01)
    assert sorted(world.fired()) == sorted(jobs)
    assert [(letter.job_id, letter.value) for letter in letters(world)] == [(job, b"")]


def test_a_shard_whose_failures_nothing_can_be_blamed_for_waits_and_others_go_on(world: World) -> None:
    jobs = neighbours(world, in_s=10)
    world.run(1)
    tries: list[int] = []
    world.log.refuses = lambda r: (tries.append(1), "no")[1] if (r.topic, r.partition) == (SHARD_STATE, 0) else None
    world.run(60)
    assert sorted(world.fired()) == sorted(job for job in jobs if shard_of(job, world.shards) == 1)
    assert 3 < len(tries) < 20, "tries are ever more rare"
    assert letters(world) == []
    world.log.refuses = lambda record: None
    world.run(120)
    assert sorted(world.fired()) == sorted(jobs)


def test_a_job_that_fails_at_a_takeover_keeps_no_shard_from_starting(world: World, codec: PoisonCodec) -> None:
    jobs = neighbours(world, in_s=30)
    world.store.held = True
    poisoned(world)
    world.run(1)
    codec.fails["encode_execution"] = lambda target: target.url.endswith("/poison")
    world.start()
    world.run(60)
    assert sorted(world.fired()) == sorted(jobs)


def test_what_is_due_in_a_lane_whose_topic_is_gone_waits_and_fires_once_it_is_back(world: World) -> None:
    jobs = neighbours(world)
    message = {"target": {"type": "message", "topic": "orders", "value": "v"}}
    poisoned(world, **message)
    world.run(1)
    world.log.missing.add(executions("default"))
    world.run(60)
    assert world.fired() == []
    assert len(world.log.all(executions("message"))) == 1, "the other lane goes on"
    world.start()
    world.run(5)
    world.log.missing.clear()
    world.run(60)
    assert sorted(world.fired()) == sorted(jobs)
    assert letters(world) == []


def test_without_one_of_its_own_topics_a_trigger_does_not_go_on(world: World) -> None:
    world.recur({"every_s": 1})
    world.run(1)
    world.log.missing.add(EVENTS)
    with pytest.raises(Refused, match="topics are missing: execution-events"):
        world.run(10)


def test_an_outage_during_a_takeover_is_waited_for(world: World) -> None:
    jobs = neighbours(world, in_s=5)
    world.run(1)
    renew = world.shard_log.renew

    def away(owner: str) -> None:
        raise Unavailable("kafka", "no broker answers")

    world.shard_log.renew = away  # type: ignore[method-assign]
    world.shard_log.lose([0, 1])
    world.shard_log.assign([0, 1])
    world.run(20)
    assert world.fired() == []
    world.shard_log.renew = renew  # type: ignore[method-assign]
    world.run(10)
    assert sorted(world.fired()) == sorted(jobs)


def test_a_job_that_was_mended_meanwhile_is_not_suspended_for_a_former_failure(
    world: World, codec: PoisonCodec
) -> None:
    """What fails is an execution of the version before; the suspension is of that version alone."""
    job = poisoned(world, schedule={"every_s": 5}, retry=RETRIED)
    world.run(6)
    world.report(world.executions()[-1], "FAILED")
    mended = {"schedule": {"every_s": 500}, "target": {"type": "http", "url": "https://example.test/"}}
    command = world.order("update", job, definition=mended)
    world.settle()
    assert world.outcomes()[command].accepted
    codec.fails["restamp"] = is_poison
    world.run(100, step_s=2)
    assert letters(world) and state_of(world, job) == "ACTIVE"
