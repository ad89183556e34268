"""The frame for work longer than a turn: its share, its order, its sleep, its end, and its way through a restore."""

from __future__ import annotations

import json

from tests.unit.trigger.world import CODEC
from tocsin.domain.definitions import parse
from tocsin.domain.entries import Place
from tocsin.domain.jobs import Job, JobState
from tocsin.domain.shard_records import WorkItem
from tocsin.engine.effects import Step
from tocsin.engine.shard_state import ShardState
from tocsin.engine.work import Progress, Room, Work


class Countdown:
    """Counts down a portion at a time, and keeps a story of what it did."""

    def __init__(self, *, wake_every: int = 0, word: str | None = None, outlives: bool = False) -> None:
        self.story: list[str] = []
        self.wake_every, self.word, self.outlives = wake_every, word, outlives

    def go_on(self, step: Step, item: WorkItem, room: Room) -> Progress:
        left = json.loads(item.data)
        room.take(10)
        self.story.append(f"{item.job_id}:{left}")
        if left == 1:
            return Progress(None)
        return Progress(item._replace(data=json.dumps(left - 1)), step.now + self.wake_every, self.word)

    def job_changed(self, step: Step, item: WorkItem, job: Job) -> bool:
        return self.outlives


class House:
    """A shard's work, turn by turn."""

    def __init__(self, handler: Countdown, state: ShardState | None = None) -> None:
        self.state = state or ShardState(0, 1, 1, Place(0, "", 0))
        self.work = Work(self.state, CODEC)
        self.work.register("count", handler)

    def step(self, now: int = 0) -> Step:
        self.state.number += 1
        return Step(now, self.state.number)

    def turn(self, now: int = 0, room: Room | None = None) -> Step:
        step = self.step(now)
        self.work.go_on(step, room or Room(100, 10_000))
        self.work.settle(step)
        return step


def _begin(house: House, *counts: int) -> None:
    step = house.step()
    for n, count in enumerate(counts):
        house.work.begin(step, "count", f"job{n}", json.dumps(count))
    house.work.settle(step)


def _job(job_id: str) -> Job:
    definition = parse({"target": {"type": "http", "url": "https://example.test/"}})
    return Job(job_id, "t", 9, 1, JobState.PAUSED, 1, 1, definition, None)


def test_a_step_gives_each_item_its_share_in_turn_and_no_more_than_there_is_room() -> None:
    handler = Countdown()
    house = House(handler)
    _begin(house, 2, 2, 2)
    house.turn(room=Room(2, 10_000))
    assert handler.story == ["job0:2", "job1:2"]
    house.turn(room=Room(100, 15))
    assert handler.story[2:] == ["job2:2", "job0:1"], "bytes are room too; who went on last waits longest"
    done = house.turn()
    assert handler.story[4:] == ["job1:1", "job2:1"]
    assert len(done.work_done) == 2 and not house.state.work
    assert house.work.next_wake() is None


def test_an_item_sleeps_until_its_time_or_its_word() -> None:
    handler = Countdown(wake_every=50)
    house = House(handler)
    _begin(house, 3)
    house.turn(100)
    assert house.work.next_wake() == 150
    house.turn(149)
    assert len(handler.story) == 1
    handler.word = "go"
    house.turn(150)
    assert house.work.next_wake() is None and house.work.awaits
    house.turn(10_000)
    house.work.wake("go")
    house.turn(10_000)
    assert handler.story == ["job0:3", "job0:2", "job0:1"]


def test_a_sleeper_that_is_forgotten_hears_no_word() -> None:
    handler = Countdown(word="go")
    house = House(handler)
    _begin(house, 3)
    house.turn()
    step = house.step()
    house.work.job_changed(step, _job("job0"))
    house.work.job_changed(step, _job("job0"))
    house.work.settle(step)
    assert len(step.work_done) == 1, "it ends once"
    house.work.wake("go")
    house.turn()
    assert len(handler.story) == 1


def test_a_new_version_ends_what_was_begun_in_the_same_step_unless_it_outlives_it() -> None:
    for outlives in (False, True):
        house = House(Countdown(outlives=outlives))
        step = house.step()
        house.work.begin(step, "count", "job0", "3")
        house.work.job_changed(step, _job("job0"))
        house.work.settle(step)
        assert bool(house.state.work) is outlives


def test_what_a_failed_command_began_is_taken_back() -> None:
    handler = Countdown()
    house = House(handler)
    step = house.step()
    mark = step.mark()
    house.work.begin(step, "count", None, "3")
    step.back_to(mark)
    house.work.settle(step)
    house.turn()
    assert handler.story == [] and not house.state.work


def test_ids_are_never_used_again() -> None:
    house = House(Countdown())
    ids = []
    for _ in range(3):
        step = house.step()
        ids += [house.work.begin(step, "count", None, "1").id for _ in range(3)]
        house.work.settle(step)
        house.turn()
    assert len(set(ids)) == 9


def test_a_restored_item_goes_on_and_one_of_an_unknown_kind_stays_as_it_is() -> None:
    house = House(Countdown())
    _begin(house, 3)
    house.state.work["x"] = WorkItem("x", "from a newer program", None, "?")
    handler = Countdown()
    successor = House(handler, house.state)
    successor.turn()
    successor.turn()
    successor.turn()
    assert handler.story == ["job0:3", "job0:2", "job0:1"]
    assert list(successor.state.work) == ["x"]


def test_a_damaged_item_becomes_a_dead_letter_and_stops_nobody() -> None:
    handler = Countdown()
    house = House(handler)
    step = house.step()
    house.work.begin(step, "count", "job0", "{")
    house.work.begin(step, "count", "job1", "1")
    house.work.settle(step)
    turned = house.turn()
    assert handler.story == ["job1:1"]
    [record] = turned.records
    letter = CODEC.decode_dead_letter(record.value)
    assert (letter.kind, letter.job_id, letter.value) == ("work", "job0", b"{")
    assert not house.state.work
