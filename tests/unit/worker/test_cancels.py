"""What an owner no longer wants to be started is not started, and nothing waits for it."""

from __future__ import annotations

import pytest

from tests.unit.worker.message_world import MessageWorld
from tests.unit.worker.worker_world import CODEC, World
from tocsin.adapters.memory.cancel_log import MemoryCancelLog
from tocsin.domain.fleet import Cancel
from tocsin.domain.ids import execution_id
from tocsin.roles.worker.cancels import Cancels


def cancel(job: str, token: int) -> Cancel:
    return Cancel(execution_id(job, 7, 5_000_000), token, 1)


def test_what_was_cancelled_before_the_worker_started_is_returned_and_settled() -> None:
    world = World()
    world.dispatch("j1", "j2")
    world.cancels.append(cancel("j1", 3))
    worker = world.worker()
    worker.steps(4)
    assert worker.started == ["j2"]
    [report] = [CODEC.decode_report(sent.report) for sent in worker.sink.log]
    assert (report.kind, report.started, report.reason) == ("RETURNED", "no", "cancelled")
    worker.finish("j2")
    worker.steps(4)
    assert world.lane.committed[0][0] == 2


def test_what_is_cancelled_while_it_waits_is_not_started() -> None:
    world = World(running_max=1)
    world.dispatch("j1", "j2")
    worker = world.worker()
    worker.steps(3)
    world.cancels.append(cancel("j2", 3))
    worker.finish("j1")
    worker.steps(4)
    assert worker.started == ["j1"]


@pytest.mark.parametrize("leased", [False, True])
def test_what_is_cancelled_while_it_runs_is_stopped_and_reported(leased: bool) -> None:
    world = World()
    world.dispatch("j1", "j2")
    worker = world.worker()
    worker.steps(3)
    if leased:
        world.clock.seconds += 6
        worker.steps(3)
    world.cancels.append(cancel("j1", 3))
    world.clock.seconds += 1.5
    worker.steps(4)
    assert worker.running == ["j2"]
    assert [said for said in worker.said if said[1] != "RUNNING"] == [("j1", "CANCELLED", None)]
    worker.finish("j2")
    worker.steps(4)
    assert worker.said[-1] == ("j2", "SUCCEEDED", None), "its neighbour goes on"
    assert world.lane.committed[0][0] == 2


def test_a_cancel_of_an_older_dispatch_does_not_stop_the_present_one() -> None:
    world = World()
    world.dispatch("j1", token=3)
    worker = world.worker()
    worker.steps(3)
    world.cancels.append(cancel("j1", 2))
    world.clock.seconds += 1.5
    worker.steps(3)
    assert worker.running == ["j1"]


def test_an_attempt_that_cannot_be_stopped_is_given_up_soon() -> None:
    world = World()
    world.dispatch("j1")
    worker = world.worker()
    worker.runner.stubborn = True
    worker.steps(3)
    world.cancels.append(cancel("j1", 3))
    for _ in range(20):
        world.clock.seconds += 1.5
        worker.steps(2)
    assert [kind for _, kind, _ in worker.said if kind != "RUNNING"] == ["TIMED_OUT"]
    assert world.clock.seconds < 1_000 + 31


@pytest.mark.parametrize(("upto", "starts"), [(2, True), (3, False), (4, False)])
def test_only_dispatches_up_to_the_token_are_meant(upto: int, starts: bool) -> None:
    world = World()
    world.cancels.append(cancel("j1", upto))
    world.dispatch("j1", token=3)
    worker = world.worker()
    worker.steps(3)
    assert worker.started == (["j1"] if starts else [])


def test_a_cancelled_message_is_not_written_and_its_neighbours_are() -> None:
    world = MessageWorld()
    world.cancels.append(cancel("j1", 3))
    world.dispatch("j1", "j2")
    world.worker().steps(3)
    assert world.written() == ["j2"]
    assert world.ends() == [("j1", "cancelled"), ("j2", "SUCCEEDED")]
    assert world.settled_upto() == 2


def test_what_is_remembered_is_bounded_and_a_token_never_falls() -> None:
    written = [cancel("j0", 5), *(cancel(f"j{n}", 1) for n in range(10)), cancel("j0", 2)]
    cancels = Cancels(MemoryCancelLog(written), kept_max=4)
    cancels.load()
    assert len(cancels) == 4
    assert cancels.forbid(execution_id("j9", 7, 5_000_000), 1)
    assert not cancels.forbid(execution_id("j1", 7, 5_000_000), 1)
    again = Cancels(MemoryCancelLog([cancel("j0", 5), cancel("j0", 2)]), kept_max=4)
    again.load()
    assert again.forbid(execution_id("j0", 7, 5_000_000), 5)
