"""The thread of the message lane: it lives as long as it is asked to, and its end is noticed."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.unit.worker.message_world import MessageWorld
from tocsin.bootstrap.message_lane import MessageThread
from tocsin.domain.errors import Refused
from tocsin.ports.dispatch_log import Delivery


def wait_until(done: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not done():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_it_serves_until_it_is_asked_to_stop_and_leaves_its_group() -> None:
    world = MessageWorld()
    world.dispatch("a", "b")
    thread = MessageThread(world.worker(join=False).loop)
    thread.start()
    wait_until(lambda: len(world.broker.reports) == 2)
    assert thread.is_member
    assert not thread.has_failed
    assert thread.stop()
    successor = world.worker("w2")
    successor.steps(2)
    assert successor.loop.is_member
    assert world.written() == ["a", "b"]


def test_an_end_that_nobody_asked_for_is_noticed() -> None:
    worker = MessageWorld().worker(join=False)

    def poll(limit: int, wait_s: float) -> list[Delivery]:
        raise Refused("may not read")

    worker.log.poll = poll  # type: ignore[method-assign]
    thread = MessageThread(worker.loop)
    thread.start()
    wait_until(lambda: thread.has_failed)
    assert not thread.stop()
