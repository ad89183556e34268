"""Executions that would overlap: skipped, queued or replaced, by job or by group, whatever made them due."""

from __future__ import annotations

import pytest

from tests.unit.trigger.overlap_world import OverlapWorld
from tests.unit.trigger.world import CODEC, TARGET
from tocsin.domain import ids
from tocsin.domain.commands import Command
from tocsin.domain.instants import SECOND
from tocsin.engine.engine_limits import EngineLimits
from tocsin.ports.shard_log import ALERTS

EVERY_10_S = {"every_s": 10}
FIXED = {"max_attempts": 3, "backoff": "fixed", "base_s": 60, "jitter": "none"}


@pytest.fixture
def world() -> OverlapWorld:
    return OverlapWorld()


# Queue


def test_what_is_due_meanwhile_is_queued_and_runs_in_order_one_after_another(world: OverlapWorld) -> None:
    job = world.job("queue", schedule=EVERY_10_S)
    world.run(35, step_s=1)
    assert len(world.started()) == 1
    for _ in range(3):
        world.end(world.started()[-1])
    nominal = [e.head.scheduled_for for e in world.executions()]
    assert len(nominal) == 3 and nominal == sorted(nominal)
    assert set(world.fired()) == {job}
    assert world.active() == {}


def test_what_is_queued_is_seen_as_such_and_is_not_dispatched(world: OverlapWorld) -> None:
    job = world.manual("queue")
    first, second = world.trigger(job), world.trigger(job)
    assert world.outcomes()[second.rsplit(".", 1)[1]].detail == "queued"
    assert world.started() == [first]
    assert world.story(second) == [("QUEUED", "overlap")]
    world.end(first)
    assert world.started() == [first, second]
    [event] = world.events(second)
    assert event.head.token < world.dispatch_of(second).head.token, "a view shows it as dispatched from then on"


def test_a_pending_retry_holds_its_place_before_the_queue(world: OverlapWorld) -> None:
    job = world.manual("queue", retry=FIXED)
    first, second = world.trigger(job), world.trigger(job)
    world.end(first, "FAILED")
    world.run(50, step_s=1)
    assert world.started() == [first]
    world.run(20, step_s=1)
    assert world.started() == [first, first]
    world.end(first)
    assert world.started() == [first, first, second]


def test_the_queue_is_bounded_and_what_is_dropped_is_told_and_alerted() -> None:
    world = OverlapWorld(EngineLimits(overlap_queue_max=2))
    world.job("queue", schedule=EVERY_10_S)
    world.run(55, step_s=1)
    skipped = [event for event in world.events() if event.state == "SKIPPED"]
    assert [event.reason for event in skipped] == ["queue_full"] * 2
    assert len(world.active()) == 3
    alerts = [CODEC.decode_alert(record.value) for record in world.log.all(ALERTS)]
    assert {(alert.kind, alert.message) for alert in alerts} == {("skipped", "queue_full")}


def test_a_trigger_on_a_full_queue_is_refused() -> None:
    world = OverlapWorld(EngineLimits(overlap_queue_max=1))
    job = world.manual("queue")
    assert world.trigger(job) and world.trigger(job)
    assert world.trigger(job) == ""
    outcome = list(world.outcomes().values())[-1]
    assert outcome.detail == "running" and "as many wait" in outcome.faults[0].problem
    assert len(world.active()) == 2


def test_what_runs_side_by_side_is_bounded_too_and_what_is_missed_waits_for_room() -> None:
    world = OverlapWorld(EngineLimits(overlap_allow_max=3))
    job = world.job("allow", schedule=EVERY_10_S, catch_up="fire_all", misfire_after_s=15, max_catch_up=100)
    world.run(55, step_s=1)
    assert len(world.active()) == 3
    skipped = [event for event in world.events() if event.state == "SKIPPED"]
    assert [event.reason for event in skipped] == ["queue_full"] * 2
    assert world.trigger(job) == ""
    fault = list(world.outcomes().values())[-1].faults[0]
    assert "as many executions of the job are active as may be" in fault.problem
    other = world.manual("allow")
    assert world.trigger(other), "another job has room of its own"
    world.clock.advance(100)
    world.start()
    world.run(3)
    assert len([name for name in world.active() if name.startswith(job)]) == 3
    for _ in range(40):
        for name in [name for name in world.active() if name.startswith(job)]:
            world.end(name)
        world.run(0.5)
    due = [e.head.scheduled_for for e in world.executions() if e.head.job_id == job]
    told = {event.head.scheduled_for for event in world.events() if event.state == "SKIPPED"}
    assert len(due) == len(set(due)) and not set(due) & told
    assert set(due) | told == set(range(min(due), max(due) + 1, 10 * SECOND)), "each ran, or was told"


