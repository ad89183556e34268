"""Dead executions are run again under their own id: attempts go on counting, the retry policy begins anew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.trigger.world import CODEC, World
from tocsin.domain.commands import Command
from tocsin.domain.executions import AttemptError, Execution, ExecutionEvent
from tocsin.domain.instants import SECOND, format_rfc3339
from tocsin.ports.shard_log import DEAD_LETTERS, EVENTS

ONCE = {"max_attempts": 2, "backoff": "fixed", "base_s": 10, "jitter": "none"}


@pytest.fixture
def world() -> World:
    world = World()
    world.start()
    return world


def _events(world: World) -> list[ExecutionEvent]:
    return [CODEC.decode_event(record.value) for record in world.log.all(EVENTS)]


def _fail(world: World) -> Execution:
    """The latest attempt fails; return it."""
    last = world.executions()[-1]
    world.report(last, "FAILED")
    world.run(12)
    return last


def _dead(world: World, **fields: object) -> Execution:
    """Let an execution use its attempts up; return the last of them."""
    world.recur({"every_s": 100_000, "anchor_at": "2027-01-15T08:00:01Z"}, retry=ONCE, **fields)
    world.run(2)
    _fail(world)
    last = _fail(world)
    assert _events(world)[-1].state == "DEAD"
    return last


def _redrive(world: World, dead: Execution, command_id: str = "r1", **fields: object) -> Command:
    head = dead.head
    command = Command(
        "redrive",
        command_id,
        head.job_id,
        execution_id=head.execution_id,
        attempts_before=head.attempt,
        reply_partition=0,
    )
    command = replace(command, **fields)  # type: ignore[arg-type]
    world.send(command)
    world.settle()
    return command


def _outcome(world: World, command_id: str = "r1") -> tuple[bool, str]:
    outcome = world.outcomes()[command_id]
    return outcome.accepted, outcome.detail


def test_a_dead_execution_is_attempted_again_under_its_id(world: World) -> None:
    dead = _dead(world)
    _redrive(world, dead)
    assert _outcome(world) == (True, "redriven")
    world.run(1)
    again = world.executions()[-1]
    assert again.head.execution_id == dead.head.execution_id
    assert (again.head.attempt, again.head.losses, again.redrives) == (3, 0, 1)
    assert again.head.token > dead.head.token
    event = _events(world)[-1]
    assert (event.state, event.reason, event.head.attempt) == ("RETRY_SCHEDULED", "redriven", 3)
    assert event.head.token < again.head.token, "a view shows it as queued once it is dispatched"
    world.report(again)
    world.run(1)
    assert [e.state for e in _events(world)] == ["RETRY_SCHEDULED", "DEAD", "RETRY_SCHEDULED", "SUCCEEDED"]
    assert [e.redrives for e in _events(world)] == [0, 0, 1, 1]


def test_the_retry_policy_begins_anew_and_letters_count_redrives(world: World) -> None:
    dead = _dead(world)
    for redrives in (1, 2):
        _redrive(world, dead, f"r{redrives}", redrives_before=redrives - 1)
        world.run(1)
        _fail(world)
        dead = _fail(world)
        assert _events(world)[-1].reason == "attempts_used_up"
    assert [e.head.attempt for e in world.executions()] == [1, 2, 3, 4, 5, 6]
    letters = [CODEC.decode_dead_letter(record.value) for record in world.log.all(DEAD_LETTERS)]
    assert [letter.redrives for letter in letters] == [0, 1, 2]
    assert [e.redrives for e in _events(world) if e.state == "DEAD"] == [0, 1, 2]


def test_it_waits_until_the_command_says_also_over_a_takeover(world: World) -> None:
    dead = _dead(world)
    _redrive(world, dead, not_before=format_rfc3339(world.clock.now() + 20 * SECOND))
    assert _events(world)[-1].retry_at == world.clock.now() + 20 * SECOND
    world.run(10)
    world.start()
    world.run(9)
    assert len(world.executions()) == 2
    world.run(2)
    assert [e.head.attempt for e in world.executions()] == [1, 2, 3]


def test_it_runs_what_the_job_is_by_now(world: World) -> None:
    dead = _dead(world)
    target = {"type": "http", "url": "https://mended.test/run"}
    definition = {"schedule": {"every_s": 100_000, "anchor_at": "2027-01-15T08:00:01Z"}, "target": target}
    world.send(Command("update", "u1", dead.head.job_id, definition=definition, reply_partition=0))
    world.settle()
    _redrive(world, dead)
    world.run(1)
    again = world.executions()[-1]
    assert again.target.url == "https://mended.test/run"  # type: ignore[union-attr]
    assert again.head.job_version > dead.head.job_version
    world.report(again, "FAILED", error=AttemptError("status", "answered 500", 500))
    world.run(1)
    assert _events(world)[-1].state == "DEAD", "the job has no retries any more"


def test_what_is_active_is_not_redriven(world: World) -> None:
    dead = _dead(world)
    _redrive(world, dead)
    _redrive(world, dead, "r2")
    assert _outcome(world, "r2") == (False, "running")
    world.run(1)
    _redrive(world, dead, "r3")
    assert _outcome(world, "r3") == (False, "running")
    assert [e.head.attempt for e in world.executions()] == [1, 2, 3]


def test_what_was_redriven_and_has_ended_is_not_redriven_once_more_by_who_has_not_seen_it(world: World) -> None:
    """The view lags: an impatient hand redrives the same dead attempt again, and its run has succeeded by then."""
    dead = _dead(world)
    _redrive(world, dead)
    world.run(1)
    world.report(world.executions()[-1])
    world.run(1)
    _redrive(world, dead, "r2")
    assert _outcome(world, "r2") == (False, "running")
    world.run(2)
    assert [e.head.attempt for e in world.executions()] == [1, 2, 3]
    assert _events(world)[-1].state == "SUCCEEDED"


@pytest.mark.parametrize(("overlap", "accepted"), [("skip_if_running", False), ("allow", True)])
def test_another_active_execution_of_the_job_stands_against_it_as_the_job_says(
    world: World, overlap: str, accepted: bool
) -> None:
    dead = _dead(world, concurrency=overlap)
    world.send(Command("trigger", "t1", dead.head.job_id, reply_partition=0))
    world.settle()
    _redrive(world, dead)
    assert _outcome(world)[0] is accepted


def test_what_its_schedule_may_still_run_is_not_redriven(world: World) -> None:
    dead = _dead(world)
    name = dead.head.execution_id.rpartition(".")[0]
    to_come = f"{name}.{dead.head.scheduled_for + 100_000 * SECOND}"
    _redrive(world, dead, execution_id=to_come)
    assert _outcome(world) == (False, "running")


def test_what_belongs_to_an_earlier_job_of_the_id_or_to_none_is_not_found(world: World) -> None:
    dead = _dead(world)
    job_id, version, at = dead.head.execution_id.split(".")
    _redrive(world, dead, execution_id=f"{job_id}.{int(version) + 1}.{at}")
    assert _outcome(world) == (False, "not_found")
    world.send(Command("delete", "d1", job_id, reply_partition=0))
    world.settle()
    _redrive(world, dead, "r2")
    assert _outcome(world, "r2") == (False, "not_found")


def test_a_deleted_job_takes_a_waiting_redrive_with_it(world: World) -> None:
    dead = _dead(world)
    _redrive(world, dead, not_before=format_rfc3339(world.clock.now() + 20 * SECOND))
    world.send(Command("delete", "d1", dead.head.job_id, reply_partition=0))
    world.run(25)
    assert len(world.executions()) == 2
    event = _events(world)[-1]
    assert (event.state, event.head.attempt) == ("CANCELLED", 3)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"execution_id": None}, "execution_id"),
        ({"execution_id": "x"}, "execution_id"),
        ({"execution_id": "default@other.1.5"}, "execution_id"),
        ({"attempts_before": None}, "attempts_before"),
        ({"attempts_before": 0}, "attempts_before"),
        ({"attempts_before": 2**40}, "attempts_before"),
        ({"redrives_before": -1}, "redrives_before"),
        ({"not_before": "soon"}, "not_before"),
        ({"not_before": "2099-01-01T00:00:00Z"}, "not_before"),
        ({"kind": "trigger"}, "execution_id"),
    ],
)
def test_a_command_with_faults_is_rejected_and_names_them(world: World, fields: dict[str, object], field: str) -> None:
    dead = _dead(world)
    _redrive(world, dead, **fields)
    outcome = world.outcomes()["r1"]
    assert (outcome.accepted, outcome.detail) == (False, "invalid")
    assert [fault.field for fault in outcome.faults] == [field]
    assert len(world.executions()) == 2
