"""One-offs through the real loop and engine, on a log and a store in memory."""

from __future__ import annotations

import pytest

from tests.unit.trigger.world import CODEC, TARGET, World
from tocsin.adapters.memory.shard_log import MemoryTakeover
from tocsin.domain.commands import Command
from tocsin.domain.instants import SECOND, format_rfc3339
from tocsin.engine.shard_engine import EngineLimits
from tocsin.ports.shard_log import COMMANDS, JOBS, SHARD_STATE, executions
from tocsin.ports.takeover import JobsTail


@pytest.fixture
def world() -> World:
    world = World()
    world.start()
    return world


def test_fires_once_and_not_a_microsecond_early(world: World) -> None:
    due = world.clock.now() + 5 * SECOND + 1
    job = world.create(at=due)
    world.settle()
    world.clock.set(due - 1)
    world.settle()
    assert world.fired() == []
    world.run(3, step_s=0.01)
    assert world.fired() == [job]
    record = world.log.all(executions("default"))[0]
    assert record.timestamp >= due, "even by the log's milliseconds it is not early"


def test_far_off_jobs_wait_in_the_store_and_fire_on_time(world: World) -> None:
    job = world.create(in_s=3 * 3600)
    world.run(3 * 3600 - 1, step_s=20)
    assert world.fired() == []
    world.run(2)
    assert world.fired() == [job]


@pytest.mark.parametrize("late_s", [0, 1, 3600, 86400])
def test_a_time_in_the_past_fires_at_once_with_its_nominal_time(world: World, late_s: int) -> None:
    nominal = world.clock.now() - late_s * SECOND
    job = world.create(at=nominal)
    world.run(1)
    assert world.fired() == [job]
    head = world.executions()[0].head
    assert head.scheduled_for == nominal
    world.start()
    world.run(130)
    assert world.fired() == [job], "a restart fires nothing again"


def test_many_in_one_second_fire_in_bounded_turns() -> None:
    world = World(limits=EngineLimits(fires_max=7, commands_max=10))
    world.start()
    jobs = {world.create(in_s=2) for _ in range(100)}
    world.settle(20)
    world.clock.advance(2)
    world.settle(4)
    assert 0 < len(world.fired()) < 100, "one turn fires no more than its bound"
    world.settle(40)
    assert sorted(world.fired()) == sorted(jobs)


def test_a_byte_bound_splits_a_burst_without_losing_any() -> None:
    world = World(shards=1, limits=EngineLimits(fire_bytes_max=1_000))
    world.start()
    jobs = {world.create(in_s=2) for _ in range(50)}
    world.settle(5)
    world.clock.advance(2)
    world.settle(1)
    assert 0 < len(world.fired()) < 50
    world.settle(60)
    assert sorted(world.fired()) == sorted(jobs)


def test_a_bucket_read_that_overtakes_the_write_misses_nothing(world: World) -> None:
    world.create(in_s=9_999)
    world.run(6)  # ids that are made from now on are certainly new to this owner
    world.store.held = True
    job = world.create(in_s=300)
    for _ in range(400):
        world.run(1, step_s=1)
        world.store.release(world.store.waiting() - 1, newest=True)  # the oldest request, the write, never arrives
    assert world.store.waiting() == 1
    assert world.fired() == [job]


def test_delete_before_the_due_time_prevents_the_fire(world: World) -> None:
    job = world.create(in_s=30)
    world.run(1)
    command = world.delete(job)
    world.run(60)
    assert world.fired() == []
    assert world.outcomes()[command].detail == "prevented"
    assert world.tables.bucket(0, 0) == [] and all(not rows for rows in world.tables.index.values())


def test_delete_of_a_job_that_is_not_in_memory_reads_its_row(world: World) -> None:
    job = world.create(in_s=3600)
    world.run(5)
    world.start()
    command = world.delete(job)
    world.run(4000, step_s=15)
    assert world.outcomes()[command].detail == "prevented"
    assert world.fired() == []