@pytest.mark.parametrize("aware", [True, False])
def test_the_queue_survives_takeovers(world: OverlapWorld, aware: bool) -> None:
    job = world.manual("queue")
    names = [world.trigger(job) for _ in range(4)]
    for done in range(4):
        world.start(aware=aware)
        world.settle()
        assert world.started() == names[: done + 1]
        world.end(names[done])
    assert world.active() == {}


def test_the_queue_survives_in_snapshots_in_its_order() -> None:
    world = OverlapWorld(EngineLimits(ring=16, delta_bytes_max=600))
    job = world.manual("queue")
    names = [world.trigger(job) for _ in range(6)]
    other = world.manual("allow")
    for _ in range(40):
        world.end(world.trigger(other))
    world.start()
    for name in names:
        world.end(name)
    assert [name for name in world.started() if name in names] == names


def test_a_successor_that_finds_its_way_free_starts_at_once(world: OverlapWorld) -> None:
    """Its predecessor read the end, and died in the turn that should have gone on with the queue."""
    job = world.manual("queue")
    first, second = world.trigger(job), world.trigger(job)
    world.report(world.dispatch_of(first))
    world.start()
    world.settle()
    assert world.started() == [first, second]


def test_a_paused_jobs_queue_goes_on_and_a_deleted_jobs_is_cancelled(world: OverlapWorld) -> None:
    job = world.manual("queue")
    names = [world.trigger(job) for _ in range(4)]
    world.order("pause", job)
    world.settle()
    world.end(names[0])
    assert world.started() == names[:2]
    world.delete(job)
    world.settle()
    for name in names[2:]:
        assert world.story(name)[-1] == ("CANCELLED", "job_deleted")
    world.end(names[1])
    assert world.started() == names[:2] and world.active() == {}


def test_a_job_that_waits_in_the_queue_is_not_finished(world: OverlapWorld) -> None:
    group = "g"
    long = world.manual("queue", group)
    first = world.trigger(long)
    once = world.job("queue", group, schedule={"delay_s": 1})
    world.run(60, step_s=1)
    assert world.started() == [first]
    world.end(first)
    world.run(1)
    [run] = [name for name in world.started() if name != first]
    assert run.startswith(once)


def test_what_was_missed_queues_with_all_others_and_none_is_lost() -> None:
    world = OverlapWorld(EngineLimits(overlap_queue_max=3))
    job = world.job("queue", schedule=EVERY_10_S, catch_up="fire_all", misfire_after_s=5, max_catch_up=100)
    world.run(12, step_s=1)
    world.clock.advance(100)
    world.start()
    world.run(3)
    assert len(world.active()) == 4
    for _ in range(40):
        running = [name for name, one in world.active().items() if one.phase == "queued"]
        if running:
            world.end(running[0])
        world.run(0.5)
    due = {e.head.scheduled_for for e in world.executions() if e.head.job_id == job}
    told = {event.head.scheduled_for for event in world.events() if event.state == "SKIPPED"}
    now = world.clock.now()
    assert not due & told
    first = min(due)
    assert due | told == set(range(first, now + 1, 10 * SECOND)), "each ran, or was told"


