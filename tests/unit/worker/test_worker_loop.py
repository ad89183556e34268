"""The worker's loop: mark before start, report before settle."""

from __future__ import annotations

import pytest

from tests.unit.worker.worker_world import World
from tocsin.domain.executions import AttemptError, ReportKind
from tocsin.ports.dispatch_log import CommitOutcome, Delivery


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


def test_a_crash_between_mark_and_start_leaves_a_begun_record_that_a_successor_marks_as_redelivered() -> None:
    world = World()
    world.dispatch("a", "b", "c", "d", "e", "f")
    first = world.worker()
    first.steps()
    assert first.started == ["a", "b", "c", "d"]
    world.lane.expel(first.log)
    second = world.worker("w2")
    second.steps(1)
    assert second.redelivered == ["a", "b", "c", "d"]
    second.runner.finish_all()
    second.steps(2)
    assert second.started == ["a", "b", "c", "d", "e", "f"]
    assert second.redelivered == ["a", "b", "c", "d"], "what nobody had begun is no redelivery"
    second.runner.finish_all()
    second.steps(3)
    assert [r.redelivered for r in second.reports] == [True] * 4 + [False] * 2
    assert {(r.head.attempt, r.head.token) for r in second.reports} == {(1, 3)}


def test_what_a_predecessor_settled_out_of_order_is_not_run_again() -> None:
    world = World()
    world.dispatch("a", "b", "c")
    first = world.worker()
    first.steps()
    first.runner.finish(first.runner.running[1])
    first.steps(2)
    assert world.marks().settled == {1}
    world.lane.expel(first.log)
    second = world.worker("w2")
    second.steps(2)
    assert second.started == ["a", "c"]


def test_a_crash_after_the_report_repeats_the_attempt_but_marks_it() -> None:
    world = World()
    world.dispatch("a")
    first = world.worker()
    first.steps()
    first.runner.finish_all()
    world.lane.answers.append(CommitOutcome.REFUSED)
    first.steps(1)
    assert len(first.reports) == 1
    world.lane.expel(first.log)
    second = world.worker("w2")
    second.steps()
    assert second.redelivered == ["a"]


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
    worker.steps(2)
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


def test_a_slow_attempt_fills_the_window_of_its_partition_only() -> None:
    world = World(partitions=2, window_max=64, read_ahead_records_max=1_000)
    world.dispatch("slow", *(f"p{i}" for i in range(99)), partition=0)
    world.dispatch(*(f"q{i}" for i in range(100)), partition=1)
    worker = world.worker()
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


def test_unreadable_metadata_is_treated_as_nothing_known() -> None:
    world = World()
    world.dispatch("a", "b", "c")
    world.lane.committed[0] = (1, "!! not ours !!")
    worker = world.worker()
    worker.steps()
    assert worker.started == ["b", "c"]
    assert worker.redelivered == []


def test_the_wait_grows_while_nothing_happens() -> None:
    world = World()
    waits: list[float] = []
    worker = world.worker()
    poll = worker.log.poll

    def noting(limit: int, wait_s: float) -> list[Delivery]:
        waits.append(wait_s)
        return poll(limit, wait_s)

    worker.log.poll = noting  # type: ignore[method-assign]
    worker.steps(2)
    world.dispatch("a")
    worker.steps(9)
    assert waits[1] == world.limits.poll_wait_max_s, "nothing can end, so only a record can wake it"
    assert waits[3] == 0
    assert waits[4:7] == sorted(waits[4:7])
    assert 0 < waits[4] < waits[-1] == world.limits.poll_wait_max_s
