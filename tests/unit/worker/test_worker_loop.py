"""The worker's loop: mark before start, report before settle."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.worker.worker_world import World
from tocsin.domain.executions import AttemptError, ReportKind
from tocsin.engine.offset_metadata import encode_marks
from tocsin.ports.dispatch_log import CommitOutcome, Delivery
from tocsin.roles.worker.attempts import Asked


def test_an_execution_is_marked_run_reported_and_settled() -> None:
    world = World()
    world.dispatch("a")
    worker = world.worker()
    worker.steps()
    assert worker.started == ["a"]
    assert (world.offset(), world.marks().begun) == (0, frozenset({0}))
    worker.runner.finish_all()
    worker.steps(2)
    (report,) = worker.reports
    assert (report.kind, report.head.job_id, report.worker_id) == (ReportKind.SUCCEEDED, "a", "w1")
    assert (report.head.attempt, report.head.token, report.redelivered) == (1, 3, False)
    assert world.lane.committed[0] == (1, "")
    assert worker.meter.counts["first"] == worker.meter.counts["reported"] == 1


def test_nothing_starts_before_the_commit_that_marks_it_is_acknowledged() -> None:
    world = World()
    world.dispatch("a")
    world.lane.answers.append(CommitOutcome.REFUSED)
    worker = world.worker()
    worker.steps()
    assert worker.started == []
    worker.steps()
    assert worker.started == ["a"]
    assert world.marks().begun == {0}


def test_an_error_is_reported_as_it_was() -> None:
    world = World()
    world.dispatch("a")
    worker = world.worker()
    worker.steps()
    worker.runner.finish(*worker.runner.running, kind=ReportKind.FAILED, error=AttemptError("status", "503 busy", 503))
    worker.steps(2)
    assert worker.reports[0].error == AttemptError("status", "503 busy", 503)


def test_an_unacknowledged_report_settles_nothing() -> None:
    world = World()
    world.dispatch("a")
    worker = world.worker()
    worker.steps()
    worker.sink.held = True
    worker.runner.finish_all()
    worker.steps(5)
    assert (world.offset(), world.marks().begun) == (0, frozenset({0}))
    worker.sink.held = False
    worker.steps()
    assert world.offset() == 1


def test_what_a_dead_worker_had_begun_is_never_started_by_its_successor_but_returned() -> None:
    world = World()
    world.dispatch("a", "b", "c", "d", "e", "f")
    first = world.worker()
    first.steps()
    assert first.started == ["a", "b", "c", "d"]
    world.lane.expel(first.log)
    second = world.worker("w2")
    second.sink.held = True
    second.steps(3)
    assert second.started == ["e", "f"]
    assert world.marks().begun == {0, 1, 2, 3, 4, 5}, "a return settles once it is acknowledged"
    second.sink.held = False
    second.runner.finish_all()
    second.steps(2)
    returned = [r for r in second.reports if r.kind == ReportKind.RETURNED]
    assert [(r.head.job_id, r.started, r.reason) for r in returned] == [(j, "maybe", "predecessor") for j in "abcd"]
    assert {(r.head.attempt, r.head.token, r.started_at, r.worker_id) for r in returned} == {(1, 3, None, "w2")}
    assert world.lane.committed[0] == (6, "")
    assert second.meter.counts["returned predecessor"] == 4


def test_returns_need_no_room() -> None:
    world = World(partitions=2)
    world.dispatch("w", "x", "y", "z", partition=1)
    world.dispatch("a", "b", "c", "d", partition=0)
    first = world.worker()
    second = world.worker("w2")
    first.steps()
    second.steps()
    first.steps()
    second.steps()
    assert (len(first.running), len(second.running)) == (4, 4)
    world.lane.expel(second.log)
    first.steps(3)
    assert len([r for r in first.reports if r.reason == "predecessor"]) == 4


def test_nothing_is_returned_before_a_commit_proves_that_it_is_ours() -> None:
    world = World()
    world.dispatch("a")
    first = world.worker()
    first.steps()
    world.lane.expel(first.log)
    second = world.worker("w2")
    world.lane.answers.append(CommitOutcome.REFUSED)
    second.steps()
    assert second.said == []
    second.steps(2)
    assert second.said == [("a", "RETURNED", "predecessor")]


@pytest.mark.parametrize(
    ("key", "said"), [(b"acme|bad.7.5000000|2|9", [("bad", "RETURNED", "predecessor")]), (b"unreadable", [])]
)
def test_a_damaged_record_that_a_predecessor_had_begun_is_returned_by_its_key(
    key: bytes, said: list[tuple[str, str, str | None]]
) -> None:
    world = World()
    world.lane.append(0, key, b"garbage")
    world.lane.committed[0] = (0, encode_marks([], [0], 0))
    worker = world.worker()
    worker.steps(3)
    assert worker.said == said
    assert [(r.head.attempt, r.head.token) for r in worker.reports] == [(2, 9)] * len(said)
    assert world.lane.committed[0] == (1, "")


def test_a_begun_offset_that_never_arrives_holds_nothing_up() -> None:
    world = World()
    world.lane.leave_gap(0, 3)
    world.dispatch("a")
    world.lane.committed[0] = (0, encode_marks([1], [0, 2], 0))
    worker = world.worker()
    worker.steps()
    worker.runner.finish_all()
    worker.steps(2)
    assert worker.said == [("a", "SUCCEEDED", None)]
    assert world.lane.committed[0] == (4, "")


def test_what_a_predecessor_settled_out_of_order_is_not_touched_again() -> None:
    world = World()
    world.dispatch("a", "b", "c")
    first = world.worker()
    first.steps()
    first.finish("b")
    first.steps(2)
    assert world.marks().settled == {1}
    world.lane.expel(first.log)
    second = world.worker("w2")
    second.steps(3)
    assert (second.started, [job for job, _, _ in second.said]) == ([], ["a", "c"])


def test_a_crash_between_report_and_settle_repeats_nothing() -> None:
    world = World()
    world.dispatch("a")
    first = world.worker()
    first.steps()
    first.runner.finish_all()
    world.lane.answers.append(CommitOutcome.REFUSED)
    first.steps(1)
    assert first.said == [("a", "SUCCEEDED", None)]
    world.lane.expel(first.log)
    second = world.worker("w2")
    second.steps(3)
    assert second.started == []
    assert second.said == [("a", "RETURNED", "predecessor")], "stale to the owner, who has the end already"


def test_a_dispatch_after_a_loss_is_redelivered_though_its_record_is_new() -> None:
    world = World()
    world.dispatch("a", losses=1)
    worker = world.worker()
    worker.steps()
    assert worker.redelivered == ["a"]
    worker.runner.finish_all()
    worker.steps(2)
    assert worker.reports[0].redelivered


def test_no_more_run_at_once_than_allowed() -> None:
    world = World(partitions=3)
    for partition in range(3):
        world.dispatch(*(f"j{partition}{i}" for i in range(5)), partition=partition)
    worker = world.worker()
    worker.steps(5)
    assert len(worker.runner.running) == 4
    assert len({name[1] for name in worker.started}) == 3, "partitions take turns"
    for _ in range(10):
        worker.runner.finish_all()
        worker.steps(2)
    assert len(worker.started) == 15


def test_one_commit_serves_all_that_happened_in_a_step() -> None:
    world = World(partitions=4)
    for partition in range(4):
        world.dispatch(f"j{partition}", partition=partition)
    worker = world.worker()
    worker.steps()
    assert world.lane.commits == 1
    worker.runner.finish_all()
    worker.steps(2)
    assert world.lane.commits == 2
    worker.steps(5)
    assert world.lane.commits == 2, "nothing changed, nothing to commit"


def test_a_full_queue_pauses_and_half_of_it_resumes() -> None:
    world = World()
    world.dispatch(*(f"j{i:02}" for i in range(60)))
    worker = world.worker()
    worker.steps(3)
    world.clock.seconds += 0.3
    worker.steps()
    assert worker.log.paused == {0}
    for _ in range(3):
        worker.runner.finish_all()
        worker.steps(2)
        if worker.log.paused:
            assert len(worker.started) <= 24
    for _ in range(40):
        worker.runner.finish_all()
        worker.steps()
    assert worker.started == [f"j{i:02}" for i in range(60)]
    assert worker.log.paused == set()


def test_a_full_queue_that_soon_empties_pauses_nothing() -> None:
    """To stop discards what the client has fetched."""
    world = World(running_max=10)
    world.dispatch(*(f"j{i:03}" for i in range(200)))
    worker = world.worker()
    for _ in range(200):
        worker.steps()
        assert worker.log.paused == set()
        worker.runner.finish_all()
        world.clock.seconds += 0.02
    assert len(worker.started) == 200


def test_a_queue_full_of_bytes_pauses_too() -> None:
    world = World(read_ahead_bytes_max=300)
    world.dispatch("a", "b", "c", "d", "e", "f", "g", "h")
    worker = world.worker()
    worker.steps(1)
    assert worker.log.paused == {0}
    for _ in range(10):
        worker.runner.finish_all()
        worker.steps()
    assert len(worker.started) == 8


def test_a_slow_attempt_whose_lease_is_not_acknowledged_fills_the_window_of_its_partition_only() -> None:
    world = World(partitions=2, window_max=64, read_ahead_records_max=1_000)
    world.dispatch("slow", *(f"p{i}" for i in range(99)), partition=0)
    world.dispatch(*(f"q{i}" for i in range(100)), partition=1)
    worker = world.worker()
    acknowledged = worker.sink.acknowledged

    def not_the_lease(wait_s: float) -> list[Any]:
        return [sent for sent in acknowledged(wait_s) if not isinstance(sent, Asked)]

    worker.sink.acknowledged = not_the_lease  # type: ignore[method-assign]
    for _ in range(100):
        worker.steps()
        worker.runner.finish(*[a for a in worker.runner.running if a.execution.head.job_id != "slow"])
    assert worker.log.paused == {0}
    assert sum(name.startswith("p") for name in worker.started) == 63, "nothing begins past the window"
    assert sum(name.startswith("q") for name in worker.started) == 100
    for _ in range(100):
        worker.runner.finish_all()
        worker.steps()
    assert len(worker.started) == 200
    assert worker.log.paused == set()


def test_a_slow_attempt_gets_its_lease_when_the_window_is_half_full() -> None:
    world = World(partitions=2, window_max=64, read_ahead_records_max=1_000)
    world.dispatch("slow", *(f"p{i}" for i in range(20)), partition=0)
    worker = world.worker()
    for _ in range(30):
        worker.steps()
        worker.runner.finish(*[a for a in worker.runner.running if a.execution.head.job_id != "slow"])
    assert world.offset() == 0
    assert ("slow", "RUNNING", None) not in worker.said
    world.dispatch(*(f"r{i}" for i in range(80)), partition=0)
    for _ in range(60):
        worker.steps()
        worker.runner.finish(*[a for a in worker.runner.running if a.execution.head.job_id != "slow"])
    assert [job for job, kind, _ in worker.said if kind == "RUNNING"] == ["slow"]
    assert len(worker.started) == 101
    assert world.lane.committed[0] == (101, "")
    worker.finish("slow")
    worker.steps(2)
    assert worker.said[-1] == ("slow", "SUCCEEDED", None)


def test_gaps_never_pause() -> None:
    world = World(window_max=64)
    worker = world.worker()
    for i in range(30):
        world.dispatch(f"j{i}")
        world.lane.leave_gap(0, 50)
        worker.steps()
        worker.runner.finish_all()
        worker.steps(2)
        assert worker.log.paused == set()
    assert len(worker.started) == 30
    assert world.offset() == world.lane.logs[0][-1].offset + 1


@pytest.mark.parametrize("value", [None, b"", b"garbage", b"\xc3\x01" + bytes(40)])
def test_an_undecodable_record_is_reported_by_its_key_and_stalls_nobody(value: bytes | None) -> None:
    world = World()
    world.dispatch("a")
    world.lane.append(0, b"acme|bad.7.5000000|2|9", value)
    world.dispatch("b")
    worker = world.worker()
    worker.steps()
    assert worker.started == ["a", "b"]
    worker.runner.finish_all()
    worker.steps(2)
    assert world.offset() == 3
    report = next(r for r in worker.reports if r.head.job_id == "bad")
    assert (report.kind, report.head.attempt, report.head.token) == (ReportKind.FAILED, 2, 9)
    assert report.head.scheduled_for == 5_000_000
    assert report.error is not None
    assert report.error.error_class == "undecodable"
    assert worker.meter.counts["undecodable"] == 1


@pytest.mark.parametrize(
    "key", [None, b"", b"\xff|x", b"acme|bad.7.5|1", b"acme|bad.7.5|x|1", b"a b|bad.7.5|1|1", b"acme|bad|1|1"]
)
def test_an_undecodable_record_without_a_readable_key_is_counted_and_passed_over(key: bytes | None) -> None:
    world = World()
    world.lane.append(0, key, b"garbage")
    world.dispatch("b")
    worker = world.worker()
    worker.steps()
    worker.runner.finish_all()
    worker.steps(2)
    assert world.offset() == 2
    assert [r.head.job_id for r in worker.reports] == ["b"]
    assert worker.meter.counts["undecodable"] == 1


def test_a_damaged_record_is_marked_before_it_is_decoded() -> None:
    world = World()
    world.lane.append(0, b"acme|bad.7.5|1|1", b"garbage")
    world.lane.answers.append(CommitOutcome.REFUSED)
    worker = world.worker()
    worker.steps()
    assert "undecodable" not in worker.meter.counts
    worker.steps()
    assert worker.meter.counts["undecodable"] == 1


def test_with_unreadable_metadata_all_that_may_have_begun_is_returned() -> None:
    world = World()
    world.dispatch("a", "b", "c")
    world.lane.committed[0] = (1, "!! not ours !!")
    worker = world.worker()
    worker.steps(3)
    assert worker.started == []
    assert worker.said == [("b", "RETURNED", "predecessor"), ("c", "RETURNED", "predecessor")]
    assert world.lane.committed[0][0] == 3


def test_the_wait_grows_while_nothing_happens() -> None:
    world = World()
    waits: list[float] = []
    worker = world.worker()
    poll = worker.log.poll

    def noting(limit: int, wait_s: float) -> list[Delivery]:
        waits.append(wait_s)
        return poll(limit, wait_s)

    worker.log.poll = noting  # type: ignore[method-assign]
    worker.steps()  # which commits that the partition was taken over
    waits.clear()
    worker.steps(2)
    world.dispatch("a")
    worker.steps(25)
    assert waits[1] == world.limits.poll_wait_max_s, "nothing can end, so only a record can wake it"
    assert waits[3] == 0
    assert waits[4:7] == sorted(waits[4:7])
    assert 0 < waits[4] < waits[-1] == world.limits.poll_wait_max_s


def test_where_enough_waits_already_a_turn_leaves_attempts_the_processor() -> None:
    """A poll then only takes what it cannot help to take, and returns at once: it is no reason to turn again."""
    world = World()
    worker = world.worker()
    polls: list[float] = []
    waits: list[float] = []
    poll, acknowledged = worker.log.poll, worker.sink.acknowledged

    def noting(limit: int, wait_s: float) -> list[Delivery]:
        polls.append(wait_s)
        return poll(limit, wait_s)

    def waiting(wait_s: float) -> list[Any]:
        waits.append(wait_s)
        return acknowledged(wait_s)

    worker.log.poll = noting  # type: ignore[method-assign]
    worker.sink.acknowledged = waiting  # type: ignore[method-assign]
    running, ahead = world.limits.running_max, world.limits.read_ahead_records_max
    for number in range(running + 2 * ahead):
        world.dispatch(f"job-{number}")
    worker.steps(5)
    assert len(worker.loop._attempts.running) == running
    polls.clear()
    waits.clear()
    worker.steps(10)
    assert polls == [0.0] * 10
    assert waits == sorted(waits) and 0 < waits[0] < waits[-1] <= world.limits.poll_wait_max_s


def test_what_no_utf8_can_carry_in_an_answer_harms_neither_its_report_nor_others() -> None:
    """A server's reason phrase in Latin-1 comes to us as halves of surrogate pairs."""
    world = World()
    world.dispatch("evil", "good")
    worker = world.worker()
    worker.steps()
    worker.finish("evil", kind=ReportKind.FAILED, error=AttemptError("status", "500 \udcff", 500))
    worker.finish("good")
    worker.steps(3)
    kinds = {report.head.job_id: report.kind for report in worker.reports}
    assert kinds == {"evil": ReportKind.FAILED, "good": ReportKind.SUCCEEDED}