def test_a_redrive_queues_behind_what_is_active_and_keeps_its_attempts(world: OverlapWorld) -> None:
    job = world.manual("queue")
    dead = world.trigger(job)
    world.end(dead, "FAILED")
    assert world.story(dead)[-1][0] == "DEAD"
    running = world.trigger(job)
    world.order("redrive", job, execution_id=dead, attempts_before=1)
    world.settle()
    assert world.story(dead)[-1] == ("QUEUED", "overlap")
    world.start()
    world.end(running)
    assert world.started() == [dead, running, dead]
    assert world.dispatch_of(dead).head.attempt == 2


# Replace


def test_the_successor_starts_only_once_the_replaced_one_has_ended(world: OverlapWorld) -> None:
    job = world.manual("replace")
    first, second = world.trigger(job), world.trigger(job)
    assert world.started() == [first]
    [cancel] = world.cancels()
    assert (cancel.execution_id, cancel.token) == (first, world.dispatch_of(first).head.token)
    world.end(first, "CANCELLED")
    assert world.story(first) == [("CANCELLED", "replaced")]
    assert world.events(first)[0].attempt_state == "CANCELLED"
    assert world.started() == [first, second]


def test_a_replaced_attempt_is_not_retried(world: OverlapWorld) -> None:
    job = world.manual("replace", retry=FIXED)
    first, second = world.trigger(job), world.trigger(job)
    world.end(first, "FAILED")
    assert world.story(first) == [("CANCELLED", "replaced")]
    assert world.started() == [first, second]
    assert world.dead_letters() == []


def test_what_waits_for_a_retry_is_replaced_at_once(world: OverlapWorld) -> None:
    job = world.manual("replace", retry=FIXED)
    first = world.trigger(job)
    world.end(first, "FAILED")
    second = world.trigger(job)
    assert world.story(first)[-1] == ("CANCELLED", "replaced")
    assert world.started() == [first, second]
    assert world.cancels() == [], "nothing of it was current"


def test_of_several_successors_only_the_newest_waits(world: OverlapWorld) -> None:
    job = world.manual("replace")
    names = [world.trigger(job) for _ in range(4)]
    assert len(world.cancels()) == 1
    for name in names[1:3]:
        assert world.story(name) == [("QUEUED", "overlap"), ("SKIPPED", "replaced")]
    world.end(names[0])
    assert world.story(names[0])[-1] == ("CANCELLED", "replaced")
    assert world.started() == [names[0], names[3]]


@pytest.mark.parametrize("started", ["no", "maybe"])
def test_a_return_of_the_replaced_one_lets_the_successor_start(world: OverlapWorld, started: str) -> None:
    job = world.manual("replace")
    first, second = world.trigger(job), world.trigger(job)
    world.end(first, "RETURNED", error=None, started=started, reason="cancelled")
    assert world.story(first)[-1] == ("CANCELLED", "replaced")
    assert world.started() == [first, second]


def test_replacing_survives_a_takeover_before_the_end_of_the_replaced_one(world: OverlapWorld) -> None:
    job = world.manual("replace")
    first, second = world.trigger(job), world.trigger(job)
    world.start(aware=False)
    world.settle()
    assert world.started() == [first], "the successor's owner must not think that nothing runs"
    world.end(first)
    assert world.story(first)[-1] == ("CANCELLED", "replaced")
    assert world.started() == [first, second]


def test_a_schedule_that_replaces_keeps_going(world: OverlapWorld) -> None:
    world.job("replace", schedule=EVERY_10_S)
    world.run(15, step_s=1)
    for _ in range(4):
        world.run(10, step_s=1)
        ending = [name for name, one in world.active().items() if one.ending]
        assert len(ending) == 1
        world.end(ending[0], "CANCELLED")
    assert len(world.started()) == 5


# Groups


@pytest.mark.parametrize("policy", ["skip_if_running", "queue", "replace"])
def test_jobs_of_a_group_never_run_at_once(policy: str) -> None:
    world = OverlapWorld(shards=4)
    jobs = [world.manual(policy, "nightly") for _ in range(3)]
    names = [world.trigger(job) for job in jobs]
    assert world.started() == names[:1]
    if policy == "skip_if_running":
        assert names[1:] == ["", ""]
        return
    while any(one.phase == "queued" for one in world.active().values()):
        running = [name for name, one in world.active().items() if one.phase == "queued"]
        assert len(running) == 1
        world.end(running[0])
    expected = names if policy == "queue" else [names[0], names[2]]
    assert world.started() == expected