def test_delete_after_the_fire_says_so_and_lets_it_run(world: World) -> None:
    job = world.create(in_s=1)
    world.run(3)
    command = world.delete(job)
    world.run(1)
    assert world.outcomes()[command].detail == "already_fired"
    assert world.fired() == [job]
    world.report(world.executions()[0])
    world.run(1)
    assert set(world.states().values()) == {"SUCCEEDED"}


def test_delete_twice_and_of_the_unknown_is_not_found(world: World) -> None:
    job = world.create(in_s=60)
    world.run(1)
    first, second = world.delete(job), world.delete(job)
    unknown = world.delete("job_" + "f" * 32)
    world.run(2)
    outcomes = world.outcomes()
    assert outcomes[first].accepted
    assert (outcomes[second].detail, outcomes[unknown].detail) == ("not_found", "not_found")


def test_another_tenants_job_is_not_found(world: World) -> None:
    job = world.create(in_s=60)
    world.run(1)
    world.send(Command("delete", "theirs", job, "other", 0))
    world.run(1)
    assert world.outcomes()["theirs"].detail == "not_found"
    world.run(60)
    assert world.fired() == [job]


def test_commands_wait_in_order_for_a_silent_store_while_fires_go_on(world: World) -> None:
    ready = world.create(in_s=10)
    far = world.create(in_s=3600)
    world.run(5)
    world.start()
    world.run(1)
    world.store.held = True
    command = world.delete(far)
    world.run(20)
    assert world.fired() == [ready], "what is in memory fires although the store is silent"
    assert command not in world.outcomes()
    world.store.held = False
    world.run(1)
    assert world.outcomes()[command].detail == "prevented"


def test_the_tombstone_follows_only_when_the_rows_are_gone(world: World) -> None:
    job = world.create(in_s=60)
    world.run(1)
    world.store.held = True
    world.delete(job)
    world.settle()
    world.store.release(1)  # the job's row is read; its deletion is not written yet
    world.run(1)
    values = [record.value for record in world.log.all(JOBS) if record.key == job.encode()]
    assert values[-1] is not None and CODEC.decode_job(values[-1]).state == "DELETED"
    world.store.held = False
    world.run(1)
    assert [r.value for r in world.log.all(JOBS) if r.key == job.encode()][-1] is None
    assert world.tables.snapshot(job) is None


def test_a_row_that_two_edits_replaced_is_gone_though_the_first_of_them_was_compacted_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tail = MemoryTakeover._jobs_tail

    def compacted(self: MemoryTakeover, shard: int, start: int) -> JobsTail:
        records, end = tail(self, shard, start)
        return JobsTail(list(dict(records).items()), end)

    monkeypatch.setattr(MemoryTakeover, "_jobs_tail", compacted)
    world = World(shards=1)
    world.start()
    world.run(10)
    world.store.held = True
    job = world.create(in_s=7_200)
    world.run(1)
    for hours in (3, 4):
        at = format_rfc3339(world.clock.now() + hours * 3_600 * SECOND)
        world.order("update", job, definition={"run_at": at, "target": TARGET})
        world.run(1)
    assert [record.key.decode() for record in world.log.all(JOBS)] == [job] * 3
    world.store.release(1)  # The first row is written; who is to delete it dies before.
    world.store.lose()
    (former,) = [row for bucket in world.tables.index.values() for row in bucket.values()]
    world.start()
    world.run(2)
    (row,) = [row for bucket in world.tables.index.values() for row in bucket.values()]
    assert row.version > former.version
    assert row.run_at > former.run_at + 3_600 * SECOND


