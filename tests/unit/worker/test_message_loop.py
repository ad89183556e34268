"""The loop of the message lane: everything once, whatever becomes of its transactions."""

from __future__ import annotations

import random
from collections import deque
from functools import partial

import pytest

from tests.unit.worker.message_world import MessageWorker, MessageWorld
from tests.unit.worker.worker_world import CODEC
from tocsin.adapters.memory.message_log import Fault, MemoryMessageLog, MemoryTopic
from tocsin.domain.executions import ReportKind
from tocsin.domain.targets import HttpTarget, MessageTarget
from tocsin.ports.dispatch_log import CommitOutcome


def jobs(count: int) -> list[str]:
    return [f"job{n}" for n in range(count)]


def test_an_execution_becomes_a_message_a_report_and_an_offset() -> None:
    world = MessageWorld()
    world.dispatch("invoice", value="änderung")
    worker = world.worker()
    worker.steps(2)
    (message,) = world.broker.topics["orders"].records
    assert (message.key, message.value) == (b"invoice", "änderung".encode())
    assert dict(message.headers) == {
        "colour": b"blue",
        "idempotency-key": b"invoice.7.5000000",
        "tocsin-execution-id": b"invoice.7.5000000",
        "tocsin-job-id": b"invoice",
        "tocsin-scheduled-for": b"1970-01-01T00:00:05Z",
        "tocsin-attempt": b"2",
        "tocsin-token": b"3",
    }
    (report,) = world.reports
    assert (report.kind, report.worker_id, report.head.attempt, report.head.token) == ("SUCCEEDED", "w1", 2, 3)
    assert world.settled_upto() == 1
    assert worker.loop.is_member
    assert worker.meter.counts["reported"] == 1


def test_a_tombstone_has_no_value() -> None:
    world = MessageWorld()
    world.dispatch_target("gone", MessageTarget("orders", "gone"))
    world.worker().steps(2)
    assert world.broker.topics["orders"].records[0].value is None


def test_what_is_at_hand_is_settled_in_one_transaction_within_its_bounds() -> None:
    world = MessageWorld(batch_records_max=4)
    world.dispatch(*jobs(10))
    worker = world.worker()
    worker.steps(4)
    assert worker.log.transactions == [4, 4, 2]
    assert world.written() == jobs(10)

    world = MessageWorld(batch_bytes_max=3_000)
    world.dispatch(*jobs(4), value="x" * 900)
    worker = world.worker()
    worker.steps(4)
    assert worker.log.transactions == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("topic", "value", "error_class"),
    [
        ("missing", "v", "topic_missing"),
        ("tocsin.commands", "v", "reserved_topic"),
        ("__consumer_offsets", "v", "reserved_topic"),
        ("tiny", "x" * 200, "too_large"),
    ],
)
@pytest.mark.parametrize("looks_fine", [False, True])
def test_what_a_topic_refuses_ends_failed_and_its_neighbours_go_on(
    topic: str, value: str, error_class: str, looks_fine: bool
) -> None:
    world = MessageWorld()
    world.broker.topics["tiny"] = MemoryTopic(bytes_max=100)
    if looks_fine and topic in ("missing", "tiny"):
        world.broker.topics.setdefault(topic, MemoryTopic(bytes_max=0)).looks_fine = True
        error_class = "too_large"
    world.dispatch("a", "b")
    world.dispatch("bad", topic=topic, value=value)
    world.dispatch("c")
    worker = world.worker()
    worker.steps(8)
    assert world.written() == ["a", "b", "c"]
    assert world.ends() == [("a", "SUCCEEDED"), ("b", "SUCCEEDED"), ("bad", error_class), ("c", "SUCCEEDED")]
    assert world.reports[2].kind == ReportKind.FAILED
    assert world.settled_upto() == 4


def test_after_an_abort_records_go_one_by_one_until_past_the_batch() -> None:
    world = MessageWorld()
    world.broker.topics["odd"] = MemoryTopic(bytes_max=1, looks_fine=True)
    world.dispatch(*jobs(2))
    world.dispatch("bad", topic="odd")
    world.dispatch("last")
    worker = world.worker()
    worker.steps(6)
    # All; two good ones; the bad one, tried and then reported; the last of the batch.
    assert worker.log.transactions == [4, 1, 1, 1, 1, 1]
    world.dispatch("x", "y")
    worker.steps(2)
    assert worker.log.transactions[6:] == [2]
    assert world.written() == ["job0", "job1", "last", "x", "y"]


@pytest.mark.parametrize("fault", list(Fault))
def test_a_transaction_that_fails_repeats_and_loses_nothing(fault: Fault) -> None:
    world = MessageWorld()
    world.dispatch(*jobs(5))
    worker = world.worker()
    world.broker.faults.extend([fault, None, fault])
    worker.steps(10)
    assert world.written() == jobs(5)
    assert world.ends() == [(job, "SUCCEEDED") for job in jobs(5)]
    assert world.settled_upto() == 5


