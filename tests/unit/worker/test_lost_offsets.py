"""Where nobody knows what was committed, nothing below the end of a lane is taken for new."""

from __future__ import annotations

import random

import pytest

from tests.unit.worker.message_world import MessageWorld
from tests.unit.worker.worker_world import CODEC, World
from tocsin.engine.offset_metadata import Marks, decode_marks, encode_marks
from tocsin.roles.worker.partitions import CAREFUL_TAKEOVERS


def names(count: int) -> list[str]:
    return [f"job{n:03}" for n in range(count)]


def test_all_below_the_end_is_returned_and_what_comes_then_runs() -> None:
    world = World(running_max=100)
    world.dispatch(*names(5))
    world.lane.committed.clear()
    worker = world.worker()
    worker.steps(3)
    world.dispatch("later")
    worker.steps(3)
    worker.runner.finish_all()
    worker.steps(3)
    assert worker.started == ["later"]
    assert [(job, kind) for job, kind, _ in worker.said] == [
        *((name, "RETURNED") for name in names(5)),
        ("later", "SUCCEEDED"),
    ]
    assert {r.started for r in worker.reports if r.kind == "RETURNED"} == {"maybe"}
    assert world.lane.committed[0] == (6, "")


def test_an_idle_partition_gets_a_commit_so_that_a_loss_of_that_is_seen() -> None:
    world = World(partitions=2)
    world.lane.committed.clear()
    world.worker().steps(2)
    assert {p: offset for p, (offset, _) in world.lane.committed.items()} == {0: 0, 1: 0}


@pytest.mark.parametrize("seed", range(20))
def test_doubt_is_handed_on_until_every_record_is_returned(seed: int) -> None:
    """Owners die at any moment; not one of the records is ever started."""
    chance = random.Random(seed)
    world = World(partitions=2, begun_max=3, window_max=64)
    for n, name in enumerate(names(40)):
        world.dispatch(name, partition=n % 2)
    world.lane.committed.clear()
    returned: set[str] = set()
    for number in range(200):
        worker = world.worker(f"w{number}")
        worker.steps(chance.randrange(1, 6))
        if chance.random() < 0.3:
            worker.loop.close()
        else:
            world.lane.expel(worker.log)
        assert worker.started == []
        returned |= {job for job, _, _ in worker.said}
        if len(returned) == 40:
            break
    assert len(returned) == 40


def test_what_comes_again_below_the_commit_is_returned() -> None:
    world = World()
    world.dispatch(*names(3))
    world.lane.committed[0] = (3, "")
    worker = world.worker()
    worker.steps()
    worker.log._positions[0] = 0  # as a client does whose offset the brokers do not have
    worker.steps(4)
    assert worker.started == []
    assert [kind for _, kind, _ in worker.said] == ["RETURNED"] * 3


def test_how_far_doubt_reaches_is_written_and_read() -> None:
    marks = Marks(frozenset({3, 70}), frozenset({1}), 2, 5_000_000_000)
    text = encode_marks(marks.settled, marks.begun, marks.takeovers, marks.doubt)
    assert decode_marks(text) == marks
    assert decode_marks(encode_marks((), (), 0, 7)) == Marks(doubt=7)
    largest = encode_marks(range(500, 8_192), range(500), 127, 2**60)
    assert len(largest) < 4_096


# The message lane


def test_messages_whose_offsets_are_lost_are_not_written_again_but_returned() -> None:
    world = MessageWorld(batch_records_max=4)
    world.dispatch(*names(10))
    world.broker.lane.committed.clear()
    first = world.worker()
    first.steps(2)  # it settles four, and dies
    world.broker.lane.expel(first.log.member)
    second = world.worker("w2")
    second.steps(5)
    world.dispatch("later")
    second.steps(3)
    assert world.written() == ["later"]
    returned = [r for r in world.reports if r.kind == "RETURNED"]
    assert sorted(r.head.job_id for r in returned) == names(10)
    assert {(r.started, r.reason) for r in returned} == {("no", "offsets_lost")}
    assert world.broker.lane.committed[0] == (11, "")


def test_a_return_of_what_was_written_comes_after_its_report() -> None:
    """The owner reads them in this order, so it takes no notice of the return."""
    world = MessageWorld()
    world.dispatch("invoice")
    worker = world.worker()
    worker.steps(2)
    worker.loop.close()
    world.broker.lane.committed.clear()
    world.worker("w2").steps(3)
    assert [(r.head.job_id, r.kind) for r in world.reports] == [("invoice", "SUCCEEDED"), ("invoice", "RETURNED")]
    assert world.written() == ["invoice"]


# One by one


def test_after_two_owners_that_settled_nothing_records_are_marked_one_at_a_time() -> None:
    world = World()
    world.dispatch("a", "b", "c")
    world.lane.committed[0] = (0, encode_marks((), (), CAREFUL_TAKEOVERS - 1))
    worker = world.worker()
    worker.steps(3)
    assert worker.started == ["a"]
    assert world.marks().begun == {0}
    assert worker.log.paused == {0}, "nor is anything fetched meanwhile"
    worker.finish("a")
    worker.steps(3)
    assert worker.started == ["a", "b", "c"]
    assert not worker.log.paused


def test_one_takeover_fewer_changes_nothing() -> None:
    world = World()
    world.dispatch("a", "b", "c")
    world.lane.committed[0] = (0, encode_marks((), (), CAREFUL_TAKEOVERS - 2))
    worker = world.worker()
    worker.steps(2)
    assert worker.started == ["a", "b", "c"]


def test_what_a_predecessor_had_begun_is_returned_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading it may be what killed that one."""
    world = World()
    world.dispatch("deadly")
    world.lane.committed[0] = (0, encode_marks((), {0}, 5))
    worker = world.worker()
    deadly = world.lane.logs[0][0].value

    def decode(value: bytes | None) -> object:
        assert value != deadly, "it kills"
        return real(value)

    real = CODEC.decode_execution
    monkeypatch.setattr(worker.loop._attempts._codec, "decode_execution", decode)
    worker.steps(3)
    assert worker.said == [("deadly", "RETURNED", "predecessor")]