def test_other_groups_and_other_tenants_do_not_wait(world: OverlapWorld) -> None:
    one, two = world.manual("skip_if_running", "a"), world.manual("skip_if_running", "b")
    assert world.trigger(one) and world.trigger(two)
    assert ids.group_id("default", "a") != ids.group_id("other", "a")
    assert ids.group_id("a", "b|c") != ids.group_id("a_b", "c")


def test_a_queue_of_a_group_survives_a_takeover(world: OverlapWorld) -> None:
    jobs = [world.manual("queue", "g") for _ in range(3)]
    names = [world.trigger(job) for job in jobs]
    for done, name in enumerate(names):
        world.start()
        world.settle()
        assert world.started() == names[: done + 1]
        world.end(name)


def test_deleting_a_job_of_a_group_leaves_the_others_queued(world: OverlapWorld) -> None:
    jobs = [world.manual("queue", "g") for _ in range(3)]
    names = [world.trigger(job) for job in jobs]
    world.delete(jobs[1])
    world.settle()
    world.end(names[0])
    assert world.story(names[1])[-1] == ("CANCELLED", "job_deleted")
    assert world.started() == [names[0], names[2]]


def _refused(world: OverlapWorld, command: Command) -> list[str]:
    world.send(command)
    world.settle()
    outcome = world.outcomes()[command.command_id or ""]
    assert not outcome.accepted
    return [fault.field for fault in outcome.faults]


def test_a_group_is_given_at_the_create_and_fixed(world: OverlapWorld) -> None:
    job = world.manual("queue", "g")
    changed = {"target": TARGET, "concurrency": "queue", "concurrency_group": "h"}
    assert _refused(world, Command("update", "u1", job, None, 0, changed)) == ["definition.concurrency_group"]
    allowed = {"target": TARGET, "concurrency": "allow"}
    assert _refused(world, Command("update", "u2", job, None, 0, allowed)) == ["definition.concurrency"]
    world.send(Command("update", "u3", job, None, 0, {"target": TARGET, "concurrency": "replace"}))
    alone = world.manual("queue")
    assert _refused(world, Command("update", "u4", alone, None, 0, changed)) == ["definition.concurrency_group"]
    found = CODEC.decode_job(world.outcomes()["u3"].job)
    assert (found.definition.concurrency_group, found.definition.overlap) == ("g", "replace")


def test_a_group_goes_with_no_id_of_the_clients_no_key_and_no_allow(world: OverlapWorld) -> None:
    body = {"target": TARGET, "concurrency_group": "g"}
    assert _refused(world, Command("create", "c-id", "default@mine", None, 0, body)) == ["job_id"]
    assert _refused(world, Command("create", "c-other", ids.grouped_job_id("t", "g", "0" * 32), None, 0, body)) == [
        "job_id"
    ]
    grouped = ids.grouped_job_id("default", "g", "0" * 32)
    assert _refused(world, Command("create", "c-none", grouped, None, 0, {"target": TARGET})) == ["job_id"]
    allow = {**body, "concurrency": "allow"}
    assert _refused(world, Command("create", "c-allow", grouped, None, 0, allow)) == ["concurrency"]
    keyed = {**body, "idempotency_key": "k"}
    assert _refused(world, Command("create", "c-key", None, None, 0, keyed)) == ["idempotency_key"]


def test_a_create_in_a_group_without_an_id_finds_its_shard() -> None:
    world = OverlapWorld(shards=4)
    body = {"target": TARGET, "concurrency_group": "g"}
    for shard in range(4):
        world.send(Command("create", f"g{shard}", None, None, 0, body), shard)
    world.settle(12)
    jobs = [world.outcomes()[f"g{shard}"].job_id for shard in range(4)]
    assert {ids.group_of(job) for job in jobs} == {ids.group_id("default", "g")}
    assert len(set(jobs)) == 4
    assert sum(bool(world.trigger(job)) for job in jobs) == 1
