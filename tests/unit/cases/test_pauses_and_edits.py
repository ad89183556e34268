"""Cases of pausing and editing. The id of the case is in the test's name."""

from __future__ import annotations

from tests.unit.cases.test_misfire import EVERY_MINUTE, begun, times
from tests.unit.trigger.world import CODEC, TARGET, World
from tocsin.domain.coming import next_run_at
from tocsin.domain.instants import DAY, MINUTE, SECOND, Micros, format_rfc3339, parse_rfc3339
from tocsin.domain.jobs import Job


def at(text: str) -> Micros:
    return parse_rfc3339(f"2027-01-{text}Z")


def upto(world: World, instant: Micros) -> None:
    """Let time go on up to an instant, in steps of at most five seconds."""
    world.run((instant - world.clock.now()) / SECOND, step_s=5)


def job_after(world: World, command_id: str) -> Job:
    return CODEC.decode_job(world.outcomes()[command_id].job)


def test_pau_1_paused_at_11_31_resumed_at_11_35_20() -> None:
    world = begun(at("15T11:29:30"))
    job = world.recur(EVERY_MINUTE, catch_up="skip", concurrency="allow")
    upto(world, at("15T11:31:00") + SECOND)
    world.order("pause", job)
    upto(world, at("15T11:35:20"))
    world.order("resume", job)
    upto(world, at("15T11:36:30"))
    assert times(world, job) == [at(f"15T11:{minute}:00") for minute in (30, 31, 36)]


def test_pau_3_the_next_slot_after_a_resume_and_a_resume_of_what_is_not_paused() -> None:
    world = begun(at("15T06:48:00"))
    job = world.recur({"cron": "*/5 * * * *", "timezone": "UTC"}, concurrency="allow")
    upto(world, at("15T06:50:01"))
    world.order("pause", job)
    upto(world, at("15T07:08:00"))
    resumed = world.order("resume", job)
    world.run(1)
    assert next_run_at(job_after(world, resumed), world.clock.now()) == at("15T07:10:00")
    again = world.order("resume", job)
    world.run(1)
    assert world.outcomes()[again].detail == "unchanged"
    assert next_run_at(job_after(world, again), world.clock.now()) == at("15T07:10:00")
    upto(world, at("15T07:10:30"))
    assert times(world, job) == [at("15T06:50:00"), at("15T07:10:00")]


def test_upd_1_a_monthly_job_that_ran_is_moved_to_a_day_that_has_passed() -> None:
    world = begun(at("09T23:59:00"))
    job = world.recur({"cron": "0 0 10 * *", "timezone": "UTC"}, concurrency="allow")
    upto(world, at("10T00:00:30"))
    assert times(world, job) == [at("10T00:00:00")]
    world.clock.advance(2 * DAY / SECOND)
    world.start()
    world.settle(1_500)
    moved = {"cron": "0 0 11 * *", "timezone": "UTC"}
    command = world.order("update", job, definition={"schedule": moved, "target": TARGET})
    world.run(120, step_s=5)
    assert times(world, job) == [at("10T00:00:00")], "an edit never fires"
    assert next_run_at(job_after(world, command), world.clock.now()) == parse_rfc3339("2027-02-11T00:00:00Z")


def test_upd_3_a_yearly_job_becomes_one_of_every_minute() -> None:
    world = begun(at("15T10:00:00"))
    job = world.recur({"cron": "0 0 1 1 *", "timezone": "UTC"}, concurrency="allow")
    upto(world, at("15T10:00:10"))
    command = world.order(
        "update", job, definition={"schedule": EVERY_MINUTE, "target": TARGET, "concurrency": "allow"}
    )
    world.run(1)
    assert next_run_at(job_after(world, command), world.clock.now()) == at("15T10:01:00")
    entries = [entry for rows in world.tables.index.values() for entry in rows.values() if entry.job_id == job]
    assert [format_rfc3339(entry.run_at) for entry in entries] == ["2027-01-15T10:01:00Z"], "one index entry"
    upto(world, at("15T10:03:10"))
    assert times(world, job) == [at("15T10:01:00") + n * MINUTE for n in range(3)]
