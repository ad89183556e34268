"""Records that are damaged, hostile or huge: each is answered or set aside, and stops nobody."""

from __future__ import annotations

import pytest

from tests.unit.trigger.world import CODEC, World
from tocsin.domain.commands import Command
from tocsin.domain.executions import AttemptError
from tocsin.engine.shard_engine import EngineLimits
from tocsin.ports.schedule_store import StoreWrites
from tocsin.ports.shard_log import COMMANDS, DEAD_LETTERS, JOBS, OUTCOMES

DELAYED = {"delay_s": 1, "target": {"type": "http", "url": "https://example.test/"}}


@pytest.fixture
def world() -> World:
    world = World(shards=1)
    world.start()
    world.settle()
    return world


@pytest.mark.parametrize("kind", ["delete", "create", "update", "pause", "trigger"])
@pytest.mark.parametrize("job_id", ["", "j" * 70_000, "j" * 500_000, "a@b@c", "\ud7ff", "other@job", "a\nb", "%"])
def test_a_hostile_job_id_is_answered_and_asks_the_store_for_nothing(world: World, kind: str, job_id: str) -> None:
    asked: list[str] = []
    begin = world.store.begin_job_read
    world.store.begin_job_read = lambda shard, job: (asked.append(job), begin(shard, job))[1]  # type: ignore[func-returns-value,method-assign]
    world.send(Command(kind, "hostile", job_id, None, 0, DELAYED), shard=0)
    job = world.create(in_s=1)
    world.run(3)
    assert world.fired() == [job]
    assert not world.outcomes()["hostile"].accepted
    assert all(len(name) < 200 for name in asked)


@pytest.mark.parametrize(
    "fields",
    [
        {"command_id": "c" * 600_000},
        {"job_id": "j" * 500_000},
        {"tenant_id": "t" * 900_000},
        {"kind": "k" * 900_000},
        {"forwarded_from": "f" * 900_000},
        {"reason": "r" * 900_000, "kind": "pause", "job_id": "x"},
    ],
)
def test_no_field_of_a_command_makes_a_record_too_large(world: World, fields: dict[str, str]) -> None:
    """The log in memory refuses what brokers refuse."""
    command = Command(**{"kind": "create", "definition": DELAYED, **fields})  # type: ignore[arg-type]
    world.log.append(COMMANDS, 0, "k", CODEC.encode_command(command))
    job = world.create(in_s=1)
    world.run(3)
    assert job in world.fired()
    sizes = [len(r.key or b"") + len(r.value or b"") for t in (OUTCOMES, DEAD_LETTERS) for r in world.log.all(t)]
    assert max(sizes) < 100_000


def test_a_long_pause_reason_is_refused(world: World) -> None:
    job = world.create(in_s=100)
    world.run(1)
    command = world.order("pause", job, reason="r" * 900_000)
    world.run(1)
    assert not world.outcomes()[command].accepted


@pytest.mark.parametrize("milliseconds", [-(2**62), 2**62, -3_600_000, 253_402_300_799_000])
def test_an_impossible_timestamp_is_refused(world: World, milliseconds: int) -> None:
    value = CODEC.encode_command(Command("create", "odd", None, None, 0, DELAYED))
    world.log.append(COMMANDS, 0, "k", value, milliseconds * 1000)
    job = world.create(in_s=1)
    world.run(3)
    assert world.fired() == [job]
    assert not world.outcomes()["odd"].accepted


def test_a_repeated_made_id_is_found_out_also_later(world: World) -> None:
    job = world.create(in_s=600)
    world.run(2)
    world.create(in_s=300, job_id=job)
    world.run(2)
    assert world.outcomes()["c2"].detail == "conflict"
    command = world.delete(job)
    world.run(700, step_s=5)
    assert world.fired() == []
    assert world.outcomes()[command].detail == "prevented"


def test_a_repeated_create_after_a_takeover_is_found_out(world: World) -> None:
    job = world.create(in_s=600)
    world.run(2)
    world.start()
    world.create(in_s=300, job_id=job)
    world.run(700, step_s=5)
    assert world.fired() == [job]


def test_creates_with_made_ids_go_on_while_the_store_is_away(world: World) -> None:
    world.create(in_s=500)
    world.run(6)
    world.store.held = True
    jobs = [world.create(in_s=2) for _ in range(5)]
    world.run(5)
    assert sorted(world.fired()) == sorted(jobs)


@pytest.mark.parametrize("kind", ["FAILED", "SUCCEEDED", "RUNNING"])
def test_a_report_with_endless_texts_makes_no_endless_records(world: World, kind: str) -> None:
    world.create(in_s=1)
    world.run(2)
    error = AttemptError("c" * 100_000, "m" * 900_000)
    changes = {"result": "r" * 900_000} if kind == "SUCCEEDED" else {"error": error}
    world.report(world.executions()[0], kind, **changes)
    job = world.create(in_s=1)
    world.run(3)
    assert job in world.fired()
    sizes = [len(r.value or b"") for t in ("execution-events", DEAD_LETTERS) for r in world.log.all(t)]
    assert max(sizes) < 100_000


def test_a_damaged_snapshot_keeps_no_shard_from_starting(world: World) -> None:
    job = world.create(in_s=30)
    world.run(1)
    world.log.append(JOBS, 0, "job_damaged", b"\xc3\x01 no record")
    world.start()
    world.run(60)
    assert world.fired() == [job]


@pytest.mark.parametrize(
    "damage", [{"execution": b""}, {"lane": "nowhere"}, {"plan": "{"}, {"plan": '{"cron":"* * * * *","tz":"No/Where"}'}]
)
def test_a_damaged_row_is_set_aside_and_its_neighbours_fire(world: World, damage: dict[str, object]) -> None:
    jobs = [world.create(in_s=300) for _ in range(3)]
    world.run(1)
    [(place, rows)] = [(place, rows) for place, rows in world.tables.index.items() if rows]
    key, entry = next(iter(rows.items()))
    world.tables.index[place][key] = entry._replace(**damage)
    world.run(400, step_s=5)
    assert sorted(world.fired()) == sorted(set(jobs) - {entry.job_id})
    assert world.dead_letters() == ["entry"]
    world.start()
    world.run(100, step_s=5)


def test_owners_that_die_in_the_middle_of_a_snapshot_never_wrap_the_ring() -> None:
    world = World(shards=1, limits=EngineLimits(ring=16, delta_bytes_max=2_000))
    world.start()
    for _ in range(20):
        world.create(in_s=1)
    world.run(2)
    for _ in range(60):
        world.start()
        world.settle(2)
    assert len(world.engines[0].state.active) == 20


def test_a_jobs_log_made_anew_is_an_error(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(5):
        world.create(in_s=100)
    world.run(20)
    assert world.engines[0].state.indexed_upto > 1
    world.log.recreate(JOBS, 0)
    world.start()
    world.settle()
    assert not world.engines and "was the topic made anew?" in capsys.readouterr().out


def test_large_commands_are_decided_in_bounded_turns() -> None:
    world = World(shards=1, limits=EngineLimits(command_bytes_max=500_000))
    world.start()
    world.settle()
    body = {"type": "http", "url": "https://example.test/", "body": "b" * 200_000}
    for n in range(10):
        world.send(Command("create", f"big{n}", None, None, 0, {"delay_s": 1, "target": body}), shard=0)
    world.settle(1)
    assert 0 < len(world.outcomes()) < 10
    world.settle(10)
    world.run(5)
    assert len(world.fired()) == 10


def test_writes_tell_their_size() -> None:
    assert StoreWrites().size == 0
