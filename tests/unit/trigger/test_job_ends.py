"""What an owner changes of jobs by itself: pauses that end, jobs that are finished, removed or suspended."""

from __future__ import annotations

import os
import random
from itertools import islice

import pytest

from tests.unit.trigger.world import CODEC, TARGET, World, work_of
from tocsin.domain.commands import Command
from tocsin.domain.entries import Entry
from tocsin.domain.instants import SECOND, format_rfc3339
from tocsin.domain.jobs import Job
from tocsin.domain.shard_records import WorkItem
from tocsin.domain.timers import is_timer, note_of
from tocsin.engine.ended_jobs import AT_HAND_MAX, FLOOD, KIND
from tocsin.engine.engine_limits import EngineLimits
from tocsin.ports.shard_log import COMMANDS, JOBS

SEEDS = int(os.environ.get("STORM_SEEDS", "20"))
START = 1_800_000_000 * SECOND
RETRIED = {"max_attempts": 3, "backoff": "fixed", "base_s": 600, "jitter": "none"}


@pytest.fixture
def world() -> World:
    world = World(shards=1)
    world.clock.set(START)
    world.start()
    return world


def _job(world: World, job_id: str) -> Job | None:
    snapshot = world.tables.snapshot(job_id)
    return None if snapshot is None else CODEC.decode_job(snapshot)


def _state(world: World, job_id: str) -> str | None:
    job = _job(world, job_id)
    return None if job is None else str(job.state)


