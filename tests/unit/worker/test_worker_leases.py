"""Leases from the worker's side: what lasts belongs to the process that runs it, and to nobody else."""

from __future__ import annotations

from tests.unit.worker.worker_world import Worker, World
from tocsin.domain.executions import ReportKind


def seven_of_ten(running: int) -> tuple[World, Worker]:
    """Make a worker with room for ``running``, that received ten records and whose first seven have just ended."""
    world = World(running_max=running)
    world.dispatch(*(f"j{n}" for n in range(10)))
    worker = world.worker()
    worker.steps()
    assert len(worker.started) == running
    for n in range(7):
        worker.finish(f"j{n}")
    return world, worker


def test_what_had_not_begun_at_a_revoke_goes_to_the_new_owner() -> None:
    world, first = seven_of_ten(running=7)
    first.loop.close()
    assert [job for job, _, _ in first.said] == [f"j{n}" for n in range(7)]
    assert world.lane.committed[0] == (7, "")
    second = world.worker("w2")
    second.steps()
    assert (second.started, second.said, second.redelivered) == (["j7", "j8", "j9"], [], [])


def test_what_runs_at_a_revoke_goes_on_under_a_lease_and_the_new_owner_runs_the_rest() -> None:
    world, first = seven_of_ten(running=8)
    first.loop.leave()
    assert first.said[-1] == ("j7", "RUNNING", None)
    assert world.lane.committed[0] == (8, "")
    second = world.worker("w2")
    second.steps()
    assert (second.started, second.said) == (["j8", "j9"], [])
    first.runner.finish_all()
    first.drain(2)
    assert first.said[-1] == ("j7", "SUCCEEDED", None)


def test_what_ran_when_its_worker_was_killed_is_told_to_its_owner_and_not_run() -> None:
    world, first = seven_of_ten(running=8)
    first.loop._attempts.collect(0.0)  # their reports are in the log, and nothing of it is committed
    world.lane.expel(first.log)
    second = world.worker("w2")
    second.steps(3)
    assert second.started == ["j8", "j9"]
    assert second.said == [(f"j{n}", "RETURNED", "predecessor") for n in range(8)], "seven of them are stale"


def test_a_task_longer_than_any_session_completes_once() -> None:
    world = World(partitions=2)
    world.dispatch("long", partition=1, timeout_s=900.0)
    first = world.worker()
    first.steps()
    second = world.worker("w2")
    for second_of_it in range(420):
        world.clock.seconds += 1
        first.steps()
        second.steps()
        if second_of_it == 200:
            world.lane.expel(first.log)
    first.runner.finish_all()
    first.steps(2)
    second.steps(2)
    assert first.started + second.started == ["long"]
    assert first.said == [("long", "RUNNING", None), ("long", "SUCCEEDED", None)]
    assert second.said == []


def test_a_short_attempt_needs_no_lease_and_a_long_one_exactly_one() -> None:
    world = World(lease_after_s=5.0)
    world.dispatch("short", "long")
    worker = world.worker()
    worker.steps()
    world.clock.seconds += 4.5
    worker.steps()
    worker.finish("short")
    worker.steps(2)
    assert worker.said == [("short", "SUCCEEDED", None)]
    world.clock.seconds += 2
    worker.steps(2)
    assert worker.said[1:] == [("long", "RUNNING", None)]
    assert world.lane.committed[0] == (2, "")
    for _ in range(10):
        world.clock.seconds += 2
        worker.steps()
    assert len(worker.said) == 2
    assert worker.meter.counts["leased"] == 1


def test_a_lease_settles_only_once_it_is_acknowledged() -> None:
    world = World()
    world.dispatch("long")
    worker = world.worker()
    worker.steps()
    worker.sink.held = True
    world.clock.seconds += 6
    worker.steps(3)
    assert (world.offset(), world.marks().begun) == (0, frozenset({0}))
    worker.sink.held = False
    worker.steps(2)
    assert world.lane.committed[0] == (1, "")


def test_an_end_may_overtake_the_acknowledgement_of_its_lease() -> None:
    world = World()
    world.dispatch("long")
    worker = world.worker()
    worker.steps()
    worker.sink.held = True
    world.clock.seconds += 6
    worker.steps()
    worker.runner.finish_all()
    worker.steps()
    worker.sink.held = False
    worker.steps(2)
    assert worker.said == [("long", "RUNNING", None), ("long", "SUCCEEDED", None)]
    assert world.lane.committed[0] == (1, "")
    assert worker.is_drained()


def test_a_leased_attempt_that_runs_into_its_limit_is_reported_as_timed_out() -> None:
    world = World(overdue_s=10.0)
    world.dispatch("long", timeout_s=30.0)
    worker = world.worker()
    worker.runner.stubborn = True
    worker.steps()
    world.clock.seconds += 6
    worker.steps(2)
    world.clock.seconds += 35
    worker.steps(2)
    assert worker.said == [("long", "RUNNING", None), ("long", "TIMED_OUT", None)]
    started = worker.reports[0].started_at
    assert worker.reports[1].started_at == started, "the limit counts from the start, not from the lease"


def test_what_its_target_has_accepted_is_settled_and_takes_no_room() -> None:
    world = World(running_max=1)
    world.dispatch("j0", "j1", timeout_s=900.0)
    worker = world.worker()
    worker.steps()
    worker.finish("j0", kind=ReportKind.ACCEPTED)
    worker.steps(3)
    assert worker.said == [("j0", "ACCEPTED", None)]
    assert worker.reports[0].timeout_s == 900.0
    assert worker.started == ["j0", "j1"]
    assert world.offset() == 1, "the owner waits for the callback; nothing here does"


def test_two_dispatches_of_one_execution_are_two_attempts_and_each_report_says_which() -> None:
    """Silent for too long, a holder may be given what it still runs, under the next token."""
    world = World()
    world.dispatch("a", token=1, timeout_s=300.0)
    worker = world.worker()
    worker.steps()
    world.clock.seconds += 6
    worker.steps()
    world.clock.seconds += 30
    world.dispatch("a", token=2, losses=1, timeout_s=300.0)
    worker.steps()
    world.clock.seconds += 6
    worker.steps()
    assert worker.redelivered == ["a"]
    old, new = worker.runner.running
    worker.runner.finish(old)
    worker.steps(2)
    said = [(r.kind, r.head.token, r.redelivered) for r in worker.reports]
    assert said == [
        (ReportKind.RUNNING, 1, False),
        (ReportKind.RUNNING, 2, True),
        (ReportKind.SUCCEEDED, 1, False),
    ], "the first is stale to the owner, which still waits for the second"
    worker.runner.finish(new)
    worker.steps(2)
    assert (worker.reports[-1].kind, worker.reports[-1].head.token) == (ReportKind.SUCCEEDED, 2)


def test_a_message_target_that_strayed_into_this_lane_fails_and_stalls_nobody() -> None:
    world = World()
    world.dispatch_message("m")
    world.dispatch("a")
    worker = world.worker()
    worker.steps()
    worker.runner.finish_all()
    worker.steps(2)
    assert worker.started == ["a"]
    (failed,) = [r for r in worker.reports if r.kind == ReportKind.FAILED]
    assert failed.head.job_id == "m"
    assert failed.error is not None
    assert "does not run in this lane" in failed.error.message
    assert world.offset() == 2
