"""Partitions that go, commits that fail, attempts that do not end, and the worker's own end."""

from __future__ import annotations

import pytest

from tests.unit.worker.worker_world import World
from tocsin.domain.executions import ReportKind
from tocsin.engine.offset_metadata import decode_marks
from tocsin.ports.dispatch_log import CommitOutcome, Mark


def test_a_polite_handover_waits_for_reports_and_tells_the_successor_all() -> None:
    world = World(partitions=2)
    world.dispatch("a", partition=0)
    world.dispatch("b", partition=1)
    first = world.worker()
    first.steps()
    first.sink.held = True
    first.runner.finish(*first.runner.running)
    first.steps()
    second = world.worker("w2")
    first.sink.held = False
    first.steps()
    assert world.lane.committed[1] == (1, "")
    second.steps(3)
    assert second.started == []


def test_a_handover_is_bounded_and_what_still_runs_is_started_again_by_the_successor() -> None:
    world = World(partitions=2)
    world.dispatch("a", "a2", partition=1)
    world.dispatch("b", partition=0)
    first = world.worker()
    first.steps()
    assert sorted(first.started) == ["a", "a2", "b"]
    second = world.worker("w2")
    before = world.clock.seconds
    first.steps()
    assert 3.0 <= world.clock.seconds - before < 4.0
    assert [a.execution.head.job_id for a in first.runner.running] == ["b"], (
        "what goes is cancelled, what stays goes on"
    )
    second.steps()
    assert second.redelivered == ["a", "a2"]
    first.steps(3)
    assert first.reports == [], "an attempt whose assignment is over reports nothing"


def test_what_was_marked_and_not_started_is_not_begun_for_the_successor() -> None:
    world = World(partitions=2)
    world.dispatch("a", partition=1)
    first = world.worker()
    world.lane.answers.append(CommitOutcome.REFUSED)
    first.steps()
    second = world.worker("w2")
    first.steps()
    assert first.started == []
    second.steps()
    assert (second.started, second.redelivered) == (["a"], [])


def test_lost_partitions_are_dropped_without_a_commit() -> None:
    world = World()
    world.dispatch("a", "b")
    worker = world.worker()
    worker.steps()
    commits = world.lane.commits
    world.lane.expel(worker.log)
    worker.steps()
    assert world.lane.commits == commits + 1, "only what starts again under the new assignment is marked"
    assert worker.started == ["a", "b", "a", "b"]
    assert worker.redelivered == ["a", "b"]


def test_an_end_under_an_old_assignment_settles_nothing_under_the_new_one() -> None:
    world = World()
    world.dispatch("a", "b")
    worker = world.worker()
    worker.runner.stubborn = True
    worker.steps()
    old = list(worker.runner.running)
    world.lane.expel(worker.log)
    worker.steps()
    worker.runner.finish(*old)
    worker.steps(3)
    assert worker.reports == []
    assert world.marks().begun == {0, 1}
    worker.runner.finish_all()
    worker.steps(3)
    assert len(worker.reports) == 2
    assert world.offset() == 2


def test_an_acknowledgement_under_an_old_assignment_settles_nothing_under_the_new_one() -> None:
    world = World()
    world.dispatch("a")
    worker = world.worker()
    worker.steps()
    worker.sink.held = True
    worker.runner.finish_all()
    worker.steps()
    world.lane.expel(worker.log)
    worker.steps()
    worker.sink.held = False
    worker.steps(2)
    assert (world.offset(), world.marks().begun) == (0, frozenset({0}))
    worker.runner.finish_all()
    worker.steps(2)
    assert world.offset() == 1


def test_a_zombie_commits_nothing_and_starts_nothing() -> None:
    world = World()
    world.dispatch("a")
    first = world.worker()
    first.steps()
    world.lane.expel(first.log)
    second = world.worker("w2")
    second.steps()
    world.dispatch("b", "c")
    committed = dict(world.lane.committed)
    assert first.log.commit([Mark(0, 9, "")]) is CommitOutcome.REFUSED
    assert world.lane.committed == committed
    first.steps()
    assert first.started == ["a"], "the partition is the successor's"


def test_after_a_refusal_what_is_still_owned_is_committed_and_started() -> None:
    world = World(partitions=2)
    world.dispatch("a", partition=0)
    world.dispatch("b", partition=1)
    first = world.worker()
    first.steps()
    world.dispatch("c", partition=0)
    world.dispatch("d", partition=1)
    first.runner.finish_all()
    world.lane.answers.append(CommitOutcome.REFUSED)
    first.steps()
    second = world.worker("w2")
    first.steps(2)
    second.steps(2)
    assert sorted(first.started) == ["a", "b", "c"]
    assert second.started == ["d"]
    assert not second.redelivered
    assert first.meter.counts["refused"] == 1


def test_after_a_commit_of_unknown_outcome_nothing_starts_until_the_group_is_joined_anew() -> None:
    world = World()
    world.dispatch("a")
    worker = world.worker()
    worker.steps()
    world.dispatch("b", "c")
    world.lane.answers.append(CommitOutcome.UNKNOWN)
    epoch_before = worker.loop._lanes[0].partitions[0].epoch
    worker.steps()
    world.clock.seconds += 2
    worker.steps(3)
    assert worker.started == ["a"], "a later acknowledged commit is not enough: the lost one may yet overwrite it"
    worker.runner.finish_all()
    world.clock.seconds += 2
    worker.steps(3)
    assert worker.loop._lanes[0].partitions[0].epoch > epoch_before
    assert worker.started == ["a", "b", "c"]
    assert worker.redelivered == []
    assert len(worker.reports) == 1