def _nominal(world: World, job: str) -> list[int]:
    return [(e.head.scheduled_for - START) // SECOND for e in world.executions() if e.head.job_id == job]


def _at(seconds: float) -> str:
    return format_rfc3339(START + round(seconds * SECOND))


def _own_kinds(world: World) -> list[str]:
    commands = [CODEC.decode_command(record.value) for record in world.log.all(COMMANDS)]
    return [command.kind for command in commands if (command.command_id or "").startswith("own.")]


def _timers(world: World, kind: str) -> list[Entry]:
    """Return the timers of a kind that the index has."""
    rows = [row for rows in world.tables.index.values() for row in rows.values()]
    return [row for row in rows if is_timer(row) and note_of(row.plan).kind == kind]


@pytest.mark.parametrize("crash", [False, True])
def test_a_pause_ends_by_itself(world: World, crash: bool) -> None:
    job = world.recur({"every_s": 60, "anchor_at": _at(0)}, concurrency="allow")
    world.run(5)
    command = world.order("pause", job, until=_at(200), reason="maintenance")
    world.run(150, step_s=1)
    paused = _job(world, job)
    assert paused is not None
    assert (world.outcomes()[command].detail, str(paused.state), paused.paused_until) == (
        "paused", "PAUSED", START + 200 * SECOND,
    )  # fmt: skip
    if crash:
        world.store.lose()
        world.start()
    world.run(150, step_s=1)
    assert _state(world, job) == "ACTIVE"
    assert _nominal(world, job) == [240, 300]
    assert not work_of(world.engines[0])


def test_a_one_off_whose_time_falls_into_a_timed_pause_fires_at_its_end(world: World) -> None:
    job = world.create(in_s=30)
    world.run(1)
    world.order("pause", job, until=_at(100))
    world.run(99, step_s=1)
    assert world.fired() == []
    world.run(5, step_s=1)
    assert world.fired() == [job]


@pytest.mark.parametrize("until", ["yesterday", "2027-01-15T08:00:00", "1999-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_a_pause_until_no_time_to_come_is_refused(world: World, until: str) -> None:
    job = world.create(in_s=30)
    world.run(1)
    command = world.order("pause", job, until=until)
    other = world.order("resume", job, until=_at(100))
    world.run(40, step_s=1)
    assert [world.outcomes()[c].detail for c in (command, other)] == ["invalid", "invalid"]
    assert world.outcomes()[command].faults[0].field == "until"
    assert world.fired() == [job]


def test_another_until_replaces_the_first_and_none_takes_it_back(world: World) -> None:
    job = world.recur({"every_s": 60, "anchor_at": _at(0)}, concurrency="allow")
    world.run(1)
    orders = [world.order("pause", job, until=_at(100)), world.order("pause", job, until=_at(400))]
    world.run(290, step_s=1)
    assert _nominal(world, job) == []
    orders += [world.order("pause", job, until=_at(400)), world.order("pause", job)]
    world.run(400, step_s=1)
    assert [world.outcomes()[c].detail for c in orders] == ["paused", "paused", "unchanged", "paused"]
    assert (_nominal(world, job), _state(world, job)) == ([], "PAUSED")


def test_a_resume_or_edit_before_the_end_of_a_pause_is_not_undone_by_it(world: World) -> None:
    job = world.recur({"every_s": 60, "anchor_at": _at(0)}, concurrency="allow")
    world.run(1)
    world.order("pause", job, until=_at(100))
    world.run(5)
    world.order("resume", job)
    world.order("pause", job)
    world.run(200, step_s=1)
    assert _state(world, job) == "PAUSED"


def test_a_one_off_is_finished_once_its_run_has_ended(world: World) -> None:
    job = world.create(in_s=1)
    world.run(100, step_s=1)
    assert _state(world, job) == "ACTIVE", "its run has not ended"
    world.report(world.executions()[0])
    world.run(200, step_s=1)
    finished = _job(world, job)
    assert finished is not None
    assert str(finished.state) == "FINISHED"
    assert START + 100 * SECOND <= (finished.finished_at or 0) <= START + 102 * SECOND
    assert _own_kinds(world) == ["end"]
    assert _timers(world, "finish") == [], "nothing has to look for its end"
    assert not work_of(world.engines[0])
    assert not {id_ for id_ in world.outcomes() if id_.startswith("own.")}, "nobody waits for its outcome"


@pytest.mark.parametrize("how", ["at once", "retried", "leased", "given back", "behind", "cancelled", "lost"])
def test_that_an_execution_is_the_last_is_known_to_the_next_owners(world: World, how: str) -> None:
    """Nothing else would look for the end of its job: no timer is set where the last execution has begun."""
    policy = {"max_attempts": 3, "backoff": "fixed", "base_s": 20, "jitter": "none"}
    job = world.recur({"run_at": _at(10)}, concurrency="queue", retry=policy)
    world.run(1)
    if how == "behind":
        world.order("trigger", job)
    world.run(11, step_s=1)
    first = world.executions()[0]
    world.start()
    world.run(1)
    if how == "retried":
        world.report(first, "FAILED")
    elif how == "leased":
        world.report(first, "RUNNING", error=None)
    elif how == "given back":
        world.report(first, "RETURNED", error=None, started="no", reason="stopping")
    elif how == "lost":
        world.report(first, "RETURNED", error=None, started="maybe", reason="lost")
    elif how == "behind":
        world.report(first)
    elif how == "cancelled":
        world.order("cancel", job, execution_id=first.head.execution_id)
    world.run(1)
    world.start()
    world.run(25, step_s=1)
    assert (_state(world, job), _timers(world, "finish")) == ("ACTIVE", [])
    world.report(world.executions()[-1])
    world.run(3)
    assert (_state(world, job), _own_kinds(world)) == ("FINISHED", ["end"])
    assert not work_of(world.engines[0])


def test_many_jobs_end_by_few_commands(world: World) -> None:
    jobs = [world.create(in_s=10) for _ in range(300)]
    world.run(11, step_s=1)
    for execution in world.executions():
        world.report(execution)
    world.run(10)
    assert {_state(world, job) for job in jobs} == {"FINISHED"}
    assert len(_own_kinds(world)) <= 3


@pytest.mark.parametrize("crash", [False, True])
def test_so_many_jobs_end_at_once_and_their_rows_are_read_a_share_at_a_time(world: World, crash: bool) -> None:
    jobs = [world.create(in_s=10 + n % 3) for n in range(450)]
    world.run(14, step_s=1)
    world.store.held = True
    for number, execution in enumerate(world.executions()):
        world.report(execution)
        if number % 150 == 149:
            world.run(1)
    rows = world.engines[0].commands._rows
    assert 0 < len(rows._asked) <= AT_HAND_MAX, "whatever waits"
    assert len([one for one in world.engines[0].state.work.values() if one.kind == KIND]) == 3
    if crash:
        world.start()
        world.store.held = True
        world.run(1)
    world.store.held = False
    world.run(20, step_s=1)
    assert {_state(world, job) for job in jobs} == {"FINISHED"}
    assert not work_of(world.engines[0])


@pytest.mark.parametrize("crash", [False, True])
def test_jobs_end_once_their_rows_can_be_read_and_hold_nobody_up(world: World, crash: bool) -> None:
    jobs = [world.create(in_s=10) for _ in range(5)]
    world.run(11, step_s=1)
    world.run(3)
    world.store.held = True
    other = world.create(in_s=500)
    for execution in world.executions():
        world.report(execution)
    world.run(5)
    paused = world.order("pause", other, until=_at(1000))
    world.run(2)
    assert world.outcomes()[paused].accepted, "what can be decided does not wait for the store"
    if crash:
        world.start()
        world.store.held = True
        world.run(5)
    world.store.held = False
    world.run(20, step_s=1)
    assert {_state(world, job) for job in jobs} == {"FINISHED"}
    assert not work_of(world.engines[0])


@pytest.mark.parametrize("crash", [False, True])
def test_ends_give_way_to_a_flood_of_reports_but_not_for_ever(world: World, crash: bool) -> None:
    jobs = [world.create(in_s=10) for _ in range(20 + 80 * FLOOD)]
    world.run(11, step_s=1)
    waiting = iter(world.executions())

    def flood(steps: int) -> None:
        for _ in range(steps):
            for execution in islice(waiting, FLOOD):
                world.report(execution)
            world.run(0.25)

    for execution in islice(waiting, 20):
        world.report(execution)
    flood(20)
    assert {_state(world, job) for job in jobs} == {"ACTIVE"}
    if crash:
        world.start()
        flood(20)
    else:
        flood(30)
        ended = [_state(world, job) for job in jobs].count("FINISHED")
        assert ended > 20, "the flood has lasted for too long"
    flood(80)
    world.run(20)
    assert {_state(world, job) for job in jobs} == {"FINISHED"}
    assert not work_of(world.engines[0])


def test_an_edit_that_comes_before_its_end_is_decided_stands(world: World) -> None:
    job = world.create(in_s=1)
    world.run(5)
    world.store.held = True
    world.report(world.executions()[0])
    world.run(2)
    definition = {"schedule": {"every_s": 30, "anchor_at": _at(0)}, "target": TARGET, "concurrency": "allow"}
    world.order("update", job, definition=definition)
    world.run(5)
    world.store.held = False
    world.run(60, step_s=1)
    assert _state(world, job) == "ACTIVE"
    assert _nominal(world, job)[1:] == [30, 60]


def test_what_was_parked_before_an_end_is_decided_first() -> None:
    world = World(shards=1, limits=EngineLimits(commands_max=1))
    world.clock.set(START)
    world.start()
    busy, job = world.create(in_s=500), world.create(in_s=1)
    world.run(5)
    world.store.held = True
    definition = {"schedule": {"every_s": 30, "anchor_at": _at(0)}, "target": TARGET, "concurrency": "allow"}
    for _ in range(5):
        world.order("pause", busy, until=_at(1000))
    world.order("update", job, definition=definition)
    world.run(10)
    assert world.engines[0].commands.parking.has(job)
    world.report(world.executions()[0])
    world.run(5)
    world.store.held = False
    world.run(60, step_s=1)
    versions = [CODEC.decode_job(record.value).version for record in world.log.all(JOBS) if record.key == job.encode()]
    assert versions == sorted(versions)
    assert _state(world, job) == "ACTIVE"
    assert _nominal(world, job)[1:] == [30, 60]


def test_a_finished_job_is_removed_later_and_its_key_is_free_again(world: World) -> None:
    definition = {"delay_s": 1, "target": TARGET, "idempotency_key": "k", "finished_ttl_s": 3600}
    first = world.create_keyed(definition)
    world.run(3)
    world.report(world.executions()[0])
    world.run(60, step_s=1)
    job_id = world.outcomes()[first].job_id
    assert _state(world, job_id) == "FINISHED"
    again = world.create_keyed(definition)
    world.run(2)
    assert world.outcomes()[again].detail == "existed"
    world.start()
    world.run(3700, step_s=10)
    assert _state(world, job_id) is None
    anew = world.create_keyed(definition)
    world.run(5)
    assert world.outcomes()[anew].detail == "created"
    assert len(world.fired()) == 2
    assert len({e.head.execution_id for e in world.executions()}) == 2


def test_by_default_a_finished_job_is_kept_for_a_week(world: World) -> None:
    job = world.create(in_s=1)
    world.run(2)
    world.report(world.executions()[0])
    world.run(60, step_s=1)
    world.run(7 * 86_400 - 120, step_s=600)
    assert _state(world, job) == "FINISHED"
    world.run(600, step_s=5)
    assert _state(world, job) is None


def test_what_a_finished_job_still_takes(world: World) -> None:
    job = world.create(in_s=1)
    world.run(2)
    world.report(world.executions()[0])
    world.run(60, step_s=1)
    paused = world.order("pause", job)
    resumed = world.order("resume", job)
    triggered = world.order("trigger", job)
    moved = world.order("update", job, definition={"delay_s": 60, "target": TARGET})
    renamed = world.order("update", job, definition={"run_at": _at(1), "target": TARGET, "name": "renamed"})
    world.run(5)
    outcomes = world.outcomes()
    assert [outcomes[c].detail for c in (paused, resumed, triggered, moved, renamed)] == [
        "finished", "unchanged", "triggered", "finished", "updated",
    ]  # fmt: skip
    world.report(world.executions()[-1])
    world.run(60, step_s=1)
    assert _state(world, job) == "FINISHED"
    recurring = world.order("update", job, definition={"schedule": {"every_s": 30}, "target": TARGET})
    world.run(100, step_s=1)
    assert (world.outcomes()[recurring].detail, _state(world, job)) == ("updated", "ACTIVE")
    assert len(world.executions()) == 3
    deleted = world.delete(job)
    world.run(3)
    assert world.outcomes()[deleted].detail == "prevented"


@pytest.mark.parametrize("kind", ["suspend", "finish", "remove", "end"])
def test_nobody_but_the_owner_gives_its_commands(world: World, kind: str) -> None:
    job = world.create(in_s=100)
    world.run(3)
    version = world.outcomes()["c1"].version
    number = world.engines[0].state.number
    for n in range(30):
        guess = f"own.1.0.{number + n // 10}.{n % 10}"
        world.send(Command(kind, guess, job, None, 0, if_version=version, reason="forged"), shard=0)
    world.order(kind, job)
    world.run(120, step_s=1)
    assert world.fired() == [job]
    forged = [o for o in world.outcomes().values() if o.kind == kind]
    assert len(forged) >= 30
    assert {o.detail for o in forged} == {"invalid"}
    assert "owner only" in str(forged[0].faults[0])


def test_a_copy_of_an_own_command_has_no_effect(world: World) -> None:
    job = world.recur({"every_s": 50, "anchor_at": _at(0)}, concurrency="allow")
    world.run(1)
    world.order("pause", job, until=_at(20))
    world.run(25)
    own = [r for r in world.log.all(COMMANDS) if b"own." in (r.value or b"")]
    assert len(own) == 1
    world.order("pause", job)
    world.log.append(COMMANDS, 0, job, own[0].value)
    world.run(100, step_s=1)
    assert _state(world, job) == "PAUSED"


@pytest.mark.parametrize("damage", [{"lane": "nowhere"}, {"plan": '{"cron":"* * * * *","tz":"No/Where"}'}])
def test_a_damaged_row_suspends_its_job_which_goes_on_when_resumed(world: World, damage: dict[str, object]) -> None:
    job = world.recur({"every_s": 300, "anchor_at": _at(0)}, concurrency="allow")
    other = world.create(in_s=310)
    world.run(1)
    [(place, rows)] = [(p, rows) for p, rows in world.tables.index.items() if any(k.job_id == job for k in rows)]
    for key in [key for key in rows if key.job_id == job]:
        world.tables.index[place][key] = rows[key]._replace(**damage)
    world.run(320, step_s=1)
    assert world.fired() == [other]
    assert world.dead_letters() == ["entry"]
    suspended = _job(world, job)
    assert suspended is not None
    assert str(suspended.state) == "PAUSED"
    assert (suspended.paused_reason or "").startswith("suspended: ")
    world.order("resume", job)
    world.run(600, step_s=1)
    assert [n for n in _nominal(world, job) if n > 320] == [600, 900]


def test_deleting_cancels_a_pending_retry_and_says_so(world: World) -> None:
    world.recur({"every_s": 5000}, retry=RETRIED)
    job = world.create_keyed({"delay_s": 1, "target": TARGET, "retry": RETRIED, "idempotency_key": "k"})
    world.run(2)
    world.report(world.executions()[0], "FAILED")
    world.run(2)
    job_id = world.outcomes()[job].job_id
    deleted = world.delete(job_id)
    world.run(1300, step_s=5)
    assert world.outcomes()[deleted].detail == "retry_cancelled"
    assert len(world.executions()) == 1
    assert list(world.states().values()) == ["CANCELLED"]
    assert not world.engines[0].state.active


@pytest.mark.parametrize("crash", [False, True])
def test_deleting_lets_a_running_attempt_finish_and_makes_no_other(world: World, crash: bool) -> None:
    job = world.create_keyed({"delay_s": 1, "target": TARGET, "retry": RETRIED, "idempotency_key": "k"})
    world.run(2)
    job_id = world.outcomes()[job].job_id
    deleted = world.delete(job_id)
    world.run(2)
    assert world.outcomes()[deleted].detail == "already_fired"
    if crash:
        world.start()
        world.run(1)
    world.report(world.executions()[0], "FAILED")
    world.run(1300, step_s=5)
    assert len(world.executions()) == 1
    assert list(world.states().values()) == ["DEAD"]


@pytest.mark.parametrize("started", ["no", "maybe"])
def test_an_attempt_that_was_lost_or_given_back_is_made_again_though_its_job_is_deleted(
    world: World, started: str
) -> None:
    job = world.create_keyed({"delay_s": 1, "target": TARGET, "retry": RETRIED, "idempotency_key": "k"})
    world.run(2)
    world.report(world.executions()[0], "RETURNED", error=None, started="maybe", reason="lost")
    world.run(1)
    world.report(world.executions()[1], "RETURNED", error=None, started=started, reason="lost")
    world.run(1)
    assert len(world.executions()) == 2, "it waits"
    deleted = world.delete(world.outcomes()[job].job_id)
    world.run(30)
    assert world.outcomes()[deleted].detail == "already_fired"
    world.report(world.executions()[2], "FAILED")
    world.run(1300, step_s=5)
    assert len(world.executions()) == 3
    assert list(world.states().values()) == ["DEAD"]


def test_an_own_command_that_never_comes_back_is_kept(world: World) -> None:
    """What is noted survives a takeover as it is, and a snapshot."""
    job = world.create(in_s=50)
    world.run(1)
    item = WorkItem("own.1.0.9.9", "own", None, '["finish", "x", 1, null]')
    world.engines[0].state.work[item.id] = item
    world.order("pause", job, until=_at(30))
    world.run(29)
    assert item.id in world.engines[0].state.work


@pytest.mark.parametrize("seed", range(SEEDS))
def test_storm_of_ends(seed: int) -> None:
    """Takeovers and outages while jobs end, pauses end and jobs are removed: all come to rest, nothing fires twice."""
    chance = random.Random(seed)
    world = World(shards=1)
    world.clock.set(START)
    world.start()
    jobs = [
        world.recur({"run_at": _at(chance.randrange(1, 120))}, finished_ttl_s=chance.choice([0, 60, 300]))
        for _ in range(8)
    ]
    ticking = world.recur({"every_s": 10}, concurrency="allow")
    reported: set[str] = set()
    for _ in range(40):
        deed, job = chance.random(), chance.choice(jobs)
        if deed < 0.2:
            world.order("pause", job, until=format_rfc3339(world.clock.now() + chance.randrange(1, 60) * SECOND))
        elif deed < 0.3:
            held = world.store.held
            world.start()
            world.store.held = held
        elif deed < 0.4:
            world.store.held = not world.store.held
        elif deed < 0.5:
            world.order("trigger", job)
        for execution in world.executions():
            if execution.head.execution_id not in reported and chance.random() < 0.4:
                reported.add(execution.head.execution_id)
                world.report(execution)
        world.run(chance.choice([0.5, 3, 8]), step_s=0.5)
    world.store.held = False
    world.delete(ticking)
    for _ in range(3):
        world.run(200, step_s=1)
        for execution in world.executions():
            if execution.head.execution_id not in reported:
                reported.add(execution.head.execution_id)
                world.report(execution)
    world.run(1500, step_s=5)
    world.settle(30)
    names = [e.head.execution_id for e in world.executions()]
    assert len(set(names)) == len(names)
    scheduled = {name.split(".")[0] for name in names if ".t" not in name}
    scheduled |= {name.split(".")[0] for name, state in world.states().items() if state == "SKIPPED"}
    assert scheduled >= set(jobs), "each fired, late at worst"
    assert {_state(world, job) for job in jobs} == {None}, "each is removed in the end"
    state = world.engines[0].state
    assert not work_of(world.engines[0])
    assert not state.parked
    assert not state.active


def test_a_rebuilt_index_looks_for_the_ends_of_jobs_again(world: World) -> None:
    job = world.create(in_s=1)
    world.run(5)
    world.tables.index.clear()
    world.send(Command("rebuild_index", "again", None, None, 0), shard=0)
    world.report(world.executions()[0])
    world.start()
    world.run(60, step_s=1)
    assert _state(world, job) == "FINISHED"


def test_an_owners_own_command_that_waits_for_a_row_makes_nothing_late(world: World) -> None:
    """A look for the end of what the job was before an edit is stale; what the job is now fires on time."""
    job = world.create(in_s=1)
    world.run(2)
    definition = {"schedule": {"every_s": 30, "anchor_at": _at(0)}, "target": TARGET, "concurrency": "allow"}
    world.order("update", job, definition=definition)
    world.report(world.executions()[0])
    world.run(4)
    world.store.held = True
    world.run(60, step_s=1)
    assert _nominal(world, job) == [1, 30, 60]
    world.store.held = False
    world.run(5)
    assert (_state(world, job), work_of(world.engines[0])) == ("ACTIVE", [])