def test_bad_commands_are_answered_set_aside_and_stop_nobody(world: World) -> None:
    world.log.append(COMMANDS, 0, "x", b"\xc3\x01garbage that is no record")
    world.log.append(COMMANDS, 0, "x", None)
    world.send(Command("create", "no-target", None, None, 0, {"delay_s": 1}), shard=0)
    world.send(Command("resurrect", "odd", "job_" + "0" * 32), shard=0)
    world.send(Command("backfill", "later", "job_" + "0" * 32), shard=0)
    world.send(Command("delete", "nobody", None), shard=1)
    world.send(Command("create", "tenant", None, "no such tenant!", 99, {"delay_s": 1}), shard=1)
    job = world.create(in_s=1)
    world.run(3)
    outcomes = world.outcomes()
    assert [outcomes[c].accepted for c in ("no-target", "odd", "later", "nobody", "tenant")] == [False] * 5
    assert "not supported yet" in str(outcomes["later"].faults[0])
    assert world.dead_letters() == ["record"] * 7
    assert world.fired() == [job]


def test_a_create_without_an_id_gets_one_that_a_replay_agrees_with(world: World) -> None:
    definition = {"delay_s": 2, "target": {"type": "http", "url": "https://example.test/"}}
    world.send(Command("create", "anon", None, None, 0, definition), shard=1)
    world.run(1)
    job_id = world.outcomes()["anon"].job_id
    world.run(3)
    assert world.fired() == [job_id]


def test_a_report_counts_once_and_only_under_the_current_head(world: World) -> None:
    world.create(in_s=1)
    world.run(2)
    execution = world.executions()[0]
    forged = CODEC.decode_execution(
        CODEC.restamp(world.log.all(executions("default"))[0].value or b"", CODEC.stamp(1, execution.head.token + 1, 0))
    )
    world.report(forged)
    world.settle()
    assert world.states() == {}
    world.report(execution)
    world.settle()
    world.report(execution, "FAILED")
    world.settle()
    assert list(world.states().values()) == ["SUCCEEDED"]


def test_a_failed_attempt_ends_dead_with_a_dead_letter(world: World) -> None:
    world.create(in_s=1)
    world.run(2)
    world.report(world.executions()[0], "FAILED")
    world.log.append("reports", 0, "x", b"garbage")
    world.log.append("reports", 0, "x", CODEC.encode_report(_odd_report(world)))
    world.settle()
    assert list(world.states().values()) == ["DEAD"]
    assert sorted(world.dead_letters()) == ["execution", "record", "record"]


def _odd_report(world: World):  # type: ignore[no-untyped-def]
    from tocsin.domain.executions import AttemptReport

    execution = world.executions()[0]
    return AttemptReport(execution.head, execution.head_bytes, "ASCENDED", "worker-1")


@pytest.mark.parametrize("written", [True, False])
def test_an_owner_whose_time_is_over_commits_nothing(world: World, written: bool) -> None:
    """One that has written is fenced by name; one that never wrote is known only to the group's coordinator."""
    if written:
        world.settle()
        world.log.check_generations = False
    old = world.loop
    world.start(aware=False)
    world.settle()
    job = world.create(in_s=0)
    before = world.log.end("shard-state", 0), world.log.end("shard-state", 1)
    old.turn()
    assert (world.log.end("shard-state", 0), world.log.end("shard-state", 1)) == before
    world.run(1)
    assert world.fired() == [job]


def test_a_shard_that_has_run_never_starts_from_nothing(world: World) -> None:
    world.create(in_s=60)
    world.run(1)
    for shard in range(2):
        world.log.delete_below(SHARD_STATE, shard, 10**9)
    ends = [world.log.end(SHARD_STATE, shard) for shard in range(2)]
    world.start()
    world.run(70)
    assert not world.engines and world.fired() == []
    assert [world.log.end(SHARD_STATE, shard) for shard in range(2)] == ends


def test_a_missing_delta_is_an_error(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(5):
        world.create(in_s=60)
        world.settle()
    kept = world.log.read(SHARD_STATE, 0)
    world.log.delete_below(SHARD_STATE, 0, 10**9)
    for record in kept:
        if record.key != b"d/2/0":
            world.log.append(SHARD_STATE, 0, (record.key or b"").decode(), record.value)
    world.start()
    world.settle()
    assert set(world.engines) == {1}
    assert "delta 2" in capsys.readouterr().out
