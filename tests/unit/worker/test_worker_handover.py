"""Partitions that go, commits that fail, attempts that do not end, and the worker's own end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.worker.worker_world import World
from tocsin.domain.executions import ReportKind
from tocsin.engine.offset_metadata import decode_marks
from tocsin.ports.dispatch_log import CommitOutcome, Mark
from tocsin.roles.worker.attempts import Asked


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


def test_a_handover_is_bounded_and_what_gets_no_lease_in_time_is_killed_and_returned() -> None:
    world = World(partitions=2)
    world.dispatch("a", "a2", partition=1)
    world.dispatch("b", partition=0)
    first = world.worker()
    first.steps()
    assert sorted(first.started) == ["a", "a2", "b"]
    second = world.worker("w2")
    first.sink.held = True
    before = world.clock.seconds
    first.steps()
    assert 3.0 <= world.clock.seconds - before < 4.0
    assert first.running == ["b"], "what goes is killed, what stays goes on"
    first.sink.held = False
    first.steps(2)
    assert first.said == [(job, kind, reason) for kind, reason in (("RUNNING", None), ("RETURNED", "revoked"))
                          for job in ("a", "a2")]  # fmt: skip
    second.steps(2)
    assert second.started == []
    assert second.said == [("a", "RETURNED", "predecessor"), ("a2", "RETURNED", "predecessor")]


def test_what_runs_when_its_partition_goes_goes_on_under_a_lease() -> None:
    world = World(partitions=2)
    world.dispatch("a", "waiting", partition=1, timeout_s=100.0)
    first = world.worker()
    world.limits = replace(world.limits, running_max=1)
    first.steps()
    second = world.worker("w2")
    first.steps()
    assert first.said == [("a", "RUNNING", None), ("waiting", "RUNNING", None)]
    running = first.reports[0]
    assert (running.timeout_s, running.started_at, running.redelivered) == (100.0, 1_000_000_000, False)
    assert world.lane.committed[1] == (2, ""), "a lease settles"
    second.steps(3)
    assert (second.started, second.said) == ([], [])
    first.finish("a")
    first.steps(2)
    ended = first.reports[-1]
    assert (ended.kind, ended.head, ended.head_bytes) == ("SUCCEEDED", running.head, running.head_bytes)


def test_what_is_killed_in_a_handover_is_settled_by_its_return_if_that_is_in_time() -> None:
    world = World()
    world.dispatch("a")
    first = world.worker()
    first.steps()
    acknowledged = first.sink.acknowledged
    first.sink.acknowledged = lambda wait_s: [  # type: ignore[method-assign]
        sent for sent in acknowledged(wait_s) if not isinstance(sent, Asked)
    ]
    first.loop.close()
    assert first.said == [("a", "RUNNING", None), ("a", "RETURNED", "stop")]
    assert world.lane.committed[0] == (1, "")


def test_a_lease_holds_though_the_handover_commit_is_refused() -> None:
    world = World(partitions=2)
    world.dispatch("a", partition=1)
    first = world.worker()
    first.steps()
    second = world.worker("w2")
    world.lane.answers.append(CommitOutcome.REFUSED)
    first.steps()
    assert first.running == ["a"]
    second.steps(2)
    assert second.said == [("a", "RETURNED", "predecessor")], "its owner knows better, and ignores it"
    first.finish("a")
    first.steps(2)
    assert first.said == [("a", "RUNNING", None), ("a", "SUCCEEDED", None)]


def test_what_ends_while_its_partition_goes_is_reported_as_it_ended() -> None:
    world = World()
    world.dispatch("a")
    worker = world.worker()
    worker.steps()
    world.lane.expel(worker.log)
    worker.runner.stubborn = True
    worker.steps()
    worker.finish("a")
    worker.steps(2)
    assert worker.said == [("a", "SUCCEEDED", None)], "the owner decides what it is worth"


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


def test_what_runs_without_a_lease_in_a_lost_partition_is_killed_and_returned() -> None:
    world = World()
    world.dispatch("a", "b")
    worker = world.worker()
    worker.steps()
    commits = world.lane.commits
    world.lane.expel(worker.log)
    worker.steps()
    assert world.lane.commits == commits + 1, "no commit for what is lost; one under the new assignment"
    worker.steps(3)
    assert worker.started == ["a", "b"]
    assert worker.said[:2] == [("a", "RETURNED", "lost"), ("b", "RETURNED", "lost")]
    assert worker.said[2:] == [("a", "RETURNED", "predecessor"), ("b", "RETURNED", "predecessor")], "stale by now"
    assert world.lane.committed[0] == (2, "")


def test_a_lease_survives_the_loss_of_its_partition_and_its_return_to_this_very_worker() -> None:
    world = World()
    world.dispatch("a")
    worker = world.worker()
    worker.steps()
    world.clock.seconds += 6
    world.lane.answers.extend([CommitOutcome.REFUSED] * 2)  # the settled offset is not written before the loss
    worker.steps(2)
    assert world.marks().begun == {0}
    world.lane.expel(worker.log)
    worker.steps(3)
    assert (worker.running, worker.said) == (["a"], [("a", "RUNNING", None)])
    assert world.lane.committed[0] == (1, "")
    worker.finish("a")
    worker.steps(2)
    assert worker.said[1:] == [("a", "SUCCEEDED", None)]


def test_what_cannot_be_stopped_in_time_is_returned_all_the_same() -> None:
    world = World(overdue_s=10.0)
    world.dispatch("a", timeout_s=300.0)
    worker = world.worker()
    worker.runner.stubborn = True
    worker.steps()
    world.lane.expel(worker.log)
    worker.steps()
    world.clock.seconds += 9
    worker.steps()
    assert worker.said == []
    assert world.marks().begun == {0}, "it settles with its report, not before"
    world.clock.seconds += 2
    worker.steps(3)
    assert worker.said == [("a", "RETURNED", "lost")]
    assert world.lane.committed[0] == (1, "")
    worker.runner.finish_all()
    worker.steps(2)
    assert len(worker.said) == 1


def test_what_comes_again_while_its_report_is_under_way_settles_with_that_report() -> None:
    world = World()
    world.dispatch("a")
    worker = world.worker()
    worker.steps()
    worker.sink.held = True
    worker.runner.finish_all()
    worker.steps()
    world.lane.expel(worker.log)
    worker.steps(3)
    assert (world.offset(), world.marks().begun) == (0, frozenset({0}))
    worker.sink.held = False
    worker.steps(2)
    assert worker.said == [("a", "SUCCEEDED", None)]
    assert world.lane.committed[0] == (1, "")


def test_an_acknowledgement_under_an_old_assignment_settles_nothing_that_came_since() -> None:
    world = World()
    world.dispatch("a")
    worker = world.worker()
    worker.steps()
    worker.sink.held = True
    worker.runner.finish_all()
    worker.steps()
    world.lane.expel(worker.log)
    world.lane.logs[0].clear()  # the record is gone; another stands at its offset
    world.lane.ends[0] = 0
    world.dispatch("b")
    world.lane.committed[0] = (0, "")
    worker.steps()
    assert worker.running == ["b"]
    worker.sink.held = False
    worker.steps(2)
    assert world.marks().begun == {0}


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


def test_what_was_marked_in_a_lost_partition_takes_no_room_from_what_comes() -> None:
    world = World(running_max=1)
    worker = world.worker()
    worker.steps()
    world.dispatch("a")
    world.lane.answers.append(CommitOutcome.REFUSED)
    worker.steps()
    world.lane.expel(worker.log)
    worker.steps(3)
    assert worker.started == ["a"]
    worker.finish("a")
    world.dispatch("b")
    worker.steps(3)
    assert worker.started == ["a", "b"]


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
    assert worker.said == [("a", "RUNNING", None), ("a", "SUCCEEDED", None)]


def test_a_long_attempt_does_not_delay_the_rejoin_for_it_has_a_lease() -> None:
    world = World()
    world.dispatch("a")
    worker = world.worker()
    worker.steps()
    world.dispatch("b")
    world.lane.answers.append(CommitOutcome.UNKNOWN)
    worker.steps()
    world.clock.seconds += 2
    worker.steps()
    assert worker.said == []
    world.clock.seconds += 2
    worker.steps(3)
    assert worker.started == ["a", "b"]
    assert worker.said == [("a", "RUNNING", None)]


def test_without_leases_the_rejoin_waits_only_so_long() -> None:
    world = World(suspect_max_s=20.0)
    world.dispatch("a")
    worker = world.worker()
    worker.steps()
    worker.sink.held = True
    world.lane.answers.append(CommitOutcome.UNKNOWN)
    world.dispatch("b")
    worker.steps()
    world.clock.seconds += 19
    worker.steps()
    assert worker.running == ["a"]
    world.clock.seconds += 2
    worker.steps(3)
    assert worker.running == ["b"]
    worker.sink.held = False
    worker.steps(2)
    assert worker.said == [("a", "RUNNING", None), ("a", "RETURNED", "revoked")]
    assert world.marks().begun == {1 - world.offset()}


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
    assert [r.kind for r in worker.reports] == [ReportKind.RUNNING] * 2 + [ReportKind.TIMED_OUT] * 2
    assert world.offset() == 2
    assert worker.must_recycle()
    worker.runner.finish(worker.runner.running[0])
    worker.steps()
    assert not worker.must_recycle(), "one did end after all"
    assert len(worker.reports) == 4


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
    world.dispatch("a", "b", "c", "d", "e")
    worker = world.worker()
    worker.runner.stubborn = True
    worker.steps()
    world.lane.expel(worker.log)
    worker.steps(2)
    assert len(worker.started) == 4
    worker.runner.finish_all()
    worker.steps(2)
    assert worker.started == ["a", "b", "c", "d", "e"]


def test_a_stop_leaves_at_once_and_lets_what_runs_end_under_leases() -> None:
    world = World()
    world.dispatch(*"abcdefgh")
    worker = world.worker()
    worker.steps()
    worker.loop.leave()
    assert [kind for _, kind, _ in worker.said] == ["RUNNING"] * 4
    assert world.lane.committed[0] == (4, "")
    second = world.worker("w2")
    second.steps(2)
    assert second.started == ["e", "f", "g", "h"], "others need not wait for the grace"
    worker.finish("a")
    worker.drain(2)
    assert not worker.is_drained()
    worker.runner.finish_all()
    worker.drain(2)
    assert worker.is_drained()
    worker.loop.close()
    assert worker.started == ["a", "b", "c", "d"]
    assert [kind for _, kind, _ in worker.said[4:]] == ["SUCCEEDED"] * 4


def test_a_stop_whose_grace_is_over_returns_the_rest() -> None:
    world = World()
    world.dispatch("a", "b", "c", "d", "later")
    worker = world.worker()
    worker.steps()
    worker.loop.leave()
    worker.loop.return_rest()
    worker.drain(2)
    assert worker.is_drained()
    worker.loop.close()
    assert worker.said[4:] == [(job, "RETURNED", "stop") for job in "abcd"]
    assert {r.started for r in worker.reports[4:]} == {"maybe"}
    second = world.worker("w2")
    second.steps(2)
    assert (second.started, second.said) == (["later"], []), "what had not begun is the next owner's, without a word"


def test_a_stop_returns_also_what_cannot_be_stopped() -> None:
    world = World()
    world.dispatch("a", timeout_s=1_000.0)
    worker = world.worker()
    worker.runner.stubborn = True
    worker.steps()
    worker.loop.leave()
    worker.loop.return_rest()
    worker.drain(3)
    assert not worker.is_drained()
    worker.loop.give_up_rest()
    worker.drain()
    assert worker.is_drained()
    assert worker.said == [("a", "RUNNING", None), ("a", "RETURNED", "stop")]


def test_a_stop_is_not_over_before_the_last_report_is_acknowledged() -> None:
    world = World()
    world.dispatch("a")
    worker = world.worker()
    worker.steps()
    worker.sink.held = True
    worker.loop.leave()
    worker.drain(3)
    worker.loop.give_up_rest()
    worker.drain(3)
    assert not worker.is_drained()
    worker.sink.held = False
    worker.drain()
    assert worker.is_drained()
    assert worker.said == [("a", "RUNNING", None), ("a", "RETURNED", "stop")]


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
    assert decode_marks(world.lane.committed[0][1]).takeovers == (0 if polite else 3)


def test_the_count_of_takeovers_is_written_before_anything_is_decoded() -> None:
    world = World()
    world.lane.committed[0] = (0, "")
    worker = world.worker()
    worker.steps()
    assert world.marks().takeovers == 1