def test_a_long_attempt_delays_the_rejoin_only_so_long() -> None:
    world = World(suspect_max_s=20.0)
    world.dispatch("a")
    worker = world.worker()
    worker.steps()
    world.dispatch("b")
    world.lane.answers.append(CommitOutcome.UNKNOWN)
    worker.steps()
    world.clock.seconds += 19
    worker.steps()
    assert worker.started == ["a"]
    world.clock.seconds += 2
    worker.steps(2)
    assert worker.started == ["a", "a", "b"]
    assert worker.redelivered == ["a"]


def test_a_process_that_slept_over_its_commit_commits_again_before_it_starts() -> None:
    world = World()
    world.dispatch("a")
    worker = world.worker()
    commit = worker.log.commit

    def sleepy(marks: list[Mark]) -> CommitOutcome:
        outcome = commit(marks)
        if world.lane.commits == 1:
            world.clock.seconds += 60
            world.lane.expel(worker.log)
        return outcome

    worker.log.commit = sleepy  # type: ignore[method-assign, assignment]
    worker.loop.step()
    assert world.lane.commits == 2
    assert worker.started == [], "the group had moved on while the process slept"


def test_a_slow_broker_does_not_keep_attempts_from_starting() -> None:
    world = World()
    world.dispatch("a")
    worker = world.worker()
    commit = worker.log.commit

    def slow(marks: list[Mark]) -> CommitOutcome:
        world.clock.seconds += 6
        return commit(marks)

    worker.log.commit = slow  # type: ignore[method-assign, assignment]
    worker.loop.step()
    assert worker.started == ["a"]
    assert world.lane.commits == 2


def test_an_attempt_that_cannot_be_stopped_is_reported_settled_and_counted() -> None:
    world = World(stuck_attempts_max=2, overdue_s=10.0)
    world.dispatch("a", "b", timeout_s=30.0)
    worker = world.worker()
    worker.runner.stubborn = True
    worker.steps()
    world.clock.seconds += 39
    worker.steps()
    assert worker.reports == []
    world.clock.seconds += 2
    worker.steps(3)
    assert [r.kind for r in worker.reports] == [ReportKind.TIMED_OUT] * 2
    assert world.offset() == 2
    assert worker.must_recycle()
    worker.runner.finish(worker.runner.running[0])
    worker.steps()
    assert not worker.must_recycle(), "one did end after all"
    assert len(worker.reports) == 2


def test_stuck_attempts_leave_room_for_others() -> None:
    world = World(overdue_s=10.0)
    world.dispatch("a", "b", "c", "d", "e", timeout_s=1.0)
    worker = world.worker()
    worker.runner.stubborn = True
    worker.steps(2)
    assert len(worker.started) == 4
    world.clock.seconds += 12
    worker.steps(2)
    assert worker.started[-1] == "e"


def test_abandoned_attempts_hold_their_places_until_they_end() -> None:
    world = World()
    world.dispatch("a", "b", "c", "d")
    worker = world.worker()
    worker.runner.stubborn = True
    worker.steps()
    old = list(worker.runner.running)
    world.lane.expel(worker.log)
    worker.steps(2)
    assert len(worker.started) == 4
    worker.runner.finish(*old)
    worker.steps()
    assert worker.redelivered == ["a", "b", "c", "d"]


def test_a_stop_lets_what_runs_end_and_starts_nothing_new() -> None:
    world = World()
    world.dispatch(*"abcdefgh")
    worker = world.worker()
    worker.steps()
    worker.loop.stop_taking()
    worker.runner.finish(worker.runner.running[0])
    worker.steps(3)
    assert not worker.is_drained()
    worker.runner.finish_all()
    worker.steps(2)
    assert worker.is_drained()
    worker.loop.close()
    assert worker.started == ["a", "b", "c", "d"]
    assert world.lane.committed[0] == (4, "")
    second = world.worker("w2")
    second.steps()
    assert (second.started, second.redelivered) == (["e", "f", "g", "h"], [])


def test_a_stop_whose_grace_is_over_leaves_the_rest_begun() -> None:
    world = World()
    world.dispatch("a", "b")
    worker = world.worker()
    worker.steps()
    worker.loop.stop_taking()
    worker.loop.close()
    second = world.worker("w2")
    second.steps()
    assert second.redelivered == ["a", "b"]


@pytest.mark.parametrize("polite", [True, False])
def test_takeovers_are_counted_only_when_they_were_not_polite(polite: bool) -> None:
    world = World()
    world.dispatch("a")
    for turn in range(3):
        worker = world.worker(f"w{turn}")
        worker.steps()
        if polite:
            worker.loop.close()
        else:
            world.lane.expel(worker.log)
    assert decode_marks(world.lane.committed[0][1]).takeovers == (0 if polite else 2)


def test_the_count_of_takeovers_is_written_before_anything_is_decoded() -> None:
    world = World()
    world.lane.committed[0] = (0, "")
    worker = world.worker()
    worker.steps()
    assert world.marks().takeovers == 1