def test_while_the_own_id_cannot_be_fenced_nothing_is_settled() -> None:
    world = MessageWorld()
    world.dispatch(*jobs(3))
    worker = world.worker()
    world.broker.fences_fail = 2
    members = []
    for _ in range(3):
        worker.steps()
        members.append(worker.loop.is_member)
    assert members == [False, False, True]
    world.dispatch("late")
    world.broker.faults.append(Fault.UNKNOWN_BUT_COMMITTED)
    worker.steps(1)
    world.broker.fences_fail = 3
    world.dispatch("later")
    worker.steps(3)
    assert "later" not in world.written()
    worker.steps(3)
    assert world.written() == [*jobs(3), "late", "later"]


def test_while_transactions_fail_nothing_more_is_fetched() -> None:
    world = MessageWorld(batch_records_max=2)
    world.dispatch(*jobs(20))
    worker = world.worker()
    world.broker.fences_fail = 10
    worker.steps(8)
    assert len(worker.loop._backlog) == 2
    assert worker.log.member.paused == {0}
    worker.steps(15)
    assert world.written() == jobs(20)
    assert worker.log.member.paused == set()


def test_a_refusal_of_the_group_waits_for_what_the_next_poll_says() -> None:
    world = MessageWorld()
    world.dispatch(*jobs(3))
    worker = world.worker()
    world.broker.lane.answers.append(CommitOutcome.REFUSED)
    worker.steps(1)
    assert world.written() == []
    worker.steps(1)
    assert world.written() == jobs(3)
    assert worker.log.transactions == [3, 3]


def test_partitions_that_go_take_their_records_along() -> None:
    world = MessageWorld(2)
    for partition in range(2):
        world.dispatch(f"of{partition}", partition=partition)
    first = world.worker("first")
    world.broker.fences_fail = 1
    first.steps(1)
    second = world.worker("second")
    for _ in range(3):
        first.steps()
        second.steps()
    assert sorted(world.written()) == ["of0", "of1"]
    assert {(r.head.job_id, r.worker_id) for r in world.reports} == {("of0", "first"), ("of1", "second")}


def test_a_record_that_cannot_be_read_is_reported_under_its_key_or_passed_over() -> None:
    world = MessageWorld()
    world.broker.lane.append(0, b"acme|named.7.5000000|2|3", b"junk")
    world.broker.lane.append(0, b"junk", b"junk")
    world.broker.lane.append(0, None, None)
    world.dispatch_target("http", HttpTarget("http://target.test/"))
    world.dispatch("good")
    worker = world.worker()
    worker.steps(2)
    assert world.ends() == [("named", "undecodable"), ("http", "undecodable"), ("good", "SUCCEEDED")]
    assert world.settled_upto() == 5
    assert worker.meter.counts["undecodable"] == 4


def freeze(world: MessageWorld, workers: list[MessageWorker], frozen: MemoryMessageLog) -> None:
    """Freeze a worker in a transaction, until others have taken its partitions over and gone on."""
    if frozen.member.is_expelled:
        return
    world.broker.lane.expel(frozen.member)
    later, world.broker.interruptions = world.broker.interruptions, deque()
    for worker in workers:
        if worker.log is not frozen:
            worker.steps(2)
    world.broker.interruptions = later


@pytest.mark.parametrize("seed", range(40))
def test_chaos_writes_and_reports_everything_once(seed: int) -> None:
    chance = random.Random(seed)
    world = MessageWorld(3, batch_records_max=chance.choice([1, 3, 50]))
    world.broker.topics["odd"] = MemoryTopic(bytes_max=4, looks_fine=True)
    workers = [world.worker("w0")]
    expected: dict[str, str] = {}
    for turn in range(120):
        what = chance.random()
        if what < 0.5:
            job, bad = f"j{turn}", chance.random() < 0.1
            world.dispatch(job, topic="odd" if bad else "orders", value="long one", partition=chance.randrange(3))
            expected[job] = "too_large" if bad else "SUCCEEDED"
        elif what < 0.7:
            world.broker.faults.append(chance.choice([None, *Fault]))
        elif what < 0.75:
            world.broker.lane.answers.append(CommitOutcome.REFUSED)
        elif what < 0.8:
            world.broker.fences_fail += 1
        elif what < 0.85 and len(workers) < 4:
            workers.append(world.worker(f"w{turn}"))
        elif what < 0.9 and len(workers) > 1:
            workers.pop(chance.randrange(len(workers))).loop.close()
        elif what < 0.95:
            # Killed, or frozen until the group has given its partitions away, be it in the middle of a transaction.
            victim = chance.choice(workers)
            if victim.log.member.is_expelled:
                continue
            if len(workers) > 1 and chance.random() < 0.5:
                world.broker.lane.expel(victim.log.member)
                workers.remove(victim)
            else:
                world.broker.interruptions.append(partial(freeze, world, workers))
        chance.choice(workers).steps(chance.randrange(1, 4))
    world.broker.faults.clear()
    world.broker.interruptions.clear()
    world.broker.fences_fail = 0
    for _ in range(150):
        for worker in workers:
            worker.steps()
    assert sorted(world.written()) == sorted(job for job, end in expected.items() if end == "SUCCEEDED")
    assert sorted(world.ends()) == sorted(expected.items())


def test_reports_carry_the_heads_bytes_as_they_came() -> None:
    world = MessageWorld()
    world.dispatch("a")
    world.worker().steps(2)
    head = CODEC.decode_execution(world.broker.lane.logs[0][0].value).head_bytes
    assert head in world.broker.reports[0].value
